// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// HostConfig is the desired state of our part of the host's network.
type HostConfig struct {
	// Links are the links that are ours, and former ones that are being restored, by index.
	Links []LinkConfig
	// Routes and Rules are the complete desired lists of the routes and rules in [Facts].
	Routes []Route
	Rules  []Rule
}

// LinkConfig is the desired state of one link. Every list is complete: it includes what other programs added and may
// keep.
type LinkConfig struct {
	Index int
	// Name is the current name of the link. It is only for users.
	Name      string
	AltNames  []string
	Alias     string
	Up        bool
	MTU       int
	Addresses []netip.Prefix
	// Settings are the settings to set; package hostnet ignores all others.
	Settings map[Setting]int
}

// Configure returns the desired state of our part of the host's network for the links. The order of the links does not
// matter.
func Configure(links []Link, facts Facts) HostConfig {
	var config HostConfig
	claimed := map[int]bool{}
	touchable := map[int]bool{}
	for _, f := range findAll(links, facts) {
		if f.facts != nil {
			claimed[f.facts.Index] = true
		}
		if f.problem != nil && !f.problem.mild {
			continue
		}
		touchable[f.facts.Index] = true
		config.Links = append(config.Links, f.configure(facts))
		config.Routes = append(config.Routes, f.link.routes(f.facts.Index)...)
		config.Rules = append(config.Rules, f.link.rules()...)
	}
	for _, link := range facts.Links {
		if record := ParseOriginalState(link.Alias); record != nil && !claimed[link.Index] && !link.Excluded {
			config.Links = append(config.Links, restore(link, *record, facts))
		}
	}
	for _, route := range facts.Routes {
		if route.Protocol != Protocol && !touchable[route.Link] {
			config.Routes = append(config.Routes, route)
		}
	}
	slices.SortFunc(config.Links, func(a, b LinkConfig) int { return cmp.Compare(a.Index, b.Index) })
	slices.SortFunc(config.Routes, Route.compare)
	slices.SortFunc(config.Rules, Rule.compare)
	return config
}

// foundLinks is a desired link together with the link of the host that it is.
type foundLinks struct {
	link Link
	// facts is nil if the host does not have the link.
	facts   *LinkFacts
	altName string
	// fullName is the second alternative name, or "". Nothing depends on it, so it yields to other names.
	fullName string
	problem  *problem
}

// problem is why a link cannot be as desired. After a mild one, the rest of the link is configured all the same.
type problem struct {
	state           State
	reason, message string
	mild            bool
}

// findAll finds the links, in the order of their MAC addresses.
func findAll(links []Link, facts Facts) []foundLinks {
	links = slices.SortedFunc(slices.Values(links), func(a, b Link) int {
		return cmp.Or(cmp.Compare(a.MAC, b.MAC), cmp.Compare(a.Name, b.Name))
	})
	links = slices.CompactFunc(links, func(a, b Link) bool { return a.MAC == b.MAC })
	var all []foundLinks
	names := map[string]string{}
	for _, link := range links {
		f := find(link, facts)
		if holder := f.nameHolder(facts, names); holder != "" && f.problem == nil {
			f.problem = &problem{Refused, ReasonNameTaken,
				fmt.Sprintf("%s answers to the name %s already; rename one of the two", holder, f.altName), true}
			f.altName = ""
		}
		f.fullName = f.possibleFullName(facts, names)
		if f.problem == nil || f.problem.state != Missing {
			names[f.altName], names[f.fullName] = link.Name, link.Name // a link that does not exist keeps the name from no other
		}
		all = append(all, f)
	}
	return all
}

// nameHolder returns what else has the alternative name, or will get it; "" if nothing does.
func (f foundLinks) nameHolder(facts Facts, promised map[string]string) string {
	if other, taken := promised[f.altName]; taken {
		return "the interface of NodeENI " + other
	}
	if holder := facts.named(f.altName); holder != nil && f.facts != nil && holder.Index != f.facts.Index {
		return "the link " + holder.Name
	}
	return ""
}

