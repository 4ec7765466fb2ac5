// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// preJoin is a pre-join interface of a network.
func preJoin(id, network, subnet string, device int) inventory.Record {
	member := identity.Member{
		Cluster: cluster, NodeENI: network, Node: instance, InstanceID: instance,
		Key: identity.Key{Owner: identity.NetworkOwner(network)}, Generation: identity.GenerationAt(start),
	}
	return inventory.Record{
		Member: member, Confirmed: true,
		Interface: eni.Interface{
			ID: id, SubnetID: subnet, Status: eni.InUse, SourceDestCheck: true, Tags: member.Tags(start, nil),
			Attachment: &eni.Attachment{ID: "attach-" + id, InstanceID: instance, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached, DeleteOnTermination: true},
		},
	}
}

// asks returns the claim of a NodeENI that desires one interface in each of the subnets, from device index 1 on.
func asks(nodeENI string, subnets ...string) plan.Claim {
	claim := plan.Claim{NodeENI: nodeENI, Owner: identity.Owner("uid-" + nodeENI), Mode: plan.Ensure, AllResolved: true, FirstSlot: eni.Slot{Device: 1}}
	for n, subnet := range subnets {
		claim.Interfaces = append(claim.Interfaces, plan.DesiredInterface{
			Ordinal: n, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + n}, Spec: eni.Spec{SourceDestCheck: true, DeleteOnTermination: true},
		})
	}
	return claim
}

func TestNodeENITakesOverWhatTheInstanceGotBeforeItJoined(t *testing.T) {
	type standing struct {
		NodeENI string
		Wanted  bool
		Phase   plan.Phase
	}
	for name, tc := range map[string]struct {
		owned  []inventory.Record
		claims []plan.Claim
		want   map[string]standing
		// calls has the number of actions of each kind.
		calls map[string]int
	}{
		"in the same slots, whatever the network is called": {
			[]inventory.Record{preJoin("eni-1", "multus", "s1", 1), preJoin("eni-2", "multus", "s2", 2)}, []plan.Claim{asks("upf", "s1", "s2")},
			map[string]standing{"eni-1": {"upf", true, plan.Attached}, "eni-2": {"upf", true, plan.Attached}}, map[string]int{"tag": 2},
		},
		"the one of its own name first": {
			[]inventory.Record{preJoin("eni-1", "other", "s1", 1), preJoin("eni-2", "upf", "s1", 2)}, []plan.Claim{asks("upf", "s1")},
			map[string]standing{"eni-1": {"other", false, plan.Attached}, "eni-2": {"upf", true, plan.Attached}}, map[string]int{"tag": 1},
		},
		"but not what bears another NodeENI's name": {
			[]inventory.Record{preJoin("eni-1", "upf", "s1", 1)}, []plan.Claim{asks("a", "s1"), asks("upf", "s1")},
			map[string]standing{"eni-1": {"upf", true, plan.Attached}}, map[string]int{"tag": 1, "create": 1},
		},
		"without a NodeENI it stays as it is": {
			[]inventory.Record{preJoin("eni-1", "multus", "s1", 1)}, nil,
			map[string]standing{"eni-1": {"multus", false, plan.Attached}}, map[string]int{},
		},
		"in another subnet it stays as it is": {
			[]inventory.Record{preJoin("eni-1", "multus", "s9", 1)}, []plan.Claim{asks("multus", "s1")},
			map[string]standing{"eni-1": {"multus", false, plan.Attached}}, map[string]int{"create": 1},
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: tc.claims}
			look := &eni.InstanceSnapshot{At: start.Add(time.Hour), Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}}
			o := plan.Observed{Owned: tc.owned, Snapshot: look, Limits: eni.Limits{Cards: []int{4}, Interfaces: 4, IPv4: 15, IPv6: 15}}
			p := plan.Compute(d, o, start.Add(time.Hour))
			got := map[string]standing{}
			for _, m := range p.Members {
				if m.Interface != nil {
					got[m.Interface.ID] = standing{m.NodeENI, m.Desired, m.Phase}
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			calls := map[string]int{}
			for _, what := range kinds(p) {
				calls[what]++
			}
			if !maps.Equal(tc.calls, calls) {
				t.Errorf("the calls are %v, not %v", calls, tc.calls)
			}
		})
	}
}

