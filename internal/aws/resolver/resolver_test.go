// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package resolver_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/selector"
)

// reader is a Reader that takes a second, and counts its calls.
type reader struct {
	mu    sync.Mutex
	asked int
	// known are the IDs of the subnets and groups that exist.
	known []string
	err   error
}

func (r *reader) answer(ctx context.Context) ([]string, error) {
	r.mu.Lock()
	r.asked++
	known, err := r.known, r.err
	r.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return known, err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (r *reader) Subnets(ctx context.Context, _ selector.SubnetTerms) ([]eni.Subnet, error) {
	ids, err := r.answer(ctx)
	var all []eni.Subnet
	for _, id := range ids {
		all = append(all, eni.Subnet{ID: id, VPCID: "vpc-1", Zone: "us-east-1a"})
	}
	return all, err
}

func (r *reader) SecurityGroups(ctx context.Context, _ selector.GroupTerms) ([]eni.SecurityGroup, error) {
	ids, err := r.answer(ctx)
	var all []eni.SecurityGroup
	for _, id := range ids {
		all = append(all, eni.SecurityGroup{ID: id, VPCID: "vpc-1"})
	}
	return all, err
}

func ids(ids ...string) selector.SubnetTerms { return selector.SubnetTerms{IDs: ids} }

// inBubble runs a test with a resolver that caches complete answers for an hour and doubtful ones for a minute.
func inBubble(t *testing.T, r *reader, test func(*testing.T, *resolver.Resolver)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, resolver.New(r, resolver.Options{Fresh: time.Hour, Doubtful: time.Minute, Now: time.Now}))
	})
}

func TestAnswersAreRemembered(t *testing.T) {
	cases := map[string]struct {
		known []string
		after time.Duration
		asked int
	}{
		"complete, soon":   {[]string{"id-1"}, 59 * time.Minute, 1},
		"complete, later":  {[]string{"id-1"}, 61 * time.Minute, 2},
		"doubtful, soon":   {nil, 59 * time.Second, 1},
		"doubtful, later":  {nil, 61 * time.Second, 2},
		"doubtful, stable": {[]string{"id-2"}, 61 * time.Second, 2},
	}
	for name, tc := range cases {
		t.Run(name+": subnets", func(t *testing.T) {
			r := &reader{known: tc.known}
			inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
				for range 2 {
					match, err := resolve.Subnets(t.Context(), ids("id-1"))
					if complete := len(match.Unknown) == 0; err != nil || complete != (len(tc.known) > 0 && tc.known[0] == "id-1") {
						t.Errorf("unknown %v, %v", match.Unknown, err)
					}
					time.Sleep(tc.after)
				}
			})
			if r.asked != tc.asked {
				t.Errorf("asked %d times, want %d", r.asked, tc.asked)
			}
		})
		t.Run(name+": groups", func(t *testing.T) {
			r := &reader{known: tc.known}
			inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
				for range 2 {
					if _, err := resolve.SecurityGroups(t.Context(), selector.GroupTerms{IDs: []string{"id-1"}}); err != nil {
						t.Error(err)
					}
					time.Sleep(tc.after)
				}
			})
			if r.asked != tc.asked {
				t.Errorf("asked %d times, want %d", r.asked, tc.asked)
			}
		})
	}
}

func TestOneQuestionIsAskedOnceAtATime(t *testing.T) {
	r := &reader{known: []string{"s1"}}
	inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				if _, err := resolve.Subnets(t.Context(), ids("s1")); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	})
	if r.asked != 1 {
		t.Errorf("asked %d times", r.asked)
	}
}

func TestDifferentQuestionsHaveDifferentAnswers(t *testing.T) {
	r := &reader{known: []string{"a", "b"}}
	inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
		for n, terms := range []selector.SubnetTerms{
			ids("a"), ids("a", "b"), ids("b", "a"), ids(`a" "b`), {Names: []string{"a"}}, {Tags: map[string]string{"a": "b"}}, {Tags: map[string]string{"a": "c"}},
		} {
			if _, err := resolve.Subnets(t.Context(), terms); err != nil {
				t.Error(err)
			}
			if r.asked != n+1 {
				t.Errorf("%+v was answered from memory", terms)
			}
		}
	})
}

func TestAFailureIsNotRemembered(t *testing.T) {
	down := errors.New("down")
	r := &reader{known: []string{"s1"}, err: down}
	inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
		if _, err := resolve.Subnets(t.Context(), ids("s1")); !errors.Is(err, down) {
			t.Errorf("got %v", err)
		}
		r.err = nil
		if match, err := resolve.Subnets(t.Context(), ids("s1")); err != nil || len(match.Unknown) > 0 {
			t.Errorf("got %v, %v", match.Unknown, err)
		}
	})
}

// TestACallerThatGoesLeavesTheQuestionToTheOthers cancels the context of the first caller.
func TestACallerThatGoesLeavesTheQuestionToTheOthers(t *testing.T) {
	r := &reader{known: []string{"s1"}}
	inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
		hasty, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := resolve.Subnets(hasty, ids("s1")); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the hasty one got %v", err)
			}
		})
		synctest.Wait()
		if match, err := resolve.Subnets(t.Context(), ids("s1")); err != nil || len(match.Unknown) > 0 {
			t.Errorf("the patient one got %v, %v", match.Unknown, err)
		}
		wg.Wait()
	})
	if r.asked != 1 {
		t.Errorf("asked %d times", r.asked)
	}
}

// The metric of free addresses uses the subnets last read: it causes no reads, and drops subnets that are no longer
// read.
func TestSubnetsLastRead(t *testing.T) {
	r := &reader{known: []string{"subnet-b", "subnet-a"}}
	inBubble(t, r, func(t *testing.T, resolve *resolver.Resolver) {
		if got := resolve.LastRead(); len(got) != 0 {
			t.Errorf("before the first read: %v", got)
		}
		if _, err := resolve.Subnets(t.Context(), ids("subnet-a", "subnet-b")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		r.known = []string{"subnet-a"}
		if _, err := resolve.Subnets(t.Context(), ids("subnet-a")); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{
			{0, []string{"subnet-a", "subnet-b"}},
			{time.Hour + time.Minute, []string{"subnet-a"}},
			{2 * time.Hour, nil},
		} {
			time.Sleep(step.after)
			var got []string
			for _, subnet := range resolve.LastRead() {
				got = append(got, subnet.ID)
			}
			if !slices.Equal(got, step.want) {
				t.Errorf("after %v more: %v, want %v", step.after, got, step.want)
			}
		}
		if r.asked != 2 {
			t.Errorf("EC2 was asked %d times, want 2", r.asked)
		}
	})
}
