// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
)

// TestAnInterfaceIsNotTakenFromAPodThatStarted deletes a NodeENI right after a pod started, before the agent has reported the pod.
func TestAnInterfaceIsNotTakenFromAPodThatStarted(t *testing.T) {
	w := newPodCluster(t)
	w.control()
	a, b := w.worker("node-a1", instanceA), w.worker("node-b1", instanceB)
	w.apply(podNetworks)
	w.kubectl("", "wait", "nodeeni", "--all", "--for=condition=PodNetworkReady", "--timeout=150s")
	podB := b.start("upf-b", "n3")
	podA := a.start("upf-a", "n3")
	w.kubectl("", "delete", "nodeeni", "n3", "--wait=false")
	w.kubectl("", "wait", "nodeeni/n3", "--for=jsonpath={.status.attachments[0].reason}=InUseByPods", "--timeout=150s")
	w.kubectl("", "wait", "nodeeni/n3", "--for=jsonpath={.status.attachments[1].reason}=InUseByPods", "--timeout=150s")
	w.ping(podA, podB, b.addressesOf(podB, "n3"))

	t.Run("no further pod gets an address", func(t *testing.T) {
		_, err := a.add(a.shared("n3"), a.pod("late"), "net1")
		if fault := (*types.Error)(nil); !errors.As(err, &fault) || fault.Code != types.ErrTryAgainLater || !strings.Contains(fault.Msg, "is to be removed") {
			t.Errorf("%v; want code %d and the reason", err, types.ErrTryAgainLater)
		}
	})
	t.Run("the interfaces go after the pods", func(t *testing.T) {
		a.stop(podA)
		b.stop(podB)
		w.kubectl("", "wait", "nodeeni/n3", "--for=delete", "--timeout=150s")
	})
}
