// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

const (
	cluster  = "cluster-1"
	instance = "i-00000000000000001"
)

var errDown = errors.New("down")

// cloud is a Reader whose interfaces a test sets, and which counts its calls.
type cloud struct {
	mu         sync.Mutex
	interfaces []eni.Interface
	err        error
	lists      []time.Time
	polls      [][]string
	looks      int
	state      eni.InstanceState
	// panics is how many of the next reads panic.
	panics int
}

func (c *cloud) set(interfaces ...eni.Interface) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interfaces = interfaces
}

func (c *cloud) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
}

// asked returns the numbers of lists and polls since its last call.
func (c *cloud) asked() (lists, polls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	lists, polls = len(c.lists), len(c.polls)
	c.lists, c.polls = nil, nil
	return lists, polls
}

func (c *cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lists = append(c.lists, time.Now())
	c.mayPanic()
	return slices.Clone(c.interfaces), time.Now(), c.err
}

func (c *cloud) mayPanic() {
	if c.panics--; c.panics >= 0 {
		panic("what is this?")
	}
}

func (c *cloud) Interfaces(_ context.Context, ids []string) ([]eni.Interface, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.polls = append(c.polls, ids)
	c.mayPanic()
	return slices.DeleteFunc(slices.Clone(c.interfaces), func(i eni.Interface) bool { return !slices.Contains(ids, i.ID) }), c.err
}

func (c *cloud) DescribeInstance(_ context.Context, id string) (eni.InstanceSnapshot, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	return eni.InstanceSnapshot{At: time.Now(), Instance: eni.Instance{ID: id, State: c.state}, Interfaces: slices.Clone(c.interfaces)}, c.err
}

func member(ordinal int) identity.Interface {
	return identity.Interface{
		Cluster: cluster, NodeENI: "a", Node: "node-1", InstanceID: instance, UID: identity.UID(fmt.Sprintf("uid-%d", ordinal)),
		Name: identity.ObjectName("a", instance, ordinal), Ordinal: ordinal,
	}
}

func attached(id string, ordinal int, status eni.AttachmentStatus) eni.Interface {
	return eni.Interface{
		ID: id, Status: eni.InUse, Tags: member(ordinal).Tags(time.Unix(1, 0), nil),
		Attachment: &eni.Attachment{ID: "attach-" + id, InstanceID: instance, Slot: eni.Slot{Device: 1 + ordinal}, Status: status},
	}
}

// watch runs an observer in a bubble of virtual time.
func watch(t *testing.T, c *cloud, test func(*testing.T, *observer.Observer)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := observer.New(c, observer.Options{
			Cluster: cluster, Resync: 5 * time.Minute, Poll: time.Second, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if err := o.Start(ctx); err != nil {
				t.Error(err)
			}
		})
		test(t, o)
		cancel()
		wg.Wait()
	})
}

// told returns the instances that the observer has reported since.
func told(o *observer.Observer) []string {
	synctest.Wait()
	var instances []string
	for {
		select {
		case id := <-o.Changed():
			instances = append(instances, id)
		default:
			return instances
		}
	}
}

func TestAnIdleClusterCostsOneListingPerPeriod(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentAttached))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		if diff := cmp.Diff([]string{instance}, told(o)); diff != "" {
			t.Error(diff)
		}
		time.Sleep(time.Hour)
		if nodes := told(o); len(nodes) > 0 {
			t.Errorf("nothing changed, and %v were told", nodes)
		}
		if lists, polls := c.asked(); lists != 13 || polls != 0 {
			t.Errorf("%d listings and %d polls in an hour, want 13 and none", lists, polls)
		}
		if o.Count() != 1 || len(o.All()) != 1 || len(o.Of(instance).Interfaces) != 1 || o.Since().IsZero() {
			t.Error("what was listed is not known")
		}
	})
}