// possibleFullName returns the second alternative name; "" if another link has it, or the alias has no room to record
// it.
func (f foundLinks) possibleFullName(facts Facts, promised map[string]string) string {
	f.fullName = FullName(f.link.Name)
	if f.fullName == "" || f.facts == nil {
		return ""
	}
	if holder := facts.named(f.fullName); promised[f.fullName] != "" || holder != nil && holder.Index != f.facts.Index {
		return ""
	}
	if len(f.record().String()) > maxAlias {
		return ""
	}
	return f.fullName
}

// find finds the link of the host with the MAC address on a physical device.
func find(link Link, facts Facts) foundLinks {
	f := foundLinks{link: link, altName: AltName(link.Name)}
	candidates := facts.physical(link.MAC)
	if len(candidates) == 1 {
		f.facts = &candidates[0]
	}
	switch {
	case len(candidates) == 0 && link.Device != "" && slices.Contains(facts.Away, link.Device):
		f.problem = &problem{Moved, ReasonMoved,
			fmt.Sprintf("the link of device %s is in another network namespace, a pod's by all appearances", link.Device), false}
	case len(candidates) == 0:
		f.problem = &problem{Missing, ReasonNotFound,
			fmt.Sprintf("no physical link has the MAC address %s yet", link.MAC), false}
	case len(candidates) > 1:
		f.problem = &problem{Refused, ReasonAmbiguous,
			fmt.Sprintf("%d physical links have the MAC address %s, among them %s and %s; which one is meant cannot be known",
				len(candidates), link.MAC, candidates[0].Name, candidates[1].Name), false}
	default:
		f.problem = f.reasonToSkip(facts)
	}
	return f
}

// reasonToSkip returns why the link that was found must stay as it is.
func (f foundLinks) reasonToSkip(facts Facts) *problem {
	record := ParseOriginalState(f.facts.Alias)
	switch {
	case f.facts.Excluded:
		return &problem{Refused, ReasonExcluded,
			fmt.Sprintf("%s is excluded by the agent's options; see --eni-pattern and --ignore-interfaces", f.facts.Name), false}
	case f.facts.Index == facts.PrimaryLink && record == nil:
		return &problem{Refused, ReasonPrimary,
			fmt.Sprintf("%s carries the host's default route, so it is taken for the primary interface", f.facts.Name), false}
	case len(f.record().String()) > maxAlias:
		return &problem{Refused, ReasonAliasTooLong,
			fmt.Sprintf("the alias of %s leaves no room to record its present state; shorten it with ip link "+
				"set %s alias", f.facts.Name, f.facts.Name), false}
	}
	return nil
}

// configure returns the desired state of the link.
func (f foundLinks) configure(facts Facts) LinkConfig {
	record := f.record()
	config := LinkConfig{
		Index: f.facts.Index, Name: f.facts.Name, Alias: record.String(), Up: true, MTU: cmp.Or(f.link.MTU, DefaultMTU),
		AltNames: f.altNames(), Addresses: f.addresses(facts), Settings: map[Setting]int{},
	}
	if f.facts.MaxMTU > 0 {
		config.MTU = min(config.MTU, f.facts.MaxMTU)
	}
	if before := ParseOriginalState(f.facts.Alias); before != nil {
		maps.Copy(config.Settings, before.Settings) // settings that are no longer desired get their original values
	}
	maps.Copy(config.Settings, f.link.settings())
	f.facts.keepSettable(config.Settings, facts)
	return config
}

