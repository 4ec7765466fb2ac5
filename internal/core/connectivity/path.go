// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

// path is the way of packets from one pod to the other.
type path struct{ from, to *end }

// step is a step of a path, with its result.
type step struct {
	step string
	finding
}

// examine checks the path for each family of addresses that both pods have. Replies need no permission of their own:
// security groups track connections (Amazon VPC user guide, "Security group connection tracking").
func (p path) examine(traffic []Traffic) []step {
	if p.apart() {
		return []step{{"route", failed(fmt.Sprintf("%s is in VPC %s, and %s in VPC %s", p.from.Interface.ID,
			p.from.cloud().VPCID, p.to.Interface.ID, p.to.cloud().VPCID), "Check pods of one VPC.")}}
	}
	pairs := p.pairs()
	if len(pairs) == 0 {
		return []step{{"route", failed(fmt.Sprintf("one pod has %s and the other %s, of different families",
			list(p.from.addresses), list(p.to.addresses)), "Declare both families in pods of NodeENI "+p.from.network.NodeENI+
			", or check pods with a family in common.")}}
	}
	var all []step
	for _, pair := range pairs {
		all = append(all, step{"route", p.route(pair)})
		if p.from.ec2 == nil {
			continue
		}
		for _, t := range traffic {
			all = append(all, step{"security groups", p.groups(pair, t)})
		}
	}
	return all
}

// ends are an address of each pod, of one family.
type ends struct{ from, to netip.Addr }

// pairs returns the first address of each family in both pods.
func (p path) pairs() []ends {
	var all []ends
	for _, is4 := range []bool{true, false} {
		ofFamily := func(a netip.Addr) bool { return a.Is4() == is4 }
		from, to := slices.IndexFunc(p.from.addresses, ofFamily), slices.IndexFunc(p.to.addresses, ofFamily)
		if from >= 0 && to >= 0 {
			all = append(all, ends{p.from.addresses[from], p.to.addresses[to]})
		}
	}
	return all
}

func (e *end) cloud() eni.Interface { return e.ec2.Interfaces[e.Interface.ID] }

// apart reports whether the interfaces are in different VPCs.
func (p path) apart() bool { return p.from.ec2 != nil && p.from.cloud().VPCID != p.to.cloud().VPCID }

// shared reports whether both pods use one interface: the kernel delivers packets between them on the node.
func (p path) shared() bool { return p.from.Interface.ID == p.to.Interface.ID }

// route checks that a packet leaves the pod by the link of the network. Each VPC routes between all of its subnets
// (Amazon VPC user guide, "Route tables": the local route).
func (p path) route(pair ends) finding {
	subnets := p.from.Interface.Subnets
	inSubnet := slices.IndexFunc(subnets, func(s netip.Prefix) bool { return s.Contains(pair.to) })
	if inSubnet >= 0 {
		return ok(fmt.Sprintf("%v is in the subnet of the interface, %v", pair.to, subnets[inSubnet]))
	}
	routes := slices.Concat(p.from.Interface.Routes, p.from.configuration.routes())
	if !p.from.configuration.isOurs() {
		routes = p.from.configuration.routes() // pods.routes are for multieni-ipam
	}
	if at := slices.IndexFunc(routes, func(r netip.Prefix) bool { return r.Contains(pair.to) }); at >= 0 {
		return ok(fmt.Sprintf("%v is behind the route to %v", pair.to, routes[at]))
	}
	found := fmt.Sprintf("%v is outside of the subnet of the interface, %s, and of all routes of the pod on this link",
		pair.to, p.subnetOf(pair.from))
	next := fmt.Sprintf("Add the destination to pods.routes of NodeENI %s: {to: %s}. Pods that start later have it.",
		p.from.network.NodeENI, p.destination(pair.to))
	if !p.from.configuration.isOurs() {
		next = fmt.Sprintf("Add the destination %s to the routes of the definition %s.", p.destination(pair.to),
			p.from.definition)
	}
	if p.from.configuration.routesBySource() {
		return warning(fmt.Sprintf("%s. Only sockets that are bound to %v use this link; others use the pod's default "+
			"network", found, pair.from), next)
	}
	return failed(found, next)
}

