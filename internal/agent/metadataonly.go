// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

// metadataLag is the interval of reads of instance metadata while it does not list an existing link.
const metadataLag = 2 * time.Second

// RunFromMetadata makes the links of all interfaces in instance metadata usable, except the primary one, until the
// context ends. Metadata does not say who owns an interface, so it is for hosts on which only multieni attaches
// interfaces.
func (a *Agent) RunFromMetadata(ctx context.Context) error {
	var known *eni.Metadata
	said := map[string]hostnet.State{}
	for {
		if err := a.pace.Wait(ctx); err != nil {
			return nil //nolint:nilerr // the context has ended, which is no failure
		}
		answer, err := a.readMetadata(ctx)
		if err != nil {
			a.Log.Warn("instance metadata does not answer; the agent uses its last answer", "err", err)
		} else {
			known = &answer
		}
		s := &snapshot{metadata: known}
		if known != nil {
			s.links = FromMetadata(*known, a.DefaultMTU)
		}
		if err := a.configure(s); err != nil {
			a.Log.Error("links could not be configured", "err", err)
		}
		a.logChanges(s.observed, said)
		if err := a.await(ctx, a.untilNext(s)); err != nil || ctx.Err() != nil {
			return err
		}
	}
}

func (a *Agent) readMetadata(ctx context.Context) (eni.Metadata, error) {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	return a.Metadata(ctx)
}

// FromMetadata returns the links of all interfaces whose slots are known, except the primary one. They are named after
// their slots.
func FromMetadata(known eni.Metadata, defaultMTU int) []hostnet.Link {
	var links []hostnet.Link
	for _, i := range known.Interfaces {
		if i.MAC == known.PrimaryMAC || i.Attachment == nil {
			continue
		}
		slot := i.Attachment.Slot
		links = append(links, hostnet.Link{
			Name: fmt.Sprintf("%d-%d", slot.Card, slot.Device), MAC: i.MAC, Slot: slot, MTU: defaultMTU, Mode: hostnet.None,
			Assigned: i.Addresses.Prefixes(),
		})
	}
	return links
}

// logChanges logs the links whose state changed.
func (a *Agent) logChanges(observed []hostnet.Observation, said map[string]hostnet.State) {
	for _, o := range observed {
		if said[o.Link.MAC] != o.State {
			a.Log.Info("link", "mac", o.Link.MAC, "altname", o.AltName, "state", string(o.State), "why", o.Message)
		}
		said[o.Link.MAC] = o.State
	}
}

// untilNext returns how long to wait for events: a short time while the kernel has a link that instance metadata does
// not list.
func (a *Agent) untilNext(s *snapshot) time.Duration {
	for _, link := range s.facts.Links {
		if link.Device != "" && (s.metadata == nil || s.metadata.ByMAC(link.MAC) == nil) {
			return min(a.Resync, metadataLag)
		}
	}
	return a.Resync
}
