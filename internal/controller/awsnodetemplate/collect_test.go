// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func TestLaunchTemplatesGoWithTheLastNode(t *testing.T) {
	s := setStage(t, declared())
	object, _ := s.reconcile()
	s.launch(object)
	if err := s.kube.Delete(s.Context(), &object); err != nil {
		t.Fatal(err)
	}
	if _, calls := s.reconcile(); len(calls) > 0 {
		t.Errorf("while a node runs: %q", calls)
	}
	node, _ := s.node()
	if err := s.kube.Delete(s.Context(), &node); err != nil {
		t.Fatal(err)
	}
	s.templates["lt-foreign"] = launchtemplate.Existing{ID: "lt-foreign", Name: "base"}
	object, calls := s.reconcile()
	if !slices.Equal(calls, []string{"delete lt-1"}) || object.Name != "" {
		t.Errorf("calls %q, still there: %q", calls, object.Name)
	}
}

func TestWhatNothingWantsGoesAfterAWhile(t *testing.T) {
	s := setStage(t, declared())
	s.reconcile()
	old := launchtemplate.NodeTemplate{Name: "default", UID: "uid", Cluster: cluster}
	s.templates["lt-9"] = launchtemplate.Existing{ID: "lt-9", Name: old.TemplateName(launchtemplate.Template{Zone: "gone"}), Tags: old.Identity(), Latest: 1}
	for days, want := range []int{0, 1} {
		s.now = s.now.Add(time.Duration(days)*launchtemplate.KeepFor + time.Minute)
		if _, calls := s.reconcile(); len(calls) != want {
			t.Errorf("after %d days: %q", days, calls)
		}
	}
}

// Any program that may tag launch templates can copy our tags.
func TestCopiedTagsDeleteNoLaunchTemplate(t *testing.T) {
	elsewhere := launchtemplate.NodeTemplate{Name: "default", Cluster: "another"}
	names := map[string]string{
		"a template of a user":                     "base",
		"a template of another cluster's multieni": elsewhere.TemplateName(launchtemplate.Template{}),
	}
	for name, foreign := range names {
		for _, nodeTemplate := range []string{"default", "gone"} {
			t.Run(name+" with the tags of node template "+nodeTemplate, func(t *testing.T) {
				s := setStage(t, declared())
				s.reconcile()
				copied := launchtemplate.NodeTemplate{Name: nodeTemplate, UID: "uid", Cluster: cluster}
				s.templates["lt-9"] = launchtemplate.Existing{ID: "lt-9", Name: foreign, Tags: copied.Identity(), Latest: 1}
				s.add("lt-9", 1, "1", nil)
				for range 3 {
					s.now = s.now.Add(launchtemplate.KeepFor + time.Minute)
					s.reconcile()
					if err := s.reconciler.CollectTemplates(s.Context()); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.kube.Delete(s.Context(), declared()); err != nil {
					t.Fatal(err)
				}
				s.reconcile()
				if _, is := s.templates["lt-9"]; !is {
					t.Error("the template is deleted")
				}
				if _, is := s.templates["lt-1"]; is {
					t.Error("multieni's own template stays")
				}
			})
		}
	}
}

// TestWhatAGroupNamesStays checks a group that is scaled to zero: it has no nodes, but may launch some tomorrow.
func TestWhatAGroupNamesStays(t *testing.T) {
	s := setStage(t, declared())
	s.reconcile()
	old := launchtemplate.NodeTemplate{Name: "default", UID: "uid", Cluster: cluster}
	s.templates["lt-9"] = launchtemplate.Existing{ID: "lt-9", Name: old.TemplateName(launchtemplate.Template{Zone: "gone"}), Tags: old.Identity(), Latest: 1}
	s.references = []launchtemplate.Reference{{By: "Auto Scaling group web", TemplateName: old.TemplateName(launchtemplate.Template{Zone: "gone"}), Version: "$Latest"}}
	for range 3 {
		s.now = s.now.Add(launchtemplate.KeepFor + time.Minute)
		if _, calls := s.reconcile(); len(calls) > 0 {
			t.Errorf("while a group names it: %q", calls)
		}
	}
	s.references, s.unasked = nil, errors.New("AccessDenied")
	s.now = s.now.Add(launchtemplate.KeepFor + time.Minute)
	if _, calls := s.reconcile(); len(calls) > 0 {
		t.Errorf("while nobody may look: %q", calls)
	}
	s.unasked = nil
	s.now = s.now.Add(launchtemplate.KeepFor + time.Minute)
	if _, calls := s.reconcile(); !slices.Equal(calls, []string{"delete lt-9"}) {
		t.Errorf("in the end: %q", calls)
	}
}

func TestAVersionThatAGroupNamesStays(t *testing.T) {
	s := setStage(t, declared())
	for n := range launchtemplate.KeepVersions + 4 {
		s.change(func(spec *v1alpha1.AWSNodeTemplateSpec) { spec.UserData = fmt.Sprintf("#!/bin/sh\n#%d", n) })
		s.reconcile()
	}
	s.references = []launchtemplate.Reference{{By: "Auto Scaling group web", TemplateID: "lt-1", Version: "3"}}
	s.now = s.now.Add(launchtemplate.KeepFor + time.Minute)
	if _, calls := s.reconcile(); !slices.Equal(calls, []string{"delete versions [2 4] of lt-1"}) {
		t.Errorf("calls %q", calls)
	}
}

func TestTheEndWaitsForGroups(t *testing.T) {
	s := setStage(t, declared())
	object, _ := s.reconcile()
	if err := s.kube.Delete(s.Context(), &object); err != nil {
		t.Fatal(err)
	}
	s.references = []launchtemplate.Reference{{By: "Auto Scaling group web", TemplateID: "lt-1", Version: "1"}}
	object, calls := s.reconcile()
	if ready := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady); len(calls) > 0 || !strings.Contains(ready.Message, "Auto Scaling group web") {
		t.Errorf("calls %q, %q", calls, ready.Message)
	}
	s.references = nil
	if object, calls = s.reconcile(); !slices.Equal(calls, []string{"delete lt-1"}) || object.Name != "" {
		t.Errorf("calls %q, still there: %q", calls, object.Name)
	}
}

