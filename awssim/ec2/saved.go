// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"
)

// Saved is all that a model holds, as it is saved. [Options.Saved] restores it. Not in it are the planned events, which
// are in the timeline, and the other [Options].
type Saved struct {
	// Random is the state of the source of everything random.
	Random []byte `json:"random"`
	// NetworkRandom is the state of the source of IDs for parts of networks.
	NetworkRandom []byte `json:"networkRandom"`
	// Tables have the resources with their earlier versions, by the name of the table.
	Tables          map[string]json.RawMessage `json:"tables"`
	Attachments     map[string]string          `json:"attachments"`
	Tokens          map[string]*tokenRecord    `json:"tokens"`
	TokenOf         map[string]string          `json:"tokenOf"`
	TokenExpiries   []tokenExpiry              `json:"tokenExpiries"`
	Tombstones      []tombstone                `json:"tombstones"`
	Departures      map[string][]departure     `json:"departures"`
	LifecycleStates map[string]string          `json:"lifecycleStates"`
	Parameters      map[string]string          `json:"parameters"`
	LastVersion     map[string]int             `json:"lastVersion"`
	IPv6Ranges      uint32                     `json:"ipv6Ranges"`
	MACs            uint32                     `json:"macs"`
	Publics         uint32                     `json:"publics"`
	Revision        uint64                     `json:"revision"`
}

// Save returns all that the model holds. It shares maps with the model: encode it before the next call.
func (m *Model) Save() (Saved, error) {
	random, err := m.source.MarshalBinary()
	if err != nil {
		return Saved{}, fmt.Errorf("save EC2's source of random numbers: %w", err)
	}
	networkRandom, err := m.networkSource.MarshalBinary()
	if err != nil {
		return Saved{}, fmt.Errorf("save EC2's source of IDs for networks: %w", err)
	}
	saved := Saved{
		Random: random, NetworkRandom: networkRandom, Tables: map[string]json.RawMessage{}, Attachments: m.attachments,
		Tokens: m.tokens, TokenOf: m.tokenOf, TokenExpiries: m.tokenExpiries, Tombstones: m.tombstones,
		Departures: m.departures, LifecycleStates: m.lifecycleStates, Parameters: m.parameters, LastVersion: m.lastVersion,
		IPv6Ranges: m.ipv6Ranges, MACs: m.macs, Publics: m.publics, Revision: m.revision,
	}
	for name, t := range m.tables {
		if saved.Tables[name], err = t.save(); err != nil {
			return Saved{}, fmt.Errorf("save EC2's %s: %w", name, err)
		}
	}
	return saved, nil
}

// load fills a model that holds nothing.
func (m *Model) load(saved Saved) error {
	if err := m.source.UnmarshalBinary(saved.Random); err != nil {
		return fmt.Errorf("random: %w", err)
	}
	if err := m.networkSource.UnmarshalBinary(saved.NetworkRandom); err != nil {
		return fmt.Errorf("networkRandom: %w", err)
	}
	m.buildZones()
	for _, name := range slices.Sorted(maps.Keys(saved.Tables)) {
		t := m.tables[name]
		if t == nil {
			return fmt.Errorf("tables: there is no table %q", name)
		}
		if err := t.load(saved.Tables[name], m.now()); err != nil {
			return fmt.Errorf("table %s: %w", name, err)
		}
	}
	maps.Copy(m.attachments, saved.Attachments)
	maps.Copy(m.tokens, saved.Tokens)
	maps.Copy(m.tokenOf, saved.TokenOf)
	maps.Copy(m.departures, saved.Departures)
	maps.Copy(m.lifecycleStates, saved.LifecycleStates)
	maps.Copy(m.lastVersion, saved.LastVersion)
	m.parameters = saved.Parameters
	m.tokenExpiries, m.tombstones = saved.TokenExpiries, saved.Tombstones
	m.ipv6Ranges = saved.IPv6Ranges
	m.macs, m.publics, m.revision = saved.MACs, saved.Publics, saved.Revision
	return m.loadPools()
}

// loadPools derives the free addresses of all subnets from what uses addresses.
func (m *Model) loadPools() error {
	for _, subnet := range m.subnets.all() {
		var cidr6 netip.Prefix
		if six := subnet.IPv6CIDRBlockAssociations; len(six) > 0 {
			cidr6 = six[0].IPv6CIDRBlock
		}
		m.pools[subnet.SubnetID] = newPool(subnet.CIDRBlock, cidr6)
	}
	for _, r := range m.reservations.all() {
		pool := m.pools[r.SubnetID]
		if pool == nil {
			return fmt.Errorf("CIDR reservation %s: there is no subnet %q", r.SubnetCIDRReservationID, r.SubnetID)
		}
		pool.reservations = append(pool.reservations, r)
	}
	for _, eni := range m.interfaces.all() {
		pool := m.pools[eni.SubnetID]
		if pool == nil {
			return fmt.Errorf("network interface %s: there is no subnet %q", eni.NetworkInterfaceID, eni.SubnetID)
		}
		if err := pool.takeBack(granted(eni)); err != nil {
			return fmt.Errorf("network interface %s: %w", eni.NetworkInterfaceID, err)
		}
		if a := eni.Attachment; a != nil && a.InstanceID != "" && m.instances.get(a.InstanceID) == nil {
			return fmt.Errorf("network interface %s: there is no instance %q, to which it is attached",
				eni.NetworkInterfaceID, a.InstanceID)
		}
		m.live++
	}
	return nil
}

