// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Env returns the environment variables that a program needs for the cluster, as "NAME=value": the Kubernetes API, the
// simulated AWS, and credentials that are valid only there. They override a developer's own settings.
func (c *Cluster) Env() []string {
	return []string{
		"KUBECONFIG=" + c.Kubeconfig,
		"AWS_ENDPOINT_URL=" + c.Endpoint,
		"AWS_REGION=" + c.Region,
		"AWS_DEFAULT_REGION=" + c.Region, // for boto3, and version 1 of the AWS CLI
		"AWS_ACCESS_KEY_ID=simulated",
		"AWS_SECRET_ACCESS_KEY=simulated",
		"AWS_SESSION_TOKEN=",
		"AWS_EC2_METADATA_DISABLED=true",
	}
}

// writeEnv writes [Cluster.Env] for ". DIR/env" in a shell, with the cluster's kubectl first in PATH.
func (c *Cluster) writeEnv(path string) error {
	var script strings.Builder
	for _, variable := range c.Env() {
		name, value, _ := strings.Cut(variable, "=")
		fmt.Fprintf(&script, "export %s=%s\n", name, shellQuote(value))
	}
	if filepath.IsAbs(c.Kubectl) {
		fmt.Fprintf(&script, "export PATH=%s:\"$PATH\"\n", shellQuote(filepath.Dir(c.Kubectl)))
	}
	return os.WriteFile(path, []byte(script.String()), 0o600)
}

// shellQuote quotes value as one word for a POSIX shell.
func shellQuote(value string) string {
	return "'" + strings.ReplaceAll(value, "'", `'\''`) + "'"
}
