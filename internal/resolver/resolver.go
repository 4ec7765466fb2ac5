// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package resolver turns the subnet and security group selectors of NodeENIs into what EC2 knows, and remembers the
// answers for a while, so that a fleet of nodes under one NodeENI costs one reading and not one each.
package resolver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/internal/cache"
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
	// Doubtful is how long an answer is kept that lacks something that was named: a user is probably about to create
	// it.
	Doubtful time.Duration
	// Now tells the time.
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

// New returns a Resolver with empty memory.
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

// LastRead returns each resolved subnet as EC2 returned it last, sorted by ID. It omits subnets that were last read
// more than three times Fresh ago: no object selects them any more, or EC2 cannot be read.
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
