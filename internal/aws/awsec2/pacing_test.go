// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/time/rate"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

const attached = "<attachmentId>eni-attach-1</attachmentId>"

// account is EC2 with a bucket for attaching, which others in the account may use as well.
type account struct {
	bucket *rate.Limiter
	// answer is how long EC2 takes to answer.
	answer time.Duration

	mu                          sync.Mutex
	refusing                    bool
	granted, refused            int
	othersGranted, othersDenied int
}

// newAccount returns an account with the documented bucket.
func newAccount() *account {
	return &account{bucket: rate.NewLimiter(5, 50), answer: 300 * time.Millisecond}
}

func (a *account) serve(request) reply {
	taken := a.take(&a.granted, &a.refused)
	time.Sleep(a.answer)
	if !taken {
		return reply{code: "RequestLimitExceeded", status: 503}
	}
	return reply{body: attached}
}

func (a *account) take(granted, refused *int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.refusing || !a.bucket.Allow() {
		*refused++
		return false
	}
	*granted++
	return true
}

// other makes a request of the co-tenant.
func (a *account) other() { a.take(&a.othersGranted, &a.othersDenied) }

func (a *account) refuse(all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refusing = all
}

// count returns how many requests were granted and refused so far.
func (a *account) count() (granted, refused int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.granted, a.refused
}

// attach makes requests, all at once, until all are done, and returns how long that took.
func attach(t *testing.T, client *awsec2.Client, requests int) time.Duration {
	begun := time.Now()
	var wg sync.WaitGroup
	for range requests {
		wg.Go(func() {
			for {
				_, err := client.AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Device: 1})
				if err == nil || t.Context().Err() != nil {
					return
				}
				if eni.ErrorClass(err) != eni.Throttled {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	return time.Since(begun)
}

// TestAlone has no co-tenant: the bucket determines the time, and EC2 refuses nothing.
func TestAlone(t *testing.T) {
	for name, tc := range map[string]struct {
		requests    int
		least, most time.Duration
	}{
		"within the first burst": {30, 0, time.Second},
		"a thousand":             {1000, 190 * time.Second, 190 * time.Second * 105 / 100},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2 := newAccount()
				took := attach(t, (&fake{answer: ec2.serve}).client(t, awsec2.Options{}), tc.requests)
				t.Logf("%d requests took %s, %d were refused", tc.requests, took, ec2.refused)
				if took < tc.least || took > tc.most || ec2.refused > 0 {
					t.Errorf("%d requests took %s, want %s to %s; %d refused", tc.requests, took, tc.least, tc.most, ec2.refused)
				}
			})
		})
	}
}

// TestBucketSizesAreSettings has an account with four times the limits.
func TestBucketSizesAreSettings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := newAccount()
		ec2.bucket = rate.NewLimiter(20, 200)
		options := awsec2.Options{Buckets: map[string]awsec2.Bucket{"AttachNetworkInterface": {Capacity: 200, Refill: 20}}}
		took := attach(t, (&fake{answer: ec2.serve}).client(t, options), 1000)
		if limit := 40 * time.Second; took < limit || took > limit*12/10 || ec2.refused > 0 {
			t.Errorf("it took %s, want about %s; %d refused", took, limit, ec2.refused)
		}
	})
}

// TestCoTenant shares the account: the effect on the others must be small, and the client must use what they leave.
func TestCoTenant(t *testing.T) {
	for name, every := range map[string]time.Duration{
		"half of the bucket":    400 * time.Millisecond,
		"a tenth of the bucket": 2 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ec2 := newAccount()
				ctx, stop := context.WithCancel(t.Context())
				var others sync.WaitGroup
				others.Go(func() {
					for ctx.Err() == nil {
						ec2.other()
						time.Sleep(every)
					}
				})
				took := attach(t, (&fake{answer: ec2.serve}).client(t, awsec2.Options{}), 2500)
				stop()
				others.Wait()
				left := 5*took.Seconds() + 50 - float64(ec2.othersGranted)
				theirs := float64(ec2.othersDenied) / float64(ec2.othersDenied+ec2.othersGranted)
				ours := float64(ec2.refused) / float64(ec2.refused+ec2.granted)
				t.Logf("took %s; %.1f %% of what was left was used, %.1f %% of the others' requests were refused, %.1f %% of ours",
					took, 100*2500/left, 100*theirs, 100*ours)
				if theirs > 0.05 || ours > 0.02 || 2500/left < 0.91 {
					t.Error("want at least 91 % used, at most 5 % of the others' refused, and 2 % of ours")
				}
			})
		})
	}
}

