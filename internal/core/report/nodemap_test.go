// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

// mapped is the instance of the nodes that the function node creates.
const mapped = "i-0a10000000000000a"

// onInstance is an interface as EC2 shows it on the instance of the node.
func onInstance(id string, card, device int, tags map[string]string) eni.Interface {
	return eni.Interface{ID: id, SubnetID: "subnet-1", Tags: tags, Attachment: &eni.Attachment{
		InstanceID: mapped, Slot: eni.Slot{Card: card, Device: device}, Status: eni.AttachmentAttached,
	}}
}

// snapshot is what EC2 shows of an m5.large, which takes three interfaces.
func snapshot(interfaces ...eni.Interface) *eni.InstanceSnapshot {
	return &eni.InstanceSnapshot{Instance: eni.Instance{Type: "m5.large"}, Interfaces: interfaces}
}

// slots are the slots of a map, each as "card/index owner ID".
func slots(m report.NodeMap) (all []string) {
	for _, c := range m.Cards {
		for _, s := range c.Slots {
			all = append(all, strings.TrimSpace(fmt.Sprintf("%d/%d %s %s", c.Index, s.Device, s.Owner, s.ENIID)))
		}
	}
	return all
}

func TestTheOwnerOfAnInterfaceInASlot(t *testing.T) {
	const cni = "node.k8s.amazonaws.com/instance_id"
	tags := func(pairs ...string) map[string]string {
		all := map[string]string{}
		for pair := range slices.Chunk(pairs, 2) {
			all[pair[0]] = pair[1]
		}
		return all
	}
	network := string(identity.NetworkUID("user-plane", 0, now))
	for name, tc := range map[string]struct {
		device int
		card   int
		tags   map[string]string
		byAWS  bool
		want   string
	}{
		"launched with the instance, in slot 0": {0, 0, tags(identity.TagNodeTemplate, "workers"), false, "primary"},
		"device 0 of another card":              {0, 1, nil, false, "other"},
		"launched from a template": {
			1, 0, tags(identity.TagNodeTemplate, "workers"), false, "AWSNodeTemplate workers",
		},
		"launched and adopted": {
			1, 0, tags(identity.TagNodeTemplate, "workers", identity.TagNodeENI, "multus", identity.TagUID, "uid"),
			false, "multus",
		},
		"of a NodeENI": {1, 0, tags(identity.TagNodeENI, "multus", identity.TagUID, "uid"), false, "multus"},
		"made before the node joined": {
			1, 0, tags(identity.TagNodeENI, "user-plane", identity.TagUID, network), false, "network user-plane",
		},
		"of the VPC CNI":                    {1, 0, tags(cni, mapped), false, "VPC CNI"},
		"of a NodeENI, and the CNI's tag":   {1, 0, tags(cni, mapped, identity.TagNodeENI, "multus"), false, "multus"},
		"of the VPC CNI, by a service":      {1, 0, tags(cni, mapped), true, "VPC CNI"},
		"of a service of AWS":               {1, 0, nil, true, "an AWS service"},
		"of a program that has tags itself": {1, 0, tags("Name", "db"), false, "other"},
	} {
		t.Run(name, func(t *testing.T) {
			i := onInstance("eni-1", tc.card, tc.device, tc.tags)
			i.RequesterManaged = tc.byAWS
			limits := eni.Limits{Cards: []int{2, 1}, Interfaces: 3}
			got := slots(report.NewNodeMap(node("a", "z"), snapshot(i), limits, ""))
			if want := fmt.Sprintf("%d/%d %s eni-1", tc.card, tc.device, tc.want); !slices.Contains(got, want) {
				t.Errorf("got %q, want %q among them", got, want)
			}
		})
	}
}

// ignoreMood leaves out what only the printed text has.
var ignoreMood = cmpopts.IgnoreUnexported(report.SlotView{})

