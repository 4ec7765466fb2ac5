// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
)

// After a return to an earlier release, the agent finds the files of the later one. It reports the pods of a network that
// no state lists, which the controller would otherwise detach from them.
func TestThePodsOfALaterReleaseAreReported(t *testing.T) {
	n := node{T: t, networks: t.TempDir(), leases: t.TempDir()}
	n.report(withPods())
	file := filepath.Join(n.networks, "n3.json")
	content, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, bytes.Replace(content, []byte(`"version": 1,`), []byte(`"version": 99, "toCome": 1,`), 1), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	n.lease("10.0.4.17")
	state := withPods()
	state.Status.Interfaces[0].Phase = v1alpha1.PhaseDetaching
	if told := n.report(state); len(told) != 1 || told[0].ENIID != "eni-1" || told[0].Drained || told[0].Used != 1 {
		t.Errorf("reported %+v, want the pod of eni-1", told)
	}
	if !n.file().Draining { // it fails unless this release reads the file
		t.Error("the network takes further pods")
	}
}