// TestStorm makes EC2 refuse everything for a while.
func TestStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := newAccount()
		client := (&fake{answer: ec2.serve}).client(t, awsec2.Options{})
		ec2.refuse(true)
		var wg sync.WaitGroup
		wg.Go(func() { attach(t, client, 600) })
		time.Sleep(5 * time.Minute)
		_, refused := ec2.count()
		if perMinute := refused / 5; perMinute == 0 || perMinute > 30 {
			t.Errorf("%d requests a minute while all are refused, want few, and not none", perMinute)
		}
		ec2.refuse(false)
		time.Sleep(time.Minute)
		before, _ := ec2.count()
		time.Sleep(10 * time.Second)
		after, _ := ec2.count()
		if got := after - before; got < 45 {
			t.Errorf("%d requests in 10 s, a minute after the refusals ended", got)
		}
		wg.Wait()
	})
}

// TestABatchIsRefusedOnce makes EC2 refuse all requests of a batch at one moment: that says as much as one refusal.
func TestABatchIsRefusedOnce(t *testing.T) {
	const batch = 4
	synctest.Test(t, func(t *testing.T) {
		var arrived sync.WaitGroup
		arrived.Add(batch)
		refuse := func(request) reply {
			arrived.Done()
			arrived.Wait()
			return reply{code: "RequestLimitExceeded", status: 503}
		}
		client := (&fake{answer: refuse}).client(t, awsec2.Options{Share: 0.8})
		time.Sleep(time.Second) // the bucket counts as full at the start
		ctx, cancel := context.WithCancel(t.Context())
		var requests sync.WaitGroup
		for range batch {
			requests.Go(func() { _ = client.DeleteInterface(ctx, "eni-1") })
		}
		synctest.Wait()
		for _, b := range client.Buckets() {
			if b.Action == "DeleteNetworkInterface" && math.Abs(b.Share-0.4) > 0.01 {
				t.Errorf("the share is %.2f, want half of 0.8", b.Share)
			}
		}
		cancel()
		requests.Wait()
	})
}

func TestActionsDoNotWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := always(reply{}).client(t, awsec2.Options{Buckets: map[string]awsec2.Bucket{"DetachNetworkInterface": {Capacity: 1, Refill: 0.001}}})
		if err := client.DetachInterface(t.Context(), "a", false); err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := client.DeleteInterface(t.Context(), "eni-1"); err != nil || time.Since(begun) != 0 {
			t.Errorf("delete waited %s: %v", time.Since(begun), err)
		}
	})
}

// slow is a bucket that gives one request every ten seconds.
var slow = awsec2.Options{Buckets: map[string]awsec2.Bucket{"DeleteNetworkInterface": {Capacity: 1, Refill: 0.1}}}

func TestTheMostUrgentGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{})
		client, start := server.client(t, slow), time.Now()
		var wg sync.WaitGroup
		for n, ticket := range []ratelimit.Request{
			{Rank: ratelimit.Rank{Class: ratelimit.Removal, Name: "first"}},
			{Rank: ratelimit.Rank{Class: ratelimit.Read, Name: "d"}},
			{Rank: ratelimit.Rank{Class: ratelimit.Attach, Since: time.Unix(1, 0), Name: "b"}},
			{Rank: ratelimit.Rank{Class: ratelimit.Removal, Name: "c"}},
			{Rank: ratelimit.Rank{Class: ratelimit.Attach, Since: time.Unix(2, 0), Name: "a"}},
			{Rank: ratelimit.Rank{Class: ratelimit.Attach, Since: time.Unix(3, 0), Name: "dead"}, StillValid: func() error { return errors.New("the node is gone") }},
		} {
			wg.Go(func() {
				err := client.DeleteInterface(ratelimit.WithRequest(t.Context(), ticket), ticket.Name)
				if (err != nil) != (ticket.StillValid != nil) {
					t.Errorf("%s: %v", ticket.Name, err)
				}
			})
			time.Sleep(time.Duration(n+1) * time.Millisecond)
		}
		wg.Wait()
		var got []string
		for _, r := range server.calls("DeleteNetworkInterface") {
			got = append(got, r.form.Get("NetworkInterfaceId"))
		}
		if want := []string{"first", "a", "b", "c", "d"}; !slices.Equal(got, want) {
			t.Errorf("sent %v, want %v", got, want)
		}
		if took := time.Since(start); took > 50*time.Second { // five tokens take 46 s, six 56 s
			t.Errorf("the last of five requests was sent after %s: the request that was not sent took a token", took)
		}
	})
}

