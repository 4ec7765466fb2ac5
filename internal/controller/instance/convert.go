// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"fmt"
	"net/netip"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// want converts the objects of the instance for package plan.
func (run *run) want(facts plan.Facts) []plan.Interface {
	all := make([]plan.Interface, len(run.gathered.objects))
	for n := range run.gathered.objects {
		o := &run.gathered.objects[n]
		i := Interface(run.r.Cluster, o)
		i.Registered = len(run.gathered.nodes) > 0
		i.Inherited = run.gathered.inherited[i.Key.UID]
		known := interfaceOf(facts, o.Status.ENIID)
		i.Floating = floatingOn(known, run.gathered.assigned[o.Status.ENIID], o.Spec.Pods)
		i.Goal, i.Problem = run.goal(o, known != nil && known.Attachment != nil)
		all[n] = i
	}
	return all
}

// interfaceOf returns an interface as the inventory has it, nil if it is unknown.
func interfaceOf(facts plan.Facts, id string) *eni.Interface {
	for n := range facts.Interfaces {
		if facts.Interfaces[n].ID == id {
			return &facts.Interfaces[n].Interface
		}
	}
	for n := range facts.Launched {
		if facts.Launched[n].ID == id {
			return &facts.Launched[n].Interface
		}
	}
	return nil
}

// goal returns what to do about the interface of an object, with the reason why it cannot be created or is kept. An
// interface that EC2 has not attached, and is not attaching, needs no turn: its removal makes nothing unavailable.
func (run *run) goal(o *v1alpha1.NetworkInterface, onNode bool) (plan.Goal, *plan.Problem) {
	g, uid := run.gathered, identity.UID(o.UID)
	nodeENI := g.nodeENIs[o.Spec.NodeENI.Name]
	confirmed, asked := run.confirmed[confirmation{uid, true}]
	switch {
	case g.letGo[uid]:
		return keep(plan.Retained, "the object is let go, and its interface stays")
	case g.paused():
		return keep(v1alpha1.ReasonPaused, "the node is paused")
	case nodeENI != nil && controller.Paused(nodeENI):
		return keep(v1alpha1.ReasonPaused, "NodeENI %s is paused", nodeENI.Name)
	case o.DeletionTimestamp == nil:
		return g.goalOfLiving(o, nodeENI)
	case asked && !confirmed:
		return keep(plan.Retained, "the API server has another state of the object")
	case g.awaitsTurn[uid] && onNode && !run.ended:
		return keep(plan.AwaitsTurn, "NodeENI %s still declares the interface; it is removed in its turn "+
			"(maxUnavailable), and another one replaces it", o.Spec.NodeENI.Name)
	default:
		return plan.Release, object.Problem(o.Spec.Problem)
	}
}

// goalOfLiving returns the goal of an object that is not being deleted. Nothing is made for an instance that no Node
// names.
func (g *gathered) goalOfLiving(o *v1alpha1.NetworkInterface, nodeENI *v1alpha1.NodeENI) (plan.Goal, *plan.Problem) {
	switch {
	case len(g.nodes) == 0:
		return keep(plan.InstanceNotReady, "no Node names instance %s", o.Spec.InstanceID)
	case o.Spec.Origin == v1alpha1.OriginNetwork:
		return keep(plan.Retained, "no NodeENI declares the interfaces of network %s", o.Spec.NodeENI.Name)
	case nodeENI == nil:
		return keep(plan.Orphaned, "NodeENI %s does not exist; create it again, or delete the NetworkInterface",
			o.Spec.NodeENI.Name)
	case nodeENI.DeletionTimestamp != nil:
		return keep(plan.Removing, "NodeENI %s is being deleted", nodeENI.Name)
	default:
		return plan.Serve, object.Problem(o.Spec.Problem)
	}
}

func keep(reason plan.Reason, format string, args ...any) (plan.Goal, *plan.Problem) {
	return plan.Keep, &plan.Problem{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Interface converts an object for package plan, with the goal that it has while nothing but the object concerns it.
func Interface(cluster string, o *v1alpha1.NetworkInterface) plan.Interface {
	key := identity.Interface{
		Cluster: cluster, UID: identity.UID(o.UID), Name: o.Name, NodeENI: o.Spec.NodeENI.Name,
		Node: cmp.Or(o.Spec.NodeName, o.Spec.InstanceID), InstanceID: o.Spec.InstanceID, Ordinal: int(o.Spec.Ordinal),
	}
	tracking, asPrimary := object.ConnectionTracking(o.Status.ConnectionTracking)
	i := plan.Interface{
		Key: key, Goal: plan.Serve, Tags: key.Tags(o.CreationTimestamp.Time, v1alpha1.Strings(o.Spec.Tags)),
		Settings: settings(o), Problem: object.Problem(o.Spec.Problem), ENIID: o.Status.ENIID,
		OfNetwork: o.Spec.Origin == v1alpha1.OriginNetwork,
		Launched:  o.Status.Evidence == v1alpha1.EvidenceLaunched,
		Held:      o.Held(),
		Requested: object.Addresses(o.Status.Requested), Prefixes: demand(o),
		ENA: plan.ENA{ConnectionTracking: tracking, TrackAsPrimary: asPrimary,
			ENAExpress: eni.ENAExpress(o.Status.ENAExpress), Unsupported: o.Status.Unsupported},
		Since: o.CreationTimestamp.Time,
	}
	if o.DeletionTimestamp != nil {
		i.Goal = plan.Release
	}
	return i
}

// settings returns the desired interface. Its counts include the prefixes that pods have from the start.
func settings(o *v1alpha1.NetworkInterface) eni.Settings {
	s := eni.Settings{Slot: object.Slot(o.Spec.Slot), ExactSlot: o.Spec.ExactSlot, Spec: object.EC2Spec(&o.Spec)}
	for _, subnet := range o.Spec.Subnets {
		s.Subnets = append(s.Subnets, subnet.ID)
	}
	if pods := o.Spec.Pods; pods != nil {
		s.IPv6Prefixes = max(s.IPv6Prefixes, int(pods.IPv6Prefixes))
		if pods.IPv4 != nil {
			s.IPv4Prefixes = max(s.IPv4Prefixes, int(pods.IPv4.Min))
		}
	}
	return s
}

// demand returns the demand of pods for prefixes.
func demand(o *v1alpha1.NetworkInterface) plan.PrefixDemand {
	d := plan.PrefixDemand{Pods: o.Spec.Pods != nil}
	if o.Status.Pods != nil {
		d.Granted = prefixes(o.Status.Pods.Prefixes)
	}
	if d.Pods && o.Spec.Pods.IPv4 != nil {
		d.Max = int(max(o.Spec.Pods.IPv4.Max, o.Spec.Pods.IPv4.Min))
		if node := o.Status.Node; node != nil && node.Pods != nil {
			d.Wanted = int(node.Pods.Wanted)
		}
	}
	return d
}

func prefixes(texts []string) (all []netip.Prefix) {
	for _, text := range texts {
		if prefix, err := netip.ParsePrefix(text); err == nil {
			all = append(all, prefix)
		}
	}
	return all
}