// TestATakeoverWaitsForNoTag has EC2 refuse the tags of an adopted interface: it still belongs to the NodeENI. Other
// changes wait, because another process that identifies it by its old tags would revert them.
func TestATakeoverWaitsForNoTag(t *testing.T) {
	key := identity.Key{Owner: "uid-upf"}
	refused := &eni.APIError{Class: eni.Unauthorized, Operation: "CreateTags", Code: "UnauthorizedOperation"}
	for name, tc := range map[string]struct {
		groups []string
		ready  bool
		why    plan.Reason
		then   []string
	}{
		"as it is to be":    {nil, true, plan.Retrying, nil},
		"with other groups": {[]string{"sg-2"}, false, plan.Unauthorized, []string{"security groups sg-2"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := start.Add(time.Hour)
			claim := asks("upf", "s1")
			claim.Interfaces[0].Spec.Groups = tc.groups
			o := plan.Observed{
				Owned:    []inventory.Record{preJoin("eni-1", "multus", "s1", 1)},
				Snapshot: &eni.InstanceSnapshot{At: now, Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}},
				Limits:   eni.Limits{Cards: []int{4}, Interfaces: 4, IPv4: 15, IPv6: 15},
			}
			d := plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []plan.Claim{claim}}
			for range 3 {
				p := plan.Compute(d, o, now)
				if m := p.Members[0]; !slices.Equal(undertaken(p), []string{"tags"}) || !m.Ready() {
					t.Fatalf("it does\n%s", p.Explain())
				}
				o.Backoffs = map[identity.Key]plan.Backoff{key: o.Backoffs[key].WithFailure(p.Actions[0], refused, now)}
				p = plan.Compute(d, o, now)
				if m := p.Members[0]; m.Phase != plan.Attached || m.Ready() != tc.ready || m.NodeENI != "upf" || m.Why.Reason != tc.why {
					t.Errorf("it stands as %+v", m)
				}
				if len(p.Actions) > 0 || p.RequeueAt.Before(now.Add(5*time.Minute)) {
					t.Errorf("it is tried again at %s:\n%s", p.RequeueAt, p.Explain())
				}
				now = p.RequeueAt
			}
			tags := plan.Compute(d, o, now).Actions[0].(plan.Change).To
			o.Owned[0].Interface, o.Owned[0].Member.Key, o.Backoffs = tags.Apply(o.Owned[0].Interface), key, nil
			if p := plan.Compute(d, o, now); !slices.Equal(undertaken(p), tc.then) {
				t.Errorf("when the tags are written it does\n%s", p.Explain())
			}
		})
	}
}

// TestTagsHoldNothingElseUp has EC2 refuse the user's tags of an interface with other groups than the desired ones.
func TestTagsHoldNothingElseUp(t *testing.T) {
	key := identity.Key{Owner: "uid-upf"}
	claim := asks("upf", "s1")
	claim.Interfaces[0].Spec.Groups, claim.Interfaces[0].Spec.Tags = []string{"sg-2"}, map[string]string{"team": "ran"}
	owned := preJoin("eni-1", "upf", "s1", 1)
	owned.Member.Key = key
	owned.Interface.Tags = owned.Member.Tags(start, nil)
	refused := &eni.APIError{Class: eni.Unauthorized, Operation: "CreateTags", Code: "UnauthorizedOperation"}
	o := plan.Observed{
		Owned:    []inventory.Record{owned},
		Snapshot: &eni.InstanceSnapshot{At: start, Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}},
		Limits:   eni.Limits{Cards: []int{4}, Interfaces: 4, IPv4: 15, IPv6: 15},
	}
	d := plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []plan.Claim{claim}}
	tags := plan.Compute(d, o, start).Actions[0]
	o.Backoffs = map[identity.Key]plan.Backoff{key: plan.Backoff{}.WithFailure(tags, refused, start)}
	p := plan.Compute(d, o, start)
	if m := p.Members[0]; !slices.Equal(undertaken(p), []string{"security groups sg-2"}) || m.Ready() || m.Why.Reason != plan.Unauthorized {
		t.Errorf("it stands as %+v and does\n%s", m, p.Explain())
	}
}

