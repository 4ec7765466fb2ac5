// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
)

// twoInterfaces declares a primary interface and one named n3.
func twoInterfaces() launchtemplate.NodeTemplate {
	n := plain()
	n.Interfaces = []launchtemplate.Interface{at(0), at(1)}
	n.Interfaces[1].Name = "n3"
	return n
}

// node is an instance as it was launched from the only template of a rendering.
func node(r launchtemplate.Rendering) launchtemplate.Node {
	n := launchtemplate.Node{InstanceType: "m5.large", Zone: "us-east-1a", Hash: r.Templates[0].Hash, Image: "ami-1"}
	for _, i := range r.Templates[0].Interfaces {
		launched := i.AsLaunched("subnet-a")
		launched.ID, launched.Tags = "eni-"+i.Slot.String(), map[string]string{identity.TagTemplateHash: n.Hash}
		n.Interfaces = append(n.Interfaces, launched)
	}
	return n
}

// rendering is that of a node template without problems.
func rendering(t *testing.T, n launchtemplate.NodeTemplate) launchtemplate.Rendering {
	t.Helper()
	r := launchtemplate.Render(n, of(t, "m5.large"), nil)
	if len(r.Problems) > 0 {
		t.Fatal(r.Problems)
	}
	return r
}

// A node differs by the changes of its node template; differences that EC2 can change in place have an update.
func TestNodeDrift(t *testing.T) {
	second := func(change func(*launchtemplate.Interface)) func(*launchtemplate.NodeTemplate) {
		return func(n *launchtemplate.NodeTemplate) { change(&n.Interfaces[1]) }
	}
	text, no, count := "n3 of upf", false, 1
	update := func(change func(*plan.InPlaceUpdate)) []plan.InPlaceUpdate {
		u := plan.InPlaceUpdate{InterfaceID: "eni-" + eni.Slot{Device: 1}.String(), Owner: "default", OwnerUID: "uid-1"}
		change(&u)
		return []plan.InPlaceUpdate{u}
	}
	for name, tc := range map[string]struct {
		change  func(*launchtemplate.NodeTemplate)
		want    []string
		updates []plan.InPlaceUpdate
	}{
		"nothing changed": {func(*launchtemplate.NodeTemplate) {}, nil, nil},
		"description": {
			second(func(i *launchtemplate.Interface) { i.Description = text }), []string{"networkInterfaces[].description Static Repair"},
			update(func(u *plan.InPlaceUpdate) { u.Description = &text }),
		},
		"deleteOnTermination": {
			second(func(i *launchtemplate.Interface) { i.DeleteOnTermination = false }),
			[]string{"networkInterfaces[].deleteOnTermination Behavioral Repair"}, update(func(u *plan.InPlaceUpdate) { u.DeleteOnTermination = &no }),
		},
		"timeouts": {
			second(tracked), []string{"networkInterfaces[].connectionTracking Static Repair"},
			update(func(u *plan.InPlaceUpdate) { u.ConnectionTracking.TCPEstablished = 3600 }),
		},
		"ENA Express off": {
			second(func(i *launchtemplate.Interface) { i.ENAExpress = eni.ENAExpressNone }), nil, nil,
		},
		"groups": {
			second(func(i *launchtemplate.Interface) { i.Groups = []string{"sg-2"} }), []string{"networkInterfaces[].securityGroupSelector Dynamic Repair"},
			update(func(u *plan.InPlaceUpdate) { u.Groups = []string{"sg-2"} }),
		},
		"IPv4 prefixes": {
			second(func(i *launchtemplate.Interface) { i.IPv4Prefixes = 1 }), []string{"networkInterfaces[].ipv4PrefixCount Static Repair"},
			update(func(u *plan.InPlaceUpdate) { u.IPv4Prefixes = &count }),
		},
		"IPv6 prefixes": {
			second(func(i *launchtemplate.Interface) { i.IPv6Prefixes = 1 }), []string{"networkInterfaces[].ipv6PrefixCount Static Repair"},
			update(func(u *plan.InPlaceUpdate) { u.IPv6Prefixes = &count }),
		},
		"two fields of one interface": {
			second(func(i *launchtemplate.Interface) { i.Description, i.DeleteOnTermination = text, false }),
			[]string{"networkInterfaces[].description Static Repair", "networkInterfaces[].deleteOnTermination Behavioral Repair"},
			update(func(u *plan.InPlaceUpdate) { u.Description, u.DeleteOnTermination = &text, &no }),
		},
		"a third interface": {
			func(n *launchtemplate.NodeTemplate) { n.Interfaces = append(n.Interfaces, at(2)) }, []string{"networkInterfaces Static Replace"}, nil,
		},
		"user data":                 {func(n *launchtemplate.NodeTemplate) { n.UserData += "x" }, []string{"userData Static Replace"}, nil},
		"the name of the interface": {second(func(i *launchtemplate.Interface) { i.Name = "n4" }), nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			declared := twoInterfaces()
			then := rendering(t, declared)
			tc.change(&declared)
			differences, updates := rendering(t, declared).Drift(declared, node(then), launchtemplate.Readable(then.Templates[0].Data))
			if diff := cmp.Diff(tc.want, found(differences), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.updates, updates); diff != "" {
				t.Errorf("updates (-want +got):\n%s", diff)
			}
		})
	}
}

