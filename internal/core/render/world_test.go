// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

const (
	cluster  = "cluster-1"
	nodeName = "node-1"
	instance = "i-00000000000000001"
)

// start is when the interfaces of the tests are created, and now is when they are rendered.
var (
	start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	now   = start.Add(24 * time.Hour)
)

// inUse is an interface of a member, attached at the device index. This process has evidence for it.
func inUse(id string, key identity.Key, subnet string, device int) inventory.Record {
	member := identity.Member{
		Cluster: cluster, NodeENI: "a", Node: nodeName, InstanceID: instance, Key: key,
		Generation: identity.GenerationAt(start),
	}
	return inventory.Record{
		Member: member, Confirmed: true, Verified: true,
		Interface: eni.Interface{
			ID: id, SubnetID: subnet, Status: eni.InUse, Tags: member.Tags(start, nil),
			Attachment: &eni.Attachment{
				ID: "attach-" + id, InstanceID: instance, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached,
			},
		},
	}
}

// unattached returns the interface without its attachment.
func unattached(r inventory.Record) inventory.Record {
	r.Attachment, r.Status = nil, eni.Available
	return r
}

// elsewhere returns the interface on another instance.
func elsewhere(r inventory.Record) inventory.Record {
	a := *r.Attachment
	a.InstanceID = "i-00000000000000009"
	r.Attachment = &a
	return r
}

// unproved returns the interface without evidence but its tags.
func unproved(r inventory.Record) inventory.Record {
	r.Verified = false
	return r
}

// preJoin is a pre-join interface of a network.
func preJoin(id, network, subnet string, device int) inventory.Record {
	r := inUse(id, identity.Key{Owner: identity.NetworkOwner(network)}, subnet, device)
	r.Member.NodeENI = network
	return r
}

// outlived is an interface in use of a lost NodeENI.
func outlived(id, nodeENI, subnet string, ordinal int) inventory.Record {
	key := identity.Key{Owner: identity.Owner("uid-earlier-" + nodeENI), Ordinal: ordinal}
	r := inUse(id, key, subnet, 1+ordinal)
	r.Member.NodeENI = nodeENI
	return r
}

// asks returns the claim of a NodeENI that desires one interface in each of the subnets, from device index 1 on.
func asks(nodeENI string, subnets ...string) render.Claim {
	claim := render.Claim{
		NodeENI: nodeENI, Owner: identity.Owner("uid-" + nodeENI), Mode: render.Ensure, AllResolved: true,
		FirstSlot: eni.Slot{Device: 1},
	}
	for n, subnet := range subnets {
		claim.Interfaces = append(claim.Interfaces, plan.DesiredInterface{
			Ordinal: n, Subnets: []string{subnet}, Slot: eni.Slot{Device: 1 + n},
		})
	}
	return claim
}

// gone returns the claim of a lost NodeENI.
func gone(nodeENI string) render.Claim {
	return render.Claim{
		NodeENI: nodeENI, Owner: identity.Owner("uid-earlier-" + nodeENI), Mode: render.Release, Leaked: true,
		MissingSince: start, Grace: 48 * time.Hour,
	}
}

func declared(claims ...render.Claim) render.Declared {
	return render.Declared{Cluster: cluster, Node: nodeName, InstanceID: instance, Claims: claims}
}

// running is a running instance with interfaces.
func running(owned ...inventory.Record) plan.Observed {
	return plan.Observed{Owned: owned, Snapshot: &eni.InstanceSnapshot{
		At: now, Instance: eni.Instance{ID: instance, State: eni.InstanceRunning},
	}}
}

// goals returns a line for each interface: its goal, the NodeENI and the ordinal, the existing interface, and the
// predecessor that it waits for.
func goals(r render.Rendering) []string {
	var lines []string
	for _, i := range r.Interfaces {
		line := fmt.Sprintf("%s %s[%d]", []string{"retain", "ensure", "release"}[i.Goal], i.NodeENI, i.Ordinal)
		if i.Interface != nil {
			line += " " + i.Interface.ID
		}
		if i.Predecessor != "" {
			line += " after " + i.Predecessor
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}
