// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Bucket is a token bucket of EC2, which has one per account, region and action.
type Bucket struct {
	// Capacity is how many requests can be made at once.
	Capacity int
	// Refill is how many requests a second are given back.
	Refill float64
}

// ParseBucket reads a bucket that is written as "capacity/refill", for example "100/5".
func ParseBucket(text string) (Bucket, error) {
	capacity, refill, _ := strings.Cut(text, "/")
	var b Bucket
	var err error
	if b.Capacity, err = strconv.Atoi(capacity); err == nil {
		b.Refill, err = strconv.ParseFloat(refill, 64)
	}
	if err != nil || b.Capacity < 1 || !(b.Refill > 0) || math.IsInf(b.Refill, 0) {
		return Bucket{}, fmt.Errorf("%q is no token bucket: write CAPACITY/REFILL, requests and requests per second, for example 100/5", text)
	}
	return b, nil
}

// String writes a bucket as [ParseBucket] reads it.
func (b Bucket) String() string {
	return strconv.Itoa(b.Capacity) + "/" + strconv.FormatFloat(b.Refill, 'g', -1, 64)
}

// ParseBuckets reads the buckets of actions. Actions that are never requested are refused, since they are misspelt.
func ParseBuckets(texts map[string]string) (map[string]Bucket, error) {
	known := DocumentedBuckets()
	buckets := map[string]Bucket{}
	for action, text := range texts {
		b, err := ParseBucket(text)
		if err != nil {
			return nil, fmt.Errorf("bucket of %s: %w", action, err)
		}
		if _, is := known[action]; !is {
			return nil, fmt.Errorf("%s is no action that is requested of EC2; there are %s", action, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		buckets[action] = b
	}
	return buckets, nil
}

// Usable is how many requests are made at once at most while nobody else is known to use the bucket: the rest of the capacity
// stays in it.
func (b Bucket) Usable() int { return b.beyond(ratelimit.Reserve) }

// beyond is how many requests of the capacity there are beside a reserve for others. The reserve covers too that EC2 documents
// that buckets are refilled once per second, and not all the time.
func (b Bucket) beyond(reserve float64) int { return max(1, int((1-reserve)*float64(b.Capacity))) }

// BucketState is how the bucket of one action stands.
type BucketState struct {
	Action string
	Bucket
	// Share is the part of the refill that is used at most at the moment; above one it makes up for an earlier rest.
	Share float64
	// Level is how many tokens are at hand.
	Level float64
	// Waiting is how many requests wait for a token, InFlight how many were sent and are not answered.
	Waiting, InFlight int
}

// actionLimiter spends the tokens of one bucket on those who wait in line for them.
type actionLimiter struct {
	action string
	size   Bucket

	mu   sync.Mutex
	pace ratelimit.AdaptiveRate
	// paced is when the pace was last brought up to date.
	paced time.Time
	// accountBucket is what the bucket would have beyond the reserve if nobody else used it; ours is how much of that we dare to use.
	accountBucket, ownBucket *rate.Limiter
	// lastEmpty is when the bucket was last found empty, or taken for full.
	lastEmpty time.Time
	// spent is how many tokens were taken since then.
	spent    int
	line     ratelimit.PriorityQueue[*waiter]
	inFlight int
	// wake serves the line when the next tokens are there.
	wake *time.Timer
}

// waiter is one request that waits. Its turn is announced by nil, or by why it is not to be sent.
type waiter struct {
	still func() error
	turn  chan error
}

func newSpender(action string, size Bucket, share float64) *actionLimiter {
	now := time.Now()
	s := &actionLimiter{action: action, size: size, pace: ratelimit.New(share), paced: now, lastEmpty: now}
	s.accountBucket = rate.NewLimiter(rate.Limit(size.Refill), size.Usable())
	s.ownBucket = rate.NewLimiter(rate.Limit(share*size.Refill), s.burst(share))
	return s
}

// usable is how many requests of the capacity are not left to others at the moment.
func (s *actionLimiter) usable() int { return s.size.beyond(s.pace.Reserve()) }

// burst is how many requests may be made at once when a share of the bucket is used.
func (s *actionLimiter) burst(share float64) int {
	return max(1, min(s.usable(), int(share*float64(s.size.Capacity))))
}

// wait returns when the turn of a request has come, or an error if it is not to be sent.
func (s *actionLimiter) wait(ctx context.Context) error {
	ticket := ratelimit.FromContext(ctx)
	w := &waiter{still: ticket.StillValid, turn: make(chan error, 1)}
	place := s.join(ticket.Rank, w)
	select {
	case err := <-w.turn:
		return err
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.Remove(place)
	err := fmt.Errorf("wait for the request rate of %s: %w", s.action, context.Cause(ctx))
	if ctx.Err() == context.DeadlineExceeded {
		return &eni.APIError{Class: eni.Throttled, Operation: s.action, Err: err}
	}
	return err
}

func (s *actionLimiter) join(rank ratelimit.Rank, w *waiter) *ratelimit.Item[*waiter] {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.adaptShare(now)
	place := s.line.Push(rank, w)
	s.serve(now)
	return place
}

// adaptShare brings the pace up to date.
func (s *actionLimiter) adaptShare(now time.Time) {
	s.pace = s.pace.After(now.Sub(s.paced), s.line.Len() > 0)
	s.paced = now
	share := s.pace.Share()
	s.accountBucket.SetBurstAt(now, s.usable())
	s.ownBucket.SetLimitAt(now, rate.Limit(share*s.size.Refill))
	s.ownBucket.SetBurstAt(now, s.burst(share))
}

// serve gives tokens to those whose turn it is, train by train, and sees to it that it is called again while some wait.
func (s *actionLimiter) serve(now time.Time) {
	for s.line.Len() > 0 {
		train := min(s.batch(), s.line.Len())
		if missing := max(s.until(now, s.accountBucket, train), s.until(now, s.ownBucket, train)); missing > 0 {
			s.scheduleWake(missing)
			return
		}
		for range train {
			s.grant(now, s.line.Pop())
		}
	}
}

// batch is how many requests are sent together: as many as take no longer than two seconds to collect tokens for.
func (s *actionLimiter) batch() int {
	return max(1, min(ratelimit.BatchSize, int(2*s.ownBucket.Limit()), s.ownBucket.Burst(), s.accountBucket.Burst()))
}

// until returns how long it takes until a limiter has tokens.
func (s *actionLimiter) until(now time.Time, l *rate.Limiter, tokens int) time.Duration {
	missing := float64(tokens) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/float64(l.Limit())*float64(time.Second)) + time.Microsecond
}

// scheduleWake calls serve in a while. The pace changes meanwhile, so it does not wait for long.
func (s *actionLimiter) scheduleWake(d time.Duration) {
	d = min(d, time.Second)
	if s.wake != nil {
		s.wake.Reset(d)
		return
	}
	s.wake = time.AfterFunc(d, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		now := time.Now()
		s.adaptShare(now)
		s.serve(now)
	})
}

// grant announces a turn. Work that is no longer worth doing costs no token.
func (s *actionLimiter) grant(now time.Time, w *waiter) {
	if w.still != nil {
		if err := w.still(); err != nil {
			w.turn <- &eni.APIError{Class: eni.Transient, Operation: s.action, Err: fmt.Errorf("not sent: %w", err)}
			return
		}
	}
	s.accountBucket.AllowN(now, 1)
	s.ownBucket.AllowN(now, 1)
	s.spent++
	w.turn <- nil
}

// onRequest notes that a request is on its way.
func (s *actionLimiter) onRequest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight++
}

