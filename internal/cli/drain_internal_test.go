// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/core/report"
)

// drained is an API server with a NodeENI whose interface pods use, and a SubnetReservation. It refuses the deletion of
// the kinds in refused.
func drained(t *testing.T, refused ...string) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	held := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: "n3-i-0123456789abcdef0-0"}}
	held.Spec.NodeENI.Name, held.Spec.NodeName, held.Status.ENIID = "n3", "node-a1", "eni-1"
	held.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: "InUseByPods",
		Message: "pods have addresses of it: upf/upf-a; delete or move the pods"}}
	objects := []client.Object{
		held,
		&v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "n3", Finalizers: []string{v1alpha1.Finalizer}}},
		&v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: "pods", Finalizers: []string{v1alpha1.Finalizer}}},
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, w client.WithWatch, object client.Object, opts ...client.DeleteOption) error {
			for _, kind := range refused {
				if gvk, err := w.GroupVersionKindFor(object); err == nil && gvk.Kind == kind {
					return apierrors.NewForbidden(schema.GroupResource{Resource: kind}, object.GetName(), nil)
				}
			}
			return w.Delete(ctx, object, opts...)
		},
	}).Build()
}

// A drain that may not delete every kind deletes nothing: else nodes would lose their interfaces in an uninstallation
// that fails.
func TestADrainDeletesAllOrNothing(t *testing.T) {
	for _, refused := range []string{"NodeENI", "SubnetReservation", ""} {
		api := drained(t, refused)
		_, err := drainOnce(t.Context(), api)
		var n v1alpha1.NodeENI
		if err := api.Get(t.Context(), client.ObjectKey{Name: "n3"}, &n); err != nil {
			t.Fatal(err)
		}
		if deleting := !n.DeletionTimestamp.IsZero(); deleting != (refused == "") || (err != nil) != (refused != "") {
			t.Errorf("with %q refused, the NodeENI is being deleted: %t, %v", refused, deleting, err)
		}
		if refused != "" && (!strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), "nothing was deleted")) {
			t.Errorf("the error does not name %s and the next step: %v", refused, err)
		}
	}
}

// What holds a drain is named: NodeENI, interface, node, pods and the next step.
func TestADrainNamesWhatHoldsIt(t *testing.T) {
	left, err := drainOnce(t.Context(), drained(t))
	if err != nil || left.Empty() {
		t.Fatalf("left is %+v, %v", left, err)
	}
	text := left.Text(report.Page{})
	for _, want := range []string{"1 NodeENI, 1 SubnetReservation, 1 interface of 1 node", "NodeENI n3", "eni-1", "node-a1", "upf/upf-a", "delete or move the pods"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%s", want, text)
		}
	}
}

// No controller removes the finalizers of FloatingAddresses after an uninstallation, and agents make none without
// interfaces.
func TestADrainLeavesNoAddress(t *testing.T) {
	address := &v1alpha1.FloatingAddress{ObjectMeta: metav1.ObjectMeta{Name: "subnet-00000000000000001-10.0.4.200", Finalizers: []string{v1alpha1.Finalizer}}}
	for name, tc := range map[string]struct {
		api  client.Client
		left int
	}{
		"an interface is left": {drained(t), 1},
		"nothing else is left": {func() client.Client {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			return fake.NewClientBuilder().WithScheme(scheme).Build()
		}(), 0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := tc.api.Create(t.Context(), address.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			if _, err := drainOnce(t.Context(), tc.api); err != nil {
				t.Fatal(err)
			}
			var all v1alpha1.FloatingAddressList
			if err := tc.api.List(t.Context(), &all); err != nil || len(all.Items) != tc.left {
				t.Errorf("%d addresses are left, want %d (%v)", len(all.Items), tc.left, err)
			}
		})
	}
}

// A drain under another name than the cluster's would find none of its interfaces, and wait for them until its time ends.
// One that cannot find out may not be needed: the cluster's controller does the work.
func TestADrainUnderAnotherNameIsRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded, configured string
		unreachable          error
		want                 []string
	}{
		"the recorded name":   {recorded: "prod", configured: "prod"},
		"another name":        {recorded: "prod", configured: "staging", want: []string{"nothing was deleted", `"prod"`, `"staging"`, "--cluster-name=prod"}},
		"no configured name":  {recorded: "prod", want: []string{"nothing was deleted", "uid-of-kube-system", "--cluster-name=prod"}},
		"EC2 cannot be asked": {configured: "staging", unreachable: errors.New("no credentials")},
	} {
		t.Run(name, func(t *testing.T) {
			api := drained(t)
			objects := []client.Object{&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: "uid-of-kube-system"}}}
			if tc.recorded != "" {
				objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "multieni", Name: clustername.RecordName}, Data: map[string]string{"clusterName": tc.recorded}})
			}
			for _, object := range objects {
				if err := api.Create(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			o := options.Controller{ClusterName: tc.configured, Region: "us-east-1", LeaderElectionNamespace: "multieni"}
			s := Environment{Log: slog.New(slog.DiscardHandler), AWS: func(context.Context, string) (aws.Config, error) {
				return aws.Config{Region: "us-east-1"}, tc.unreachable
			}}
			err := checkName(t.Context(), api, o, s)
			if (err != nil) != (len(tc.want) > 0) {
				t.Errorf("the drain is refused: %v", err)
			}
			for _, want := range tc.want {
				if err != nil && !strings.Contains(err.Error(), want) {
					t.Errorf("the error lacks %s: %v", want, err)
				}
			}
		})
	}
}
