// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodekeeper_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/dev/nodekeeper"
)

var now = time.Date(2026, 4, 1, 12, 0, 0, 0, time.UTC)

func instance(id, state string) nodekeeper.Instance {
	return nodekeeper.Instance{
		ID:             id,
		State:          state,
		Type:           "m5.large",
		Architecture:   "amd64",
		Region:         "us-east-1",
		Zone:           "us-east-1a",
		PrivateDNSName: "ip-10-0-1-" + id[len(id)-1:] + ".ec2.internal",
		PrivateIP:      "10.0.1." + id[len(id)-1:],
	}
}

// node is the one-hour-old Node of an instance, whose last report is age old.
func node(i nodekeeper.Instance, ready corev1.ConditionStatus, age time.Duration) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: i.PrivateDNSName, Labels: map[string]string{nodekeeper.Label: "true"}},
		Spec:       corev1.NodeSpec{ProviderID: i.ProviderID()},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: "NetworkUnavailable", Status: corev1.ConditionFalse,
		}, {
			Type:               corev1.NodeReady,
			Status:             ready,
			LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
			LastHeartbeatTime:  metav1.NewTime(now.Add(-age)),
		}}},
	}
}

// summary is the part of a plan that tables compare: names, and for reports the new Ready condition.
type summary struct {
	Create, Delete []string
	Report         map[string]corev1.ConditionStatus
}

func summarize(c nodekeeper.Changes) summary {
	var s summary
	for _, n := range c.Create {
		s.Create = append(s.Create, n.Name)
	}
	for _, n := range c.Delete {
		s.Delete = append(s.Delete, n.Name)
	}
	for _, n := range c.Report {
		if s.Report == nil {
			s.Report = map[string]corev1.ConditionStatus{}
		}
		s.Report[n.Name] = ready(n).Status
	}
	return s
}

