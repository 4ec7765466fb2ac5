// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// Desired is what the networks request for one instance.
type Desired struct {
	// Interfaces are the desired interfaces, and existing ones of networks that nothing desires and that stay.
	Interfaces []plan.Interface
	// Served are interfaces that already serve a network, so that no second one is created: those of NodeENIs, and
	// those without an owner.
	Served []eni.Interface
}

// Declared returns what the networks declare for the instance of a snapshot. found holds the matches of the selectors
// of each network, in the order of the networks.
func (c Config) Declared(look eni.InstanceSnapshot, found []selector.Found) importer.Declared {
	d := c.declared(look)
	for n, network := range c.Networks {
		d.NodeENIs = append(d.NodeENIs, importer.NodeENI{Name: network.Name,
			Interfaces: network.interfaces(found[n], location(look))})
	}
	return d
}

func (c Config) declared(look eni.InstanceSnapshot) importer.Declared {
	return importer.Declared{Cluster: c.Cluster, Node: cmp.Or(look.Instance.PrivateDNSName, look.Instance.ID),
		InstanceID: look.Instance.ID, DecidedAt: look.Instance.LaunchedAt}
}

func location(look eni.InstanceSnapshot) selector.Location {
	return selector.Location{Zone: look.Instance.Zone, VPCID: look.Instance.VPCID}
}

// Unserved returns what the networks declare for the instance of a snapshot and nothing else serves.
func (c Config) Unserved(look eni.InstanceSnapshot, found []selector.Found) importer.Declared {
	d := c.Declared(look, found)
	p := &placing{Config: c, Declared: d, look: look, taken: map[string]bool{}}
	for n := range d.NodeENIs {
		d.NodeENIs[n].Interfaces = p.unserved(d.NodeENIs[n].Name, d.NodeENIs[n].Interfaces)
	}
	return d
}

// Desired returns what the networks request for the instance of a snapshot. found holds the matches of the selectors of
// each network, in the order of the networks; known are the interfaces whose tags name the instance. A process decides
// again, at a time of decided, about an interface whose client token EC2 refused; before that, all processes use the
// token of the time at which the instance was launched.
func (c Config) Desired(
	look eni.InstanceSnapshot, found []selector.Found, known []inventory.Record, decided map[string]time.Time,
) Desired {
	p := &placing{Config: c, Declared: c.declared(look), look: look, known: known, decided: decided,
		taken: map[string]bool{}}
	for n, network := range c.Networks {
		p.place(network, found[n])
	}
	for n := range known {
		if r := &known[n]; r.Tagged.UID.IsNetwork() && !p.taken[r.ID] {
			kept := Existing(*r, plan.Keep)
			kept.Problem = &plan.Problem{Reason: plan.Retained, Message: r.ID + " is left as it is: no network wants it"}
			p.out.Interfaces = append(p.out.Interfaces, kept)
		}
	}
	return p.out
}

// Existing returns an existing interface of a network as an object for package plan.
func Existing(r inventory.Record, goal plan.Goal) plan.Interface {
	i := plan.Interface{Key: r.Tagged, Goal: goal, Tags: r.Tags, ENIID: r.ID}
	i.Since, _ = identity.CreatedAt(r.Tags)
	return i
}

// placing finds the interfaces of each network.
type placing struct {
	Config
	importer.Declared
	look    eni.InstanceSnapshot
	known   []inventory.Record
	decided map[string]time.Time
	// taken are the IDs of the interfaces that serve a network.
	taken map[string]bool
	out   Desired
}

// place adds the interfaces of a network. One in an allowed subnet serves before one elsewhere: an instance that joins
// keeps an interface that is not as declared any more, because no user error is certain here.
func (p *placing) place(network Network, found selector.Found) {
	wanted := p.unserved(network.Name, network.interfaces(found, location(p.look)))
	serving := p.pair(network.Name, wanted)
	ordinals := map[int]bool{}
	for _, r := range p.known {
		if isOf(r, network.Name) {
			ordinals[r.Tagged.Ordinal] = true
		}
	}
	groupProblem := network.groupProblem(found, location(p.look))
	for n, w := range wanted {
		if serving[n] == nil {
			w.Ordinal = freeOrdinal(ordinals, w.Ordinal)
		}
		p.add(network, w, serving[n], groupProblem)
	}
	problems := found.Subnets.Problems()
	if lacking := found.Subnets.NoSubnetProblem(p.look.Instance.Zone, p.look.Instance.VPCID); lacking != nil {
		problems = append(problems, *lacking)
	}
	for n := range problems {
		w := importer.Wanted{Ordinal: freeOrdinal(ordinals, len(wanted)+n)}
		w.Slot = eni.Slot{Card: network.NetworkCardIndex, Device: network.DeviceIndex + w.Ordinal}
		p.add(network, w, nil, &problems[n])
	}
}

// unserved returns the declared interfaces of a network that no other interface serves, and records those that do.
func (p *placing) unserved(network string, wanted []importer.Wanted) []importer.Wanted {
	return slices.DeleteFunc(wanted, func(w importer.Wanted) bool {
		i := p.servedBy(network, w)
		if i != nil {
			p.taken[i.ID] = true
			p.out.Served = append(p.out.Served, *i)
		}
		return i != nil
	})
}

