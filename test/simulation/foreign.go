// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// foreignInterface is an interface that never was ours and has our tags.
type foreignInterface struct {
	// believable is set once the product may have taken it for one of ours: a ledger was lost, or a NodeENI lacked an
	// interface at the place that its tags name.
	believable bool
	// free is set while no instance has it; reattached is when an instance last got it after that.
	free       bool
	reattached time.Time
}

// disguise writes our tags on an attached interface of another owner: the tags of one of ours, or changed ones.
func (c *cluster) disguise(i eni.Interface) {
	r := c.run
	foreign := c.foreign(i.Zone)
	_, aged := identity.CreatedAt(i.Tags) // without an age, no interface counts as a leak
	if r.watch.identity[i.ID] != nil || !aged || foreign == nil || isJoined(i) || r.watch.spread[identityIn(i.Tags)] {
		return
	}
	host := foreign.Attachment.InstanceID
	tags := maps.Clone(i.Tags)
	if r.chance(0.7) {
		tags[identity.TagInstanceID] = host
	}
	switch r.pick(4) {
	case 0:
		tags[identity.TagNodeENIUID] = "no-such-nodeeni"
	case 1:
		tags[identity.TagMember] = fmt.Sprint(r.pick(4))
		tags[identity.TagGeneration] = fmt.Sprint(r.now.Unix() - 3600)
	}
	r.note(nil, "a person writes tags of %s on %s, which is attached to %s: %v", i.ID, foreign.ID, host, tags)
	r.watch.strangers[foreign.ID] = &foreignInterface{}
	r.watch.spread[identityIn(i.Tags)], r.watch.spread[identityIn(tags)] = true, true
	_, _ = r.model.CreateTags(r.call(), &ec2.TagsInput{ResourceIDs: []string{foreign.ID}, Tags: tagList(tags)})
	r.touched()
}

