// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package gc_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller/gc"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	cluster = "cluster-1"
	period  = 5 * time.Minute
)

// cloud lists the interfaces of the NodeENIs with some UIDs.
type cloud struct {
	observer.Reader
	owners []string
	// attached reports whether they are in use.
	attached bool
	now      func() time.Time
}

func (c *cloud) ListOwned(context.Context) ([]eni.Interface, time.Time, error) {
	var all []eni.Interface
	for _, uid := range c.owners {
		m := identity.Member{
			Cluster: cluster, NodeENI: "a", Node: "node-1", InstanceID: "i-00000000000000001", Key: identity.Key{Owner: identity.Owner(uid)}, Generation: 1,
		}
		i := eni.Interface{ID: "eni-" + uid, Status: eni.Available, Tags: m.Tags(time.Unix(1, 0), nil)}
		if c.attached {
			i.Status, i.Attachment = eni.InUse, &eni.Attachment{ID: "at-" + uid, InstanceID: "i-00000000000000001", Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached}
		}
		all = append(all, i)
	}
	return all, c.now(), nil
}

// kubernetes is an API server with NodeENIs of some UIDs, or one that answers with an error.
type kubernetes struct {
	client.Reader
	uids []string
	// created is when the NodeENIs were created.
	created time.Time
	err     error
}

func (k *kubernetes) List(ctx context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if k.err != nil {
		return k.err
	}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return err
	}
	builder := fake.NewClientBuilder().WithScheme(scheme)
	for _, uid := range k.uids {
		n := &v1alpha1.NodeENI{}
		n.Name, n.UID, n.CreationTimestamp = "named-"+uid, types.UID(uid), metav1.NewTime(k.created)
		builder.WithObjects(n)
	}
	return builder.Build().List(ctx, into, opts...)
}

