// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/awsec2"
)

func TestRequestsKeepToTheirBucket(t *testing.T) {
	cases := map[string]struct {
		options  awsec2.Options
		requests int
		want     time.Duration
	}{
		"within the burst":       {awsec2.Options{}, 50, 0},
		"beyond the burst":       {awsec2.Options{}, 150, 20 * time.Second},
		"half a share":           {awsec2.Options{Share: 0.5}, 75, 20 * time.Second},
		"a larger account limit": {awsec2.Options{Buckets: map[string]awsec2.Bucket{"AttachNetworkInterface": {Capacity: 10, Refill: 100}}}, 110, time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := always(reply{body: "<attachmentId>eni-attach-1</attachmentId>"}).client(t, tc.options)
				begun := time.Now()
				var wg sync.WaitGroup
				for range tc.requests {
					wg.Go(func() {
						if _, err := client.AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Device: 1}); err != nil {
							t.Error(err)
						}
					})
				}
				wg.Wait()
				if took := time.Since(begun).Round(time.Millisecond); took != tc.want {
					t.Errorf("%d requests took %s, want %s", tc.requests, took, tc.want)
				}
			})
		})
	}
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

func TestRetriesOfReadsSpendTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{code: "Unavailable", status: 503})
		client := server.client(t, awsec2.Options{Buckets: map[string]awsec2.Bucket{"DescribeNetworkInterfaces": {Capacity: 1, Refill: 0.01}}})
		begun := time.Now()
		_, _, err := client.ListOwned(t.Context())
		if eni.ClassOf(err) != eni.Transient || server.count() != 3 {
			t.Errorf("%d attempts: %v", server.count(), err)
		}
		if took := time.Since(begun).Round(time.Second); took < 200*time.Second {
			t.Errorf("three attempts took %s, faster than their bucket", took)
		}
	})
}

func TestTurnBeyondTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{})
		client := server.client(t, awsec2.Options{Buckets: map[string]awsec2.Bucket{"DeleteNetworkInterface": {Capacity: 1, Refill: 0.01}}})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := client.DeleteInterface(ctx, "eni-1"); err != nil {
			t.Fatal(err)
		}
		if err := client.DeleteInterface(ctx, "eni-2"); eni.ClassOf(err) != eni.Throttled || server.count() != 1 {
			t.Errorf("%d requests: %v", server.count(), err)
		}
	})
}

func TestWaitingForATurnCanBeGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := always(reply{}).client(t, awsec2.Options{Buckets: map[string]awsec2.Bucket{"DeleteNetworkInterface": {Capacity: 1, Refill: 0.01}}})
		if err := client.DeleteInterface(t.Context(), "eni-1"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := client.DeleteInterface(ctx, "eni-2"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

func TestEveryActionHasABucket(t *testing.T) {
	buckets, actions := awsec2.DocumentedBuckets(), 0
	for _, api := range []reflect.Type{reflect.TypeFor[awsec2.API](), reflect.TypeFor[awsec2.LaunchAPI]()} {
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

func TestEveryRequestIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []awsec2.Call
		server := &fake{}
		server.answer = func(request) reply {
			time.Sleep(time.Second)
			if server.count() == 1 {
				return reply{code: "RequestLimitExceeded", status: 503}
			}
			return reply{}
		}
		client := server.client(t, awsec2.Options{Observe: func(c awsec2.Call) { calls = append(calls, c) }})
		if _, _, err := client.ListOwned(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []awsec2.Call{
			{Action: "DescribeNetworkInterfaces", Class: eni.Throttled, Code: "RequestLimitExceeded", Duration: time.Second},
			{Action: "DescribeNetworkInterfaces", Duration: time.Second},
		}
		if !reflect.DeepEqual(calls, want) {
			t.Errorf("got %+v", calls)
		}
	})
}
