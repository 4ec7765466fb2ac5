// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/multieni/multieni/internal/base/clock"
	"github.com/multieni/multieni/internal/cli/options"
)

// TestASecondLeaderIsRefused starts a process without leader election next to leases in other states. The clocks of
// machines differ, so the times in a lease prove nothing.
func TestASecondLeaderIsRefused(t *testing.T) {
	const namespace = "eni-controller-system"
	for name, tc := range map[string]struct {
		holder string
		// renewed is the time between two renewals; 0 for none. The clock of the holder is wrong by skew.
		renewed, skew time.Duration
		unlistable    bool
		own           options.Controller
		want          []string
		waits         time.Duration
	}{
		"no controller ran":          {},
		"the controller has stopped": {},
		"a controller runs": {
			holder: "pod-a", renewed: 2 * time.Second, waits: 2 * time.Second,
			want: []string{"pod-a", namespace + "/networking.k8s.aws", "--leader-election-namespace=" + namespace},
		},
		"one runs, and its clock is behind":       {holder: "pod-a", renewed: 2 * time.Second, skew: -time.Hour, waits: 2 * time.Second, want: []string{"pod-a"}},
		"one was killed":                          {holder: "pod-a", waits: 23 * time.Second},
		"one was killed, and its clock was ahead": {holder: "pod-a", skew: time.Hour, waits: 23 * time.Second},
		"one runs, and leases cannot be listed": {
			holder: "pod-a", renewed: 2 * time.Second, unlistable: true, own: options.Controller{LeaderElectionNamespace: namespace},
			waits: 2 * time.Second, want: []string{"pod-a"},
		},
		"one runs, and no lease can be read": {holder: "pod-a", renewed: 2 * time.Second, unlistable: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithIndex(&coordinationv1.Lease{}, "metadata.name",
					func(o client.Object) []string { return []string{o.GetName()} }).WithInterceptorFuncs(interceptor.Funcs{
					List: func(ctx context.Context, w client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
						if tc.unlistable {
							return apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", nil)
						}
						return w.List(ctx, list, opts...)
					},
				}).Build()
				lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName}}
				lease.Spec.LeaseDurationSeconds = ptr.To(int32(15))
				renew := func() {
					lease.Spec.HolderIdentity = &tc.holder
					lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(tc.skew)}
				}
				renew()
				if name != "no controller ran" {
					if err := api.Create(t.Context(), lease); err != nil {
						t.Fatal(err)
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() {
					for tc.renewed > 0 && clock.Sleep(ctx, tc.renewed) {
						renew()
						_ = api.Update(ctx, lease)
					}
				}()
				begin := time.Now()
				err := refuseSecondLeader(ctx, api, tc.own, slog.New(slog.DiscardHandler))
				if (err != nil) != (len(tc.want) > 0) {
					t.Errorf("the process is refused: %v", err)
				}
				for _, want := range tc.want {
					if err != nil && !strings.Contains(err.Error(), want) {
						t.Errorf("the error lacks %q: %v", want, err)
					}
				}
				if waited := time.Since(begin).Round(time.Second); waited > tc.waits+time.Second {
					t.Errorf("that took %s, want %s", waited, tc.waits)
				}
			})
		})
	}
}
