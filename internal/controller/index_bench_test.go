// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

// BenchmarkStatesLacking measures the read for a permission to replace: which of 5,000 nodes lack an interface of a
// NodeENI, up to two.
func BenchmarkStatesLacking(b *testing.B) {
	for _, lacking := range []int{0, 1, 100, 5000} {
		b.Run(fmt.Sprintf("%d of 5000 lack one", lacking), func(b *testing.B) {
			reader := cached(b, 5000, lacking)
			b.ReportAllocs()
			for b.Loop() {
				var states v1alpha1.NodeENIStateList
				if err := reader.List(b.Context(), &states, controller.StatesNotReady("uid"), client.Limit(2), client.UnsafeDisableDeepCopy); err != nil {
					b.Fatal(err)
				}
				if len(states.Items) != min(2, lacking) {
					b.Fatalf("%d were found", len(states.Items))
				}
			}
		})
	}
}

// cached is a cache with the states of nodes. Some of them lack an interface.
func cached(b *testing.B, states, lacking int) client.Reader {
	b.Helper()
	scheme := runtime.NewScheme()
	must := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	must(clientgoscheme.AddToScheme(scheme))
	must(v1alpha1.AddToScheme(scheme))
	all, err := cache.New(kubeapi.Config(kubeapi.New()), cache.Options{Scheme: scheme})
	must(err)
	must(controller.Index(b.Context(), all))
	go func() { _ = all.Start(b.Context()) }()
	all.WaitForCacheSync(b.Context())
	informer, err := all.GetInformer(b.Context(), &v1alpha1.NodeENIState{})
	must(err)
	for n := range states {
		i := v1alpha1.InterfaceState{Member: v1alpha1.Member{NodeENIUID: "uid"}, Phase: v1alpha1.PhaseAttached}
		if n < lacking {
			i.Phase = v1alpha1.PhasePending
		}
		must(informer.(toolscache.SharedIndexInformer).GetIndexer().Add(&v1alpha1.NodeENIState{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", n)}, Status: v1alpha1.NodeENIStateStatus{Interfaces: []v1alpha1.InterfaceState{i}},
		}))
	}
	return all
}