func TestOnlyWhatIsInTransitionIsPolledAndOnlyWhileItIs(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentAttached))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		time.Sleep(time.Minute)
		told(o)
		after := attached("eni-2", 1, eni.AttachmentAttaching)
		c.set(attached("eni-1", 0, eni.AttachmentAttached), after)
		o.RecordCreated(time.Now(), member(1), after, eni.Addresses{})
		time.Sleep(500 * time.Millisecond)
		if _, polls := c.asked(); polls > 0 {
			t.Error("asked before EC2 had any time")
		}
		time.Sleep(3 * time.Second)
		c.mu.Lock()
		for _, ids := range c.polls {
			if diff := cmp.Diff([]string{"eni-2"}, ids); diff != "" {
				t.Errorf("polled: %s", diff)
			}
		}
		polls := len(c.polls)
		c.mu.Unlock()
		if polls != 3 {
			t.Errorf("%d polls in 3.5 seconds, want 3", polls)
		}
		if nodes := told(o); len(nodes) > 0 {
			t.Errorf("nothing changed, and %v were told", nodes)
		}

		c.set(attached("eni-1", 0, eni.AttachmentAttached), attached("eni-2", 1, eni.AttachmentAttached))
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{instance}, told(o)); diff != "" {
			t.Error(diff)
		}
		c.asked()
		time.Sleep(time.Minute)
		if _, polls := c.asked(); polls > 0 {
			t.Errorf("%d polls while nothing is in transition", polls)
		}
	})
}

// TestAStartPollsLessOften has interfaces in transition when an observer starts, and again a minute later.
func TestAStartPollsLessOften(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		polls int
	}{
		"right after its start": {after: 0, polls: 2},
		"a minute later":        {after: time.Minute, polls: 6},
	} {
		t.Run(name, func(t *testing.T) {
			c := &cloud{}
			c.set(attached("eni-1", 0, eni.AttachmentAttached))
			watch(t, c, func(t *testing.T, o *observer.Observer) {
				told(o)
				time.Sleep(tc.after)
				attaching := attached("eni-2", 1, eni.AttachmentAttaching)
				c.set(attached("eni-1", 0, eni.AttachmentAttached), attaching)
				o.RecordCreated(time.Now(), member(1), attaching, eni.Addresses{})
				time.Sleep(6500 * time.Millisecond)
				if _, polls := c.asked(); polls != tc.polls {
					t.Errorf("%d polls in 6.5 seconds, want %d", polls, tc.polls)
				}
			})
		})
	}
}

// TestNotesOfCallsThatEndTogether records a change while another one is being recorded: neither overwrites the other.
func TestNotesOfCallsThatEndTogether(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentAttached))
	o := observer.New(c, observer.Options{Cluster: cluster, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	if err := o.ResyncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	note := func(change func(eni.Interface) eni.Interface) {
		o.RecordChange(time.Now(), "eni-1", change, inventory.Effect{Aspect: "it", IsVisible: func(eni.Interface) bool { return true }})
	}
	noted := make(chan struct{})
	note(func(i eni.Interface) eni.Interface {
		go func() {
			defer close(noted)
			note(func(i eni.Interface) eni.Interface { i.Description = "new"; return i })
		}()
		for range 1000 { // it must run as far as it can
			runtime.Gosched()
		}
		i.Groups = []string{"sg-new"}
		return i
	})
	<-noted
	if i, _ := o.Interface("eni-1"); i.Description != "new" || !slices.Equal(i.Groups, []string{"sg-new"}) {
		t.Errorf("described as %q, in groups %v", i.Description, i.Groups)
	}
}

// TestWhatIsStuckIsPolledEverMoreSeldom has an interface that EC2 does not detach for a day, as without force for a
// lost NodeENI. Once it is detached, the observer reports its instance within a minute.
func TestWhatIsStuckIsPolledEverMoreSeldom(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentDetaching))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.asked()
		time.Sleep(9500 * time.Millisecond)
		if _, polls := c.asked(); polls != 3 {
			t.Errorf("%d polls in the first 9 seconds of a start, want one every 3 seconds", polls)
		}
		time.Sleep(24 * time.Hour)
		if _, polls := c.asked(); polls < 24*60 || polls > 25*60 {
			t.Errorf("%d polls in a day, want about one a minute", polls)
		}
		c.set(func() eni.Interface {
			i := attached("eni-1", 0, "")
			i.Status, i.Attachment = eni.Available, nil
			return i
		}())
		time.Sleep(time.Minute)
		if diff := cmp.Diff([]string{instance}, told(o)); diff != "" {
			t.Error(diff)
		}
	})
}

func TestAFailedListingIsTriedAgainAndTakesNothingAway(t *testing.T) {
	c := &cloud{err: errDown}
	c.set(attached("eni-1", 0, eni.AttachmentAttached))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		begun := time.Now()
		time.Sleep(16 * time.Second)
		synctest.Wait()
		var after []int
		for _, at := range c.lists {
			after = append(after, int(at.Sub(begun).Seconds()))
		}
		if diff := cmp.Diff([]int{0, 1, 3, 7, 15}, after); diff != "" {
			t.Errorf("seconds of the attempts: %s", diff)
		}
		if o.Synced() {
			t.Error("synced without a listing")
		}
		c.fail(nil)
		if err := o.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		if since := time.Since(begun); since != 31*time.Second {
			t.Errorf("synced after %s", since)
		}
		c.fail(errDown)
		time.Sleep(time.Hour)
		if o.Count() != 1 || o.Of(instance).Interfaces[0].Missing {
			t.Error("a failed listing took an interface away")
		}
	})
}

