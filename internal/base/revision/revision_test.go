// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/multieni/multieni/internal/base/revision"
)

func TestCompare(t *testing.T) {
	for name, c := range map[string]struct {
		known, current string
		wantRestored   bool
	}{
		"nothing changed":             {known: "1000", current: "1000"},
		"something changed":           {known: "999", current: "1000"},
		"restored":                    {known: "1000", current: "999", wantRestored: true},
		"restored to fewer digits":    {known: "10000", current: "9999", wantRestored: true},
		"beyond 64 bits":              {known: "99999999999999999999", current: "99999999999999999998", wantRestored: true},
		"versions that are no number": {known: "b", current: "a"},
		"no version in the answer":    {known: "1000", current: ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := revision.Compare(c.known, c.current)
			if got := apierrors.IsResourceExpired(err); got != c.wantRestored || (err != nil) != got {
				t.Errorf("Compare(%q, %q) = %v", c.known, c.current, err)
			}
		})
	}
}

// source is an API server at a revision.
type source struct {
	version string
	err     error
	lists   []metav1.ListOptions
	watches int
}

func (s *source) ListWithContext(_ context.Context, options metav1.ListOptions) (runtime.Object, error) {
	s.lists = append(s.lists, options)
	return &corev1.NodeList{ListMeta: metav1.ListMeta{ResourceVersion: s.version}}, s.err
}

func (s *source) WatchWithContext(context.Context, metav1.ListOptions) (watch.Interface, error) {
	s.watches++
	return watch.NewEmptyWatch(), nil
}

func (s *source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

func (s *source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

func TestGuard(t *testing.T) {
	unreachable := errors.New("connection refused")
	for name, c := range map[string]struct {
		server                           source
		known                            string
		wantLooks, wantWatches, wantTold int
		wantErr                          func(error) bool
	}{
		"a watch of everything":   {server: source{version: "5"}, known: "", wantWatches: 1},
		"a watch from anywhere":   {server: source{version: "5"}, known: "0", wantWatches: 1},
		"a watch from the past":   {server: source{version: "5"}, known: "4", wantLooks: 1, wantWatches: 1},
		"a watch from the future": {server: source{version: "5"}, known: "6", wantLooks: 1, wantTold: 1, wantErr: apierrors.IsResourceExpired},
		"an unreachable server": {server: source{err: unreachable}, known: "6", wantLooks: 1,
			wantErr: func(err error) bool { return errors.Is(err, unreachable) }},
	} {
		t.Run(name, func(t *testing.T) {
			told := 0
			guarded := cache.ToListerWatcherWithContext(revision.Guard(&c.server, func(error) { told++ }))
			_, err := guarded.WatchWithContext(t.Context(), metav1.ListOptions{ResourceVersion: c.known})
			if (err != nil) != (c.wantErr != nil) || err != nil && !c.wantErr(err) {
				t.Errorf("error: %v", err)
			}
			if len(c.server.lists) != c.wantLooks || c.server.watches != c.wantWatches || told != c.wantTold {
				t.Errorf("%d looks, %d watches, told %d times", len(c.server.lists), c.server.watches, told)
			}
			for _, look := range c.server.lists {
				if look.Limit != 1 || look.ResourceVersion != "" {
					t.Errorf("the look at the revision was %+v, which is large or may be answered from the past", look)
				}
			}
		})
	}
}

// The API server would wait a minute before it refuses a list that requires a lost revision.
func TestGuardFailsAListFromTheFutureAtOnce(t *testing.T) {
	server := &source{version: "5"}
	guarded := cache.ToListerWatcherWithContext(revision.Guard(server, func(error) {}))
	if _, err := guarded.ListWithContext(t.Context(), metav1.ListOptions{ResourceVersion: "6"}); !apierrors.IsResourceExpired(err) {
		t.Errorf("error: %v", err)
	}
	if _, err := guarded.ListWithContext(t.Context(), metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}
