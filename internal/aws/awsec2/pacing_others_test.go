// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

// groups makes requests of a co-tenant that uses half of the bucket's refill on average: groups of up to 19 nodes. Each
// node repeats a throttled request after a second. It returns when the context has ended.
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

// TestCoTenantInGroups shares the account with nodes that start in groups. A group can empty the bucket even if this
// process uses little of it. The client uses what the groups leave, and EC2 refuses few of its requests. It is compared
// with a program that keeps the same reserve and knows the level of the bucket, which EC2 reports to no program.
func TestCoTenantInGroups(t *testing.T) {
	const requests = 2500
	client := besideGroups(t, func(t *testing.T, ec2 *account) {
		attach(t, (&fake{answer: ec2.serve}).client(t, awsec2.Options{}), requests)
	})
	ideal := besideGroups(t, func(_ *testing.T, ec2 *account) { ec2.keepLevel(20, requests) })
	idle := besideGroups(t, func(*testing.T, *account) { time.Sleep(20 * time.Minute) })
	t.Logf("%v; with a program that knows the level %v; without a program %v", client, ideal, idle)
	if client.used < 0.9 || client.othersRefused > 0.2 || client.refused > 0.05 {
		t.Error("want at least 90 % used, at most 20 % of the groups' requests refused, and 5 % of ours")
	}
	if client.othersRefused > 1.5*ideal.othersRefused {
		t.Error("want at most half more refused requests than next to a program that knows the level")
	}
}

// sharing describes how a program and its co-tenant shared a bucket.
type sharing struct {
	// used is the part of the tokens left by the co-tenant that the program used.
	used float64
	// refused and othersRefused are the parts of the program's and of the co-tenant's requests that EC2 throttled.
	refused, othersRefused float64
}

func (s sharing) String() string {
	return fmt.Sprintf("%.1f %% of the rest used, %.1f %% of requests refused, %.1f %% of the groups' requests",
		100*s.used, 100*s.refused, 100*s.othersRefused)
}

// besideGroups returns the mean of runs of a program next to different groups.
func besideGroups(t *testing.T, program func(*testing.T, *account)) (mean sharing) {
	const runs = 4
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
			begun := time.Now()
			program(t, ec2)
			took := time.Since(begun)
			stop()
			others.Wait()
			mean.used += float64(ec2.granted) / (5*took.Seconds() + 50 - float64(ec2.othersGranted)) / runs
			mean.refused += float64(ec2.refused) / float64(max(1, ec2.refused+ec2.granted)) / runs
			mean.othersRefused += float64(ec2.othersDenied) / float64(ec2.othersDenied+ec2.othersGranted) / runs
		})
	}
	return mean
}

// keepLevel makes requests, each as soon as the bucket has more tokens than a reserve.
func (a *account) keepLevel(reserve float64, requests int) {
	for a.granted < requests {
		if a.bucket.Tokens() < reserve+1 || !a.take(&a.granted, &a.refused) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// TestTheReserve checks how many tokens others find in the bucket while our requests wait for more than it has.
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

// TestFewRequestsOweFewTokens makes EC2 throttle a program that makes one request every 20 seconds, like that of a
// booting node. It has spent one token since the last throttling, and waits for a few: it has no reserve to return.
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
