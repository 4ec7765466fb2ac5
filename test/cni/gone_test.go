// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/test/size"
)

// TestAPodThatEndedWithoutDelKeepsNoInterface: the runtime lost its state, or the node booted and a plugin in front of
// multieni-ipam does not call it. A network that is to be removed gets no further pod whose start would end the lease.
func TestAPodThatEndedWithoutDelKeepsNoInterface(t *testing.T) {
	size.NeedsAll(t, "its removal waits until the pod's address has rested for a minute")
	w := newPodCluster(t)
	w.control()
	a := w.worker("node-a1", instanceA)
	w.declare(strings.Replace(growing, "%d, max: %d", "1, max: 2", 1))
	p := a.pod("gone")
	a.mustAdd(a.shared("n3"), p, "net1")
	w.kubectl("", "delete", "nodeeni", "n3", "--wait=false")
	w.kubectl("", "wait", "nodeeni/n3", "--for=jsonpath={.status.attachments[0].reason}=InUseByPods", "--timeout=60s")
	p.links.End()
	w.kubectl("", "wait", "nodeeni/n3", "--for=delete", "--timeout=150s") // an address rests for a minute after its pod
}
