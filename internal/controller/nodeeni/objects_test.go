// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/nodeeni"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/identity"
)

// TestTheFinalizerGoesWithTheLastObject deletes a NodeENI in different circumstances.
func TestTheFinalizerGoesWithTheLastObject(t *testing.T) {
	n := declared()
	hidden := func(o client.Object) func(*stage) {
		return func(s *stage) { // the cache lacks it
			options := s.reconciler.Options
			options.Reader = controllertest.API(s.T, o)
			s.reconciler = nodeeni.New(options)
		}
	}
	cases := map[string]struct {
		objects []client.Object
		change  func(*stage)
		gone    bool
		deleted bool
	}{
		"no object":                     {gone: true},
		"an object":                     {objects: []client.Object{attached(n, "n1")}, deleted: true},
		"an object, whose kind is gone": {objects: []client.Object{attached(n, "n1")}, change: forgetKind, gone: true, deleted: true},
		"an object of which the API server knows":   {change: hidden(attached(n, "n1"))},
		"an object of another NodeENI of its label": {change: hidden(attached(n, "n1", func(o *v1alpha1.NetworkInterface) { o.Spec.NodeENI.UID = "other" })), gone: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, &cloud{}, append(tc.objects, declared())...)
			if tc.change != nil {
				tc.change(s)
			}
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := s.reconcile(); err != nil {
					t.Fatal(err)
				}
			}
			if gone := s.read() == nil; gone != tc.gone {
				t.Errorf("gone: %t, want %t", gone, tc.gone)
			}
			for _, o := range s.objects() {
				if o.DeletionTimestamp.IsZero() == tc.deleted {
					t.Errorf("object %s is deleted: %t", o.Name, !tc.deleted)
				}
			}
		})
	}
}

// forgetKind makes the API server answer that there is no kind NetworkInterface.
func forgetKind(s *stage) {
	options := s.reconciler.Options
	options.Reader = interceptor.NewClient(s.kube.(client.WithWatch), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &apimeta.NoKindMatchError{GroupKind: v1alpha1.SchemeGroupVersion.WithKind("NetworkInterface").GroupKind()}
		},
	})
	s.reconciler = nodeeni.New(options)
}

// objects returns all objects.
func (s *stage) objects() []v1alpha1.NetworkInterface {
	s.Helper()
	all, err := object.All(s.Context(), s.kube)
	if err != nil {
		s.Fatal(err)
	}
	return all
}

// deletedOn returns the nodes whose objects are being deleted.
func (s *stage) deletedOn() (nodes []string) {
	for _, o := range s.objects() {
		if !o.DeletionTimestamp.IsZero() {
			nodes = append(nodes, o.Spec.NodeName)
		}
	}
	slices.Sort(nodes)
	return nodes
}

// TestAnotherNodeENIOfTheNameKeepsTheObjects has a cache that still shows the NodeENI before.
func TestAnotherNodeENIOfTheNameKeepsTheObjects(t *testing.T) {
	again := declared()
	again.UID = "again"
	for title, live := range map[string][]client.Object{"another one": {again}, "none": nil} {
		t.Run(title, func(t *testing.T) {
			s := setStage(t, &cloud{}, declared(), attached(declared(), "n1"))
			options := s.reconciler.Options
			options.Reader = controllertest.API(t, append(live, attached(again, "n1"))...)
			s.reconciler = nodeeni.New(options)
			if err := s.kube.Delete(t.Context(), declared()); err != nil {
				t.Fatal(err)
			}
			if err := s.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := s.deletedOn(); len(got) > 0 {
				t.Errorf("the objects of %v are deleted", got)
			}
		})
	}
}