// TestRefusedChangesAreMadeAgain checks that a throttled change is not a failure for its caller, because it had no
// effect.
func TestRefusedChangesAreMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{}
		server.answer = func(request) reply {
			if server.count() < 3 {
				return reply{code: "RequestLimitExceeded", status: 503}
			}
			return reply{body: attached}
		}
		_, err := server.client(t, awsec2.Options{}).AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Device: 1})
		if err != nil || server.count() != 3 {
			t.Errorf("%d requests: %v", server.count(), err)
		}
	})
}

func TestRetriesOfReadsSpendTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{code: "Unavailable", status: 503})
		client := server.client(t, awsec2.Options{Buckets: map[string]awsec2.Bucket{"DescribeNetworkInterfaces": {Capacity: 1, Refill: 0.01}}})
		begun := time.Now()
		_, _, err := client.ListOwned(t.Context())
		if eni.ErrorClass(err) != eni.Transient || server.count() != 3 {
			t.Errorf("%d attempts: %v", server.count(), err)
		}
		if took := time.Since(begun).Round(time.Second); took < 160*time.Second {
			t.Errorf("three attempts took %s, faster than their bucket", took)
		}
	})
}

func TestAWaitBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{})
		client := server.client(t, slow)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := client.DeleteInterface(ctx, "eni-1"); err != nil {
			t.Fatal(err)
		}
		if err := client.DeleteInterface(ctx, "eni-2"); eni.ErrorClass(err) != eni.Throttled || server.count() != 1 {
			t.Errorf("%d requests: %v", server.count(), err)
		}
	})
}

// TestAWaitLeavesTimeForTheAnswer lets requests wait for a token until shortly before the deadline of their context. EC2
// would do such a request, and the client would not learn it.
func TestAWaitLeavesTimeForTheAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: func(request) reply { time.Sleep(time.Second); return reply{} }}
		every := awsec2.Options{Buckets: map[string]awsec2.Bucket{"DeleteNetworkInterface": {Capacity: 1, Refill: 0.01}}, Share: 1}
		client := server.client(t, every)
		for _, tc := range []struct {
			within time.Duration
			sent   bool
		}{{100500 * time.Millisecond, false}, {115 * time.Second, true}} {
			for client.DeleteInterface(t.Context(), "eni-0") != nil { // until it takes the token
			}
			before := server.count()
			ctx, cancel := context.WithTimeout(t.Context(), tc.within)
			err := client.DeleteInterface(ctx, "eni-1")
			cancel()
			if sent := server.count() > before; sent != tc.sent || sent != (err == nil) || !sent && eni.ErrorClass(err) != eni.Throttled {
				t.Errorf("%s for a request whose token comes after 100 s: sent %t, error %v", tc.within, sent, err)
			}
		}
	})
}

func TestAWaitCanBeCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := always(reply{}).client(t, slow)
		if err := client.DeleteInterface(t.Context(), "eni-1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := client.DeleteInterface(ctx, "eni-2"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		for _, b := range client.Buckets() {
			if b.Waiting != 0 {
				t.Errorf("%d still wait for %s", b.Waiting, b.Action)
			}
		}
	})
}

