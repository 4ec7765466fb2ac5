// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// fleet returns a fake with the instances for which known is true; each has one attached interface, and one unattached
// interface of ours.
func fleet(known func(id string) bool) *fake {
	return &fake{answer: func(r request) reply {
		time.Sleep(50 * time.Millisecond)
		var list []string
		for _, id := range slices.Concat(r.filter("instance-id"), r.filter("attachment.instance-id"), r.filter("tag:"+identity.TagInstanceID)) {
			switch {
			case !known(id):
			case r.action == "DescribeInstances":
				list = append(list, instanceItem(id))
			case r.filter("attachment.instance-id") != nil:
				list = append(list, interfaceItem("eni-at-"+id, id, nil))
			default:
				list = append(list, interfaceItem("eni-of-"+id, "", map[string]string{identity.TagInstanceID: id}))
			}
		}
		if r.action == "DescribeInstances" {
			return reply{body: "<reservationSet>" + items(list) + "</reservationSet>"}
		}
		return reply{body: "<networkInterfaceSet>" + items(list) + "</networkInterfaceSet>"}
	}}
}

func everything(string) bool { return true }

func instanceID(n int) string { return fmt.Sprintf("i-%03d", n) }

func TestManyLooksShareFewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fleet(everything)
		client := server.client(t, awsec2.Options{})
		const looks = 300
		begun := time.Now()
		var wg sync.WaitGroup
		for n := range looks {
			wg.Go(func() {
				look, err := client.DescribeInstance(t.Context(), instanceID(n))
				if err != nil {
					t.Error(err)
					return
				}
				if look.Instance.ID != instanceID(n) || look.Instance.State != eni.InstanceRunning || len(look.Interfaces) != 2 {
					t.Errorf("%s: %+v", instanceID(n), look)
				}
				if look.At.Before(begun) || look.At.After(time.Now().Add(-50*time.Millisecond)) {
					t.Errorf("%s: read at %s", instanceID(n), look.At.Sub(begun))
				}
			})
		}
		wg.Wait()
		if calls := server.count(); calls > 6 {
			t.Errorf("%d calls for %d looks", calls, looks)
		}
		for _, r := range server.requests {
			if r.filterValues() > 200 || r.form.Get("MaxResults") == "" {
				t.Errorf("%s has %d filter values, MaxResults %q", r.action, r.filterValues(), r.form.Get("MaxResults"))
			}
		}
	})
}

// TestLooksThatFollowEachOther reads an instance every ten milliseconds: the first read does not wait for others, and
// the following ones still share calls.
func TestLooksThatFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fleet(everything)
		client := server.client(t, awsec2.Options{})
		var wg sync.WaitGroup
		for n := range 100 {
			begun := time.Now()
			wg.Go(func() {
				if _, err := client.DescribeInstance(t.Context(), instanceID(n)); err != nil {
					t.Error(err)
				}
				if took := time.Since(begun); n == 0 && took > 60*time.Millisecond || took > 160*time.Millisecond {
					t.Errorf("look %d took %s, of which EC2 took 50ms", n, took)
				}
			})
			time.Sleep(10 * time.Millisecond)
		}
		wg.Wait()
		if calls := server.count(); calls > 3*11 {
			t.Errorf("%d calls for a second of looks", calls)
		}
	})
}

func TestUnknownInstanceHarmsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fleet(func(id string) bool { return id != instanceID(1) }).client(t, awsec2.Options{})
		var wg sync.WaitGroup
		for n, want := range []eni.InstanceState{eni.InstanceRunning, eni.InstanceMissing, eni.InstanceRunning} {
			wg.Go(func() {
				look, err := client.DescribeInstance(t.Context(), instanceID(n))
				if err != nil || look.Instance.ID != instanceID(n) || look.Instance.State != want {
					t.Errorf("%s: %+v, %v", instanceID(n), look.Instance, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestLookersForOneInstanceShareNothingThatCanChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fleet(everything)
		client := server.client(t, awsec2.Options{})
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				look, err := client.DescribeInstance(t.Context(), "i-1")
				if err != nil {
					t.Error(err)
					return
				}
				for _, i := range look.Interfaces {
					i.Tags["mine"] = "yes"
				}
			})
		}
		wg.Wait()
		if server.count() != 3 {
			t.Errorf("%d calls", server.count())
		}
	})
}

func TestOneCallerGoesTheOthersStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fleet(everything).client(t, awsec2.Options{})
		var wg sync.WaitGroup
		for n := range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			if n == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			wg.Go(func() {
				defer cancel()
				begun := time.Now()
				_, err := client.DescribeInstance(ctx, instanceID(n))
				if n > 0 && err != nil {
					t.Errorf("a caller that stayed: %v", err)
				}
				if n == 0 && (!errors.Is(err, context.Canceled) || time.Since(begun) != time.Millisecond) {
					t.Errorf("the caller that went: %v after %s", err, time.Since(begun))
				}
			})
		}
		wg.Wait()
	})
}

func TestNobodyLeftNothingAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fleet(everything)
		client := server.client(t, awsec2.Options{})
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := client.DescribeInstance(ctx, "i-1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Second)
		if server.count() != 0 {
			t.Errorf("%d calls for nobody", server.count())
		}
	})
}

func TestFailedBatchFailsItsCallersAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := fleet(everything)
		answer := server.answer
		server.answer = func(request) reply { return reply{code: "UnauthorizedOperation", status: 403} }
		client := server.client(t, awsec2.Options{})
		if _, err := client.DescribeInstance(t.Context(), "i-1"); eni.ErrorClass(err) != eni.Unauthorized {
			t.Errorf("got %v", err)
		}
		server.answer = answer
		if _, err := client.DescribeInstance(t.Context(), "i-1"); err != nil {
			t.Errorf("the next look: %v", err)
		}
	})
}

// An interface that the attachment filter finds may be detached meanwhile, and has no attachment any more.
func TestInterfaceThatJustLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &fake{answer: func(r request) reply {
			switch {
			case r.action == "DescribeInstances":
				return reply{body: "<reservationSet>" + instanceItem("i-1") + "</reservationSet>"}
			case r.filter("attachment.instance-id") != nil:
				return reply{body: "<networkInterfaceSet>" + interfaceItem("eni-1", "", nil) + interfaceItem("eni-2", "i-1", nil) + "</networkInterfaceSet>"}
			default:
				return reply{body: "<networkInterfaceSet>" + interfaceItem("eni-2", "", map[string]string{identity.TagInstanceID: "i-1"}) + "</networkInterfaceSet>"}
			}
		}}
		look, err := server.client(t, awsec2.Options{}).DescribeInstance(t.Context(), "i-1")
		if err != nil || len(look.Interfaces) != 1 || !look.Interfaces[0].AttachedTo("i-1") {
			t.Errorf("%+v, %v", look, err)
		}
	})
}

// The batcher reads for its callers in a separate goroutine, and makes each kind of read in another.
func TestAPanicIsAnErrorOfItsLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := true
		server := &fake{answer: func(r request) reply {
			if broken && r.action == "DescribeInstances" {
				panic("what is this?")
			}
			return reply{}
		}}
		c := server.client(t, awsec2.Options{})
		_, err := c.DescribeInstance(t.Context(), "i-1")
		if caught := (*panics.Error)(nil); !errors.As(err, &caught) || !strings.Contains(caught.Of, "i-1") {
			t.Errorf("got %v", err)
		}
		broken = false
		if _, err := c.DescribeInstance(t.Context(), "i-1"); err != nil {
			t.Errorf("the next look: %v", err)
		}
	})
}