func ready(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func named(i nodekeeper.Instance, name string) nodekeeper.Instance {
	i.Name = name
	return i
}

func TestPlan(t *testing.T) {
	t.Parallel()
	type instances = []nodekeeper.Instance
	type nodes = []*corev1.Node
	const fresh, old = time.Minute, nodekeeper.HeartbeatPeriod
	up := instance("i-1", "running")
	for name, tc := range map[string]struct {
		instances instances
		nodes     nodes
		want      summary
	}{
		"nothing is nothing":                                    {},
		"running instance registers":                            {instances: instances{up}, want: summary{Create: []string{"ip-10-0-1-1.ec2.internal"}}},
		"pending instance does not register yet":                {instances: instances{instance("i-1", "pending")}},
		"instance that was stopped all along does not register": {instances: instances{instance("i-1", "stopped")}},
		"nothing changed":                                       {instances: instances{up}, nodes: nodes{node(up, corev1.ConditionTrue, fresh)}},
		"heartbeat is due": {
			instances: instances{up},
			nodes:     nodes{node(up, corev1.ConditionTrue, old)},
			want:      summary{Report: map[string]corev1.ConditionStatus{"ip-10-0-1-1.ec2.internal": corev1.ConditionTrue}},
		},
		"stopping instance falls silent": {
			instances: instances{instance("i-1", "stopping")},
			nodes:     nodes{node(up, corev1.ConditionTrue, fresh)},
			want:      summary{Report: map[string]corev1.ConditionStatus{"ip-10-0-1-1.ec2.internal": corev1.ConditionUnknown}},
		},
		"stopped instance sends no heartbeat": {
			instances: instances{instance("i-1", "stopped")},
			nodes:     nodes{node(up, corev1.ConditionUnknown, old)},
		},
		"started again": {
			instances: instances{up},
			nodes:     nodes{node(up, corev1.ConditionUnknown, old)},
			want:      summary{Report: map[string]corev1.ConditionStatus{"ip-10-0-1-1.ec2.internal": corev1.ConditionTrue}},
		},
		"instance that shuts down keeps its node": {
			instances: instances{instance("i-1", "shutting-down")},
			nodes:     nodes{node(up, corev1.ConditionUnknown, fresh)},
		},
		"terminated instance loses its node": {
			instances: instances{instance("i-1", "terminated")},
			nodes:     nodes{node(up, corev1.ConditionUnknown, fresh)},
			want:      summary{Delete: []string{"ip-10-0-1-1.ec2.internal"}},
		},
		"instance that EC2 has forgotten loses its node": {
			nodes: nodes{node(up, corev1.ConditionTrue, fresh)},
			want:  summary{Delete: []string{"ip-10-0-1-1.ec2.internal"}},
		},
		"Name tag names the node":          {instances: instances{named(up, "worker-1")}, want: summary{Create: []string{"worker-1"}}},
		"Name tag that cannot name a node": {instances: instances{named(up, "Worker 1")}, want: summary{Create: []string{"ip-10-0-1-1.ec2.internal"}}},
		"Name tag of two instances, as in a node group": {
			instances: instances{named(instance("i-2", "running"), "workers"), named(up, "workers")},
			want:      summary{Create: []string{"workers", "ip-10-0-1-2.ec2.internal"}},
		},
		"address is used again while the old node is still there": {
			instances: instances{instance("i-1", "terminated"), named(instance("i-11", "running"), "")},
			nodes:     nodes{node(up, corev1.ConditionTrue, fresh)},
			want:      summary{Create: []string{"i-11"}, Delete: []string{"ip-10-0-1-1.ec2.internal"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := summarize(nodekeeper.Plan(tc.instances, tc.nodes, now))
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("plan (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNewNode(t *testing.T) {
	t.Parallel()
	got := nodekeeper.Plan([]nodekeeper.Instance{named(instance("i-1", "running"), "worker-1")}, nil, now).Create[0]
	want := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "worker-1", Labels: map[string]string{
			"networking.k8s.aws/simulated":     "true",
			"kubernetes.io/hostname":           "worker-1",
			"kubernetes.io/arch":               "amd64",
			"kubernetes.io/os":                 "linux",
			"node.kubernetes.io/instance-type": "m5.large",
			"topology.kubernetes.io/region":    "us-east-1",
			"topology.kubernetes.io/zone":      "us-east-1a",
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/i-1"},
		Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: "10.0.1.1"},
				{Type: corev1.NodeInternalDNS, Address: "ip-10-0-1-1.ec2.internal"},
				{Type: corev1.NodeHostName, Address: "worker-1"},
			},
			NodeInfo: corev1.NodeSystemInfo{Architecture: "amd64", OperatingSystem: "linux", KubeletVersion: "simulated"},
			Conditions: []corev1.NodeCondition{{
				Type:               corev1.NodeReady,
				Status:             corev1.ConditionTrue,
				Reason:             "KubeletReady",
				Message:            "the simulated instance is running",
				LastHeartbeatTime:  metav1.NewTime(now),
				LastTransitionTime: metav1.NewTime(now),
			}},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
}

// A report changes only the Ready condition.
func TestReportLeavesTheRest(t *testing.T) {
	t.Parallel()
	up := instance("i-1", "running")
	before := node(up, corev1.ConditionTrue, nodekeeper.HeartbeatPeriod)
	before.Labels["multi-eni"] = "enabled"
	delete(before.Labels, "kubernetes.io/hostname")
	after := nodekeeper.Plan([]nodekeeper.Instance{up}, []*corev1.Node{before}, now).Report[0]

	if got := ready(after); !got.LastHeartbeatTime.Equal(&metav1.Time{Time: now}) {
		t.Errorf("heartbeat at %s, want %s", got.LastHeartbeatTime, now)
	}
	if got, want := ready(after).LastTransitionTime, ready(before).LastTransitionTime; !got.Equal(&want) {
		t.Errorf("transition at %s, want %s: the status did not change", got, want)
	}
	withoutReady := func(n *corev1.Node) *corev1.Node {
		n = n.DeepCopy()
		n.Status.Conditions = n.Status.Conditions[:1]
		return n
	}
	if diff := cmp.Diff(withoutReady(before), withoutReady(after)); diff != "" {
		t.Errorf("other than Ready changed (-before +after):\n%s", diff)
	}
}

// One plan is enough regardless of what happened before: the second plan has no action.
func TestPlanSettles(t *testing.T) {
	t.Parallel()
	states := rapid.SampledFrom([]string{"pending", "running", "shutting-down", "terminated", "stopping", "stopped"})
	rapid.Check(t, func(t *rapid.T) {
		var nodes []*corev1.Node
		for range 3 {
			var instances []nodekeeper.Instance
			for _, id := range []string{"i-1", "i-2", "i-3"} {
				if rapid.Bool().Draw(t, id+" exists") {
					instances = append(instances, instance(id, states.Draw(t, id+" state")))
				}
			}
			nodes = carryOut(nodekeeper.Plan(instances, nodes, now), nodes)
			if diff := cmp.Diff(nodekeeper.Changes{}, nodekeeper.Plan(instances, nodes, now)); diff != "" {
				t.Fatalf("second plan (-want +got):\n%s", diff)
			}
		}
	})
}

func carryOut(changes nodekeeper.Changes, nodes []*corev1.Node) []*corev1.Node {
	byName := map[string]*corev1.Node{}
	for _, n := range nodes {
		byName[n.Name] = n
	}
	for _, n := range changes.Delete {
		delete(byName, n.Name)
	}
	for _, n := range append(changes.Create, changes.Report...) {
		byName[n.Name] = n
	}
	var after []*corev1.Node
	for _, n := range byName {
		after = append(after, n)
	}
	return after
}
