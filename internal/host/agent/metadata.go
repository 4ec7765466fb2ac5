// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
)

const (
	// metadataTimeout is the time limit of a read of instance metadata. Where instance metadata is blocked, every read
	// takes that long.
	metadataTimeout = 5 * time.Second
	// metadataPause is the delay before the next requested answer, metadataRetry the one after a failure.
	metadataPause, metadataRetry = 30 * time.Second, 5 * time.Minute
)

// metadata keeps the last answer of instance metadata. The agent never waits for it, and works without it.
type metadata struct {
	read func(context.Context) (eni.Metadata, error)
	// wanted receives a value when a newer answer is requested.
	wanted chan struct{}

	// mu guards last, the last answer of the metadata service.
	mu   sync.Mutex
	last *eni.Metadata
}

func newMetadata(read func(context.Context) (eni.Metadata, error)) *metadata {
	return &metadata{read: read, wanted: make(chan struct{}, 1)}
}

// known returns the last answer, or nil.
func (m *metadata) known() *eni.Metadata {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

// want requests a new answer with a delay.
func (m *metadata) want() {
	select {
	case m.wanted <- struct{}{}:
	default:
	}
}

// keep reads metadata once and after each request, until the context ends, and calls tell for each answer.
func (m *metadata) keep(ctx context.Context, log *slog.Logger, tell func()) {
	for {
		var retry <-chan time.Time
		if err := panics.AsError("instance metadata", func() error { return m.ask(ctx) }); err == nil {
			tell()
		} else if ctx.Err() == nil {
			log.Debug("instance metadata does not answer, without which an agent can do", "err", err)
			retry = time.After(metadataRetry)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(metadataPause):
		}
		select {
		case <-ctx.Done():
			return
		case <-m.wanted:
		case <-retry:
		}
	}
}

func (m *metadata) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, metadataTimeout)
	defer cancel()
	answer, err := m.read(ctx)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = &answer
	return nil
}

// markPrimary sets the primary link to the one that instance metadata names, regardless of default routes.
func markPrimary(facts *hostnet.Facts, known *eni.Metadata) {
	if known == nil {
		return
	}
	for _, link := range facts.Links {
		if link.Device != "" && strings.EqualFold(link.MAC, known.PrimaryMAC) {
			facts.PrimaryLink = link.Index
		}
	}
}

// explainMissing adds what instance metadata says about missing links to their messages, and reports whether there are
// any.
func explainMissing(observed []hostnet.Observation, known *eni.Metadata) (missing bool) {
	for n, o := range observed {
		if o.State != hostnet.Missing || o.Reason != hostnet.ReasonNotFound {
			continue
		}
		missing = true
		switch {
		case known == nil:
		case known.ByMAC(o.Link.MAC) != nil:
			observed[n].Message += "; instance metadata lists it, so it is attached and the kernel does not show its link yet"
		default:
			observed[n].Message += "; instance metadata does not list it either"
		}
	}
	return missing
}
