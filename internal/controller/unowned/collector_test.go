// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package unowned_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/unowned"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

const (
	instance = "i-00000000000000001"
	period   = 5 * time.Minute
)

var start = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

// world is EC2 with one interface, and the inventory of it.
type world struct {
	record  inventory.Record
	deleted []string
	fails   error
}

func (w *world) All() []inventory.Record {
	if len(w.deleted) > 0 {
		return nil
	}
	return []inventory.Record{w.record}
}

func (w *world) Deleted(time.Time, string) {}

func (w *world) DeleteInterface(_ context.Context, id string) error {
	if w.fails == nil {
		w.deleted = append(w.deleted, id)
	}
	return w.fails
}

// interfaceOf is an unattached interface that was created some time ago for an object.
func interfaceOf(uid identity.UID, name string, age time.Duration) inventory.Record {
	key := identity.Interface{Cluster: "c", UID: uid, Name: name, NodeENI: "n", Node: "node-1", InstanceID: instance}
	return inventory.Record{Interface: eni.Interface{ID: "eni-1", SubnetID: "subnet-1", Tags: key.Tags(start.Add(-age), nil)}, Tagged: key}
}

// objectOf is an object of the instance.
func objectOf(uid, name, eniID string) *v1alpha1.NetworkInterface {
	return &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid), Labels: map[string]string{v1alpha1.InstanceLabel: instance}},
		Spec:       v1alpha1.NetworkInterfaceSpec{InstanceID: instance, Subnets: []v1alpha1.InterfaceSubnet{{ID: "subnet-1"}}}, Status: v1alpha1.NetworkInterfaceStatus{ENIID: eniID},
	}
}

// pausedNode is a paused Node of the instance.
func pausedNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Annotations: map[string]string{v1alpha1.PausedAnnotation: "by a user"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + instance},
	}
}

// elsewhere allows other subnets alone.
func elsewhere(o *v1alpha1.NetworkInterface) *v1alpha1.NetworkInterface {
	o.Spec.Subnets[0].ID = "subnet-2"
	return o
}

// TestAnInterfaceWithoutAnObject lists an interface every two minutes, for an hour.
func TestAnInterfaceWithoutAnObject(t *testing.T) {
	attached := func(w *world) { w.record.Attachment = &eni.Attachment{InstanceID: instance} }
	for name, tc := range map[string]struct {
		change   func(*world)
		objects  []client.Object
		live     []client.Object
		deleted  bool
		attached int
		leaks    int
	}{
		"nobody has it":                         {deleted: true},
		"an object records it":                  {objects: []client.Object{objectOf("u", "x", "eni-1")}},
		"an object of its UID can take it over": {objects: []client.Object{objectOf("u", "x", "")}},
		"an object of its name can":             {objects: []client.Object{objectOf("other", "n-0", "")}},
		"an object of its name is for others":   {objects: []client.Object{elsewhere(objectOf("other", "n-0", ""))}, deleted: true},
		"the object of its UID has another one": {objects: []client.Object{objectOf("u", "n-0", "eni-2")}, deleted: true},
		"only the API server has its object":    {live: []client.Object{objectOf("u", "n-0", "eni-1")}, leaks: 1},
		"it is attached":                        {change: attached, attached: 1},
		"it is a network's, and attached":       {change: func(w *world) { attached(w); w.record.Tagged.UID = identity.NetworkUID("net", 0, start) }},
		"its node is paused":                    {objects: []client.Object{pausedNode()}, leaks: 1},
		"its age is not known":                  {change: func(w *world) { delete(w.record.Tags, identity.TagCreatedAt) }, leaks: 1},
		"EC2 omits it":                          {change: func(w *world) { w.record.Missing = true }, leaks: 1},
		"EC2 refuses":                           {change: func(w *world) { w.fails = errors.New("no") }, leaks: 1},
		"EC2 no longer knows it":                {change: func(w *world) { w.fails = &eni.APIError{Class: eni.NotFound} }, leaks: 1},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{record: interfaceOf("u", "n-0", time.Hour)}
			if tc.change != nil {
				tc.change(w)
			}
			now, cache := start, controllertest.API(t, tc.objects...)
			c := unowned.New(unowned.Options{
				Client: cache, Reader: controllertest.API(t, append(tc.live, tc.objects...)...), EC2: w, Era: func() era.Era { return era.Era{Since: start.Add(-time.Hour)} },
				Period: period, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
			})
			for range 30 {
				c.Run(t.Context(), w)
				now = now.Add(2 * time.Minute)
			}
			if got := len(w.deleted) > 0; got != tc.deleted || c.Attached() != tc.attached || c.Leaks() != tc.leaks {
				t.Errorf("deleted %t, want %t; %d attached and %d unattached without an object, want %d and %d", got, tc.deleted, c.Attached(), c.Leaks(), tc.attached, tc.leaks)
			}
		})
	}
}

// TestWhenItIsDeleted has an interface that was created some time ago, after the begin of an era.
func TestWhenItIsDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		age, era time.Duration
		want     time.Duration
	}{
		"an old one":            {age: time.Hour, era: time.Hour, want: identity.ConfirmInterval},
		"a young one":           {era: time.Hour, want: identity.MinLeakAge},
		"in a new leader's era": {age: time.Hour, want: inventory.VisibilityWindow + identity.ConfirmInterval},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{record: interfaceOf("u", "n-0", tc.age)}
			now := start
			c := unowned.New(unowned.Options{
				Client: controllertest.API(t), Reader: controllertest.API(t), EC2: w, Era: func() era.Era { return era.Era{Since: start.Add(-tc.era)} },
				Period: period, Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler),
			})
			for len(w.deleted) == 0 && now.Sub(start) < time.Hour {
				next := c.Run(t.Context(), w)
				if len(w.deleted) == 0 {
					now = now.Add(next)
				}
			}
			if diff := cmp.Diff(tc.want, now.Sub(start)); diff != "" {
				t.Errorf("it is deleted after (-want +got):\n%s", diff)
			}
		})
	}
}
