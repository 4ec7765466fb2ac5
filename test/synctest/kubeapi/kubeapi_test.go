// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func connect(t *testing.T) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, clientgoscheme.AddToScheme(scheme))
	must(t, v1alpha1.AddToScheme(scheme))
	c, err := client.NewWithWatch(kubeapi.Config(kubeapi.New()), client.Options{Scheme: scheme})
	must(t, err)
	return c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func nodeENI(t *testing.T, c client.Client) *v1alpha1.NodeENI {
	t.Helper()
	n := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "data", Finalizers: []string{v1alpha1.Finalizer}}}
	n.Spec.Description = "one"
	n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"ng": "multi-eni"}
	n.Spec.SubnetID, n.Spec.SecurityGroupIDs = "subnet-0000000000000000a", []string{"sg-0000000000000000a"}
	must(t, c.Create(t.Context(), n))
	return n
}

func TestContentIsCheckedAgainstTheSchema(t *testing.T) {
	c := connect(t)
	n := nodeENI(t, c)
	n.Spec.DeviceIndex = -1
	if err := c.Update(t.Context(), n); !apierrors.IsInvalid(err) {
		t.Errorf("device index -1: got %v, want a refusal as invalid", err)
	}
}

func TestConflicts(t *testing.T) {
	c := connect(t)
	n := nodeENI(t, c)
	stale := n.DeepCopy()
	before := n.DeepCopy()
	n.Spec.Description = "two"
	must(t, c.Patch(t.Context(), n, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})))

	other := types.UID("00000000-0000-4000-8000-000000000000")
	successor := n.DeepCopy()
	successor.UID = other
	changed := stale.DeepCopy()
	changed.Spec.Description = "three"
	for what, attempt := range map[string]func() error{
		"a patch of an old version": func() error {
			return c.Patch(t.Context(), changed.DeepCopy(), client.MergeFromWithOptions(stale, client.MergeFromWithOptimisticLock{}))
		},
		"an update of an old version":       func() error { return c.Update(t.Context(), changed.DeepCopy()) },
		"the status of another of the name": func() error { return status.Write(t.Context(), c, "test", successor) },
		"the deletion of another of the name": func() error {
			return c.Delete(t.Context(), n.DeepCopy(), client.Preconditions{UID: &other})
		},
	} {
		if err := attempt(); !apierrors.IsConflict(err) {
			t.Errorf("%s: %v, want a conflict", what, err)
		}
	}
}

func TestGenerationAndStatus(t *testing.T) {
	c := connect(t)
	n := nodeENI(t, c)
	n.Status.Attached = 3
	must(t, status.Write(t.Context(), c, "test", n))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	if n.Status.Attached != 3 || n.Generation != 1 {
		t.Errorf("after the status was written, attached is %d and the generation %d", n.Status.Attached, n.Generation)
	}
	version := n.ResourceVersion
	must(t, status.Write(t.Context(), c, "test", n))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	if n.ResourceVersion != version {
		t.Error("writing the same status again made a version")
	}
	before := n.DeepCopy()
	n.Spec.Description, n.Status.Attached = "two", 7
	must(t, c.Patch(t.Context(), n, client.MergeFrom(before)))
	if n.Status.Attached != 3 || n.Generation != 2 {
		t.Errorf("after the spec was patched, attached is %d and the generation %d", n.Status.Attached, n.Generation)
	}
}

func TestAFieldManagerKeepsTheStatusOfAnother(t *testing.T) {
	c := connect(t)
	n := nodeENI(t, c)
	apply := func(manager string, change func(*v1alpha1.NodeENIStatus)) {
		own := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
		change(&own.Status)
		must(t, status.Write(t.Context(), c, manager, own))
	}
	apply("one", func(s *v1alpha1.NodeENIStatus) { s.Subnets = []v1alpha1.ResolvedSubnet{{ID: "subnet-1"}} })
	apply("two", func(s *v1alpha1.NodeENIStatus) { s.SecurityGroups = []string{"sg-1"} })
	late := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: n.Name, ResourceVersion: "1"}}
	if err := status.WriteLocked(t.Context(), c, "one", late); !apierrors.IsConflict(err) {
		t.Fatalf("%v", err)
	}
	apply("one", func(*v1alpha1.NodeENIStatus) {})
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	if len(n.Status.Subnets) != 0 || len(n.Status.SecurityGroups) != 1 {
		t.Errorf("the subnets are %v, and the security groups %v", n.Status.Subnets, n.Status.SecurityGroups)
	}
}

func TestFinalizersKeepAnObject(t *testing.T) {
	c := connect(t)
	n := nodeENI(t, c)
	must(t, c.Delete(t.Context(), n))
	must(t, c.Get(t.Context(), client.ObjectKeyFromObject(n), n))
	if n.DeletionTimestamp == nil {
		t.Fatal("the object does not say that it is being deleted")
	}
	before := n.DeepCopy()
	n.Finalizers = nil
	must(t, c.Patch(t.Context(), n, client.MergeFrom(before)))
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(n), n); !apierrors.IsNotFound(err) {
		t.Errorf("without finalizers the object is still there: %v", err)
	}
}

func TestAListHasPages(t *testing.T) {
	c := connect(t)
	for n := range 5 {
		must(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("n%d", n)}}))
	}
	var names []string
	pages, token := 0, ""
	for pages == 0 || token != "" {
		var page corev1.NodeList
		must(t, c.List(t.Context(), &page, client.Limit(2), client.Continue(token)))
		for _, n := range page.Items {
			names = append(names, n.Name)
		}
		pages, token = pages+1, page.Continue
	}
	if got := fmt.Sprint(names); pages != 3 || got != "[n0 n1 n2 n3 n4]" {
		t.Errorf("%d pages: %s", pages, got)
	}
}

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := connect(t)
		var nodes corev1.NodeList
		must(t, c.List(t.Context(), &nodes))
		seconds := int64(60)
		w, err := c.Watch(t.Context(), &nodes, &client.ListOptions{Raw: &metav1.ListOptions{
			ResourceVersion: nodes.ResourceVersion, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
		}})
		must(t, err)
		begun := time.Now()
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
		must(t, c.Create(t.Context(), node))
		must(t, c.Delete(t.Context(), node))
		var seen []watch.EventType
		for e := range w.ResultChan() {
			seen = append(seen, e.Type)
		}
		if got, want := fmt.Sprint(seen), fmt.Sprint([]watch.EventType{watch.Added, watch.Deleted, watch.Bookmark}); got != want {
			t.Errorf("the watch showed %s, want %s", got, want)
		}
		if took := time.Since(begun); took != time.Minute {
			t.Errorf("the watch ended after %s", took)
		}
	})
}

func TestOldVersionsAreForgotten(t *testing.T) {
	c := connect(t)
	var nodes corev1.NodeList
	must(t, c.List(t.Context(), &nodes))
	for n := range 3000 {
		must(t, c.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n)}}))
	}
	_, err := c.Watch(t.Context(), &nodes, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: nodes.ResourceVersion}})
	if !apierrors.IsResourceExpired(err) {
		t.Errorf("watching from an old version: %v, want that it is expired", err)
	}
}