// undertaken returns a word for each action of a plan.
func undertaken(p plan.Plan) []string {
	var words []string
	for _, action := range p.Actions {
		change, is := action.(plan.Change)
		_, tags := change.To.(plan.Tags)
		switch {
		case tags:
			words = append(words, "tags")
		case is:
			words = append(words, change.To.String())
		default:
			words = append(words, action.String())
		}
	}
	return words
}

// TestWhatWasTakenOverStays adds another NodeENI that would have been first, before a tag names the owner of the
// interface.
func TestWhatWasTakenOverStays(t *testing.T) {
	d := plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []plan.Claim{asks("a", "s1"), asks("upf", "s1")}}
	for name, tc := range map[string]struct {
		ledger identity.Generations
		of     string
	}{
		"with whom the ledger names":         {identity.Generations{{Owner: "uid-upf"}: identity.GenerationAt(start)}, "upf"},
		"and is the first one's without any": {nil, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			look := &eni.InstanceSnapshot{At: start, Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}}
			p := plan.Compute(d, plan.Observed{
				Owned: []inventory.Record{preJoin("eni-1", "multus", "s1", 1)}, Snapshot: look, Ledger: tc.ledger, Limits: eni.Limits{Cards: []int{4}, Interfaces: 4},
			}, start)
			for _, m := range p.Members {
				if m.Interface != nil && m.NodeENI != tc.of {
					t.Errorf("%s is that of %s", m.Interface.ID, m.NodeENI)
				}
			}
		})
	}
}

func TestWhatAnInstanceGotBeforeItJoinedGoesWithIt(t *testing.T) {
	record := preJoin("eni-1", "multus", "s1", 1)
	record.Attachment, record.Status = nil, eni.Available
	look := &eni.InstanceSnapshot{At: start, Instance: eni.Instance{ID: instance, State: eni.InstanceTerminated}}
	p := plan.Compute(plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance}, plan.Observed{Owned: []inventory.Record{record}, Snapshot: look}, start)
	if len(p.Actions) != 1 || p.Actions[0].String() != "delete eni-1: its instance is gone" {
		t.Errorf("the actions are %v", p.Actions)
	}
}

// outlived is an interface in use of a lost NodeENI.
func outlived(id, nodeENI, subnet string, ordinal int) inventory.Record {
	r := preJoin(id, nodeENI, subnet, 1+ordinal)
	r.Member.Key = identity.Key{Owner: identity.Owner("uid-earlier-" + nodeENI), Ordinal: ordinal}
	r.Interface.Tags = r.Member.Tags(start, nil)
	return r
}

// kinds returns the kinds of the actions of a plan. The kind "tag" writes the owner into the tags of an interface.
func kinds(p plan.Plan) []string {
	var all []string
	for _, action := range p.Actions {
		what := action.String()
		switch a := action.(type) {
		case plan.Create:
			what = "create"
		case plan.Change:
			if tags, ok := a.To.(plan.Tags); ok && tags[identity.TagNodeENIUID] == string(a.Member.Owner) {
				what = "tag"
			}
		}
		all = append(all, what)
	}
	return all
}

