// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package controllertest gives the tests of controllers an API server in memory, with our kinds and the field indexes
// of the manager's cache.
package controllertest

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/applyconfiguration"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
)

// API returns an API server with objects. Our kinds and Nodes have a status that only status writes change.
func API(tb testing.TB, objects ...client.Object) client.WithWatch {
	tb.Helper()
	return Builder(tb).WithObjects(objects...).Build()
}

// Builder returns the builder of an [API], for tests that add kinds or intercept requests.
func Builder(tb testing.TB) *fake.ClientBuilder {
	tb.Helper()
	scheme := Scheme(tb)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(
		applyconfiguration.NewTypeConverter(scheme), managedfields.NewDeducedTypeConverter()).WithStatusSubresource(
		&v1alpha1.NodeENI{}, &v1alpha1.NetworkInterface{}, &v1alpha1.AWSNodeTemplate{},
		&v1alpha1.SubnetReservation{}, &v1alpha1.FloatingAddress{}, &corev1.Node{}).WithInterceptorFuncs(
		interceptor.Funcs{SubResourcePatch: func(
			ctx context.Context, c client.Client, of string, object client.Object, patch client.Patch,
			options ...client.SubResourcePatchOption) error {
			err := c.SubResource(of).Patch(ctx, object, patch, options...)
			if _, isNode := object.(*corev1.Node); err != nil || !isNode {
				return err
			}
			return c.Patch(ctx, object, patch) // an API server takes metadata with the status of a Node
		}})
	if err := controller.Index(tb.Context(), indexes{builder}); err != nil {
		tb.Fatal(err)
	}
	return builder
}

// Scheme returns a new scheme with our kinds and those that our controllers read or write. The API server in memory
// walks through all of them for each write, so that the kinds of all groups would be most of a test's cost.
func Scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, coordinationv1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			tb.Fatal(err)
		}
	}
	return scheme
}

// indexes adds field indexes to a builder.
type indexes struct{ *fake.ClientBuilder }

// IndexField implements [client.FieldIndexer].
func (i indexes) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	i.WithIndex(object, field, values)
	return nil
}
