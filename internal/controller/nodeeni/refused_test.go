// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeeni_test

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/nodeeni"
)

var errInvalid = apierrors.NewInvalid(v1alpha1.SchemeGroupVersion.WithKind("NetworkInterface").GroupKind(), "n1", field.ErrorList{
	field.TooMany(field.NewPath("status", "interfaces"), 129, 128),
})

// TestARefusedObjectIsToldByItsNodeENI checks that a NodeENI reports a refused object, which cannot report it itself,
// until it is stored.
func TestARefusedObjectIsToldByItsNodeENI(t *testing.T) {
	s := setStage(t, &cloud{}, declared(), selected("n1"), attached(declared(), "n1"))
	ref := controller.ObjectRef{Kind: "NetworkInterface", Name: "data-i-1-0", NodeENI: "data"}
	for _, step := range []struct {
		err          error
		reason, says string
	}{
		{errInvalid, v1alpha1.ReasonStateRefused, "Too many: 129"},
		{nil, v1alpha1.ReasonAttached, ""},
	} {
		s.refusedWrites.Note(ref, step.err)
		if err := s.reconcile(); err != nil {
			t.Fatal(err)
		}
		ready := apimeta.FindStatusCondition(s.read().Status.Conditions, v1alpha1.ConditionReady)
		if ready.Reason != step.reason || !strings.Contains(ready.Message, step.says) {
			t.Errorf("%s: %s", ready.Reason, ready.Message)
		}
	}
}

// TestARefusedStatusIsToldByAnEvent checks that one Event reports a refused status, and that it counts as long as it is
// refused.
func TestARefusedStatusIsToldByAnEvent(t *testing.T) {
	s := setStage(t, &cloud{}, declared())
	options := s.reconciler.Options
	options.Client = interceptor.NewClient(s.kube.(client.WithWatch), interceptor.Funcs{
		SubResourceApply: func(context.Context, client.Client, string, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
			return errInvalid
		},
	})
	s.reconciler = nodeeni.New(options)
	for range 3 {
		if err := s.reconcile(); !apierrors.IsInvalid(err) {
			t.Fatal(err)
		}
	}
	if n := s.refusedWrites.Count(); len(s.events.Events) != 1 || n != 1 {
		t.Errorf("%d events, %d objects refused", len(s.events.Events), n)
	}
}
