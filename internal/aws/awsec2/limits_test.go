// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
)

// twoCards describes a type that no table has.
const twoCards = `<instanceTypeSet><item><instanceType>z9.large</instanceType><networkInfo>
	<maximumNetworkInterfaces>16</maximumNetworkInterfaces><maximumNetworkCards>2</maximumNetworkCards>
	<ipv4AddressesPerInterface>50</ipv4AddressesPerInterface><ipv6AddressesPerInterface>40</ipv6AddressesPerInterface>
	<networkCards>
		<item><networkCardIndex>1</networkCardIndex><maximumNetworkInterfaces>7</maximumNetworkInterfaces></item>
		<item><networkCardIndex>0</networkCardIndex><maximumNetworkInterfaces>9</maximumNetworkInterfaces></item>
	</networkCards></networkInfo></item></instanceTypeSet>`

func TestLimitsAreAskedOncePerDay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{body: twoCards})
		client := server.client(t, awsec2.Options{})
		want := eni.Limits{Cards: []int{9, 7}, Interfaces: 16, IPv4: 50, IPv6: 40}
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				got, err := client.Limits(t.Context(), "z9.large")
				if diff := cmp.Diff(want, got); diff != "" || err != nil {
					t.Errorf("%v (-want +got):\n%s", err, diff)
				}
			})
		}
		wg.Wait()
		for _, after := range []struct {
			wait  time.Duration
			calls int
		}{{23 * time.Hour, 1}, {2 * time.Hour, 2}} {
			time.Sleep(after.wait)
			if _, err := client.Limits(t.Context(), "z9.large"); err != nil || server.count() != after.calls {
				t.Errorf("%d calls, want %d: %v", server.count(), after.calls, err)
			}
		}
	})
}

func TestLimitsWithoutEC2(t *testing.T) {
	known, _ := instancetype.Offline("m5.large")
	cases := map[string]struct {
		reply        reply
		instanceType string
		want         eni.Limits
		class        eni.Class
	}{
		"the call is not allowed":             {reply{code: "UnauthorizedOperation", status: 403}, "m5.large", known, ""},
		"EC2 does not list the type":          {reply{body: "<instanceTypeSet/>"}, "m5.large", known, ""},
		"nobody knows the type":               {reply{body: "<instanceTypeSet/>"}, "z8.large", eni.Limits{}, ""},
		"the call fails, and the type is new": {reply{code: "UnauthorizedOperation", status: 403}, "z8.large", eni.Limits{}, eni.Unauthorized},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				got, err := always(tc.reply).client(t, awsec2.Options{}).Limits(t.Context(), tc.instanceType)
				if diff := cmp.Diff(tc.want, got); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				if (err != nil) != (tc.class != "") || err != nil && eni.ErrorClass(err) != tc.class {
					t.Errorf("got %v, want class %q", err, tc.class)
				}
			})
		})
	}
}

func TestStopgapIsReplacedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{code: "UnauthorizedOperation", status: 403})
		client := server.client(t, awsec2.Options{})
		for range 5 {
			if _, err := client.Limits(t.Context(), "m5.large"); err != nil {
				t.Fatal(err)
			}
		}
		if server.count() != 1 {
			t.Errorf("%d calls that are not allowed", server.count())
		}
		time.Sleep(time.Hour)
		if _, err := client.Limits(t.Context(), "m5.large"); err != nil || server.count() != 2 {
			t.Errorf("%d calls, %v", server.count(), err)
		}
	})
}

// A caller that cancels must not leave limits of the offline table behind for all callers.
func TestGivingUpOnLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{body: twoCards})
		client := server.client(t, awsec2.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := client.Limits(ctx, "m5.large"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if _, err := client.Limits(t.Context(), "m5.large"); err != nil || server.count() != 1 {
			t.Errorf("%d calls, %v", server.count(), err)
		}
	})
}