// TestARolloutDeletesInTurn replaces the interfaces of three nodes with maxUnavailable 1.
func TestARolloutDeletesInTurn(t *testing.T) {
	n := declared()
	n.Spec.UpdatePolicy, n.Spec.MaxUnavailable = v1alpha1.UpdateReplace, 1
	s := setStage(t, &cloud{}, n, selected("n1"), selected("n2"), selected("n3"), attached(n, "n1", drifted), attached(n, "n2", drifted), attached(n, "n3", drifted))
	for range 3 {
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.deletedOn(); len(got) != 1 {
		t.Errorf("the objects of %v are deleted, want one", got)
	}
}

// TestANodeLosesOneNetworkAtATime replaces the interfaces that two NodeENIs have on one node.
func TestANodeLosesOneNetworkAtATime(t *testing.T) {
	n, other := declared(), declared()
	other.Name, other.UID = "more", "uid-more"
	var objects []client.Object
	for _, n := range []*v1alpha1.NodeENI{n, other} {
		n.Spec.UpdatePolicy = v1alpha1.UpdateReplace
		objects = append(objects, n, attached(n, "n1", drifted))
	}
	s := setStage(t, &cloud{}, append(objects, selected("n1"))...)
	for _, name := range []string{"more", "data", "more"} {
		request := reconcile.Request{NamespacedName: client.ObjectKey{Name: name}}
		if _, err := s.reconciler.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.deletedOn(); len(got) != 1 {
		t.Errorf("%d interfaces of the node are replaced at a time", len(got))
	}
}

// TestAnOrphan has an object whose NodeENI does not exist.
func TestAnOrphan(t *testing.T) {
	n := declared()
	s := setStage(t, &cloud{}, selected("n1"), attached(n, "n1"), selected("n2"), declaredOn(n, "n2"))
	steps := []struct {
		wait    time.Duration
		deleted []string
		marked  int
	}{
		{0, nil, 0},
		{identity.ConfirmInterval, []string{"n2"}, 1},
		{fleet.OrphanGrace - time.Minute, []string{"n2"}, 1},
		{time.Minute, []string{"n1", "n2"}, 1},
	}
	for _, step := range steps {
		s.now = s.now.Add(step.wait)
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		marked := 0
		for _, o := range s.objects() {
			if apimeta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionOrphaned) {
				marked++
			}
		}
		if diff := cmp.Diff(step.deleted, s.deletedOn()); diff != "" || marked != step.marked {
			t.Errorf("after %s: %d are marked, want %d; deleted (-want +got):\n%s", step.wait, marked, step.marked, diff)
		}
	}
}

// TestAnOrphanIsAdopted creates a NodeENI again.
func TestAnOrphanIsAdopted(t *testing.T) {
	n := declared()
	s := setStage(t, &cloud{}, selected("n1"), attached(n, "n1"))
	for range 2 {
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		s.now = s.now.Add(identity.ConfirmInterval)
	}
	again := declared()
	again.UID = "again"
	if err := s.kube.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	o := s.objects()[0]
	if apimeta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionOrphaned) != nil || !o.DeletionTimestamp.IsZero() {
		t.Errorf("the object still is an orphan: %+v", o.Status.Conditions)
	}
}

// TestTurns deletes, as a user, objects of two nodes.
func TestTurns(t *testing.T) {
	n := declared()
	n.Spec.MaxUnavailable = 1
	s := setStage(t, &cloud{}, n, selected("n1"), selected("n2"), attached(n, "n1", leaving), attached(n, "n2", leaving))
	may := func() (count int) {
		for _, o := range s.objects() {
			may, err := s.reconciler.MayRemove(t.Context(), &o)
			if err != nil {
				t.Fatal(err)
			}
			if may {
				count++
			}
		}
		return count
	}
	if count := may(); count != 0 {
		t.Errorf("%d interfaces may go before the NodeENI records their turns", count)
	}
	if err := s.reconcile(); err != nil {
		t.Fatal(err)
	}
	if count := may(); count != 1 {
		t.Errorf("%d interfaces may go, want 1", count)
	}
}

// TestWithoutANodeENINothingNeedsATurn deletes the object of a NodeENI that does not exist.
func TestWithoutANodeENINothingNeedsATurn(t *testing.T) {
	n := declared()
	s := setStage(t, &cloud{}, selected("n1"), attached(n, "n1", leaving))
	o := s.objects()[0]
	if may, err := s.reconciler.MayRemove(t.Context(), &o); !may || err != nil {
		t.Errorf("the interface may go: %t, %v", may, err)
	}
}
