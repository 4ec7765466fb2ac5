// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/dev/demo"
)

var update = flag.Bool("update", false, "write the golden files anew")

const (
	nodeENI = "multus-eni-config"
	subnet  = "subnet-0f59b4f14737be9ad"
	group   = "sg-05da196f3314d4af8"
	vpc     = "vpc-0b1f1e5a2c3d4e5f6"
)

// scene is a world of one NodeENI and three instances. The first instance has its interface.
type scene struct {
	state     ec2.State
	attached  *ec2.NetworkInterface
	instances []*ec2.Instance
	nodeENI   *v1alpha1.NodeENI
	object    *v1alpha1.NetworkInterface
	nodes     map[string]string
}

func newScene() *scene {
	s := &scene{nodes: map[string]string{}}
	for _, zone := range []string{"a", "b", "c"} {
		instance := &ec2.Instance{
			InstanceID: "i-0a10000000000000" + zone, State: ec2.InstanceState{Name: ec2.Running},
			Placement: ec2.Placement{AvailabilityZone: "us-east-1" + zone}, Tags: ec2.Tags{"Name": "node-" + zone + "1"},
		}
		s.instances = append(s.instances, instance)
		s.nodes[instance.InstanceID] = "node-" + zone + "1"
	}
	s.attached = &ec2.NetworkInterface{
		NetworkInterfaceID: "eni-0b316fe82923ec38e", SubnetID: subnet, VPCID: vpc, AvailabilityZone: "us-east-1a",
		Status: ec2.StatusInUse, Description: "Multus", SourceDestCheck: true,
		Groups: []ec2.GroupIdentifier{{GroupID: group}},
		Attachment: &ec2.Attachment{
			InstanceID: "i-0a10000000000000a", DeviceIndex: 2, Status: ec2.Attached, DeleteOnTermination: true,
		},
		Tags: ec2.Tags{
			identity.TagNodeENI: nodeENI, identity.TagUID: "uid", identity.TagInterface: "its-name", identity.TagNode: "node-a1",
			identity.TagInstanceID: "i-0a10000000000000a", identity.TagNoManage: "true", "team": "network",
		},
	}
	s.object = &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: "its-name", UID: "uid"},
		Status:     v1alpha1.NetworkInterfaceStatus{ENIID: s.attached.NetworkInterfaceID},
	}
	s.nodeENI = &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: nodeENI, UID: "uid", Generation: 1},
		Spec: v1alpha1.NodeENISpec{
			SubnetID: subnet, SecurityGroupIDs: []string{group}, DeviceIndex: 2, Description: "Multus",
			Tags: map[string]v1alpha1.TagValue{"team": "network"},
		},
		Status: v1alpha1.NodeENIStatus{
			ObservedGeneration: 1, Nodes: 1, Desired: 1, Attached: 1, Ready: 1,
			Conditions: []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
			Attachments: []v1alpha1.Attachment{{
				NodeID: "node-a1", ENIID: "eni-0b316fe82923ec38e", SubnetID: subnet, DeviceIndex: 2, Status: v1alpha1.AttachmentAttached,
			}},
		},
	}
	return s
}

// block makes the NodeENI declare an interface for node-b1 that is not possible.
func (s *scene) block() {
	st := &s.nodeENI.Status
	st.Desired, st.Blocked = 2, 1
	st.Conditions[0].Status = metav1.ConditionFalse
	st.Attachments = append(st.Attachments, v1alpha1.Attachment{
		NodeID: "node-b1", Status: v1alpha1.AttachmentBlocked, Reason: string(plan.NoSubnetInZone), Message: "add a subnet",
	})
}

func (s *scene) moment() demo.Moment {
	s.state.Instances = s.instances
	s.state.SecurityGroups = []*ec2.SecurityGroup{
		{GroupID: group, GroupName: "multus", VPCID: vpc, Tags: ec2.Tags{"network": "multus"}},
		{GroupID: "sg-0aa00000000000001", GroupName: "nodes", VPCID: vpc},
	}
	if s.attached != nil {
		s.state.NetworkInterfaces = append(s.state.NetworkInterfaces, s.attached)
	}
	return demo.NewMoment(s.state, []v1alpha1.NodeENI{*s.nodeENI}, []v1alpha1.NetworkInterface{*s.object}, s.nodes)
}

func sceneWith(change func(*scene)) demo.Moment {
	s := newScene()
	change(s)
	return s.moment()
}