// freeOrdinal returns an ordinal that no interface has, the preferred one first, and takes it.
func freeOrdinal(taken map[int]bool, preferred int) int {
	for n := 0; taken[preferred]; n++ {
		preferred = n
	}
	taken[preferred] = true
	return preferred
}

// isOf reports whether an interface belongs to a network.
func isOf(r inventory.Record, network string) bool {
	return r.Tagged.UID.IsNetwork() && r.Tagged.NodeENI == network
}

// pair returns the existing interface of each desired one, or nil.
func (p *placing) pair(network string, wanted []importer.Wanted) []*inventory.Record {
	serving := make([]*inventory.Record, len(wanted))
	for _, fits := range []func(importer.Wanted, inventory.Record) bool{
		func(w importer.Wanted, r inventory.Record) bool {
			return w.Allows(r.SubnetID) && w.Ordinal == r.Tagged.Ordinal
		},
		func(w importer.Wanted, r inventory.Record) bool { return w.Allows(r.SubnetID) },
		func(_ importer.Wanted, r inventory.Record) bool { return r.AttachedTo(p.InstanceID) },
	} {
		for n, w := range wanted {
			for k := range p.known {
				if r := &p.known[k]; serving[n] == nil && isOf(*r, network) && !p.taken[r.ID] && fits(w, *r) {
					serving[n], p.taken[r.ID] = r, true
				}
			}
		}
	}
	return serving
}

// add adds a desired interface, with the existing one that serves it.
func (p *placing) add(network Network, w importer.Wanted, serving *inventory.Record, problem *plan.Problem) {
	at := p.Declared
	key := at.Key(network.Name, w.Ordinal)
	if again, is := p.decided[key.Name]; is {
		at.DecidedAt = again
		key = at.Key(network.Name, w.Ordinal)
	}
	i := plan.Interface{Key: key, Goal: plan.Serve, Settings: w.Settings, Problem: problem, Since: at.DecidedAt}
	if serving != nil {
		node := i.Key.Node
		i.Key, i.ENIID = serving.Tagged, serving.ID
		i.Key.Node = node
		i.Since, _ = identity.CreatedAt(serving.Tags)
	}
	i.Tags = i.Key.Tags(i.Since, network.tags())
	p.out.Interfaces = append(p.out.Interfaces, i)
}

// interfaces returns the interfaces that the network declares at a location.
func (n Network) interfaces(found selector.Found, at selector.Location) []importer.Wanted {
	placements, _ := found.Subnets.ForZone(at.Zone, at.VPCID)
	groupIDs, problems := found.Groups.ForVPC(at.VPCID)
	if len(problems) > 0 {
		groupIDs = nil
	}
	var all []importer.Wanted
	for _, p := range placements {
		w := importer.Wanted{Ordinal: p.Ordinal, Settings: eni.Settings{
			Slot:      eni.Slot{Card: n.NetworkCardIndex, Device: n.DeviceIndex + p.Ordinal},
			ExactSlot: n.DeviceIndexPolicy == "Exact", Spec: n.spec(p, groupIDs),
		}}
		for _, subnet := range p.Candidates {
			w.Subnets = append(w.Subnets, subnet.ID)
		}
		w.Description = strings.ReplaceAll(w.Description, render.DeviceIndex, strconv.Itoa(w.Slot.Device))
		all = append(all, w)
	}
	return all
}

// groupProblem returns the reason why the security groups are unknown, or nil.
func (n Network) groupProblem(found selector.Found, at selector.Location) *plan.Problem {
	if _, problems := found.Groups.ForVPC(at.VPCID); len(problems) > 0 {
		return &problems[0]
	}
	return nil
}

// spec returns the desired interface of a placement.
func (n Network) spec(p selector.Placement, groupIDs []string) eni.Spec {
	spec := eni.Spec{
		Description: n.Description, Groups: groupIDs, Tags: n.tags(), SourceDestCheck: *n.SourceDestCheck,
		DeleteOnTermination: *n.DeleteOnTermination, LowestFree: n.IPv4Allocation == LowestFree,
	}
	without := func(s eni.Subnet) bool { return !s.HasIPv6 }
	if n.IPv6 && !slices.ContainsFunc(p.Candidates, without) {
		spec.IPv6, spec.MatchIPv4Suffix = 1, spec.LowestFree
	}
	return spec
}

// servedBy returns an interface that serves a network: one of a NodeENI that is attached or attaching, in a desired
// subnet; or one without an owner, unless the network has its own interface there already.
func (p *placing) servedBy(network string, w importer.Wanted) *eni.Interface {
	var unowned *eni.Interface
	own := false
	for n := range p.look.Interfaces {
		i := &p.look.Interfaces[n]
		if p.taken[i.ID] || !w.Allows(i.SubnetID) {
			continue
		}
		tagged, verdict := identity.Read(p.Declared.Cluster, i.Tags)
		switch ours := verdict == identity.Owned && tagged.InstanceID == p.InstanceID; {
		case ours && !tagged.UID.IsNetwork():
			return i
		case ours && tagged.NodeENI == network:
			own = true
		case plan.FilledBy(w.Settings, *i, p.InstanceID):
			unowned = i
		}
	}
	if own {
		return nil
	}
	return unowned
}

// required reports whether a network decides whether an instance is ready.
func (c Config) required(name string) bool {
	return slices.ContainsFunc(c.Networks, func(n Network) bool { return n.Name == name && *n.Required })
}
