// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"math"
	"time"

	"golang.org/x/time/rate"

	"github.com/multieni/multieni/awssim/ec2"
)

// Bucket is a token bucket: Capacity tokens when full, Refill tokens a second.
type Bucket struct {
	Capacity int     `json:"capacity"`
	Refill   float64 `json:"refill"`
}

// Buckets of calls that are not an action.
const (
	// UnnarrowedSuffix, after the name of a describe action, is the bucket of calls without filter and page size.
	UnnarrowedSuffix = "/unfiltered"
	// InstancesSuffix, after the name of an action, is the bucket that pays a token for each instance.
	InstancesSuffix = "/instances"
)

// DocumentedLimits returns the default buckets of an account (EC2 developer guide, "Request throttling"). Each action
// has its own. The caller may change the map; an action that is not in it has no limit.
func DocumentedLimits() map[string]Bucket {
	limits := map[string]Bucket{
		"AssignIpv6Addresses":             {100, 5},
		"AssignPrivateIpAddresses":        {100, 5},
		"CreateLaunchTemplateVersion":     {100, 5},
		"CreateNetworkInterface":          {100, 5},
		"CreateSubnetCidrReservation":     {5, 1},
		"CreateTags":                      {100, 10},
		"DeleteNetworkInterface":          {100, 5},
		"DeleteSubnetCidrReservation":     {5, 1},
		"DeleteTags":                      {100, 10},
		"GetSubnetCidrReservations":       {5, 1},
		"ModifyLaunchTemplate":            {100, 5},
		"ModifyNetworkInterfaceAttribute": {100, 5},
		"RunInstances":                    {5, 2},
		"StartInstances":                  {5, 2},
		"TerminateInstances":              {100, 5},
		"UnassignPrivateIpAddresses":      {100, 5},

		"DescribeInstances" + UnnarrowedSuffix:         {50, 10},
		"DescribeNetworkInterfaces" + UnnarrowedSuffix: {50, 10},
		"DescribeSecurityGroups" + UnnarrowedSuffix:    {50, 10},

		"RunInstances" + InstancesSuffix:       {1000, 2},
		"StartInstances" + InstancesSuffix:     {1000, 2},
		"StopInstances" + InstancesSuffix:      {1000, 20},
		"TerminateInstances" + InstancesSuffix: {1000, 20},
	}
	for _, operation := range ec2.Operations() {
		if _, own := limits[operation.Name]; own {
			continue
		}
		limits[operation.Name] = Bucket{100, 20}
		if operation.IsMutating {
			limits[operation.Name] = Bucket{50, 5}
		}
	}
	return limits
}

// throttle holds the buckets of an account.
type throttle struct {
	buckets  map[string]*rate.Limiter
	costs    bool // whether a throttled call costs tokens
	idFilter bool // whether IDs count as a filter
}

func newThrottle(limits map[string]Bucket, behavior ec2.Behavior) *throttle {
	t := &throttle{
		buckets:  map[string]*rate.Limiter{},
		costs:    behavior.ThrottledCallsCost,
		idFilter: behavior.IDsAreFilters,
	}
	for name, bucket := range limits {
		t.buckets[name] = rate.NewLimiter(rate.Limit(bucket.Refill), bucket.Capacity)
	}
	return t
}

// save returns the number of tokens in each bucket.
func (t *throttle) save(now time.Time) map[string]float64 {
	tokens := map[string]float64{}
	for name, bucket := range t.buckets {
		tokens[name] = bucket.TokensAt(now)
	}
	return tokens
}

// load takes tokens from full buckets, until they have the saved numbers. A bucket whose capacity is now smaller stays
// full.
func (t *throttle) load(tokens map[string]float64, now time.Time) {
	for name, bucket := range t.buckets {
		saved, known := tokens[name]
		missing := float64(bucket.Burst()) - saved
		if !known || missing <= 0 || bucket.Burst() == 0 {
			continue
		}
		// A bucket gives whole tokens: taken earlier, the last one has partly come back by now.
		whole, at := math.Ceil(missing), now
		if bucket.Limit() > 0 {
			at = now.Add(-time.Duration((whole - missing) / float64(bucket.Limit()) * float64(time.Second)))
		}
		for left := int(whole); left > 0; left -= bucket.Burst() {
			bucket.ReserveN(at, min(left, bucket.Burst()))
		}
	}
}

// allows takes the tokens of a call, and reports whether there were enough.
func (t *throttle) allows(now time.Time, action string, input any) bool {
	name := action
	if t.isUnnarrowed(input) {
		if _, own := t.buckets[action+UnnarrowedSuffix]; own {
			name = action + UnnarrowedSuffix
		}
	}
	bucket := t.buckets[name]
	perInstance := t.buckets[action+InstancesSuffix]
	instances := instancesIn(input)
	if perInstance != nil && instances > 0 && perInstance.TokensAt(now) < float64(instances) {
		t.punish(bucket, now)
		return false
	}
	if bucket != nil && !bucket.AllowN(now, 1) {
		t.punish(bucket, now)
		return false
	}
	return perInstance == nil || perInstance.AllowN(now, instances)
}

// punish makes a throttled call cost the time of a token, if the behavior says so.
func (t *throttle) punish(bucket *rate.Limiter, now time.Time) {
	if t.costs && bucket != nil {
		bucket.ReserveN(now, 1)
	}
}

func (t *throttle) isUnnarrowed(input any) bool {
	switch in := input.(type) {
	case *ec2.DescribeInstancesInput:
		return !in.Narrowed() && (!t.idFilter || len(in.InstanceIDs) == 0)
	case *ec2.DescribeNetworkInterfacesInput:
		return !in.Narrowed() && (!t.idFilter || len(in.NetworkInterfaceIDs) == 0)
	case *ec2.DescribeSecurityGroupsInput:
		return !in.Narrowed() && (!t.idFilter || len(in.GroupIDs) == 0)
	default:
		return false
	}
}

// instancesIn returns the number of instances that a call acts on.
func instancesIn(input any) int {
	switch in := input.(type) {
	case *ec2.RunInstancesInput:
		if in.MaxCount == nil {
			return 0
		}
		return *in.MaxCount
	case *ec2.InstancesInput:
		return len(in.InstanceIDs)
	case *ec2.StopInstancesInput:
		return len(in.InstanceIDs)
	default:
		return 0
	}
}
