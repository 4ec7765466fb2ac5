// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// contenders is a cache in which two nodes claim every address. It counts the lists.
type contenders struct {
	client.Client
	states []v1alpha1.NodeENIState
	lists  int
}

func (c *contenders) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	c.lists++
	list.(*v1alpha1.NodeENIStateList).Items = c.states
	return nil
}

// claiming returns the state of a node with 64 claims on each of its interfaces.
func claiming(name string, interfaces int) v1alpha1.NodeENIState {
	state := v1alpha1.NodeENIState{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for n := range interfaces {
		i := v1alpha1.InterfaceState{
			ENIID: fmt.Sprintf("eni-%s-%d", name, n), Phase: v1alpha1.PhaseAttached, SubnetCIDR: "10.0.0.0/16",
			Pods: &v1alpha1.InterfacePods{Floating: []string{"10.0.0.0/16"}},
		}
		network := v1alpha1.PodNetworkState{ENIID: i.ENIID}
		for at := range v1alpha1.MaxClaimsOfNetwork {
			network.Claims = append(network.Claims, v1alpha1.PodAddressClaim{Address: fmt.Sprintf("10.0.%d.%d", n+1, at), Sequence: int64(at + 1), Since: metav1.NowMicro()})
		}
		state.Status.Interfaces = append(state.Status.Interfaces, i)
		state.Status.PodNetworks = append(state.Status.PodNetworks, network)
	}
	return state
}

// TestTheCostOfClaimsIsLinear counts the lists and the allocations for the claims of a node with one and with fifteen
// interfaces. Another node claims the same addresses.
func TestTheCostOfClaimsIsLinear(t *testing.T) {
	cost := func(interfaces int) (lists int, allocations float64) {
		cache := &contenders{states: []v1alpha1.NodeENIState{claiming("node-1", interfaces), claiming("node-2", interfaces)}}
		r := New(Options{Client: cache, Reader: cache, Concurrency: 1, Now: time.Now})
		allocations = testing.AllocsPerRun(1, func() {
			cache.lists = 0
			s := &snapshot{name: "node-1", state: &cache.states[0], claims: newClaimsIndex()}
			for range 5 { // the plans of one reconciliation
				all, err := r.following(t.Context(), s)
				if err != nil {
					t.Fatal(err)
				}
				if held := len(all["eni-node-1-0"].Held) + len(all["eni-node-1-0"].Contended); held < v1alpha1.MaxClaimsOfNetwork {
					t.Fatalf("%d addresses of the first interface are held or contended", held)
				}
			}
		})
		return cache.lists, allocations
	}
	const many = 15
	one, small := cost(1)
	all, large := cost(many)
	if one > v1alpha1.MaxClaimsOfNetwork+1 || all > many*v1alpha1.MaxClaimsOfNetwork+many {
		t.Errorf("%d lists with one interface, and %d with %d", one, all, many)
	}
	if large > 2*many*small {
		t.Errorf("%.0f allocations with one interface, and %.0f with %d", small, large, many)
	}
}
