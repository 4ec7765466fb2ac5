// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command cni drives the EC2 client of AWS's VPC CNI as its daemon does on a node: it creates interfaces, once with
// addresses and once with prefixes, waits until the instance metadata shows them, and removes all of them. The instance
// is that of the metadata service in the environment.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"slices"
	"time"

	"github.com/aws/amazon-vpc-cni-k8s/pkg/awsutils"
	"github.com/aws/aws-sdk-go-v2/aws"
)

// How many addresses or prefixes an interface gets at its creation, and how many more later.
const (
	atFirst = 2
	more    = 3
)

func main() {
	log.SetFlags(0)
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	const discoverSubnets, customNetworking, keepLeaked, ipv4, ipv6 = true, false, true, true, false
	cache, err := awsutils.New(ctx, discoverSubnets, customNetworking, keepLeaked, ipv4, ipv6)
	if err != nil {
		return err
	}
	if err := cache.FetchInstanceTypeLimits(ctx); err != nil {
		return err
	}
	before, err := cache.GetAttachedENIs()
	if err != nil {
		return err
	}
	for _, prefixes := range []bool{false, true} {
		cache.InitCachedPrefixDelegation(prefixes)
		p := &program{cache: cache, prefixes: prefixes}
		for _, step := range []struct {
			name string
			run  func(context.Context) error
		}{
			{"allocate an interface", p.allocate},
			{"describe all interfaces", p.describe},
			{"more addresses", p.grow},
			{"addresses given back", p.shrink},
			{"free the interface", p.free},
		} {
			if err := step.run(ctx); err != nil {
				return fmt.Errorf("%s (prefixes: %t): %w", step.name, prefixes, err)
			}
			fmt.Printf("%s (prefixes: %t)\n", step.name, prefixes)
		}
	}
	return shown(ctx, cache, len(before))
}

// shown waits until the instance's metadata shows n interfaces again. The daemon reads it once a minute.
func shown(ctx context.Context, cache *awsutils.EC2InstanceMetadataCache, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		attached, err := cache.GetAttachedENIs()
		if err == nil && len(attached) == n {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the metadata show %d interfaces after a minute, not %d: %w", len(attached), n, err)
		case <-time.After(time.Second):
		}
	}
}

type program struct {
	cache    *awsutils.EC2InstanceMetadataCache
	prefixes bool
	eni      string   // the interface that it creates
	blocks   []string // the addresses or prefixes that it adds
}

// allocate creates an interface, and waits until the instance's metadata shows it with its addresses.
func (p *program) allocate(ctx context.Context) (err error) {
	p.eni, err = p.cache.AllocENI(ctx, nil, "", atFirst, 0)
	if err != nil {
		return err
	}
	shown, err := p.cache.WaitForENIAndIPsAttached(p.eni, atFirst)
	if err != nil {
		return err
	}
	if shown.MAC == "" || shown.SubnetIPv4CIDR == "" {
		return fmt.Errorf("the metadata show %+v", shown)
	}
	return p.want(ctx, atFirst)
}

// describe checks that the instance has the interface, with the tags of the daemon.
func (p *program) describe(ctx context.Context) error {
	all, err := p.cache.DescribeAllENIs(ctx)
	if err != nil {
		return err
	}
	mine := func(eni awsutils.ENIMetadata) bool { return eni.ENIID == p.eni }
	if !slices.ContainsFunc(all.ENIMetadata, mine) || len(all.TagMap[p.eni]) == 0 {
		return fmt.Errorf("%s with its tags is not among %+v, %v", p.eni, all.ENIMetadata, all.TagMap)
	}
	return p.cache.TagENI(ctx, p.eni, nil)
}

// grow gives the interface more addresses or prefixes.
func (p *program) grow(ctx context.Context) error {
	assigned, err := p.cache.AllocIPAddresses(ctx, p.eni, more)
	if err != nil {
		return err
	}
	for _, address := range assigned.AssignedPrivateIpAddresses {
		p.blocks = append(p.blocks, aws.ToString(address.PrivateIpAddress))
	}
	for _, prefix := range assigned.AssignedIpv4Prefixes {
		p.blocks = append(p.blocks, aws.ToString(prefix.Ipv4Prefix))
	}
	return p.want(ctx, atFirst+more)
}

// shrink removes them.
func (p *program) shrink(ctx context.Context) error {
	give := p.cache.DeallocIPAddresses
	if p.prefixes {
		give = p.cache.DeallocPrefixAddresses
	}
	return errors.Join(give(ctx, p.eni, p.blocks), p.want(ctx, atFirst))
}

// want checks that EC2 returns that number of prefixes, or of addresses in addition to the primary one.
func (p *program) want(ctx context.Context, n int) error {
	addresses, err := p.cache.GetIPv4sFromEC2(ctx, p.eni)
	if err != nil {
		return err
	}
	prefixes, err := p.cache.GetIPv4PrefixesFromEC2(ctx, p.eni)
	if err != nil {
		return err
	}
	wantAddresses, wantPrefixes := 1+n, 0
	if p.prefixes {
		wantAddresses, wantPrefixes = 1, n
	}
	if len(addresses) != wantAddresses || len(prefixes) != wantPrefixes {
		return fmt.Errorf("%d addresses and %d prefixes, not %d and %d", len(addresses), len(prefixes),
			wantAddresses, wantPrefixes)
	}
	return nil
}

// free detaches and deletes the interface.
func (p *program) free(ctx context.Context) error { return p.cache.FreeENI(ctx, p.eni) }