func (p path) subnetOf(address netip.Addr) string {
	for _, s := range p.from.Interface.Subnets {
		if s.Addr().Is4() == address.Is4() {
			return s.String()
		}
	}
	return "which is not known"
}

// destination returns the subnet of the other interface, or the single address if the subnet is not known.
func (p path) destination(to netip.Addr) netip.Prefix {
	for _, s := range p.to.Interface.Subnets {
		if s.Contains(to) {
			return s
		}
	}
	return netip.PrefixFrom(to, to.BitLen())
}

// groups checks that the groups of one interface let packets out, and those of the other let them in.
func (p path) groups(pair ends, t Traffic) finding {
	if p.shared() {
		return ok("not needed: both pods are on " + p.from.Interface.ID + ", and packets between them stay on the node")
	}
	const advice = " An application that uses another port: --port PORT/PROTOCOL."
	from, to := p.from.cloud(), p.to.cloud()
	out, knownOut := p.from.ec2.rulesOf(from.Groups, egress)
	in, knownIn := p.to.ec2.rulesOf(to.Groups, ingress)
	sends, receives := t.permits(out, pair.to, pair.to, to.Groups), t.permits(in, pair.to, pair.from, from.Groups)
	switch {
	case sends == denied && knownOut:
		return failed(fmt.Sprintf("no outbound rule of %s on %s allows %s to %v", names(from.Groups), from.ID, t, pair.to),
			fmt.Sprintf("Add one to the groups of NodeENI %s.%s", p.from.network.NodeENI, advice))
	case receives == denied && knownIn:
		return failed(fmt.Sprintf("no inbound rule of %s on %s allows %s from %v", names(to.Groups), to.ID, t, pair.from),
			fmt.Sprintf("Add one to the groups of NodeENI %s, for example from the group itself.%s", p.to.network.NodeENI,
				advice))
	case sends != allowed || receives != allowed:
		return warning(fmt.Sprintf("not known whether %s from %v to %v is allowed: a rule names a prefix list, or EC2 does "+
			"not show a group", t, pair.from, pair.to), "Send packets with --ping, or read the rules: aws ec2 "+
			"describe-security-group-rules.")
	}
	return ok(fmt.Sprintf("%s and %s allow %s from %v to %v", names(from.Groups), names(to.Groups), t, pair.from, pair.to))
}

func names(ids []string) string {
	if len(ids) == 0 {
		return "no security group"
	}
	return strings.Join(ids, ", ")
}

// Ping is one attempt to send packets from a pod to an address of the other, by a ping program in the pod.
type Ping struct {
	From, To PodName
	// Source and Destination are the addresses.
	Source, Destination netip.Addr
	// Output is what the program printed, and the error of its start.
	Output string
}

// Pings returns the attempts that cover each family in both directions. There are none if an address is not known.
func Pings(f Facts) []Ping {
	var all []Ping
	for _, way := range [][2]Pod{{f.Pods[0], f.Pods[1]}, {f.Pods[1], f.Pods[0]}} {
		p := path{f.attachedEnd(way[0]), f.attachedEnd(way[1])}
		for _, pair := range p.pairs() {
			all = append(all, Ping{From: way[0].PodName, To: way[1].PodName, Source: pair.from, Destination: pair.to})
		}
	}
	return all
}

// attachedEnd returns a pod with its addresses.
func (f Facts) attachedEnd(pod Pod) *end {
	e := f.end(pod)
	if e.examineAnnotation().grade != report.Failed {
		e.addresses, _, _ = attached(pod.Status, e.definition)
	}
	return e
}