// TestAPauseHoldsNobodyUp uninstalls multieni: a user pauses node templates and removes their finalizers while a
// controller still runs.
func TestAPauseHoldsNobodyUp(t *testing.T) {
	t.Run("once let go", func(t *testing.T) {
		object := declared()
		object.Annotations, object.Finalizers = map[string]string{v1alpha1.PausedAnnotation: ""}, nil
		s := setStage(t, object)
		if after, calls := s.reconcile(); len(after.Finalizers) > 0 || len(calls) > 0 {
			t.Errorf("finalizers %q, calls %q", after.Finalizers, calls)
		}
	})
	t.Run("but keeps what there is", func(t *testing.T) {
		s := setStage(t, declared())
		object, _ := s.reconcile()
		before := object.DeepCopy()
		object.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
		if err := s.kube.Patch(s.Context(), &object, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		if err := s.kube.Delete(s.Context(), &object); err != nil {
			t.Fatal(err)
		}
		if after, calls := s.reconcile(); len(after.Finalizers) == 0 || len(calls) > 0 {
			t.Errorf("finalizers %q, calls %q", after.Finalizers, calls)
		}
	})
}

// TestOrphansAreSwept checks a node template that left its launch templates behind because a user removed its
// finalizer.
func TestOrphansAreSwept(t *testing.T) {
	cases := map[string]struct {
		change func(*stage)
		swept  bool
	}{
		"nobody wants it":  {func(*stage) {}, true},
		"a group names it": {func(s *stage) { s.references = []launchtemplate.Reference{{TemplateID: "lt-9", Version: "1"}} }, false},
		"nobody may look":  {func(s *stage) { s.unasked = errors.New("AccessDenied") }, false},
		"it is new":        {func(s *stage) { s.add("lt-9", 2, "2", nil) }, false},
		"it is somebody's": {func(s *stage) { s.templates["lt-9"] = launchtemplate.Existing{ID: "lt-9", Name: "base"} }, false},
		"its instances run on": {func(s *stage) {
			s.launch(v1alpha1.AWSNodeTemplate{Status: v1alpha1.AWSNodeTemplateStatus{LaunchTemplates: make([]v1alpha1.PublishedTemplate, 1)}})
		}, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			s := setStage(t, declared())
			gone := launchtemplate.NodeTemplate{Name: "gone", UID: "uid", Cluster: cluster}
			s.templates["lt-9"] = launchtemplate.Existing{ID: "lt-9", Name: gone.TemplateName(launchtemplate.Template{Zone: "gone"}), Tags: gone.Identity(), Latest: 1}
			s.add("lt-9", 1, "1", nil)
			s.now = s.now.Add(launchtemplate.KeepFor)
			c.change(s)
			for pass := range 3 {
				s.calls = nil
				err := s.reconciler.CollectTemplates(s.Context())
				if want := c.swept && pass == 1; (len(s.calls) > 0) != want || (err != nil) != (s.unasked != nil && pass > 0) {
					t.Errorf("pass %d: %q, %v", pass+1, s.calls, err)
				}
				s.now = s.now.Add(launchtemplate.OrphanGrace)
			}
		})
	}
}
