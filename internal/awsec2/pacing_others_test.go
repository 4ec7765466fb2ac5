// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/awsec2"
)

// groups makes requests of a co-tenant that uses half of the bucket's refill in the mean: groups of up to 19 nodes.
// Each node repeats a throttled request after a second. It returns when the context has ended.
func (a *account) groups(ctx context.Context, seed uint64) {
	const largest, rate = 19, 2.5
	random := rand.New(rand.NewPCG(seed, 4))
	pause := (1 + largest) / 2 / rate * float64(time.Second)
	var all sync.WaitGroup
	defer all.Wait()
	for sleep(ctx, time.Duration(random.ExpFloat64()*pause)) {
		for range 1 + random.IntN(largest) {
			after := time.Duration(random.Int64N(int64(2 * time.Second)))
			all.Go(func() {
				for sleep(ctx, after) && !a.take(&a.othersGranted, &a.othersDenied) {
					after = time.Second
				}
			})
		}
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// TestCoTenantInGroups shares the account with nodes that come in groups, which empty a bucket however little of it we use. What
// they leave is used all the same, and few requests of ours are refused.
func TestCoTenantInGroups(t *testing.T) {
	const runs, requests = 4, 2500
	var used, theirs, ours float64
	for seed := range uint64(runs) {
		synctest.Test(t, func(t *testing.T) {
			ec2 := newAccount()
			ctx, stop := context.WithCancel(t.Context())
			var others sync.WaitGroup
			others.Go(func() { ec2.groups(ctx, seed) })
			time.Sleep(time.Minute)
			ec2.mu.Lock()
			ec2.othersGranted, ec2.othersDenied = 0, 0
			ec2.mu.Unlock()
			took := attach(t, (&fake{answer: ec2.serve}).client(t, awsec2.Options{}), requests)
			stop()
			others.Wait()
			used += requests / (5*took.Seconds() + 50 - float64(ec2.othersGranted)) / runs
			theirs += float64(ec2.othersDenied) / float64(ec2.othersDenied+ec2.othersGranted) / runs
			ours += float64(ec2.refused) / float64(ec2.refused+ec2.granted) / runs
		})
	}
	t.Logf("%.1f %% of what was left was used, %.1f %% of the others' requests were refused, %.1f %% of ours", 100*used, 100*theirs, 100*ours)
	if theirs > 0.25 || ours > 0.033 || used < 0.9 {
		t.Error("want at least 90 % used, at most 25 % of the others' refused, and 3.3 % of ours")
	}
}

// TestTheReserve is what others find in the bucket while requests of ours wait for more than there is.
func TestTheReserve(t *testing.T) {
	for name, tc := range map[string]struct {
		// taken is how many requests others make at once before the watch begins.
		taken int
		least float64
	}{
		"nobody else is known":        {least: 4},
		"others were in the way once": {taken: 60, least: 18},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2, done := newAccount(), make(chan struct{})
				go func() {
					defer close(done)
					attach(t, (&fake{answer: ec2.serve}).client(t, awsec2.Options{}), 1000)
				}()
				time.Sleep(time.Minute)
				for range tc.taken {
					ec2.take(&ec2.othersGranted, &ec2.othersDenied)
				}
				time.Sleep(30 * time.Second)
				least := ec2.bucket.Tokens()
				for sleep(t.Context(), 100*time.Millisecond) {
					select {
					case <-done:
						if least < tc.least {
							t.Errorf("of 50 requests the bucket has %.0f left at the least, want %.0f", least, tc.least)
						}
						return
					default:
						least = min(least, ec2.bucket.Tokens())
					}
				}
			})
		})
	}
}

// TestFewRequestsOweFewTokens lets EC2 throttle a program, such as the one of a booting node, that makes one request every 20 seconds.
// It has spent one token since the last throttling, and waits for a few: it has no reserve to give back.
func TestFewRequestsOweFewTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := newAccount()
		client := (&fake{answer: ec2.serve}).client(t, awsec2.Options{})
		for range 3 {
			time.Sleep(20 * time.Second)
			ec2.refuse(true)
			time.AfterFunc(time.Second, func() { ec2.refuse(false) })
			if took := attach(t, client, 1); took > 10*time.Second {
				t.Errorf("the request took %s after EC2 throttled it once", took)
			}
		}
	})
}