// foreign returns an interface in a zone that another program attached to a node, or to an instance without a Node in
// any cluster; nil if there is none.
func (c *cluster) foreign(zone string) *eni.Interface {
	r := c.run
	if r.watch.hosts[zone] == "" {
		launched, err := r.model.Launch(r.call(), ec2.WorldInstance{
			InstanceType: "m5.xlarge", AvailabilityZone: zone, Name: "stranger", CNI: &ec2.CNI{WarmENIs: 3},
		})
		if err != nil {
			return nil
		}
		r.watch.hosts[zone] = launched[0].InstanceID
		r.touched()
	}
	var all []eni.Interface
	for _, i := range r.truth().ordered {
		if i.Zone == zone && i.Ready() && i.Tags[identity.TagCluster] == "" && r.watch.identity[i.ID] == nil &&
			(i.Attachment.InstanceID == r.watch.hosts[zone] || len(c.nodesOf(i.Attachment.InstanceID)) > 0) {
			all = append(all, i)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return &all[r.pick(len(all))]
}

// noteBelief records which foreign interfaces the product may treat as its own, within what docs/security.md accepts.
func (r *run) noteBelief() {
	for id, known := range r.watch.strangers {
		i, exists := r.truth().interfaces[id]
		switch {
		case exists && i.Attachment == nil:
			known.free = true
		case exists && known.free:
			known.free, known.reattached = false, r.now
		}
		if !exists || known.believable || i.Attachment == nil {
			continue
		}
		known.believable = slices.ContainsFunc(r.clusters, func(c *cluster) bool {
			return i.Tags[identity.TagCluster] == c.name && len(c.nodesOf(i.Attachment.InstanceID)) > 0 &&
				(c.unledgered[i.Attachment.InstanceID] || c.lacks(i) || c.uninstalls(i))
		})
	}
}

// uninstalls reports whether the NodeENI in an interface's tags is being deleted and selects a node of the instance,
// and no NodeENIState of these nodes exists.
func (c *cluster) uninstalls(i eni.Interface) bool {
	nodeENI, its := c.nodeENIOf(spotOf(i).uid), c.nodesOf(i.Attachment.InstanceID)
	return nodeENI != nil && !nodeENI.DeletionTimestamp.IsZero() && anySelected(nodeENI, its) &&
		!slices.ContainsFunc(its, func(n *corev1.Node) bool { return c.api.get(states, n.Name) != nil })
}

// lacks reports whether fewer interfaces of ours than desired are attached at the place that an interface's tags name,
// for the NodeENI in the tags or one that was created again under its name. One whose tags a person spoilt does not
// count: the product cannot know it.
func (c *cluster) lacks(i eni.Interface) bool {
	named := spotOf(i)
	claims := c.claims()
	return slices.ContainsFunc(c.api.all(nodeENIs), func(object client.Object) bool {
		if uid := string(object.GetUID()); uid != named.uid && object.GetName() != i.Tags[identity.TagNodeENI] {
			return false
		}
		s := desiredSlot{string(object.GetUID()), named.instanceID}
		attached := 0
		for _, other := range c.run.truth().owned[c.name] {
			_, verdict := identity.Read(c.name, other.Tags)
			if spotOf(other) == s && other.Ready() && other.AttachedTo(s.instanceID) &&
				c.run.watch.strangers[other.ID] == nil && verdict == identity.Owned {
				attached++
			}
		}
		return attached < len(claims[s].subnets)
	})
}

// touching checks that a call changes no foreign interface that is attached to an instance. An interface that a person
// detached is a leak by its tags, and the product may not know yet that a person attached it again: EC2 refuses to
// delete one in use.
func (r *run) touching(p *process, q request, i eni.Interface) {
	known := r.watch.strangers[i.ID]
	if known == nil || known.believable || i.Attachment == nil {
		return
	}
	justAttached := known.free || !known.reattached.IsZero() && r.now.Sub(known.reattached) <= staleness
	if q.action == "DeleteNetworkInterface" && justAttached {
		return
	}
	r.violate("I1", "%s %s %s, which another program made and attached, for its tags: %s", p.name, q.action, i.ID,
		describe(i))
}

// nobodys reports whether a foreign interface has tags that the product reads as having no owner, or that do not say
// that it is old enough for a leak.
func (c *cluster) nobodys(i eni.Interface) bool {
	_, verdict := identity.Read(c.name, i.Tags)
	return c.run.watch.strangers[i.ID] != nil &&
		(verdict != identity.Owned || isPrimary(i) || !identity.PastMinLeakAge(i.Tags, c.run.now))
}

// accountable returns the interfaces that the product manages. The product ignores the others, and creates another one
// for each if there is room.
func (c *cluster) accountable() []eni.Interface {
	return slices.DeleteFunc(slices.Clone(c.run.truth().owned[c.name]), func(i eni.Interface) bool {
		return c.leftAlone(i) || c.nobodys(i)
	})
}

// leftAlone reports whether the product reports an interface as unverified, with no evidence other than its tags: a
// ledger was lost, another program removed the tags until a second interface was created in its place, and then
// restored them, or EC2 forgot a client token and created two interfaces for one request.
func (c *cluster) leftAlone(i eni.Interface) bool {
	told := c.toldElsewhere(i) || slices.ContainsFunc(c.processes, func(p *process) bool {
		return slices.Contains(p.observer.Denied(), i.ID)
	})
	_, handled := c.run.watch.meddled[i.ID]
	return told && i.Attachment != nil &&
		(handled || c.run.watch.strangers[i.ID] != nil || c.unledgered[i.Attachment.InstanceID] || c.run.watch.twins[i.ID])
}

// toldElsewhere reports whether a NodeENIState asks a person to detach an interface that another program attached: its
// copied tags name an instance that has ended. A state has one entry for an ordinal, and that of the present instance
// comes first.
func (c *cluster) toldElsewhere(i eni.Interface) bool {
	ended := c.run.truth().ended(spotOf(i).instanceID)
	return slices.ContainsFunc(c.api.all(states), func(object client.Object) bool {
		return slices.ContainsFunc(object.(*v1alpha1.NodeENIState).Status.Interfaces,
			func(known v1alpha1.InterfaceState) bool {
				if known.ENIID == i.ID {
					return strings.Contains(known.Message, "another program attached")
				}
				return ended && object.GetName() == i.Tags[identity.TagNode] && string(known.NodeENIUID) == spotOf(i).uid &&
					strconv.Itoa(int(known.Ordinal)) == i.Tags[identity.TagMember]
			})
	})
}