// A tag allows the VPC CNI to use an interface from now on. That is no drift.
func TestInterfaceIsGivenToTheCNI(t *testing.T) {
	declared := twoInterfaces()
	n := node(rendering(t, declared))
	n.Interfaces[1].Tags[identity.TagNoManage] = "true"
	declared.Interfaces[1].Management = launchtemplate.CNI
	differences, updates := rendering(t, declared).Drift(declared, n, nil)
	same(t, "updates", []plan.InPlaceUpdate{{
		InterfaceID: "eni-" + eni.Slot{Device: 1}.String(), Owner: "default", OwnerUID: "uid-1",
		Tags: map[string]string{identity.TagNoManage: "false"},
	}}, updates)
	if launchtemplate.Drifted(differences) {
		t.Errorf("a change of the management is drift: %v", differences)
	}
}

// The NodeENI that adopted an interface updates it; the node template does not change it.
func TestAdoptedInterfaceIsLeftToItsNodeENI(t *testing.T) {
	declared := twoInterfaces()
	n := node(rendering(t, declared))
	n.Adopted = map[eni.Slot]bool{{Device: 1}: true}
	declared.Interfaces[1].Description = "changed"
	if differences, updates := rendering(t, declared).Drift(declared, n, nil); len(differences) > 0 || len(updates) > 0 {
		t.Errorf("differences %v and updates %v, want none", differences, updates)
	}
	declared.Interfaces[1].Type = eni.EFA
	r := launchtemplate.Render(declared, of(t, "m5.large", "m5dn.24xlarge"), nil)
	n.InstanceType = "m5dn.24xlarge"
	differences, _ := r.Drift(declared, n, nil)
	if diff := cmp.Diff([]string{"networkInterfaces[].interfaceType Static Replace"}, found(differences)); diff != "" {
		t.Errorf("what no update reaches is reported (-want +got):\n%s", diff)
	}
}

// A node in a zone that is no longer used is compared all the same; one of an unknown shape is not.
func TestNodeWithoutATemplateOfItsZone(t *testing.T) {
	declared := twoInterfaces()
	declared.Interfaces[1].Subnets = []eni.Subnet{subnet("subnet-n3", "us-east-1a")} // so that there is a template for each zone
	n := node(rendering(t, declared))
	n.Zone = "us-east-1z"
	declared.UserData += "x"
	then := launchtemplate.Document{}
	if differences, _ := rendering(t, declared).Drift(declared, n, then); !launchtemplate.Drifted(differences) {
		t.Error("a node of another zone is not compared")
	}
	if differences, updates := (launchtemplate.Rendering{}).Drift(declared, n, then); differences != nil || updates != nil {
		t.Errorf("without templates there are the differences %v and updates %v", differences, updates)
	}
}

// A parameter of Systems Manager with a new value makes a node stale, once both values are known.
func TestStaleImage(t *testing.T) {
	declared := twoInterfaces()
	declared.Image.ID = "resolve:ssm:/images/upf"
	for name, tc := range map[string]struct{ now, node, want string }{
		"the same image":      {"ami-1", "ami-1", ""},
		"another image":       {"ami-2", "ami-1", "amiSelector: want ami-2, have ami-1"},
		"not read yet":        {"", "ami-1", ""},
		"instance not known":  {"ami-2", "", ""},
		"neither is known":    {"", "", ""},
		"back to an old one":  {"ami-0", "ami-1", "amiSelector: want ami-0, have ami-1"},
		"only of other names": {"", "ami-2", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := rendering(t, declared)
			n := node(r)
			r.Images, n.Image = map[string]string{"resolve:ssm:/images/upf": tc.now, "resolve:ssm:/images/smf": "ami-9"}, tc.node
			var got []string
			differences, _ := r.Drift(declared, n, nil)
			for _, d := range differences {
				got = append(got, d.String())
			}
			if joined := strings.Join(got, "\n"); joined != tc.want {
				t.Errorf("the differences are %q, want %q", joined, tc.want)
			}
		})
	}
	if parameter := rendering(t, declared).Templates[0].ImageParameter(); parameter != "resolve:ssm:/images/upf" {
		t.Errorf("the parameter is %q", parameter)
	}
	if parameter := rendering(t, twoInterfaces()).Templates[0].ImageParameter(); parameter != "" {
		t.Errorf("the parameter of an image ID is %q", parameter)
	}
}

