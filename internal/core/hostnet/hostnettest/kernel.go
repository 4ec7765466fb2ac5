// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostnettest has a kernel without a kernel: it carries out the operations of package hostnet on values, with
// the side effects that Linux has, and prints as sorted text.
package hostnettest

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Kernel is a host's network. Its zero value has no links.
type Kernel struct {
	facts hostnet.Facts
}

// New returns a kernel in the given state.
func New(facts hostnet.Facts) *Kernel { return &Kernel{facts: clone(facts)} }

// Facts returns the state of the kernel.
func (k *Kernel) Facts() hostnet.Facts { return clone(k.facts) }

// String returns the state of the kernel as sorted text.
func (k *Kernel) String() string { return k.facts.String() }

// Clone returns a kernel of its own in the same state.
func (k *Kernel) Clone() *Kernel { return New(k.facts) }

// Change lets the world change a link behind our back. It panics if there is no such link: the test is wrong.
func (k *Kernel) Change(index int, change func(*hostnet.LinkFacts)) {
	link, err := k.link(index)
	if err != nil {
		panic(err)
	}
	change(link)
}

// Unplug removes a link with all that hangs on it.
func (k *Kernel) Unplug(index int) {
	k.facts.Links = slices.DeleteFunc(k.facts.Links, func(l hostnet.LinkFacts) bool { return l.Index == index })
	k.flush(index, func(netip.Addr) bool { return true })
}

// Apply carries an operation out, or fails as Linux would.
func (k *Kernel) Apply(op hostnet.Operation) error {
	switch op := op.(type) {
	case hostnet.AddRule:
		return insert(&k.facts.Rules, op.Rule)
	case hostnet.RemoveRule:
		return remove(&k.facts.Rules, op.Rule)
	case hostnet.AddRoute:
		return k.addRoute(op.Route)
	case hostnet.RemoveRoute:
		return remove(&k.facts.Routes, op.Route)
	}
	link, err := k.link(op.LinkIndex())
	if err != nil {
		return err
	}
	return k.applyTo(link, op)
}

func (k *Kernel) applyTo(link *hostnet.LinkFacts, op hostnet.Operation) error {
	switch op := op.(type) {
	case hostnet.SetAlias:
		return setAlias(link, op.Alias)
	case hostnet.AddAltName:
		return k.addAltName(link, op.Name)
	case hostnet.RemoveAltName:
		return remove(&link.AltNames, op.Name)
	case hostnet.Set:
		return k.set(link, op)
	case hostnet.SetMTU:
		return setMTU(link, op.MTU)
	case hostnet.SetUp:
		link.Up, link.Carrier = true, true
	case hostnet.SetDown:
		k.SetDown(link.Index)
	case hostnet.AddAddress:
		return insert(&link.Addresses, op.Address)
	case hostnet.RemoveAddress:
		return k.removeAddress(link, op.Address)
	default:
		return fmt.Errorf("no such operation: %T", op)
	}
	return nil
}

func setAlias(link *hostnet.LinkFacts, alias string) error {
	if len(alias) > 255 {
		return errors.New("alias too long")
	}
	link.Alias = alias
	return nil
}

func setMTU(link *hostnet.LinkFacts, mtu int) error {
	if mtu < 68 || link.MaxMTU > 0 && mtu > link.MaxMTU {
		return fmt.Errorf("MTU %d is out of range", mtu)
	}
	link.MTU = mtu
	return nil
}

func (k *Kernel) set(link *hostnet.LinkFacts, op hostnet.Set) error {
	if _, has := link.Settings[op.Setting]; !has || slices.Contains(k.facts.ReadOnly, op.Setting) {
		return fmt.Errorf("cannot set %s", op.Setting)
	}
	link.Settings[op.Setting] = op.Value
	return nil
}

// SetDown takes a link down: its routes go, and its IPv6 addresses.
func (k *Kernel) SetDown(index int) {
	k.Change(index, func(link *hostnet.LinkFacts) {
		link.Up, link.Carrier = false, false
		link.Addresses = slices.DeleteFunc(link.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
	})
	k.flush(index, func(netip.Addr) bool { return true })
}

func (k *Kernel) removeAddress(link *hostnet.LinkFacts, address netip.Prefix) error {
	if err := remove(&link.Addresses, address); err != nil {
		return err
	}
	if !slices.ContainsFunc(link.Addresses, func(p netip.Prefix) bool { return p.Addr().Is4() }) {
		k.flush(link.Index, netip.Addr.Is4)
	}
	return nil
}

func (k *Kernel) addRoute(route hostnet.Route) error {
	link, err := k.link(route.Link)
	if err != nil {
		return err
	}
	if !link.Up {
		return fmt.Errorf("link %s is down", link.Name)
	}
	return insert(&k.facts.Routes, route)
}

func (k *Kernel) addAltName(link *hostnet.LinkFacts, name string) error {
	for _, other := range k.facts.Links {
		if other.Name == name || slices.Contains(other.AltNames, name) {
			return fmt.Errorf("name %s exists", name)
		}
	}
	return insert(&link.AltNames, name)
}

func (k *Kernel) flush(index int, family func(netip.Addr) bool) {
	k.facts.Routes = slices.DeleteFunc(k.facts.Routes, func(r hostnet.Route) bool {
		return r.Link == index && family(r.To.Addr())
	})
}

func (k *Kernel) link(index int) (*hostnet.LinkFacts, error) {
	for n := range k.facts.Links {
		if k.facts.Links[n].Index == index {
			return &k.facts.Links[n], nil
		}
	}
	return nil, fmt.Errorf("no link has index %d", index)
}

func insert[T comparable](list *[]T, value T) error {
	if slices.Contains(*list, value) {
		return fmt.Errorf("%v exists", value)
	}
	*list = append(*list, value)
	return nil
}

func remove[T comparable](list *[]T, value T) error {
	n := slices.Index(*list, value)
	if n < 0 {
		return fmt.Errorf("%v does not exist", value)
	}
	*list = slices.Delete(*list, n, n+1)
	return nil
}

func clone(facts hostnet.Facts) hostnet.Facts {
	facts.Links = slices.Clone(facts.Links)
	for n := range facts.Links {
		link := &facts.Links[n]
		link.AltNames, link.Addresses = slices.Clone(link.AltNames), slices.Clone(link.Addresses)
		link.Settings = maps.Clone(link.Settings)
		slices.Sort(link.AltNames)
		slices.SortFunc(link.Addresses, netip.Prefix.Compare)
	}
	facts.Routes, facts.Rules = slices.Clone(facts.Routes), slices.Clone(facts.Rules)
	facts.ReadOnly, facts.Away = slices.Clone(facts.ReadOnly), slices.Clone(facts.Away)
	return facts
}