// onResponse takes the answer to a request into account: a refusal for the rate shows that the bucket is empty, also when the
// limiters have tokens. The answers to requests that were sent before the last refusal was known tell nothing new.
func (s *actionLimiter) onResponse(sentAt time.Time, class eni.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if class != eni.Throttled || sentAt.Before(s.lastEmpty) {
		return
	}
	now := time.Now()
	s.adaptShare(now)
	spare, since := s.accountBucket.TokensAt(now)+float64(s.size.Capacity-s.usable()), now.Sub(s.lastEmpty)
	s.pace = s.pace.Refused(ratelimit.AvailableShare(spare, s.size.Refill, since), since)
	s.lastEmpty = now
	// Where others are known to use the bucket, the reserve comes back first. Our share waits for as much again: a group of
	// theirs that finds the bucket empty goes on for a while. A program that made few requests took little, and gives back no more:
	// a node that boots has a handful to make, and a minute for them.
	owed := 0
	if s.pace.Shared() {
		owed = min(s.spent, s.size.Capacity-s.usable())
	}
	s.spent = 0
	s.accountBucket, s.ownBucket = s.owing(now, owed), s.owing(now, 2*owed)
	s.adaptShare(now)
}

// owing returns a limiter that has no token, and gets none before a number of tokens has come back; no more than are usable.
func (s *actionLimiter) owing(now time.Time, tokens int) *rate.Limiter {
	l := rate.NewLimiter(rate.Limit(s.size.Refill), s.usable())
	l.AllowN(now, s.usable())
	l.ReserveN(now, min(tokens, s.usable()))
	return l
}

// state returns how the bucket stands.
func (s *actionLimiter) state() BucketState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.adaptShare(now)
	return BucketState{
		Action: s.action, Bucket: s.size, Share: s.pace.Share(), Level: max(0, min(s.accountBucket.TokensAt(now), s.ownBucket.TokensAt(now))),
		Waiting: s.line.Len(), InFlight: s.inFlight,
	}
}