func TestTable(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change  func(*scene)
		width   int
		colours bool
	}{
		"attached":   {func(*scene) {}, 100, false},
		"nothing":    {func(s *scene) { s.attached = nil }, 100, false},
		"attaching":  {func(s *scene) { s.attached.Attachment.Status = ec2.Attaching }, 100, false},
		"available":  {func(s *scene) { s.attached.Attachment, s.attached.Status = nil, ec2.StatusAvailable }, 100, false},
		"blocked":    {(*scene).block, 100, false},
		"terminated": {func(s *scene) { s.instances[2].State.Name = ec2.Terminated; delete(s.nodes, s.instances[2].InstanceID) }, 100, false},
		"narrow":     {(*scene).block, 70, false},
		"colours":    {(*scene).block, 100, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			golden(t, name, demo.Table(sceneWith(tc.change), tc.width, tc.colours))
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestNews(t *testing.T) {
	t.Parallel()
	attached := func(*scene) {}
	for name, tc := range map[string]struct {
		before, after func(*scene)
		want          []string
	}{
		"nothing":   {attached, attached, nil},
		"arrives":   {func(s *scene) { s.attached = nil }, attached, []string{"node-a1  eni-0b316fe82923ec38e  device 2  attached"}},
		"detaching": {attached, func(s *scene) { s.attached.Attachment.Status = ec2.Detaching }, []string{"node-a1  eni-0b316fe82923ec38e  device 2  detaching"}},
		"gone":      {attached, func(s *scene) { s.attached = nil }, []string{"node-a1  eni-0b316fe82923ec38e  device 2  gone"}},
		"blocked":   {attached, (*scene).block, []string{"node-b1  blocked: NoSubnetInZone"}},
		"unblocked": {(*scene).block, attached, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, demo.News(sceneWith(tc.before), sceneWith(tc.after))); diff != "" {
				t.Errorf("news (-want +got):\n%s", diff)
			}
		})
	}
}

// The check passes for the expected state, and fails for each single difference on either side.
func TestCheck(t *testing.T) {
	t.Parallel()
	want := demo.Holds(nodeENI, "node-a1", subnet, 2)
	if problems := demo.Check(newScene().moment(), want); len(problems) > 0 {
		t.Errorf("all is well, and found are: %q", problems)
	}
	blocked := demo.Besides(want, nodeENI, "node-b1", plan.NoSubnetInZone)
	if problems := demo.Check(sceneWith((*scene).block), blocked); len(problems) > 0 {
		t.Errorf("what cannot be is reported, and found are: %q", problems)
	}
	for name, change := range map[string]func(*scene){
		"no interface":            func(s *scene) { s.attached = nil },
		"another subnet":          func(s *scene) { s.attached.SubnetID = "subnet-1" },
		"another zone":            func(s *scene) { s.attached.AvailabilityZone = "us-east-1b" },
		"another instance":        func(s *scene) { s.attached.Attachment.InstanceID = s.instances[1].InstanceID },
		"another index":           func(s *scene) { s.attached.Attachment.DeviceIndex = 1 },
		"another card":            func(s *scene) { s.attached.Attachment.NetworkCardIndex = 1 },
		"another group":           func(s *scene) { s.attached.Groups[0].GroupID = "sg-1" },
		"one group more":          func(s *scene) { s.attached.Groups = append(s.attached.Groups, ec2.GroupIdentifier{GroupID: "sg-1"}) },
		"another description":     func(s *scene) { s.attached.Description = "" },
		"source/dest check off":   func(s *scene) { s.attached.SourceDestCheck = false },
		"stays after termination": func(s *scene) { s.attached.Attachment.DeleteOnTermination = false },
		"still attaching":         func(s *scene) { s.attached.Attachment.Status = ec2.Attaching },
		"user's tag missing":      func(s *scene) { delete(s.attached.Tags, "team") },
		"tag for the CNI missing": func(s *scene) { delete(s.attached.Tags, identity.TagNoManage) },
		"object is another":       func(s *scene) { s.attached.Tags[identity.TagUID] = "former" },
		"object has another ENI":  func(s *scene) { s.object.Status.ENIID = "eni-1" },
		"one too many": func(s *scene) {
			left := *s.attached
			left.NetworkInterfaceID, left.Attachment, left.Status = "eni-1", nil, ec2.StatusAvailable
			s.state.NetworkInterfaces = append(s.state.NetworkInterfaces, &left)
		},
		"instance stopped":       func(s *scene) { s.instances[1].State.Name = ec2.Stopped },
		"status is old":          func(s *scene) { s.nodeENI.Generation = 2 },
		"status counts too few":  func(s *scene) { s.nodeENI.Status.Attached = 0 },
		"status is not ready":    func(s *scene) { s.nodeENI.Status.Conditions = nil },
		"status names another":   func(s *scene) { s.nodeENI.Status.Attachments[0].ENIID = "eni-1" },
		"status has wrong index": func(s *scene) { s.nodeENI.Status.Attachments[0].DeviceIndex = 1 },
		"obstacle":               (*scene).block,
		"NodeENI deleted":        func(s *scene) { s.nodeENI.DeletionTimestamp = new(metav1.Now()) },
		"NodeENI gone":           func(s *scene) { s.nodeENI.Name = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if len(demo.Check(sceneWith(change), want)) == 0 {
				t.Error("no problem was found")
			}
		})
	}
}

