// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"slices"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
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
func asks(nodeENI string, subnets ...string) render.Claim {
	claim := render.Claim{NodeENI: nodeENI, Owner: identity.Owner("uid-" + nodeENI), Mode: render.Ensure, AllResolved: true, FirstSlot: eni.Slot{Device: 1}}
	for n, subnet := range subnets {
		claim.Interfaces = append(claim.Interfaces, plan.DesiredInterface{
			Ordinal: n, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + n}, Spec: eni.Spec{SourceDestCheck: true, DeleteOnTermination: true},
		})
	}
	return claim
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
			d := render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []render.Claim{claim}}
			for range 3 {
				p := compute(d, o, now)
				if m := p.Members[0]; !slices.Equal(undertaken(p), []string{"tags"}) || !m.Ready() {
					t.Fatalf("it does\n%s", p.Explain())
				}
				o.Backoffs = map[identity.Key]plan.Backoff{key: o.Backoffs[key].WithFailure(p.Actions[0], refused, now)}
				p = compute(d, o, now)
				if m := p.Members[0]; m.Phase != plan.Attached || m.Ready() != tc.ready || m.NodeENI != "upf" || m.Why.Reason != tc.why {
					t.Errorf("it stands as %+v", m)
				}
				if len(p.Actions) > 0 || p.RequeueAt.Before(now.Add(5*time.Minute)) {
					t.Errorf("it is tried again at %s:\n%s", p.RequeueAt, p.Explain())
				}
				now = p.RequeueAt
			}
			tags := compute(d, o, now).Actions[0].(plan.Change).To
			o.Owned[0].Interface, o.Owned[0].Member.Key, o.Backoffs = tags.Apply(o.Owned[0].Interface), key, nil
			if p := compute(d, o, now); !slices.Equal(undertaken(p), tc.then) {
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
	d := render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: []render.Claim{claim}}
	tags := compute(d, o, start).Actions[0]
	o.Backoffs = map[identity.Key]plan.Backoff{key: plan.Backoff{}.WithFailure(tags, refused, start)}
	p := compute(d, o, start)
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