func TestWaitingForTheFirstListingCanEnd(t *testing.T) {
	watch(t, &cloud{err: errDown}, func(t *testing.T, o *observer.Observer) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := o.WaitSynced(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAPanicIsAFailedReading makes lists panic, and then polls, each in its goroutine.
func TestAPanicIsAFailedReading(t *testing.T) {
	c := &cloud{panics: 3}
	c.set(attached("eni-1", 0, eni.AttachmentDetaching))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		if err := o.WaitSynced(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		c.mu.Lock()
		c.panics = 3
		c.mu.Unlock()
		c.set()
		time.Sleep(time.Minute)
		if lists, polls := c.asked(); lists != 4 || polls < 4 || o.Count() != 0 {
			t.Errorf("%d listings and %d polls, and %d interfaces are known; want 4, more than 3, and none", lists, polls, o.Count())
		}
	})
}

// TestWhatIsGoneIsFoundWithoutWaitingForTwoListings has another program delete an interface.
func TestWhatIsGoneIsFoundWithoutWaitingForTwoListings(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentAttached))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.set()
		time.Sleep(5*time.Minute + time.Second)
		if records := o.Of(instance).Interfaces; len(records) != 1 || !records[0].Missing {
			t.Fatalf("after one listing: %+v", records)
		}
		time.Sleep(inventory.AbsenceConfirmation + time.Second)
		if o.Count() != 0 {
			t.Error("not confirmed by the poll")
		}
		if nodes := told(o); len(nodes) == 0 {
			t.Error("nobody was told")
		}
	})
}

func TestAFailedPollGoesOn(t *testing.T) {
	c := &cloud{}
	c.set(attached("eni-1", 0, eni.AttachmentDetaching))
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		told(o)
		c.fail(errDown)
		time.Sleep(10 * time.Second)
		c.fail(nil)
		free := attached("eni-1", 0, "")
		free.Status, free.Attachment = eni.Available, nil
		c.set(free)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if o.Unattached(func(inventory.Record) bool { return true }) != 1 {
			t.Error("the poll gave up")
		}
	})
}

func TestALookSaysSinceWhenAnInstanceIsMissing(t *testing.T) {
	c := &cloud{state: eni.InstanceMissing}
	watch(t, c, func(t *testing.T, o *observer.Observer) {
		look := func() {
			if _, err := o.DescribeInstance(t.Context(), instance); err != nil {
				t.Fatal(err)
			}
		}
		first := time.Now()
		look()
		time.Sleep(time.Minute)
		look()
		if since := o.Of(instance).MissingSince; !since.Equal(first) {
			t.Errorf("missing since %s, want %s", since, first)
		}
		c.mu.Lock()
		c.state = eni.InstanceRunning
		c.mu.Unlock()
		look()
		if since := o.Of(instance).MissingSince; !since.IsZero() {
			t.Errorf("missing since %s, though it is there", since)
		}
		c.fail(errDown)
		if _, err := o.DescribeInstance(t.Context(), instance); !errors.Is(err, errDown) {
			t.Errorf("got %v", err)
		}
	})
}

// TestAnAbsenceThatNobodyAsksAboutIsForgotten checks that memory does not grow with every former instance.
func TestAnAbsenceThatNobodyAsksAboutIsForgotten(t *testing.T) {
	watch(t, &cloud{state: eni.InstanceMissing}, func(t *testing.T, o *observer.Observer) {
		begun := time.Now()
		ask := func(id string) {
			if _, err := o.DescribeInstance(t.Context(), id); err != nil {
				t.Fatal(err)
			}
		}
		ask("i-forgotten")
		for range 20 {
			ask("i-asked")
			time.Sleep(10 * time.Minute)
		}
		if since := o.Of("i-asked").MissingSince; !since.Equal(begun) {
			t.Errorf("what is asked about is missing since %s, want %s", since, begun)
		}
		if since := o.Of("i-forgotten").MissingSince; !since.IsZero() {
			t.Errorf("an absence that nobody asked about for hours is remembered since %s", since)
		}
	})
}