// takeBack takes what was granted before the model was saved. Its error is that something else has it.
func (p *pool) takeBack(g grant) error {
	for _, address := range g.ipv4 {
		if !p.cidr.Contains(address) || !p.takeThis(address) {
			return fmt.Errorf("the address %s is not in its subnet, or has two owners", address)
		}
	}
	for _, prefix := range g.prefixes4 {
		if !p.cidr.Contains(prefix.Addr()) || !p.takeThisPrefix(prefix) {
			return fmt.Errorf("the prefix %s is not in its subnet, or has two owners", prefix)
		}
	}
	for _, address := range g.ipv6 {
		if !p.takeThis6(address) {
			return fmt.Errorf("the address %s has two owners", address)
		}
	}
	for _, prefix := range g.prefixes6 {
		if !p.takeThisPrefix6(prefix) {
			return fmt.Errorf("the prefix %s has two owners", prefix)
		}
	}
	return nil
}

// stored is a table without the type of its resources.
type stored interface {
	settle(id string, now time.Time)
	remove(id string)
	save() (json.RawMessage, error)
	load(text json.RawMessage, now time.Time) error
}

// store adds a table to the model. Events and saved states refer to it by its name.
func store[T any](m *Model, name string, k kind[T]) *table[T] {
	t := newTable(k)
	t.name, m.tables[name] = name, t
	return t
}

// savedEntry is the history of one resource as it is saved.
type savedEntry[T any] struct {
	Versions    []savedVersion[T] `json:"versions"`
	HiddenUntil time.Time         `json:"hiddenUntil,omitzero"`
}

type savedVersion[T any] struct {
	Value    *T              `json:"value"`
	Internal json.RawMessage `json:"internal,omitempty"`
	Since    time.Time       `json:"since"`
	Visible  time.Time       `json:"visible"`
}

func (t *table[T]) save() (json.RawMessage, error) {
	entries := map[string]savedEntry[T]{}
	for id, e := range t.entries {
		s := savedEntry[T]{Versions: make([]savedVersion[T], len(e.versions)), HiddenUntil: e.hiddenUntil}
		for i, v := range e.versions {
			s.Versions[i] = savedVersion[T]{Value: v.value, Since: v.since.UTC(), Visible: v.visible.UTC()}
			if t.kind.internal == nil || v.value == nil {
				continue
			}
			var err error
			if s.Versions[i].Internal, err = json.Marshal(t.kind.internal(v.value)); err != nil {
				return nil, fmt.Errorf("%s: %w", id, err)
			}
		}
		entries[id] = s
	}
	return json.Marshal(entries)
}

func (t *table[T]) load(text json.RawMessage, now time.Time) error {
	var entries map[string]savedEntry[T]
	if err := decodeStrictly(text, &entries); err != nil {
		return err
	}
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		s := entries[id]
		if len(s.Versions) == 0 {
			return fmt.Errorf("%s: it has no version", id)
		}
		e := &entry[T]{hiddenUntil: s.HiddenUntil}
		for _, v := range s.Versions {
			if t.kind.internal != nil && v.Value != nil {
				if err := decodeStrictly(v.Internal, t.kind.internal(v.Value)); err != nil {
					return fmt.Errorf("%s: internal: %w", id, err)
				}
			}
			if v.Value != nil && t.kind.id(v.Value) != id {
				return fmt.Errorf("%s: its value is %s", id, t.kind.id(v.Value))
			}
			e.versions = append(e.versions, version[T]{v.Value, v.Since, v.Visible})
		}
		t.entries[id] = e
		t.order.add(id)
		t.reindex(id, nil, t.get(id))
		if e.versions[len(e.versions)-1].visible.After(now) {
			t.unsettled.add(id)
		}
	}
	return nil
}

func decodeStrictly(text json.RawMessage, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(into)
}

// MarshalText writes a slot as CARD/DEVICE.
func (s slot) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d/%d", s.card, s.device), nil }

// UnmarshalText reads what MarshalText writes.
func (s *slot) UnmarshalText(text []byte) error {
	if _, err := fmt.Sscanf(string(text), "%d/%d", &s.card, &s.device); err != nil {
		return fmt.Errorf("slot %q: %w", text, err)
	}
	return nil
}
