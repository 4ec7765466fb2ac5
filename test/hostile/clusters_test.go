// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/test/size"
)

// TestTwoClusters runs two clusters in one VPC that have the same names for everything: nodes, NodeENIs, labels. No
// action of one cluster, including restarts, changes an interface of the other.
func TestTwoClusters(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	cloud := simulate(t, fleet("node", "node"), speed, nil)
	one, two := setStage(t, cloud, speed), setStage(t, cloud, speed)
	stages := []*stage{one, two}
	for fleet, s := range stages {
		s.join(fleet)
		s.apply(both())
		s.label(names("node", 0, 8)...)
	}
	a := one.run("--resync-period=1s")
	two.run("--resync-period=1s")
	for _, s := range stages {
		s.holds(afterwards, wanted(names("node", 0, 8)))
	}

	one.unlabel(names("node", 0, 4)...)
	one.must(a.Kill())
	one.run("--resync-period=1s")
	one.holds(afterwards, wanted(names("node", 4, 8)))
	two.holds(time.Second, wanted(names("node", 0, 8)))

	two.must(two.kube.Delete(t.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "both"}}))
	two.holds(afterwards, nil)
	two.eventually(afterwards, "the NodeENI is gone", func() string {
		var left v1alpha1.NodeENI
		if err := two.kube.Get(t.Context(), client.ObjectKey{Name: "both"}, &left); client.IgnoreNotFound(err) == nil && err != nil {
			return ""
		}
		return "it is there"
	})
	one.holds(time.Second, wanted(names("node", 4, 8)))
	one.rests()
	for _, s := range stages {
		s.onlyOwn()
		s.madeOnce(16)
	}
	one.onlyRemoved(names("node", 0, 4)...)
}