// TestGone has a NodeENI that exists, or does not, at successive passes.
func TestGone(t *testing.T) {
	type look struct {
		after time.Duration
		there bool
		err   error
		// gone is the expected conclusion, and next the expected time of the next pass.
		gone bool
		next time.Duration
	}
	const gap = identity.ConfirmInterval
	cases := map[string][]look{
		"there":                            {{there: true, next: period}, {after: gap, there: true, next: period}},
		"missed once":                      {{next: gap}},
		"missed twice too soon":            {{next: gap}, {after: gap - time.Second, next: gap}},
		"missed twice":                     {{next: gap}, {after: gap, gone: true, next: period}},
		"missed, there, missed":            {{next: gap}, {after: gap, there: true, next: period}, {after: 2 * gap, next: gap}},
		"missed twice, and then there":     {{next: gap}, {after: gap, gone: true, next: period}, {after: 2 * gap, there: true, next: period}},
		"missed, with a failed list after": {{next: gap}, {after: gap, err: errors.New("half of it"), next: period}},
		"failed lists alone":               {{err: errors.New("no"), next: period}, {after: gap, err: errors.New("no"), next: period}},
		"gone, with failed list after":     {{next: gap}, {after: gap, gone: true, next: period}, {after: 2 * gap, err: errors.New("no"), gone: true, next: period}},
	}
	for name, looks := range cases {
		t.Run(name, func(t *testing.T) {
			start := time.Unix(1_800_000_000, 0)
			now := start
			clock := func() time.Time { return now }
			api := &kubernetes{}
			s := gc.New(gc.Options{Reader: api, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
			watch := observe(t, &cloud{owners: []string{"other", "uid"}, now: clock}, clock)
			for n, l := range looks {
				now = start.Add(l.after)
				api.uids, api.err = []string{"other"}, l.err
				if l.there {
					api.uids = append(api.uids, "uid")
				}
				next := s.Run(t.Context(), watch)
				absence, gone := s.Gone("uid")
				since := absence.Since
				if gone != l.gone || next != l.next {
					t.Errorf("look %d: gone %t and next in %s, want %t and %s", n, gone, next, l.gone, l.next)
				}
				if gone && !since.Equal(start) {
					t.Errorf("look %d: missed since %s, want the first look", n, since)
				}
				if want := map[bool]int{true: 1}[l.gone]; s.Leaks(watch) != want {
					t.Errorf("look %d: %d leaks, want %d", n, s.Leaks(watch), want)
				}
				if _, gone := s.Gone("other"); gone {
					t.Errorf("look %d: the other one is gone", n)
				}
			}
		})
	}
}

func observe(t *testing.T, c *cloud, now func() time.Time) *observer.Observer {
	t.Helper()
	watch := observer.New(c, observer.Options{Cluster: cluster, Now: now, Log: slog.New(slog.DiscardHandler)})
	if err := watch.ResyncOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	return watch
}

// TestWhatIsGoneIsForgotten removes all interfaces of a collected NodeENI. A read that returns one of them again starts
// over.
func TestWhatIsGoneIsForgotten(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	s := gc.New(gc.Options{Reader: &kubernetes{}, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
	c := &cloud{owners: []string{"uid"}, now: clock}
	watch := observe(t, c, clock)
	s.Run(t.Context(), watch)
	now = now.Add(identity.ConfirmInterval)
	s.Run(t.Context(), watch)
	if _, gone := s.Gone("uid"); !gone {
		t.Fatal("it is not gone")
	}
	s.Run(t.Context(), observe(t, &cloud{now: clock}, clock))
	if absence, gone := s.Gone("uid"); gone || !absence.Since.IsZero() {
		t.Errorf("still remembered since %s", absence.Since)
	}
}

// TestNetworksAreNoLeaks has pre-join interfaces, which never have a NodeENI.
func TestNetworksAreNoLeaks(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	uid := identity.NetworkOwner("multus")
	s := gc.New(gc.Options{Reader: &kubernetes{}, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
	watch := observe(t, &cloud{owners: []string{string(uid)}, now: clock}, clock)
	for range 3 {
		if next := s.Run(t.Context(), watch); next != period {
			t.Errorf("it is missing: the next pass is in %s", next)
		}
		now = now.Add(time.Hour)
	}
	if _, gone := s.Gone(uid); gone {
		t.Error("it is gone")
	}
}

// TestALoss has interfaces in use of many NodeENIs, or orphans in use without any owner, when the API server loses
// their owners.
func TestALoss(t *testing.T) {
	many := []string{"a", "b", "c", "d"}
	for name, tc := range map[string]struct {
		attached bool
		alive    []string
		loss     bool
		grace    time.Duration
	}{
		"none is missing":                 {attached: true, alive: many},
		"one of them is missing":          {attached: true, alive: many[1:], grace: identity.AttachedOrphanGrace},
		"half are missing":                {attached: true, alive: many[2:], loss: true, grace: identity.MassLossGrace},
		"all are missing":                 {attached: true, loss: true, grace: identity.MassLossGrace},
		"all are missing, none is in use": {grace: identity.AttachedOrphanGrace},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1_800_000_000, 0)
			clock := func() time.Time { return now }
			api := &kubernetes{uids: tc.alive}
			s := gc.New(gc.Options{Reader: api, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
			watch := observe(t, &cloud{owners: many, attached: tc.attached, now: clock}, clock)
			s.Run(t.Context(), watch)
			now = now.Add(identity.ConfirmInterval)
			s.Run(t.Context(), watch)
			if s.MassLoss() != tc.loss {
				t.Errorf("a loss: %t, want %t", s.MassLoss(), tc.loss)
			}
			if absence, _ := s.Gone("a"); absence.Grace != tc.grace {
				t.Errorf("what is in use is left for %s, want %s", absence.Grace, tc.grace)
			}
			api.uids = many
			if s.Run(t.Context(), watch); s.MassLoss() {
				t.Error("it does not end when the NodeENIs are back")
			}
		})
	}
}

// TestTheLastOfALossIsNotGivenUp creates lost NodeENIs again, one by one, until the remaining ones alone are too few
// for a mass loss. They keep their grace period.
func TestTheLastOfALossIsNotGivenUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	api := &kubernetes{}
	s := gc.New(gc.Options{Reader: api, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
	watch := observe(t, &cloud{owners: []string{"a", "b", "c", "d"}, attached: true, now: clock}, clock)
	for _, back := range [][]string{nil, {"b"}, {"b", "c"}, {"b", "c", "d"}} {
		api.uids = back
		s.Run(t.Context(), watch)
		now = now.Add(20 * time.Minute)
	}
	if absence, gone := s.Gone("a"); !gone || absence.Grace != identity.MassLossGrace {
		t.Errorf("gone %t, and what is in use is left for %s, want %s", gone, absence.Grace, identity.MassLossGrace)
	}
	if !s.MassLoss() {
		t.Error("the alarm has ended although one is still lost")
	}
}

// TestALeaderThatBeginsInTheMiddleOfARestore begins after many NodeENIs were lost. All but one were created again and
// have adopted the interfaces in use, which were not created for them.
func TestALeaderThatBeginsInTheMiddleOfARestore(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	for name, tc := range map[string]struct {
		created time.Time
		grace   time.Duration
	}{
		"created again an hour ago":      {start.Add(-time.Hour), identity.MassLossGrace},
		"created again the week before":  {start.Add(-7 * 24 * time.Hour), identity.AttachedOrphanGrace},
		"there before their interfaces":  {time.Unix(0, 0), identity.AttachedOrphanGrace},
		"created again when is not told": {time.Time{}, identity.AttachedOrphanGrace},
	} {
		t.Run(name, func(t *testing.T) {
			now := start
			clock := func() time.Time { return now }
			api := &kubernetes{uids: []string{"b", "c", "d"}, created: tc.created}
			s := gc.New(gc.Options{Reader: api, Period: period, Now: clock, Log: slog.New(slog.DiscardHandler)})
			watch := observe(t, &cloud{owners: []string{"a", "b", "c", "d"}, attached: true, now: clock}, clock)
			s.Run(t.Context(), watch)
			now = now.Add(identity.ConfirmInterval)
			s.Run(t.Context(), watch)
			if absence, gone := s.Gone("a"); !gone || absence.Grace != tc.grace {
				t.Errorf("gone %t, and what is in use is left for %s, want %s", gone, absence.Grace, tc.grace)
			}
			if loss := tc.grace == identity.MassLossGrace; s.MassLoss() != loss {
				t.Errorf("a loss: %t, want %t", s.MassLoss(), loss)
			}
		})
	}
}

// TestTheLogHasARemovalOnce checks the log while interfaces in use wait for the end of their grace period, and while a
// mass loss extends it.
func TestTheLogHasARemovalOnce(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	clock := func() time.Time { return now }
	var log bytes.Buffer
	api := &kubernetes{uids: []string{"b", "c", "d"}}
	s := gc.New(gc.Options{Reader: api, Period: period, Now: clock, Log: slog.New(slog.NewTextHandler(&log, nil))})
	watch := observe(t, &cloud{owners: []string{"a", "b", "c", "d"}, attached: true, now: clock}, clock)
	pass := func(times, wantLines int) {
		t.Helper()
		for range times {
			s.Run(t.Context(), watch)
			now = now.Add(period)
		}
		if got := strings.Count(log.String(), "uid=a "); got != wantLines {
			t.Errorf("the log has the removal %d times, want %d:\n%s", got, wantLines, log.String())
		}
	}
	pass(6, 1)
	api.uids = []string{"d"}
	pass(6, 2)
}
