// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver resolves the subnet and security group selectors of NodeENIs by reads of EC2. It caches the answers,
// so that the whole fleet of a NodeENI costs one read, not one for each node.
package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/base/cache"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/selector"
)

// Reader is the part of EC2 that the Resolver reads. Terms without a match are not an error.
type Reader interface {
	Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error)
	SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error)
}

// Options are the settings of a Resolver.
type Options struct {
	// Fresh is how long a complete answer is cached. Subnets and groups rarely change.
	Fresh time.Duration
	// Doubtful is how long an answer is cached that lacks a named resource: a user is probably about to create it.
	Doubtful time.Duration
	// Now returns the current time.
	Now func() time.Time
}

// Resolver is safe for concurrent use.
type Resolver struct {
	reader  Reader
	options Options
	subnets *cache.Cache[selector.SubnetMatch]
	groups  *cache.Cache[selector.GroupMatch]

	// mu guards read.
	mu   sync.Mutex
	read map[string]subnetRead
}

// subnetRead is a subnet as EC2 returned it last.
type subnetRead struct {
	eni.Subnet
	at time.Time
}

// New returns a Resolver with an empty cache.
func New(reader Reader, options Options) *Resolver {
	return &Resolver{
		reader: reader, options: options, read: map[string]subnetRead{},
		subnets: cache.New[selector.SubnetMatch](options.Now), groups: cache.New[selector.GroupMatch](options.Now),
	}
}

// Subnets resolves subnet terms.
func (r *Resolver) Subnets(ctx context.Context, terms selector.SubnetTerms) (selector.SubnetMatch, error) {
	return r.subnets.Get(ctx, fmt.Sprintf("%q", terms),
		func(ctx context.Context) (selector.SubnetMatch, time.Duration, error) {
			facts, err := r.reader.Subnets(ctx, terms)
			if err != nil {
				return selector.SubnetMatch{}, 0, err
			}
			match := selector.MatchSubnets(terms, facts)
			r.record(match.Subnets())
			return match, r.keep(len(match.Unknown) == 0), nil
		})
}

func (r *Resolver) record(subnets []eni.Subnet) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, subnet := range subnets {
		r.read[subnet.ID] = subnetRead{subnet, r.options.Now()}
	}
}

// LastRead returns each resolved subnet as EC2 last returned it, sorted by ID. It omits subnets that were last read
// more than three times Fresh ago: no object selects them any more, or reads of EC2 fail.
func (r *Resolver) LastRead() []eni.Subnet {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []eni.Subnet
	for id, subnet := range r.read {
		if r.options.Now().Sub(subnet.at) > 3*r.options.Fresh {
			delete(r.read, id)
			continue
		}
		all = append(all, subnet.Subnet)
	}
	slices.SortFunc(all, func(a, b eni.Subnet) int { return strings.Compare(a.ID, b.ID) })
	return all
}

// SecurityGroups resolves group terms.
func (r *Resolver) SecurityGroups(ctx context.Context, terms selector.GroupTerms) (selector.GroupMatch, error) {
	return r.groups.Get(ctx, fmt.Sprintf("%q", terms),
		func(ctx context.Context) (selector.GroupMatch, time.Duration, error) {
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