func TestBucketsTellHowTheyStand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: func(request) reply { time.Sleep(time.Minute); return reply{} }}
		client := server.client(t, slow)
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() { _ = client.DeleteInterface(ctx, "eni-1") })
		}
		synctest.Wait()
		var got string
		for _, b := range client.Buckets() {
			if b.Action == "DeleteNetworkInterface" {
				got = fmt.Sprintf("of %d and %g/s %.0f left, %d waiting, %d in flight", b.Capacity, b.Refill, b.Level, b.Waiting, b.InFlight)
			}
		}
		if want := "of 1 and 0.1/s 0 left, 1 waiting, 1 in flight"; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
		cancel()
		wg.Wait()
	})
}

func TestEveryActionHasABucket(t *testing.T) {
	buckets, actions := awsec2.DocumentedBuckets(), 0
	for _, api := range []reflect.Type{reflect.TypeFor[awsec2.API](), reflect.TypeFor[awsec2.LaunchAPI](), reflect.TypeFor[awsec2.ReservationAPI](), reflect.TypeFor[awsec2.OperatorAPI]()} {
		actions += api.NumMethod()
		for n := range api.NumMethod() {
			if name := api.Method(n).Name; buckets[name].Capacity == 0 || buckets[name].Refill == 0 {
				t.Errorf("%s has no bucket", name)
			}
		}
	}
	if len(buckets) != actions {
		t.Errorf("%d buckets for %d actions", len(buckets), actions)
	}
}

func TestParseBuckets(t *testing.T) {
	cases := map[string]struct {
		action, text string
		want         awsec2.Bucket
	}{
		"as documented":         {"AttachNetworkInterface", "50/5", awsec2.Bucket{Capacity: 50, Refill: 5}},
		"a part of a request":   {"AttachNetworkInterface", "1/0.5", awsec2.Bucket{Capacity: 1, Refill: 0.5}},
		"no refill":             {"AttachNetworkInterface", "50", awsec2.Bucket{}},
		"nothing comes back":    {"AttachNetworkInterface", "50/0", awsec2.Bucket{}},
		"without end":           {"AttachNetworkInterface", "50/+Inf", awsec2.Bucket{}},
		"nothing at once":       {"AttachNetworkInterface", "0/5", awsec2.Bucket{}},
		"words":                 {"AttachNetworkInterface", "many/some", awsec2.Bucket{}},
		"an action not in use":  {"StartInstances", "50/5", awsec2.Bucket{}},
		"an action that is not": {"AttachInterface", "50/5", awsec2.Bucket{}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := awsec2.ParseBuckets(map[string]string{tc.action: tc.text})
			if got[tc.action] != tc.want || (err == nil) != (tc.want != awsec2.Bucket{}) {
				t.Errorf("got %v, %v", got, err)
			}
			if err == nil && got[tc.action].String() != tc.text {
				t.Errorf("%q is written as %q", tc.text, got[tc.action])
			}
		})
	}
}

func TestEveryRequestIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []awsec2.Call
		server := &fake{}
		server.answer = func(request) reply {
			time.Sleep(time.Second)
			if server.count() == 1 {
				return reply{code: "Unavailable", status: 503}
			}
			return reply{}
		}
		client := server.client(t, awsec2.Options{
			Observe: func(c awsec2.Call) { c.Waited = c.Waited.Round(time.Second); calls = append(calls, c) },
			Buckets: map[string]awsec2.Bucket{"DescribeNetworkInterfaces": {Capacity: 1, Refill: 0.1}},
		})
		if _, _, err := client.ListOwned(ratelimit.In(t.Context(), ratelimit.Update)); err != nil {
			t.Fatal(err)
		}
		if len(calls) != 2 || calls[1].Waited < 5*time.Second {
			t.Fatalf("got %+v", calls)
		}
		calls[1].Waited = 0
		want := []awsec2.Call{
			{Action: "DescribeNetworkInterfaces", Class: eni.Transient, Code: "Unavailable", Priority: ratelimit.Update, Duration: time.Second},
			{Action: "DescribeNetworkInterfaces", Priority: ratelimit.Update, Duration: time.Second},
		}
		if !reflect.DeepEqual(calls, want) {
			t.Errorf("got %+v", calls)
		}
	})
}
