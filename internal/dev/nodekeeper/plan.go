// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodekeeper keeps one Node object per simulated EC2 instance.
//
// In a real cluster three programs do that: the kubelet registers the node and reports its health, the node lifecycle
// controller notices when the kubelet stops reporting, and the cloud node controller deletes the node once its instance
// is terminated. A simulator does not have these programs, so the keeper does their work. [Plan] decides, [Keeper]
// executes.
//
// A keeper only ever changes nodes with [Label], so it can work in a cluster that has nodes of its own. It sets labels,
// annotations and taints when it creates a node; afterwards it writes only the status, and the rest belongs to the
// user.
package nodekeeper

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Label marks the nodes of simulated instances. Its value is "true".
const Label = "networking.k8s.aws/simulated"

// HeartbeatPeriod is how often the status of a node is written when nothing
// changed: the kubelet's nodeStatusReportFrequency.
const HeartbeatPeriod = 5 * time.Minute

// An Instance has the properties of an EC2 instance that the keeper needs.
type Instance struct {
	ID             string // "i-0123456789abcdef0"
	Name           string // the Name tag, may be empty
	State          string // as in EC2's instance-state-name: "running"
	Type           string // "m5.large"
	Architecture   string // as Kubernetes has it: "amd64", "arm64"
	Region         string // "us-east-1"
	Zone           string // "us-east-1a"
	PrivateDNSName string // "ip-10-0-1-4.ec2.internal"
	PrivateIP      string // primary IPv4 address
	Taint          string // key of the startup taint of the node, may be empty
}

// ProviderID is the name that the AWS cloud provider gives to the instance.
func (i Instance) ProviderID() string { return "aws:///" + i.Zone + "/" + i.ID }

// States of an instance with an effect; in all others its kubelet does not report.
const (
	running    = "running"
	terminated = "terminated"
)

// Changes are the writes that make the nodes match the instances.
type Changes struct {
	Create []*corev1.Node
	Report []*corev1.Node // their status
	Delete []*corev1.Node
}

// Plan compares instances with the nodes that carry [Label]. An instance gets its node when it first runs; the node is
// NotReady whenever the instance does not run, and is deleted when the instance is terminated or unknown. The result is
// in order of instance ID, and of node name for deletions. Neither argument is changed.
func Plan(instances []Instance, nodes []*corev1.Node, now time.Time) Changes {
	instances = slices.SortedFunc(slices.Values(instances), func(a, b Instance) int { return cmp.Compare(a.ID, b.ID) })
	nodes = slices.SortedFunc(slices.Values(nodes), func(a, b *corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	byProvider := make(map[string]*corev1.Node, len(nodes))
	taken := make(map[string]bool, len(nodes))
	for _, node := range nodes {
		byProvider[node.Spec.ProviderID] = node
		taken[node.Name] = true
	}
	var changes Changes
	alive := make(map[string]bool, len(instances))
	for _, instance := range instances {
		if instance.State == terminated {
			continue
		}
		alive[instance.ProviderID()] = true
		node := byProvider[instance.ProviderID()]
		switch {
		case node == nil && instance.State == running:
			created := newNode(instance, nodeName(instance, taken), now)
			taken[created.Name] = true
			changes.Create = append(changes.Create, created)
		case node != nil && reportDue(instance, node, now):
			changes.Report = append(changes.Report, withReady(node, instance, now))
		}
	}
	for _, node := range nodes {
		if !alive[node.Spec.ProviderID] {
			changes.Delete = append(changes.Delete, node)
		}
	}
	return changes
}

// nodeName returns the Name tag if it is a valid name of a node, otherwise the name under which an EC2 instance
// registers.
func nodeName(instance Instance, taken map[string]bool) string {
	for _, name := range []string{instance.Name, instance.PrivateDNSName} {
		if len(validation.IsDNS1123Subdomain(name)) == 0 && !taken[name] {
			return name
		}
	}
	return instance.ID
}

func newNode(instance Instance, name string, now time.Time) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name,
			Labels: map[string]string{
				Label:                          "true",
				corev1.LabelHostname:           name,
				corev1.LabelTopologyRegion:     instance.Region,
				corev1.LabelTopologyZone:       instance.Zone,
				corev1.LabelInstanceTypeStable: instance.Type,
				corev1.LabelArchStable:         instance.Architecture,
				corev1.LabelOSStable:           string(corev1.Linux),
			},
		},
		Spec: corev1.NodeSpec{ProviderID: instance.ProviderID()},
		Status: corev1.NodeStatus{
			Addresses: addresses(instance, name),
			NodeInfo: corev1.NodeSystemInfo{
				Architecture:    instance.Architecture,
				OperatingSystem: string(corev1.Linux),
				KubeletVersion:  "simulated",
			},
		},
	}
	if instance.Taint != "" {
		node.Spec.Taints = []corev1.Taint{{Key: instance.Taint, Effect: corev1.TaintEffectNoSchedule}}
	}
	return withReady(node, instance, now)
}

func addresses(instance Instance, name string) []corev1.NodeAddress {
	all := []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: instance.PrivateIP},
		{Type: corev1.NodeInternalDNS, Address: instance.PrivateDNSName},
		{Type: corev1.NodeHostName, Address: name},
	}
	return slices.DeleteFunc(all, func(a corev1.NodeAddress) bool { return a.Address == "" })
}

// reportDue reports whether node's status is wrong or, on a running instance, old.
func reportDue(instance Instance, node *corev1.Node, now time.Time) bool {
	current := readyCondition(node)
	if current == nil || current.Status != wantedReady(instance, now).Status {
		return true
	}
	return instance.State == running && now.Sub(current.LastHeartbeatTime.Time) >= HeartbeatPeriod
}

// withReady returns node with the Ready condition for instance.
func withReady(node *corev1.Node, instance Instance, now time.Time) *corev1.Node {
	wanted := wantedReady(instance, now)
	if current := readyCondition(node); current != nil {
		if current.Status == wanted.Status {
			wanted.LastTransitionTime = current.LastTransitionTime
		}
		if instance.State != running { // only a running instance sends one
			wanted.LastHeartbeatTime = current.LastHeartbeatTime
		}
	}
	node = node.DeepCopy()
	node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, isReady)
	node.Status.Conditions = append(node.Status.Conditions, wanted)
	return node
}

// wantedReady returns the condition that the kubelet reports while the instance runs, or the one that the node
// lifecycle controller sets after the kubelet stopped reporting.
func wantedReady(instance Instance, now time.Time) corev1.NodeCondition {
	condition := corev1.NodeCondition{
		Type:               corev1.NodeReady,
		Status:             corev1.ConditionTrue,
		Reason:             "KubeletReady",
		Message:            "the simulated instance is running",
		LastHeartbeatTime:  metav1.NewTime(now),
		LastTransitionTime: metav1.NewTime(now),
	}
	if instance.State != running {
		condition.Status = corev1.ConditionUnknown
		condition.Reason = "NodeStatusUnknown"
		condition.Message = "the simulated instance is " + instance.State
	}
	return condition
}

func readyCondition(node *corev1.Node) *corev1.NodeCondition {
	if i := slices.IndexFunc(node.Status.Conditions, isReady); i >= 0 {
		return &node.Status.Conditions[i]
	}
	return nil
}

func isReady(c corev1.NodeCondition) bool { return c.Type == corev1.NodeReady }
