// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ratelimit decides how fast requests may be made and who comes first.
//
//   - [AdaptiveRate] is how much of one of EC2's token buckets is used: it begins with room for others, climbs while nothing is
//     refused, and falls back when something is.
//   - [PriorityQueue] is an ordered line of those who wait for something: a token, or a place at a [PrioritySemaphore].
//   - [Request] says who waits, for what sort of work, and whether the work is still worth doing.
//
// It knows nothing of clocks and requests: time comes in, and what is asked for goes out.
package ratelimit

import (
	"math"
	"time"
)

const (
	// InitialShare is the part of a bucket that is used at first. The rest is for others in the account, above all the VPC CNI,
	// which makes the same calls when a node starts.
	InitialShare = 0.7
	// MaxShare is the part of what flows into a bucket that is ever used: all of it, beside the [Reserve].
	MaxShare = 1.0
	// Reserve is the part of a bucket's capacity that is left in it, so that others find tokens while we use all that flows
	// in. It is a level and not a part of the refill: a rest of each refill would only fill the bucket to the brim, and be lost.
	Reserve = 0.1
	// SharedReserve is the reserve while others are known to use the bucket as well.
	SharedReserve = 0.3
	// MinShare is the part below which nothing brings the pace: it never stops.
	MinShare = 0.05
	// MaxBurstShare is how far the share climbs. Above one it makes up for what the climb left in the bucket; what keeps the whole
	// within the bucket is [Reserve].
	MaxBurstShare = 1.2
	// BatchSize is how many requests that wait are sent together. Of those who share a bucket that is all but empty, the one
	// whose requests come together is the first to be refused, and so the first to give way: the others, who send one at
	// a time, hardly notice.
	BatchSize = 4

	// cubicScale is how fast the share climbs, per second cubed: from the least to the most in less than a minute.
	cubicScale = 1.85e-5
	// margin is how far below what others leave the climb stays longest, as a multiple of what they take. That gathers
	// in the bucket for groups of their requests: nodes come in groups, and their VPC CNI with them.
	margin = 1
	// memory is how long what others took counts, in the mean. Requests that come in groups say little in a shorter time.
	memory = 2 * time.Minute
	// minSample is how long a bucket must have been used for its emptiness to tell how much others take.
	minSample = 10 * time.Second
	// idleReset is how long nothing has to be wanted before what was learnt counts for nothing.
	idleReset = 10 * time.Second
)

// AdaptiveRate is how much of a bucket is used. It follows the cubic curve of TCP (RFC 9438): after a refusal it is halved, climbs
// back quickly to below what turned out to be left, stays about there, and then asks for more and more.
// The zero value is not usable; call [New].
type AdaptiveRate struct {
	begin float64
	// knee is where the curve is flat, and bend how long it takes to get there.
	knee float64
	bend time.Duration
	// age is for how long the curve was followed.
	age time.Duration
	// left is the part of the bucket that others left to us in the mean, and known for how long that was watched, of which
	// less counts the longer it is ago.
	left  float64
	known time.Duration
}

// New returns the pace that begins with a part of the bucket.
func New(begin float64) AdaptiveRate { return AdaptiveRate{begin: begin, knee: begin} }

// Share returns the part of the bucket's refill to use, from [MinShare] to [MaxBurstShare].
func (p AdaptiveRate) Share() float64 {
	x := (p.age - p.bend).Seconds()
	return min(MaxBurstShare, max(MinShare, p.knee+cubicScale*x*x*x))
}

// Shared reports whether others are known to use the bucket.
func (p AdaptiveRate) Shared() bool { return p.known > 0 }

// Reserve returns the part of the bucket's capacity that is left to others at the moment.
func (p AdaptiveRate) Reserve() float64 {
	if p.Shared() {
		return SharedReserve
	}
	return Reserve
}

// After returns the pace when a time has passed in which requests waited, or in which nothing was wanted: then a pace
// that was cut recovers as far as to where it began, and one that had climbed is forgotten, since others may have come.
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

// Refused returns the pace after EC2 refused a request because the bucket is empty, given the part of the bucket that was left
// to us since the time when it was last empty, or taken for full; [AvailableShare] works it out. A short time does not tell, and leaves
// what is known of others as it is.
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

// watched takes in what others left to us for a time.
func (p AdaptiveRate) watched(left float64, since time.Duration) AdaptiveRate {
	before := p.known.Seconds() * math.Exp(-since.Seconds()/memory.Seconds())
	all := before + since.Seconds()
	p.left = (p.left*before + left*since.Seconds()) / all
	p.known = time.Duration(all * float64(time.Second))
	return p
}

// AvailableShare returns the part of a bucket that others left to us, when it turns out to be empty: spare is what would be in it
// had only we used it, refill what it gets each second, and since the time since it was last empty, or taken for full.
func AvailableShare(spare, refill float64, since time.Duration) float64 {
	if since <= 0 {
		return 1
	}
	return min(1, max(0, 1-spare/(refill*since.Seconds())))
}