// A pod that must run runs, and the NodeENI that is being deleted waits for it.
func TestCheckOfPods(t *testing.T) {
	t.Parallel()
	want := demo.KeptByPod(demo.Holds(nodeENI, "node-a1", subnet, 2), "upf-a", nodeENI)
	for name, c := range map[string]struct {
		phase  corev1.PodPhase
		reason plan.Reason
		ok     bool
	}{
		"the deletion waits for the pod":   {corev1.PodRunning, plan.InUseByPods, true},
		"the pod does not run":             {corev1.PodPending, plan.InUseByPods, false},
		"the interface is being removed":   {corev1.PodRunning, plan.Removing, false},
		"the deletion waits for no reason": {corev1.PodRunning, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := demo.WithPod(sceneWith(func(s *scene) {
				s.nodeENI.DeletionTimestamp = new(metav1.Now())
				s.nodeENI.Status.Attachments[0].Reason = string(c.reason)
			}), "upf-a", c.phase)
			if problems := demo.Check(m, want); (len(problems) == 0) != c.ok {
				t.Errorf("the problems are %q", problems)
			}
		})
	}
}

// The story applies each example of the seeds, and desires only interfaces that the example world can provide.
func TestStory(t *testing.T) {
	t.Parallel()
	var applied []string
	for _, words := range demo.Commands() {
		if words[0] == "apply" {
			applied = append(applied, filepath.Base(words[len(words)-1]))
		}
	}
	for _, file := range []string{"single-subnet", "subnet-name", "two-subnets", "node-labels", "subnet-ids", "subnet-names"} {
		if !slices.Contains(applied, file+".yaml") {
			t.Errorf("examples/%s.yaml is not in the story", file)
		}
	}
	world := awssim.ExampleWorld()
	nodes, subnets := map[string]string{}, map[string]string{}
	for _, instance := range world.Instances {
		nodes[instance.Name] = instance.AvailabilityZone
	}
	for _, subnet := range world.Subnets {
		subnets[subnet.SubnetID] = subnet.AvailabilityZone
	}
	for n, step := range demo.Wanted() {
		for i, p := range step {
			if nodes[p.Node] == "" || nodes[p.Node] != subnets[p.Subnet] {
				t.Errorf("step %d: %s is in %q, %s in %q", n, p.Node, nodes[p.Node], p.Subnet, subnets[p.Subnet])
			}
			if slices.ContainsFunc(step[:i], func(q demo.Placed) bool { return q.Node == p.Node && q.Device == p.Device }) {
				t.Errorf("step %d: device index %d of %s twice", n, p.Device, p.Node)
			}
		}
	}
}

func TestKills(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.IntRange(0, 100).Draw(t, "kills")
		got := 0
		for _, due := range demo.Kills(want, rapid.Uint64().Draw(t, "seed")) {
			got += len(due)
			if !slices.IsSorted(due) {
				t.Errorf("not in order: %v", due)
			}
		}
		if got != want {
			t.Errorf("%d kills, want %d", got, want)
		}
	})
}

func TestFold(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		line := strings.Join(rapid.SliceOfN(rapid.StringMatching(`[a-zäé…]{1,12}`), 1, 30).Draw(t, "words"), " ")
		width := rapid.IntRange(12, 60).Draw(t, "width")
		parts := demo.Fold(line, width)
		if got := strings.Join(parts, " "); got != line {
			t.Errorf("%q came back as %q", line, got)
		}
		for _, part := range parts {
			if utf8.RuneCountInString(part) > width {
				t.Errorf("%q is longer than %d", part, width)
			}
		}
	})
}

func TestCrop(t *testing.T) {
	t.Parallel()
	const text = "1\n2\n3\n4\n"
	for name, tc := range map[string]struct {
		height int
		want   string
	}{
		"fits":           {4, text},
		"too long":       {3, "1\n2\n  … and 2 lines more\n"},
		"height unknown": {-1, text},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, demo.Crop(text, tc.height)); diff != "" {
				t.Errorf("crop (-want +got):\n%s", diff)
			}
		})
	}
}

// made returns counts of calls in the order create, attach, modify, detach, delete.
func made(counts ...int) awssim.Calls {
	calls := awssim.Calls{Actions: map[string]awssim.ActionCalls{}}
	for n, action := range []string{"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute", "DetachNetworkInterface", "DeleteNetworkInterface"} {
		calls.Actions[action] = awssim.ActionCalls{Tally: awssim.Tally{Count: counts[n]}}
	}
	return calls
}

func TestTally(t *testing.T) {
	t.Parallel()
	failed := made(27, 27, 27, 26, 26)
	failed.Mutating.Throttled = 1
	for name, tc := range map[string]struct {
		kills int
		calls awssim.Calls
		well  bool
	}{
		"as it should be":                  {0, made(27, 27, 27, 26, 26), true},
		"one call more":                    {0, made(27, 28, 27, 26, 26), false},
		"one call fewer":                   {0, made(27, 27, 26, 26, 26), false},
		"one call more after a kill":       {1, made(27, 28, 27, 26, 26), true},
		"many calls more after a kill":     {1, made(40, 40, 40, 26, 26), false},
		"a removal more":                   {0, made(27, 27, 27, 26, 27), false},
		"as it should be, but one refused": {0, failed, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := demo.Excess(27, 26, tc.kills, tc.calls)
			if (len(problems) == 0) != tc.well {
				t.Errorf("problems: %q", problems)
			}
		})
	}
	golden(t, "summary", demo.Summary(27, 26, 1, made(27, 27, 27, 26, 26)))
}