// A number always means the same version, so only a user can make it drift; $Latest changes by itself.
func TestSourceDrift(t *testing.T) {
	for name, tc := range map[string]struct {
		source  launchtemplate.Source
		version int64
		want    []string
	}{
		"the same":            {launchtemplate.Source{Version: "$Latest", Resolved: 3}, 3, nil},
		"$Latest moved":       {launchtemplate.Source{Version: "$Latest", Resolved: 4}, 3, []string{"launchTemplateRef Dynamic Replace"}},
		"$Default moved":      {launchtemplate.Source{Version: "$Default", Resolved: 2}, 3, []string{"launchTemplateRef Dynamic Replace"}},
		"the number changed":  {launchtemplate.Source{Version: "4", Resolved: 4}, 3, []string{"launchTemplateRef Static Replace"}},
		"no version declared": {launchtemplate.Source{Resolved: 4}, 3, []string{"launchTemplateRef Dynamic Replace"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, found(launchtemplate.SourceDrift(tc.source, tc.version)), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The text of a difference has the field, the slot and both values; the long form also has the action of the user.
func TestDifferenceAsText(t *testing.T) {
	for name, tc := range map[string]struct {
		difference   launchtemplate.Difference
		text, advice string
	}{
		"field of an interface": {
			launchtemplate.Difference{
				Field: "networkInterfaces[].description", Class: launchtemplate.Static, Action: launchtemplate.Repair, Slot: eni.Slot{Device: 1},
				Want: `"a"`, Have: `"b"`,
			}, "description at " + eni.Slot{Device: 1}.String() + `: want "a", have "b"`, "Static; can be repaired in place",
		},
		"field without values": {
			launchtemplate.Difference{Field: "userData", Class: launchtemplate.Static, Action: launchtemplate.Replace}, "userData has changed", "Static; needs a new node",
		},
		"field that needs nothing": {
			launchtemplate.Difference{Field: "instanceTypes", Class: launchtemplate.Behavioral, Action: launchtemplate.NoAction},
			"instanceTypes has changed", "Behavioral; needs nothing",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tc.difference.String(); got != tc.text {
				t.Errorf("it is %q, want %q", got, tc.text)
			}
			if got, want := tc.difference.Told(), tc.text+" ("+tc.advice+")"; got != want {
				t.Errorf("it is %q, want %q", got, want)
			}
		})
	}
}

// Pods select nodes by labels, and get resources, only for interfaces that a node has.
func TestLabelsAndResourcesOfANode(t *testing.T) {
	const n3, n6 = launchtemplate.LabelNetworkPrefix + "n3", launchtemplate.LabelNetworkPrefix + "n6"
	declared := twoInterfaces()
	declared.Interfaces = append(declared.Interfaces, at(2))
	declared.Interfaces[2].Name, declared.Interfaces[2].Management = "n6", launchtemplate.CNI
	for name, tc := range map[string]struct {
		change    func(*launchtemplate.Node)
		labels    map[string]string
		resources map[string]int
	}{
		"all interfaces": {
			func(*launchtemplate.Node) {},
			map[string]string{launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "3", n3: "true", n6: "true"}, map[string]int{n3: 1},
		},
		"one is missing": {
			func(n *launchtemplate.Node) { n.Interfaces = append(n.Interfaces[:1:1], n.Interfaces[2]) },
			map[string]string{launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "2", n6: "true"}, map[string]int{},
		},
		"one is detached": {
			func(n *launchtemplate.Node) { n.Interfaces[1].Attachment = nil },
			map[string]string{launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "2", n6: "true"}, map[string]int{},
		},
		"one is of the VPC CNI": {
			func(n *launchtemplate.Node) {
				n.Interfaces[1].Tags = map[string]string{"node.k8s.amazonaws.com/instance_id": "i-1"}
			},
			map[string]string{launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "2", n6: "true"}, map[string]int{},
		},
		"none is known yet": {
			func(n *launchtemplate.Node) { n.Interfaces = nil },
			map[string]string{launchtemplate.LabelNodeTemplate: "default", launchtemplate.LabelInterfaces: "0"}, map[string]int{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := rendering(t, declared)
			n := node(r)
			tc.change(&n)
			labels := declared.NodeLabels(r, n)
			if diff := cmp.Diff(tc.labels, labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.resources, declared.NodeResources(r, n)); diff != "" {
				t.Errorf("resources (-want +got):\n%s", diff)
			}
			for key := range labels {
				if !launchtemplate.IsNodeLabel(key) {
					t.Errorf("%s is not recognised as a label of ours", key)
				}
			}
		})
	}
	if launchtemplate.IsNodeLabel("kubernetes.io/hostname") {
		t.Error("a label of Kubernetes is taken for ours")
	}
}

// The hash is on any interface that the launch made.
func TestHashOfAnInstance(t *testing.T) {
	tagged := eni.Interface{Tags: map[string]string{identity.TagTemplateHash: "abc"}}
	for name, tc := range map[string]struct {
		interfaces []eni.Interface
		want       string
	}{
		"no interface": {nil, ""}, "no tag": {[]eni.Interface{{}}, ""}, "on the second": {[]eni.Interface{{}, tagged}, "abc"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := launchtemplate.HashOf(tc.interfaces); got != tc.want {
				t.Errorf("the hash is %q, want %q", got, tc.want)
			}
		})
	}
}
