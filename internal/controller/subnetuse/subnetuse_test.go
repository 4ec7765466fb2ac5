// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package subnetuse_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/subnetuse"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
)

// account is the EC2 account of a test.
type account struct {
	mu           sync.Mutex
	reads        int
	interfaces   map[string][]eni.Interface
	reservations map[string][]eni.SubnetReservation
	refused      map[string]error
}

func (a *account) SubnetInterfaces(_ context.Context, id string) ([]eni.Interface, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reads++
	return a.interfaces[id], a.refused[id]
}

func (a *account) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reads
}

// empty removes the interfaces of a subnet.
func (a *account) empty(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.interfaces, id)
}

func (a *account) SubnetReservations(_ context.Context, id string) ([]eni.SubnetReservation, error) {
	return a.reservations[id], nil
}

// in returns an interface with a primary address and prefixes.
func in(primary string, prefixes ...string) eni.Interface {
	i := eni.Interface{Addresses: eni.Addresses{PrimaryIPv4: netip.MustParseAddr(primary)}}
	for _, p := range prefixes {
		i.IPv4Prefixes = append(i.IPv4Prefixes, netip.MustParsePrefix(p))
	}
	return i
}

func nodeENI(name string, spec v1alpha1.NodeENISpec, subnets ...string) *v1alpha1.NodeENI {
	n := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
	for _, id := range subnets {
		n.Status.Subnets = append(n.Status.Subnets, v1alpha1.ResolvedSubnet{ID: id, Zone: "zone-a", CIDR: "10.0.4.0/24"})
	}
	return n
}

// Free addresses and /28s are counted from interfaces and reservations: an address in a reservation is not free for
// interfaces, and the whole is without it, too.
func TestFreeAddressesAndPrefixesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ec2 := &account{
			interfaces: map[string][]eni.Interface{
				"subnet-a": {in("10.0.4.70", "10.0.4.16/28", "10.0.4.32/28"), in("10.0.4.71")},
				"subnet-b": {in("10.0.4.130", "10.0.4.144/28")},
			},
			reservations: map[string][]eni.SubnetReservation{
				"subnet-b": {{ID: "scr-1", CIDR: netip.MustParsePrefix("10.0.4.128/26"), Type: eni.ReservationPrefix}},
				"subnet-c": {{ID: "scr-2", CIDR: netip.MustParsePrefix("10.0.4.0/24"), Type: eni.ReservationExplicit}},
			},
			refused: map[string]error{"subnet-d": errors.New("connection reset")},
		}
		pods := v1alpha1.NodeENISpec{Pods: &v1alpha1.NodeENIPods{IPv4: &v1alpha1.PodIPv4{}}}
		api := controllertest.API(t,
			nodeENI("prefixes", v1alpha1.NodeENISpec{IPv4PrefixCount: 1}, "subnet-a", "subnet-d"), nodeENI("pods", pods, "subnet-a", "subnet-b"),
			nodeENI("addresses", v1alpha1.NodeENISpec{SecondaryPrivateIPAddressCount: 1}, "subnet-c"),
		)
		var subnets []eni.Subnet
		for _, id := range []string{"subnet-a", "subnet-b", "subnet-c", "subnet-d", "subnet-e"} {
			subnets = append(subnets, eni.Subnet{ID: id, Zone: "zone-a", CIDR: netip.MustParsePrefix("10.0.4.0/24"), FreeIPv4: 99})
		}
		subnets = append(subnets, eni.Subnet{ID: "subnet-of-ipv6", Zone: "zone-a"})
		counter := subnetuse.New(api, ec2, func() []eni.Subnet { return subnets }, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- counter.Start(ctx) }()

		time.Sleep(119 * time.Second)
		if synctest.Wait(); ec2.count() > 0 {
			t.Errorf("%d reads in the first two minutes", ec2.count())
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		// The first and the last /28 have addresses that EC2 keeps; primary addresses are in a third one of subnet-a.
		want := []ipam.SubnetCount{
			{SubnetID: "subnet-a", Zone: "zone-a", Free: 217, Addresses: 251, FreePrefixes: 11, Prefixes: 14, NeedsPrefixes: true},
			{SubnetID: "subnet-b", Zone: "zone-a", Free: 187, Addresses: 187, FreePrefixes: 2, Prefixes: 4, NeedsPrefixes: true},
			{SubnetID: "subnet-c", Zone: "zone-a"},
			{SubnetID: "subnet-e", Zone: "zone-a", Free: 99, Addresses: 251}, // as EC2 counts
		}
		if diff := cmp.Diff(want, counter.Counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
		ec2.empty("subnet-a")
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if got := counter.Counts(); len(got) != 4 || got[0].Free != 251 || got[0].FreePrefixes != 14 || ec2.count() != 8 {
			t.Errorf("after ten minutes the counts are %+v, by %d reads", got, ec2.count())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
