// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// foreignInterface is an interface that never was ours and has our tags.
type foreignInterface struct {
	// believable is set once the product may have taken it for one of ours: an object was lost, or a NodeENI lacked an
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
		tags[identity.TagUID] = "no-such-object"
	case 1:
		tags[identity.TagInterface] = identity.ObjectName(tags[identity.TagNodeENI], tags[identity.TagInstanceID], r.pick(4))
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
		known.believable = slices.ContainsFunc(r.clusters, func(c *cluster) bool { return c.lacks(i) })
	}
}

// lacks reports whether an object of the name in an interface's tags is wanted and records no interface: it takes over
// an interface with its name, and nothing tells that this one is another's.
func (c *cluster) lacks(i eni.Interface) bool {
	_, verdict := identity.Read(c.name, i.Tags)
	n, is := c.api.get(netInterfaces, i.Tags[identity.TagInterface]).(*v1alpha1.NetworkInterface)
	return verdict == identity.Owned &&
		(!is || n.Status.ENIID == "" || n.Status.ENIID == i.ID || !n.DeletionTimestamp.IsZero())
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
		r.describe(i))
}

// nobodys reports whether a foreign interface has tags that the product reads as having no owner, or that do not say
// that it is old enough for a leak.
func (c *cluster) nobodys(i eni.Interface) bool {
	_, verdict := identity.Read(c.name, i.Tags)
	return c.run.watch.strangers[i.ID] != nil &&
		(verdict != identity.Owned || isPrimary(i) || !identity.PastMinLeakAge(i.Tags, c.run.now))
}

// accountable returns the interfaces that the product manages. It only reports the others.
func (c *cluster) accountable() []eni.Interface {
	return slices.DeleteFunc(slices.Clone(c.run.truth().owned[c.name]), func(i eni.Interface) bool {
		return c.leftAlone(i) || c.nobodys(i)
	})
}

// leftAlone reports whether the product leaves an interface alone: it is attached, and no object records it. It lost
// its object, has tags that a person wrote, or EC2 made it for a client token that it forgot.
func (c *cluster) leftAlone(i eni.Interface) bool {
	w := &c.run.watch
	_, handled := w.meddled[i.ID]
	return i.Attachment != nil && c.api.interfaceOf(i.ID) == nil &&
		(handled || w.strangers[i.ID] != nil || !w.torn[i.ID].IsZero() || w.twins[i.ID])
}
