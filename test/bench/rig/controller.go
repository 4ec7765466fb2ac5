// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/prometheus/procfs"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/multieni/multieni/internal/dev/child"
)

// start starts the controller for an EC2 at the present speed.
func (r *Rig) start(ctx context.Context) error {
	o, err := r.program(ctx)
	if err != nil {
		return err
	}
	kubeconfig, err := r.kubeconfig()
	if err != nil {
		return err
	}
	o.Log = filepath.Join(r.dir, "controller.log")
	o.Env = []string{
		"KUBECONFIG=" + kubeconfig, "AWS_ENDPOINT_URL=" + r.server.URL(), "AWS_REGION=" + r.cloud.State().Region,
		"AWS_ACCESS_KEY_ID=simulated", "AWS_SECRET_ACCESS_KEY=simulated", "AWS_SESSION_TOKEN=",
		"AWS_EC2_METADATA_DISABLED=true",
		"CLUSTER_NAME=bench", "EC2_SPEED=" + strconv.FormatFloat(r.clock.speed, 'g', -1, 64),
	}
	r.process, err = child.Start(o)
	return err
}

// program returns the program to run: the given command, or our own controller with flags for the speed of EC2.
func (r *Rig) program(ctx context.Context) (child.Options, error) {
	if r.Command != "" {
		// The shell parses quotes, and exec replaces it by the program, whose process the rig measures.
		return child.Options{Program: "/bin/sh", Args: []string{"-c", "exec " + r.Command}}, nil
	}
	return child.Controller(ctx, r.clock.speed, r.Progress)
}

// stop stops the controller, if it runs.
func (r *Rig) stop() error {
	if r.process == nil {
		return nil
	}
	process := r.process
	r.process = nil
	return process.Stop()
}

// kubeconfig writes the kubeconfig of the controller, an administrator under another name.
func (r *Rig) kubeconfig() (path string, err error) {
	access, err := clientcmd.LoadFromFile(r.cluster.Kubeconfig)
	if err != nil {
		return "", err
	}
	for _, who := range access.AuthInfos {
		who.Impersonate, who.ImpersonateGroups = user, []string{"system:masters"}
	}
	path = filepath.Join(r.dir, "controller.kubeconfig")
	return path, clientcmd.WriteToFile(*access, path)
}

// usage is what the system reports about a process.
type usage struct {
	cpu       float64 // seconds
	rss, peak float64 // MiB
}

func (r *Rig) usage() (usage, error) {
	process, err := procfs.NewProc(r.process.PID())
	if err != nil {
		return usage{}, err
	}
	stat, err := process.Stat()
	if err != nil {
		return usage{}, err
	}
	status, err := process.NewStatus()
	if err != nil {
		return usage{}, err
	}
	const mib = 1 << 20
	return usage{cpu: stat.CPUTime(), rss: float64(status.VmRSS) / mib, peak: float64(status.VmHWM) / mib}, nil
}

// logs returns the end of the controller's log.
func (r *Rig) logs() string {
	const most = 2000
	text, err := os.ReadFile(filepath.Join(r.dir, "controller.log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}
