// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"fmt"
	"slices"
	"strings"
)

// The paths on a node.
const (
	pathProgram    = "/usr/local/bin/eni-bootstrap"
	pathNetworks   = "/etc/multieni/networks.yaml"
	pathLoad       = "/etc/multieni/load"
	pathUnit       = "/etc/systemd/system/eni-bootstrap.service"
	pathNodeConfig = "/etc/eks/nodeadm.d/40-multieni.yaml"
	pathKubeletEnv = "/etc/multieni/kubelet.env"
	pathKubelet    = "/etc/systemd/system/kubelet.service.d/40-multieni.conf"
)

// endOfFile ends a file in the script.
const endOfFile = "MULTIENI_END"

// script installs and starts the unit that runs the program. Every step that can fail is in the unit. If the unit
// fails, systemd does not start the kubelet, at this boot or a later one, regardless of how cloud-init handles the
// script.
func (b Bootstrap) script() (string, error) {
	if slices.Contains(strings.Split(b.Networks, "\n"), endOfFile) {
		return "", fmt.Errorf("--config has a line %s, which would end it", endOfFile)
	}
	var text strings.Builder
	text.WriteString("#!/bin/bash\n# Written by multieni userdata render: the node's interfaces before its " +
		"kubelet.\nset -euo pipefail\n")
	text.WriteString("install -d /etc/multieni\n")
	file := func(path, content string) {
		fmt.Fprintf(&text, "cat >%s <<'%s'\n%s\n%s\n", path, endOfFile, strings.TrimRight(content, "\n"), endOfFile)
	}
	if b.Networks != "" {
		file(pathNetworks, b.Networks)
	}
	if b.ProgramURL != "" {
		file(pathLoad, b.load())
	}
	file(pathUnit, b.unit())
	text.WriteString("systemctl enable eni-bootstrap.service\n")
	if b.Family == AL2 {
		text.WriteString("install -d " + strings.TrimSuffix(pathKubelet, "/40-multieni.conf") + "\n")
		file(pathKubelet, "[Service]\nEnvironmentFile=-"+pathKubeletEnv+"\n")
		text.WriteString(kubeletArguments)
	}
	text.WriteString("systemctl daemon-reload\nsystemctl start eni-bootstrap.service\n")
	return text.String(), nil
}

// kubeletArguments adds our flags to those of the kubelet of Amazon Linux 2. /etc/eks/bootstrap.sh decides which of the
// units becomes the kubelet's.
const kubeletArguments = `for unit in /etc/systemd/system/kubelet.service /etc/eks/containerd/kubelet-containerd.service; do
  if [ -f "$unit" ] && ! grep -q MULTIENI_KUBELET_ARGS "$unit"; then
    sed -i 's/\$KUBELET_EXTRA_ARGS/$KUBELET_EXTRA_ARGS $MULTIENI_KUBELET_ARGS/' "$unit"
  fi
done
`

// load downloads the program, unless an earlier boot did.
func (b Bootstrap) load() string {
	return fmt.Sprintf(`#!/bin/bash
set -euo pipefail
program=%s
verify() { echo "%s  $1" | sha256sum --status -c -; }
if verify "$program"; then exit; fi
curl -fsSL --retry 5 --retry-delay 2 --max-time 120 -o "$program.new" '%s'
verify "$program.new" || { echo "the program at --program-url does not have the expected SHA-256" >&2; exit 1; }
chmod 0755 "$program.new"
mv "$program.new" "$program"
`, pathProgram, b.ProgramSHA256, b.ProgramURL)
}

// unit runs the program before the unit that starts the kubelet, which requires it unless nodes may join without
// networks.
func (b Bootstrap) unit() string {
	kubelet, after, tell := "nodeadm-run.service", " nodeadm-config.service", "--node-config="+pathNodeConfig
	if b.Family == AL2 {
		kubelet, after, tell = "kubelet.service", "", "--environment="+pathKubeletEnv
	}
	from := "--config=" + pathNetworks
	switch {
	case b.SSMParameter != "":
		from = "--ssm-parameter=" + b.SSMParameter
	case b.InstanceTags:
		from = "--instance-tags"
	}
	load := ""
	if b.ProgramURL != "" {
		load = "ExecStartPre=/bin/bash " + pathLoad + "\n"
	}
	need := "RequiredBy"
	if b.OnFailure == Continue {
		need = "WantedBy"
	}
	return fmt.Sprintf(`[Unit]
Description=Network interfaces of multieni
Wants=network-online.target
After=network-online.target%s
Before=%s

[Service]
Type=oneshot
RemainAfterExit=yes
%sExecStart=%s %s --on-failure=%s %s
SuccessExitStatus=10
TimeoutStartSec=10min

[Install]
%s=%s
`, after, kubelet, load, pathProgram, from, b.OnFailure, tell, need, kubelet)
}