// TestNodeENITakesOverWhatAnEarlierOneOfItsNameLeft has interfaces in use whose NodeENI was lost and created again.
func TestNodeENITakesOverWhatAnEarlierOneOfItsNameLeft(t *testing.T) {
	gone := func(nodeENI string) plan.Claim {
		return plan.Claim{
			NodeENI: nodeENI, Owner: identity.Owner("uid-earlier-" + nodeENI), Mode: plan.Release, Leaked: true,
			MissingSince: start, Grace: identity.MassLossGrace,
		}
	}
	unseen := outlived("eni-1", "upf", "s1", 0)
	unseen.Missing = true
	elsewhere := outlived("eni-1", "upf", "s1", 0)
	elsewhere.Attachment.InstanceID = "i-00000000000000009"
	attaching := outlived("eni-1", "upf", "s1", 0)
	attaching.Attachment.Status = eni.AttachmentAttaching
	detaching := outlived("eni-1", "upf", "s1", 0)
	detaching.Attachment.Status = eni.AttachmentDetaching
	moved := asks("upf", "s1")
	moved.ReplaceAllowed, moved.Interfaces[0].Slot = true, eni.Slot{Device: 2}
	for name, tc := range map[string]struct {
		owned  []inventory.Record
		claims []plan.Claim
		// kept are the interfaces of the claim, and calls the actions.
		kept  []string
		calls []string
	}{
		"all of them": {
			[]inventory.Record{outlived("eni-1", "upf", "s1", 0), outlived("eni-2", "upf", "s2", 1)}, []plan.Claim{gone("upf"), asks("upf", "s1", "s2")},
			[]string{"eni-1", "eni-2"}, []string{"tag", "tag"},
		},
		"with what is lacking made": {
			[]inventory.Record{outlived("eni-2", "upf", "s2", 1)}, []plan.Claim{asks("upf", "s1", "s2"), gone("upf")},
			[]string{"eni-2"}, []string{"create", "tag"},
		},
		"not of another name": {
			[]inventory.Record{outlived("eni-1", "other", "s1", 0)}, []plan.Claim{gone("other"), asks("upf", "s1")}, nil, []string{"create"},
		},
		"not in another subnet": {
			[]inventory.Record{outlived("eni-1", "upf", "s9", 0)}, []plan.Claim{gone("upf"), asks("upf", "s1")}, nil, []string{"create"},
		},
		"not one that somebody attached elsewhere": {
			[]inventory.Record{elsewhere}, []plan.Claim{gone("upf"), asks("upf", "s1")}, nil, []string{"create"},
		},
		"not before it is certain that the earlier one is gone, and nothing is made meanwhile": {
			[]inventory.Record{outlived("eni-1", "upf", "s1", 0)}, []plan.Claim{asks("upf", "s1")}, nil, nil,
		},
		"one that is being attached": {
			[]inventory.Record{attaching}, []plan.Claim{gone("upf"), asks("upf", "s1")}, []string{"eni-1"}, []string{"tag"},
		},
		"one that is being attached not before it is certain either, and nothing is made meanwhile": {
			[]inventory.Record{attaching}, []plan.Claim{asks("upf", "s1")}, nil, nil,
		},
		"not one that is leaving": {
			[]inventory.Record{detaching}, []plan.Claim{gone("upf"), asks("upf", "s1")}, nil, []string{"create"},
		},
		"as it is, and without replacing it before its tags say whose it is": {
			[]inventory.Record{outlived("eni-1", "upf", "s1", 0)}, []plan.Claim{gone("upf"), moved}, []string{"eni-1"}, []string{"tag"},
		},
		"not while EC2 does not show it, and nothing is made meanwhile": {
			[]inventory.Record{unseen}, []plan.Claim{gone("upf"), asks("upf", "s1")}, nil, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := plan.Desired{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: tc.claims}
			now := start.Add(time.Hour)
			look := &eni.InstanceSnapshot{At: now, Instance: eni.Instance{ID: instance, Type: "m5.xlarge", State: eni.InstanceRunning}}
			p := plan.Compute(d, plan.Observed{Owned: tc.owned, Snapshot: look, ReplaceAllowed: true, Limits: eni.Limits{Cards: []int{4}, Interfaces: 4, IPv4: 15, IPv6: 15}}, now)
			var kept []string
			for _, m := range p.Members {
				if m.Interface != nil && m.Owner == "uid-upf" {
					kept = append(kept, m.Interface.ID)
				}
			}
			if diff := cmp.Diff(tc.kept, kept); diff != "" {
				t.Errorf("its interfaces (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.calls, kinds(p)); diff != "" {
				t.Errorf("calls (-want +got):\n%s\n%s", diff, p.Explain())
			}
		})
	}
}
