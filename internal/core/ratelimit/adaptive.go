// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ratelimit decides how fast requests are sent to EC2, and in which order.
//
//   - [AdaptiveRate] is the share of one of EC2's token buckets that this process uses. It begins below the whole,
//     grows while EC2 throttles nothing, and shrinks when EC2 throttles.
//   - [PriorityQueue] orders waiting work: requests that wait for a token, or nodes that wait for a
//     [PrioritySemaphore].
//   - [Request] has the priority of a request, and a check that its work is still needed.
//
// The package has no clock and sends nothing: callers pass the time, and send the requests.
package ratelimit

import (
	"math"
	"time"
)

const (
	// InitialShare is the share of a bucket at the start. The rest is for other programs in the account, mainly the VPC
	// CNI, which makes the same calls when a node starts.
	InitialShare = 0.7
	// MaxShare is the largest long-term share of a bucket's refill: all of it. The [Reserve] stays in the bucket.
	MaxShare = 1.0
	// Reserve is the part of a bucket's capacity that stays in the bucket, so that other programs find tokens while this
	// process uses the whole refill. It is a level of the bucket and not a part of the refill, because a full bucket loses
	// its refill.
	Reserve = 0.1
	// SharedReserve is the reserve while other programs are known to use the bucket.
	SharedReserve = 0.4
	// MinShare is the lower bound of the share, so that requests never stop.
	MinShare = 0.05
	// MaxBurstShare is the upper bound of the share. Above 1 the process also uses the tokens that accumulated in the
	// bucket during the climb. The [Reserve] keeps the total within the bucket.
	MaxBurstShare = 1.2
	// BatchSize is the number of waiting requests to send together. If a bucket is almost empty, EC2 first throttles the
	// user that sends bursts. This process therefore yields first, and users with single requests are hardly affected.
	BatchSize = 4
	// SharedBatchSize is the batch size while other programs are known to use the bucket.
	SharedBatchSize = 8

	// cubicScale is the steepness of the climb, per second cubed: from the smallest to the largest share in under a
	// minute.
	cubicScale = 1.85e-5
	// probeScale is the steepness of the climb beyond the share that others are known to leave, per second cubed. Each
	// attempt that goes too far empties the bucket for them.
	probeScale = cubicScale / 4
	// margin is the distance between the plateau of the climb and the share that others leave, as a multiple of their
	// share. The tokens of this distance accumulate in the bucket for bursts of others: nodes, and so their VPC CNIs,
	// start in groups.
	margin = 1
	// memory is the time constant of the mean use by others. Bursts make a shorter time meaningless.
	memory = 2 * time.Minute
	// minSample is the shortest use of a bucket after which an empty bucket shows how much others use.
	minSample = 10 * time.Second
	// idleReset is the time without requests after which the learned rate is discarded.
	idleReset = 10 * time.Second
)

// AdaptiveRate is the share of a bucket. It follows the cubic curve of TCP (RFC 9438): a throttled request halves it;
// it then climbs quickly to a plateau below the share that others leave, stays near the plateau, and climbs at a
// growing rate. The zero value is not usable; call [New].
type AdaptiveRate struct {
	begin float64
	// knee is the share at the plateau of the curve, and bend the time from the last throttled request to the plateau.
	knee float64
	bend time.Duration
	// age is the time on the curve, since the last throttled request or the start.
	age time.Duration
	// left is the mean share that others left to this process. known is the time over which it was measured; older
	// measurements count less.
	left  float64
	known time.Duration
}

// New returns the rate that begins with the given share of the bucket.
func New(begin float64) AdaptiveRate { return AdaptiveRate{begin: begin, knee: begin} }

// Share returns the current share of the bucket's refill, from [MinShare] to [MaxBurstShare].
func (p AdaptiveRate) Share() float64 {
	x := (p.age - p.bend).Seconds()
	scale := cubicScale
	if x > 0 && p.Shared() {
		scale = probeScale
	}
	return min(MaxBurstShare, max(MinShare, p.knee+scale*x*x*x))
}

// Shared reports whether other programs are known to use the bucket.
func (p AdaptiveRate) Shared() bool { return p.known > 0 }

// Reserve returns the part of the bucket's capacity that this process leaves to others at present.
func (p AdaptiveRate) Reserve() float64 {
	if p.Shared() {
		return SharedReserve
	}
	return Reserve
}

// Batch returns the number of waiting requests to send together at present.
func (p AdaptiveRate) Batch() int {
	if p.Shared() {
		return SharedBatchSize
	}
	return BatchSize
}

// After returns the rate after a time in which requests waited or, if wanted is false, no requests waited. Without
// requests, a lowered rate recovers to its start, and a raised one is discarded, because new users may have appeared.
func (p AdaptiveRate) After(passed time.Duration, wanted bool) AdaptiveRate {
	switch {
	case passed <= 0:
	case wanted:
		p.age += passed
	case p.Share() < p.begin:
		p.age += passed
		if p.Share() >= p.begin {
			return New(p.begin)
		}
	case passed >= idleReset:
		return New(p.begin)
	}
	return p
}

// Refused returns the rate after EC2 throttled a request. The argument left is the share that others left to this
// process since the bucket was last empty or assumed full; [AvailableShare] computes it. After a short time it is
// meaningless and does not change the knowledge about others.
func (p AdaptiveRate) Refused(left float64, since time.Duration) AdaptiveRate {
	share := p.Share()
	if since >= minSample {
		p = p.watched(left, since)
	}
	if p.known == 0 {
		left = share
	} else {
		left = p.left
	}
	low := max(MinShare, min(left, share)/2)
	p.knee = max(low, left-margin*(1-left))
	p.bend = time.Duration(math.Cbrt((p.knee-low)/cubicScale) * float64(time.Second))
	p.age = 0
	return p
}

// watched adds a measurement of the share that others left.
func (p AdaptiveRate) watched(left float64, since time.Duration) AdaptiveRate {
	before := p.known.Seconds() * math.Exp(-since.Seconds()/memory.Seconds())
	all := before + since.Seconds()
	p.left = (p.left*before + left*since.Seconds()) / all
	p.known = time.Duration(all * float64(time.Second))
	return p
}

// AvailableShare returns the share of a bucket that others left to this process, given that the bucket is empty now.
// The argument spare is the number of tokens in it if this process were its only user, refill the tokens per second,
// and since the time since the bucket was last empty or assumed full.
func AvailableShare(spare, refill float64, since time.Duration) float64 {
	if since <= 0 {
		return 1
	}
	return min(1, max(0, 1-spare/(refill*since.Seconds())))
}