func TestASlotShowsWhatEC2Returns(t *testing.T) {
	i := onInstance("eni-1", 0, 1, nil)
	i.PrimaryIPv4, i.Attachment.Status = netip.MustParseAddr("10.0.0.9"), eni.AttachmentDetaching
	got := report.NewNodeMap(node("a", "z"), snapshot(i), eni.Limits{Cards: []int{2}}, "").Cards
	want := []report.Card{{Index: 0, Used: 1, Takes: 2, Slots: []report.SlotView{
		{Device: 0, Owner: "free"},
		{Device: 1, Owner: "other", ENIID: "eni-1", PrivateIP: "10.0.0.9", SubnetID: "subnet-1", State: "detaching"},
	}}}
	if diff := cmp.Diff(want, got, ignoreMood); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestASlotShowsWhatTheStatusSays(t *testing.T) {
	of := report.SlotView{Device: 2, Owner: "multus[1]", SubnetID: "subnet-0f59b4f14737be9ad"}
	for name, tc := range map[string]struct {
		change               func(*report.Interface)
		address, state, link string
	}{
		"as desired": {
			func(*report.Interface) {}, "10.0.64.5", "attached", "eni-multus ready mtu 9001",
		},
		"a link without alternative name": {
			func(i *report.Interface) { i.Link.AltName = "" }, "10.0.64.5", "attached", "ens6 ready mtu 9001",
		},
		"a link without MTU": {
			func(i *report.Interface) { i.Link.MTU = 0 }, "10.0.64.5", "attached", "eni-multus ready",
		},
		"a link that the node does not have": {
			func(i *report.Interface) { i.Link = &report.Link{State: "Missing"} },
			"10.0.64.5", "attached, LinkMissing", "missing",
		},
		"a link that a pod has": {
			func(i *report.Interface) { i.Link.State = "Moved" }, "10.0.64.5", "attached", "eni-multus moved mtu 9001",
		},
		"no report of the agent": {func(i *report.Interface) { i.Link = nil }, "10.0.64.5", "attached", ""},
		"another index than requested": {
			func(i *report.Interface) { i.Asked, i.Link = 1, nil }, "10.0.64.5", "attached (asked for 1)", "",
		},
		"drift at another index than requested": {
			func(i *report.Interface) { i.Asked, i.Link, i.Drift = 1, nil, []string{"slot"} },
			"10.0.64.5", "attached, Drifted (asked for 1)", "",
		},
		"an address of a pod": {
			func(i *report.Interface) { i.Followed, i.Link = []string{"10.0.64.7"}, nil },
			"10.0.64.5 +1 of pods: 10.0.64.7", "attached", "",
		},
		"many addresses of pods and others": {
			func(i *report.Interface) {
				i.Link, i.Followed = nil, []string{"10.0.64.7", "10.0.64.8", "10.0.64.9"}
				i.Foreign = []string{"10.0.64.16/28", "10.0.64.32/28", "10.0.64.48/28", "10.0.64.64/28"}
			},
			"10.0.64.5 +3 of pods: 10.0.64.7, 10.0.64.8 +4 of others: 10.0.64.16/28, 10.0.64.32/28", "attached", "",
		},
		"an address of another program": {
			func(i *report.Interface) { i.Foreign, i.Link = []string{"10.0.64.6"}, nil },
			"10.0.64.5 +1 of others: 10.0.64.6", "attached", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			i := attached("multus", 2)
			i.Ordinal = 1
			tc.change(&i)
			want := of
			want.ENIID, want.PrivateIP, want.State, want.Link = i.ENIID, tc.address, tc.state, tc.link
			m := report.NewNodeMap(node("a", "z", i), nil, eni.Limits{Cards: []int{3}}, "")
			if diff := cmp.Diff(want, m.Cards[0].Slots[2], ignoreMood); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The status has the state of multieni's interfaces, and EC2 the slots that are taken.
func TestWhichSlotsAreTaken(t *testing.T) {
	ours := attached("multus", 1)
	ours.ENIID = "eni-1"
	with := func(change func(*report.Interface)) report.Interface {
		i := ours
		change(&i)
		return i
	}
	elsewhere := onInstance("eni-1", 0, 1, nil)
	elsewhere.Attachment.InstanceID = "i-0b20000000000000b"
	detached := onInstance("eni-1", 0, 1, nil)
	detached.Attachment.Status = eni.AttachmentDetached
	unattached := eni.Interface{ID: "eni-1"}
	at1 := onInstance("eni-1", 0, 1, nil)
	attaching := with(func(i *report.Interface) { i.Phase = "Attaching" })
	nothing := []string{"0/0 free", "0/1 free", "0/2 free"}
	for name, tc := range map[string]struct {
		ec2     *eni.InstanceSnapshot
		status  report.Interface
		slots   []string
		waiting int
	}{
		"EC2 was not asked, attached":  {nil, ours, []string{"0/0 primary", "0/1 multus[0] eni-1", "0/2 free"}, 0},
		"EC2 was not asked, attaching": {nil, attaching, []string{"0/0 primary", "0/1 free", "0/2 free"}, 1},
		"both say attached":            {snapshot(at1), ours, []string{"0/0 free", "0/1 multus[0] eni-1", "0/2 free"}, 0},
		"only EC2 says attached yet": {
			snapshot(at1), attaching, []string{"0/0 free", "0/1 multus[0] eni-1", "0/2 free"}, 0,
		},
		"another interface is in the slot": {
			snapshot(onInstance("eni-2", 0, 1, nil)), attaching, []string{"0/0 free", "0/1 other eni-2", "0/2 free"}, 1,
		},
		"no interface yet, and slot 0 requested": {
			nil, with(func(i *report.Interface) { i.Phase, i.ENIID, i.Slot.Device = "Creating", "", 0 }),
			[]string{"0/0 primary", "0/1 free", "0/2 free"}, 1,
		},
		"EC2 shows it on another instance": {snapshot(elsewhere), attaching, nothing, 1},
		"EC2 detached it":                  {snapshot(detached), attaching, nothing, 1},
		"EC2 shows it unattached":          {snapshot(unattached), attaching, nothing, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m := report.NewNodeMap(node("a", "z", tc.status), tc.ec2, eni.Limits{Cards: []int{3}}, "")
			if diff := cmp.Diff(tc.slots, slots(m)); diff != "" || len(m.Waiting) != tc.waiting {
				t.Errorf("%d in no slot, want %d (-want +got):\n%s", len(m.Waiting), tc.waiting, diff)
			}
		})
	}
}

func TestTheCardsOfANodeMap(t *testing.T) {
	at := func(card, device int) eni.Interface {
		return onInstance(fmt.Sprintf("eni-%d%d", card, device), card, device, nil)
	}
	for name, tc := range map[string]struct {
		ofNode, ofEC2 string
		limits        eni.Limits
		attached      []eni.Interface
		want          []string // index: used of takes, then the device indices with "-" on free ones
	}{
		"limits of EC2 win over the table": {
			"m5.large", "m5.large", eni.Limits{Cards: []int{2}}, nil, []string{"0: 0 of 2 -0 -1"},
		},
		"the table knows the type":        {"", "m5.large", eni.Limits{}, nil, []string{"0: 0 of 3 -0 -1 -2"}},
		"EC2's type wins over the node's": {"m5.24xlarge", "m5.large", eni.Limits{}, nil, []string{"0: 0 of 3 -0 -1 -2"}},
		"the node's type without EC2's":   {"m5.large", "", eni.Limits{}, nil, []string{"0: 0 of 3 -0 -1 -2"}},
		"a type that is not known": {
			"new.large", "", eni.Limits{}, []eni.Interface{at(0, 0), at(0, 3)}, []string{"0: 2 of 0 0 3"},
		},
		"several cards": {
			"", "", eni.Limits{Cards: []int{2, 1}}, []eni.Interface{at(0, 0), at(1, 1)},
			[]string{"0: 1 of 2 0 -1", "1: 1 of 1 1"},
		},
		"a card that the limits lack": {
			"", "", eni.Limits{Cards: []int{1}}, []eni.Interface{at(0, 0), at(2, 1)},
			[]string{"0: 1 of 1 0", "1: 0 of 0", "2: 1 of 0 1"},
		},
		"an index above the number of slots": {
			"", "", eni.Limits{Cards: []int{3}}, []eni.Interface{at(0, 0), at(0, 7)}, []string{"0: 2 of 3 0 -1 7"},
		},
		"the lowest indices are free": {
			"", "", eni.Limits{Cards: []int{4}}, []eni.Interface{at(0, 1), at(0, 2)}, []string{"0: 2 of 4 -0 1 2 -3"},
		},
		"more than a card takes": {
			"", "", eni.Limits{Cards: []int{1}}, []eni.Interface{at(0, 1), at(0, 0)}, []string{"0: 2 of 1 0 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := node("a", "z")
			n.Type = tc.ofNode
			look := &eni.InstanceSnapshot{Instance: eni.Instance{Type: tc.ofEC2}, Interfaces: tc.attached}
			var got []string
			for _, c := range report.NewNodeMap(n, look, tc.limits, "").Cards {
				line := fmt.Sprintf("%d: %d of %d", c.Index, c.Used, c.Takes)
				for _, s := range c.Slots {
					line += map[bool]string{true: " -", false: " "}[s.Owner == "free"] + fmt.Sprint(s.Device)
				}
				got = append(got, line)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTheTextOfANodeMap(t *testing.T) {
	bare := node("node-c1", "")
	bare.Type, bare.InstanceID, bare.Ready = "", "", report.Condition{}
	outside := report.NewNodeMap(bare, nil, eni.Limits{}, "the node is no EC2 instance")
	for name, tc := range map[string]struct {
		of   report.NodeMap
		want string
	}{
		"no NodeENI, and a type that is not known": {outside, `node-c1

no NodeENI wants an interface here

card 0  ■  1 used
INDEX   OWNER
    0   primary

Only multieni's own interfaces are shown, since EC2 could not be asked: the node is no EC2 instance
`},
		"two cards": {report.NewNodeMap(node("node-a1", "us-east-1a", attached("multus", 1)), snapshot(
			onInstance("eni-2", 1, 10, nil)), eni.Limits{Cards: []int{2, 2}}, ""), `node-a1
i-0a10000000000000a, m5.large, us-east-1a
● True   1 of 1 interface attached

card 0  □■  1 of 2 used
INDEX   OWNER       ENI                     ADDRESS     SUBNET                     STATE      LINK
    0   free
    1   multus[0]   eni-00000000000000001   10.0.64.5   subnet-0f59b4f14737be9ad   attached   eni-multus ready mtu 9001

card 1  □■  1 of 2 used
INDEX   OWNER   ENI     SUBNET     STATE
    0   free
   10   other   eni-2   subnet-1   attached
`},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.of.Text(report.Page{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Colours separate multieni's interfaces, with their state, from those of other programs and from free slots.
func TestTheColoursOfANodeMap(t *testing.T) {
	attaching, drifted := attached("sig", 2), attached("user-plane", 3)
	attaching.Phase, attaching.ENIID, drifted.Drift = "Attaching", "eni-2", []string{"subnet"}
	n := node("a", "z", attached("multus", 1), attaching, drifted, blocked("waiting"))
	m := report.NewNodeMap(n, snapshot(onInstance("eni-0", 0, 0, nil), onInstance("eni-2", 0, 2, nil)),
		eni.Limits{Cards: []int{5}}, "")
	text := m.Text(report.Page{Colours: true})
	const dim, green, yellow, red, bold, off = "\x1b[2m", "\x1b[32m", "\x1b[33m", "\x1b[31m", "\x1b[1m", "\x1b[0m"
	for _, want := range []string{
		bold + "a", bold + "card 0" + off, bold + "in no slot" + off,
		dim + "■" + off + green + "■" + off + yellow + "■" + off + red + "■" + off + dim + "□" + off,
		dim + "primary" + off, "   multus[0]   ", dim + "free" + off,
		green + "attached" + off, yellow + "attaching, InProgress" + off, red + "attached, Drifted" + off,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	idle := report.NewNodeMap(node("a", "z"), nil, eni.Limits{Cards: []int{1}}, "")
	text = idle.Text(report.Page{Colours: true})
	for _, want := range []string{
		dim + "no NodeENI wants an interface here" + off, dim + "■" + off + "  1 of 1 used", dim + "primary" + off,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
}

// A narrow page keeps the index, the owner and the state of each slot.
func TestANodeMapLeavesOutColumnsOnNarrowPages(t *testing.T) {
	m := report.NewNodeMap(node("a", "z", attached("multus", 1)), nil, eni.Limits{Cards: []int{2}}, "")
	for width, want := range map[int]string{
		119: "INDEX OWNER ENI ADDRESS SUBNET STATE LINK",
		118: "INDEX OWNER ENI ADDRESS STATE LINK",
		91:  "INDEX OWNER ENI ADDRESS STATE",
		63:  "INDEX OWNER ENI STATE",
		51:  "INDEX OWNER STATE",
	} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			text := m.Text(report.Page{Width: width})
			_, table, _ := strings.Cut(text, "used\n")
			heading, _, _ := strings.Cut(table, "\n")
			if got := strings.Join(strings.Fields(heading), " "); got != want {
				t.Errorf("got %q, want %q\n%s", got, want, text)
			}
		})
	}
}

func TestANodeMapIsJSON(t *testing.T) {
	waiting := blocked("sig")
	waiting.Message, waiting.Asked = "", 3
	bare := report.Node{
		Name: "a", InstanceID: mapped, Desired: 1, Interfaces: []report.Interface{waiting},
	}
	m := report.NewNodeMap(bare, nil, eni.Limits{Cards: []int{2}}, "no credentials")
	m.Interfaces = nil // the fields of an interface are in the test of the facts
	const want = `{
 "name": "a",
 "instanceID": "i-0a10000000000000a",
 "ready": {
  "type": "",
  "status": ""
 },
 "desired": 1,
 "attached": 0,
 "cards": [
  {
   "index": 0,
   "used": 1,
   "takes": 2,
   "slots": [
    {
     "deviceIndex": 0,
     "owner": "primary"
    },
    {
     "deviceIndex": 1,
     "owner": "free"
    }
   ]
  }
 ],
 "waiting": [
  {
   "deviceIndex": 2,
   "owner": "sig[0]",
   "state": "blocked, NoSubnetInZone (asked for 3)"
  }
 ],
 "unseen": "no credentials"
}`
	if diff := cmp.Diff(want, asJSON(t, m)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A user finds each interface of the status once: in a slot, or below "in no slot".
func TestEachInterfaceOfTheStatusIsInTheMapOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var interfaces []report.Interface
		ec2 := snapshot(onInstance("eni-0", 0, 0, nil))
		for device := range rapid.IntRange(0, 5).Draw(rt, "interfaces") {
			i := anyInterface(rt, device+1)
			i.Ordinal = device
			interfaces = append(interfaces, i)
			if rapid.Bool().Draw(rt, "in EC2") && i.ENIID != "" {
				ec2.Interfaces = append(ec2.Interfaces, onInstance(i.ENIID, i.Slot.Card, i.Slot.Device, nil))
			}
		}
		m := report.NewNodeMap(node("a", "z", interfaces...), ec2, eni.Limits{}, "")
		all := slots(m)
		for _, s := range m.Waiting {
			all = append(all, fmt.Sprintf("in no slot: %s %s", s.Owner, s.ENIID))
		}
		for _, i := range interfaces {
			name := fmt.Sprintf(" %s[%d]", i.NodeENI, i.Ordinal)
			if n := strings.Count(strings.Join(all, "\n"), name); n != 1 {
				rt.Fatalf("%s is in the map %d times: %q", name, n, all)
			}
		}
	})
}

func ExampleNewNodeMap() {
	n := report.Node{
		Name: "node-1", InstanceID: "i-0123456789abcdef0", Zone: "us-east-1a", Type: "m5.large", Desired: 1,
		Attached: 1, Ready: report.Condition{Type: "Ready", Status: "True"}, Interfaces: []report.Interface{
			{NodeENI: "storage", Phase: "Attached", ENIID: "eni-1", PrivateIP: "10.0.0.9", Slot: eni.Slot{Device: 2}, Asked: 2},
		},
	}
	fmt.Print(report.NewNodeMap(n, nil, eni.Limits{}, "no credentials").Text(report.Page{}))
	// Output:
	// node-1
	// i-0123456789abcdef0, m5.large, us-east-1a
	// ● True   1 of 1 interface attached
	//
	// card 0  ■□■  2 of 3 used
	// INDEX   OWNER        ENI     ADDRESS    STATE
	//     0   primary
	//     1   free
	//     2   storage[0]   eni-1   10.0.0.9   attached
	//
	// Only multieni's own interfaces are shown, since EC2 could not be asked: no credentials
}
