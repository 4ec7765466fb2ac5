// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/agent"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// instance has its primary interface, one with a known slot, and one whose slot is not known yet.
func instance() eni.Metadata {
	at := func(device int) *eni.Attachment { return &eni.Attachment{Slot: eni.Slot{Device: device}} }
	return eni.Metadata{InstanceID: "i-0123456789abcdef0", PrimaryMAC: "02:00:00:00:00:01", Interfaces: []eni.Interface{
		{MAC: "02:00:00:00:00:01", Attachment: at(0)},
		{MAC: mac, Attachment: at(1), Addresses: eni.Addresses{
			PrimaryIPv4: netip.MustParseAddr("10.0.1.10"), IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.1.64/28")},
		}},
		{MAC: "02:00:00:00:00:0b"},
	}}
}

func TestFromMetadata(t *testing.T) {
	want := []hostnet.Link{{
		Name: "0-1", MAC: mac, Slot: eni.Slot{Device: 1}, MTU: 1500, Mode: hostnet.None,
		Assigned: []netip.Prefix{netip.MustParsePrefix("10.0.1.10/32"), netip.MustParsePrefix("10.0.1.64/28")},
	}}
	got := agent.FromMetadata(instance(), 1500)
	if diff := cmp.Diff(want, got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// paper is a host that has only facts. It changes nothing, and counts the attempts.
type paper struct {
	facts   hostnet.Facts
	touched map[int]int
	events  chan struct{}
}

func (p *paper) Facts([]string) (hostnet.Facts, error) { return p.facts, nil }

func (p *paper) Apply(op hostnet.Operation) error {
	p.touched[op.LinkIndex()]++
	return errors.New("it is paper")
}

func (p *paper) Events() <-chan struct{} { return p.events }

// The agent does not restore links that an earlier process configured because instance metadata does not answer or does
// not list them. It does not change the primary interface and virtual links of other programs either.
func TestNothingIsTakenBackWithoutKubernetes(t *testing.T) {
	record := hostnet.OriginalState{MTU: 1500}.String()
	host := func() *paper {
		return &paper{touched: map[int]int{}, events: make(chan struct{}), facts: hostnet.Facts{Links: []hostnet.LinkFacts{
			{Index: 1, Name: "ens5", MAC: "02:00:00:00:00:01", Device: "0000:00:05.0", Up: true},
			{Index: 2, Name: "ens6", MAC: mac, Device: "0000:00:06.0"},
			{Index: 3, Name: "ens7", MAC: "02:00:00:00:00:0b", Device: "0000:00:07.0", Up: true, Alias: record},
			{Index: 4, Name: "pod0", MAC: mac},
		}}}
	}
	cases := map[string]struct {
		read func(context.Context) (eni.Metadata, error)
		want map[int]bool
	}{
		"answers":        {func(context.Context) (eni.Metadata, error) { return instance(), nil }, map[int]bool{2: true}},
		"never answered": {func(context.Context) (eni.Metadata, error) { return eni.Metadata{}, errors.New("no route") }, map[int]bool{}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := host()
				a := agent.New(agent.Options{Host: h, Metadata: c.read, Resync: 30 * time.Second, Log: slog.New(slog.DiscardHandler)})
				ctx, stop := context.WithTimeout(t.Context(), time.Minute)
				defer stop()
				if err := a.RunFromMetadata(ctx); err != nil {
					t.Fatal(err)
				}
				got := map[int]bool{}
				for link := range h.touched {
					got[link] = true
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("touched links (-want +got):\n%s", diff)
				}
			})
		})
	}
}
