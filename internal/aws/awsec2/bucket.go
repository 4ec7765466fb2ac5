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

// Bucket is a token bucket of EC2, which has one for each account, region and action.
type Bucket struct {
	// Capacity is the largest burst, in requests.
	Capacity int
	// Refill is the rate, in requests per second.
	Refill float64
}

// ParseBucket parses "capacity/refill", for example "100/5".
func ParseBucket(text string) (Bucket, error) {
	capacity, refill, _ := strings.Cut(text, "/")
	var b Bucket
	var err error
	if b.Capacity, err = strconv.Atoi(capacity); err == nil {
		b.Refill, err = strconv.ParseFloat(refill, 64)
	}
	if err != nil || b.Capacity < 1 || !(b.Refill > 0) || math.IsInf(b.Refill, 0) {
		return Bucket{}, fmt.Errorf("%q is not a token bucket: write CAPACITY/REFILL, requests and requests per second, "+
			"for example 100/5", text)
	}
	return b, nil
}

// String returns the form that [ParseBucket] parses.
func (b Bucket) String() string {
	return strconv.Itoa(b.Capacity) + "/" + strconv.FormatFloat(b.Refill, 'g', -1, 64)
}

// ParseBuckets parses the buckets of actions. It refuses actions that multieni never calls, because they are
// misspelled.
func ParseBuckets(texts map[string]string) (map[string]Bucket, error) {
	known := DocumentedBuckets()
	buckets := map[string]Bucket{}
	for action, text := range texts {
		b, err := ParseBucket(text)
		if err != nil {
			return nil, fmt.Errorf("bucket of %s: %w", action, err)
		}
		if _, is := known[action]; !is {
			return nil, fmt.Errorf("%s is not an EC2 action that multieni calls; these are %s", action,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		buckets[action] = b
	}
	return buckets, nil
}

// Usable is the largest burst while no other program is known to use the bucket: the rest of the capacity stays in it.
func (b Bucket) Usable() int { return b.beyond(ratelimit.Reserve) }

// beyond is the capacity without a reserve for others, in requests. The reserve also covers that EC2 refills buckets
// once per second, as documented, and not continuously.
func (b Bucket) beyond(reserve float64) int { return max(1, int((1-reserve)*float64(b.Capacity))) }

// BucketState is the current state of the bucket of one action.
type BucketState struct {
	Action string
	Bucket
	// Share is the current upper bound as a part of the refill; above 1 it uses accumulated tokens.
	Share float64
	// Level is the number of available tokens.
	Level float64
	// Waiting is the number of requests that wait for a token, InFlight the number of sent requests without an answer.
	Waiting, InFlight int
}

// actionLimiter gives the tokens of one bucket to the requests in its queue.
type actionLimiter struct {
	action string
	size   Bucket

	// mu guards what follows. It is not held during calls to other packages' functions.
	mu   sync.Mutex
	pace ratelimit.AdaptiveRate
	// paced is the time of the last update of the rate.
	paced time.Time
	// accountBucket models the bucket without its reserve, as if this process were its only user; ownBucket is limited to
	// the current share.
	accountBucket, ownBucket *rate.Limiter
	// lastEmpty is the time at which the bucket was last empty, or assumed full.
	lastEmpty time.Time
	// spent is the number of tokens taken since then. returned is the number of those that were returned without a
	// request, for the next requests.
	spent, returned int

	line     ratelimit.PriorityQueue[*waiter]
	inFlight int
	// wake serves the queue when the next tokens are available.
	wake *time.Timer
}

// waiter is one request in the queue. Its channel is closed when it has a token.
type waiter struct{ granted chan struct{} }

func newSpender(action string, size Bucket, share float64) *actionLimiter {
	now := time.Now()
	s := &actionLimiter{action: action, size: size, pace: ratelimit.New(share), paced: now, lastEmpty: now}
	s.accountBucket = rate.NewLimiter(rate.Limit(size.Refill), size.Usable())
	s.ownBucket = rate.NewLimiter(rate.Limit(share*size.Refill), s.burst(share))
	return s
}

// usable is the capacity without the current reserve for others, in requests.
func (s *actionLimiter) usable() int { return s.size.beyond(s.pace.Reserve()) }

// burst is the largest burst at a share of the bucket.
func (s *actionLimiter) burst(share float64) int {
	return max(1, min(s.usable(), int(share*float64(s.size.Capacity))))
}

// answerTime is what a wait leaves of the time of its context: EC2 may have done a request that ends without an answer.
// EC2 answers in a few seconds.
const answerTime = 10 * time.Second

// leavingTime returns a context that ends earlier than the given one, so that a request has time for its answer.
func leavingTime(ctx context.Context) (context.Context, context.CancelFunc) {
	deadline, has := ctx.Deadline()
	if !has {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline.Add(-min(answerTime, time.Until(deadline)/2)))
}

// wait returns when a request may be sent, or an error if it must not be sent.
func (s *actionLimiter) wait(ctx context.Context) error {
	ctx, cancel := leavingTime(ctx)
	defer cancel()
	request := ratelimit.FromContext(ctx)
	w := &waiter{granted: make(chan struct{})}
	place := s.join(request.Rank, w)
	select {
	case <-w.granted:
		return s.confirm(request)
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

// confirm returns the token of a request whose work is no longer valid, and the reason. It does not hold the lock while
// it calls the request's function.
func (s *actionLimiter) confirm(request ratelimit.Request) error {
	if request.StillValid == nil {
		return nil
	}
	err := request.StillValid()
	if err == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent = max(0, s.spent-1)
	s.returned++
	s.serve(time.Now())
	return &eni.APIError{Class: eni.Transient, Operation: s.action, Err: fmt.Errorf("not sent: %w", err)}
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

// adaptShare updates the rate.
func (s *actionLimiter) adaptShare(now time.Time) {
	s.pace = s.pace.After(now.Sub(s.paced), s.line.Len() > 0)
	s.paced = now
	share := s.pace.Share()
	s.accountBucket.SetBurstAt(now, s.usable())
	s.ownBucket.SetLimitAt(now, rate.Limit(share*s.size.Refill))
	s.ownBucket.SetBurstAt(now, s.burst(share))
}

// serve gives tokens to the first requests of the queue, batch by batch, and schedules its next call while requests
// wait.
func (s *actionLimiter) serve(now time.Time) {
	for s.line.Len() > 0 {
		together := min(s.batch(), s.line.Len())
		if missing := max(s.until(now, s.accountBucket, together), s.until(now, s.ownBucket, together)); missing > 0 {
			s.scheduleWake(missing)
			return
		}
		for range together {
			s.grant(now, s.line.Pop())
		}
	}
}

// batch is the number of requests to send together. Below two requests per second it is smaller, so that the first
// request does not wait long.
func (s *actionLimiter) batch() int {
	size := s.pace.Batch()
	atRate := int(float64(size) / 2 * float64(s.ownBucket.Limit()))
	return max(1, min(size, atRate, s.ownBucket.Burst(), s.accountBucket.Burst()))
}

// until returns the time until a limiter has tokens.
func (s *actionLimiter) until(now time.Time, l *rate.Limiter, tokens int) time.Duration {
	missing := float64(tokens-s.returned) - l.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing/float64(l.Limit())*float64(time.Second)) + time.Microsecond
}

// scheduleWake schedules the next call of serve. The time is short because the rate can change.
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

// grant gives a request a token.
func (s *actionLimiter) grant(now time.Time, w *waiter) {
	if s.returned > 0 {
		s.returned--
	} else {
		s.accountBucket.AllowN(now, 1)
		s.ownBucket.AllowN(now, 1)
	}
	s.spent++
	close(w.granted)
}

// onRequest records that a request was sent.
func (s *actionLimiter) onRequest() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight++
}

// onResponse records the answer to a request: throttling shows that the bucket is empty, even if the limiters have
// tokens. Answers to requests that were sent before the last throttling was known add no information.
func (s *actionLimiter) onResponse(sentAt time.Time, class eni.Class) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inFlight--
	if class != eni.Throttled || !sentAt.After(s.lastEmpty) {
		return
	}
	now := time.Now()
	s.adaptShare(now)
	spare, since := s.accountBucket.TokensAt(now)+float64(s.size.Capacity-s.usable()), now.Sub(s.lastEmpty)
	s.pace = s.pace.Refused(ratelimit.AvailableShare(spare, s.size.Refill, since), since)
	s.lastEmpty = now
	// If others are known to use the bucket, it first regains its reserve. Our share waits for the same number of tokens
	// again, because a burst of others that finds the bucket empty continues for a while. A program with few requests
	// waits for no more tokens than it took: a booting node makes a handful of calls, and has a minute for them.
	owed := 0
	if s.pace.Shared() {
		owed = min(s.spent, s.size.Capacity-s.usable())
	}
	s.spent, s.returned = 0, 0
	s.accountBucket, s.ownBucket = s.owing(now, owed), s.owing(now, 2*owed)
	s.adaptShare(now)
}

// owing returns a limiter without tokens, which gets none until a number of tokens was refilled, at most the usable
// ones.
func (s *actionLimiter) owing(now time.Time, tokens int) *rate.Limiter {
	l := rate.NewLimiter(rate.Limit(s.size.Refill), s.usable())
	l.AllowN(now, s.usable())
	l.ReserveN(now, min(tokens, s.usable()))
	return l
}

// state returns the current state of the bucket.
func (s *actionLimiter) state() BucketState {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.adaptShare(now)
	return BucketState{
		Action: s.action, Bucket: s.size, Share: s.pace.Share(),
		Level:   max(0, min(s.accountBucket.TokensAt(now), s.ownBucket.TokensAt(now))),
		Waiting: s.line.Len(), InFlight: s.inFlight,
	}
}