// record returns the record that the link must carry: its present one, and the original value of all that is about to
// change.
func (f foundLinks) record() OriginalState {
	before := ParseOriginalState(f.facts.Alias)
	if before == nil {
		before = &OriginalState{Up: f.facts.Up, MTU: f.facts.MTU, Alias: f.facts.Alias}
	}
	record := OriginalState{Up: before.Up, MTU: before.MTU, Alias: before.Alias, Settings: map[Setting]int{}}
	record.AltNames = slices.DeleteFunc([]string{f.altName, f.fullName}, func(name string) bool { return name == "" })
	slices.Sort(record.AltNames)
	for setting := range f.link.settings() {
		if value, has := f.facts.Settings[setting]; has {
			record.Settings[setting] = value
		}
		if value, has := before.Settings[setting]; has {
			record.Settings[setting] = value
		}
	}
	return record
}

// hasName returns the name if it is one of the link's, else "".
func (l LinkFacts) hasName(name string) string {
	if l.Name == name || slices.Contains(l.AltNames, name) {
		return name
	}
	return ""
}

// altNames returns the desired alternative names of the link, ours included.
func (f foundLinks) altNames() []string {
	names := without(f.facts.AltNames, ParseOriginalState(f.facts.Alias))
	if f.altName != "" && f.facts.Name != f.altName {
		names = append(names, f.altName)
	}
	if f.fullName != "" {
		names = append(names, f.fullName)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// without returns the names except those that we added according to the record.
func without(names []string, record *OriginalState) []string {
	names = slices.Clone(names)
	if record == nil {
		return names
	}
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(record.AltNames, name) })
}

// addresses returns the addresses of the link: those that the host takes, and those of other programs, which are
// neither assigned by EC2 nor earlier ones of ours.
func (f foundLinks) addresses(facts Facts) []netip.Prefix {
	addresses := f.link.hostAddresses()
	for _, address := range f.facts.Addresses {
		if !f.link.assigned(address.Addr()) && !facts.hasRulesFor(address) && !slices.Contains(addresses, address) {
			addresses = append(addresses, address)
		}
	}
	slices.SortFunc(addresses, netip.Prefix.Compare)
	return addresses
}

// hasRulesFor reports whether a rule of ours begins with the address, which means that we added it to a link.
func (f Facts) hasRulesFor(address netip.Prefix) bool {
	return slices.ContainsFunc(f.Rules, func(r Rule) bool { return r.Protocol == Protocol && r.From == address })
}

// keepSettable removes the settings that the link does not have or that this process cannot change.
func (l LinkFacts) keepSettable(settings map[Setting]int, facts Facts) {
	maps.DeleteFunc(settings, func(s Setting, _ int) bool {
		_, has := l.Settings[s]
		return !has || slices.Contains(facts.ReadOnly, s)
	})
}

// restore returns the desired state of a link that is no longer ours: its original state from the record.
func restore(link LinkFacts, record OriginalState, facts Facts) LinkConfig {
	settings := maps.Clone(record.Settings)
	link.keepSettable(settings, facts)
	return LinkConfig{
		Index: link.Index, Name: link.Name, AltNames: without(link.AltNames, &record), Alias: record.Alias,
		Up: record.Up, MTU: cmp.Or(record.MTU, link.MTU), Settings: settings,
		Addresses: slices.DeleteFunc(slices.Clone(link.Addresses), facts.hasRulesFor),
	}
}

// String returns the configuration as sorted text, in the form of [Facts].
func (c HostConfig) String() string {
	var text strings.Builder
	names := map[int]string{}
	for _, link := range slices.SortedFunc(slices.Values(c.Links), func(a, b LinkConfig) int {
		return cmp.Compare(a.Name, b.Name)
	}) {
		names[link.Index] = link.Name
		fmt.Fprintf(&text, "link %s\n  %s mtu %d\n", link.Name, upDown(link.Up), link.MTU)
		writeDetails(&text, link.AltNames, link.Alias, link.Addresses, link.Settings)
	}
	writeRoutes(&text, c.Routes, c.Rules, func(index int) string { return cmp.Or(names[index], fmt.Sprint(index)) })
	return text.String()
}
