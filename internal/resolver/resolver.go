// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver turns the subnet and security group selectors of NodeENIs into what EC2 knows, and remembers the
// answers for a while, so that a fleet of nodes under one NodeENI costs one reading and not one each.
package resolver

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/selector"
)

// Reader is what resolving asks of EC2. Terms that match nothing are no error.
type Reader interface {
	Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error)
	SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error)
}

// Options say how long answers are remembered.
type Options struct {
	// Fresh is for complete answers. Subnets and groups seldom change.
	Fresh time.Duration
	// Doubtful is for answers in which something that was named is missing: somebody is probably about to make it.
	Doubtful time.Duration
	// Now tells the time.
	Now func() time.Time
}

// Resolver is safe for concurrent use.
type Resolver struct {
	reader  Reader
	options Options
	subnets cache[selector.SubnetMatch]
	groups  cache[selector.GroupMatch]
}

// New returns a Resolver with empty memory.
func New(reader Reader, options Options) *Resolver {
	return &Resolver{
		reader: reader, options: options,
		subnets: cache[selector.SubnetMatch]{now: options.Now}, groups: cache[selector.GroupMatch]{now: options.Now},
	}
}

// Subnets resolves subnet terms.
func (r *Resolver) Subnets(ctx context.Context, terms selector.SubnetTerms) (selector.SubnetMatch, error) {
	return r.subnets.get(ctx, fmt.Sprintf("%q", terms), func(ctx context.Context) (selector.SubnetMatch, time.Duration, error) {
		facts, err := r.reader.Subnets(ctx, terms)
		if err != nil {
			return selector.SubnetMatch{}, 0, err
		}
		match := selector.MatchSubnets(terms, facts)
		return match, r.keep(len(match.Unknown) == 0), nil
	})
}

// SecurityGroups resolves group terms.
func (r *Resolver) SecurityGroups(ctx context.Context, terms selector.GroupTerms) (selector.GroupMatch, error) {
	return r.groups.get(ctx, fmt.Sprintf("%q", terms), func(ctx context.Context) (selector.GroupMatch, time.Duration, error) {
		facts, err := r.reader.SecurityGroups(ctx, terms)
		if err != nil {
			return selector.GroupMatch{}, 0, err
		}
		match := selector.MatchGroups(terms, facts)
		_, problems := match.ForVPC("")
		return match, r.keep(len(problems) == 0), nil
	})
}

func (r *Resolver) keep(complete bool) time.Duration {
	if complete {
		return r.options.Fresh
	}
	return r.options.Doubtful
}

// cache remembers answers by question until they expire, and asks each question only once at a time.
type cache[T any] struct {
	now     func() time.Time
	mu      sync.Mutex
	answers map[string]answer[T]
	flight  singleflight.Group
}

type answer[T any] struct {
	value T
	until time.Time
}

// get returns the remembered answer, or asks. A caller whose context ends goes, and leaves the question to the others.
func (m *cache[T]) get(ctx context.Context, question string, ask func(context.Context) (T, time.Duration, error)) (T, error) {
	m.mu.Lock()
	known, ok := m.answers[question]
	m.mu.Unlock()
	if ok && m.now().Before(known.until) {
		return known.value, nil
	}
	asked := m.flight.DoChan(question, func() (any, error) {
		value, keep, err := ask(context.WithoutCancel(ctx))
		if err == nil {
			m.remember(question, answer[T]{value, m.now().Add(keep)})
		}
		return value, err
	})
	select {
	case result := <-asked:
		value, _ := result.Val.(T)
		return value, result.Err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}

func (m *cache[T]) remember(question string, a answer[T]) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers == nil {
		m.answers = map[string]answer[T]{}
	}
	now := m.now()
	for old, expired := range m.answers {
		if now.After(expired.until) {
			delete(m.answers, old)
		}
	}
	m.answers[question] = a
}
