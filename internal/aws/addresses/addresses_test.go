// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package addresses_test

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/addresses"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	subnet = "subnet-0f59b4f14737be9ad"
	group  = "sg-05da196f3314d4af8"
)

func member(n int) identity.Interface {
	id := fmt.Sprintf("i-%017x", n)
	return identity.Interface{
		Cluster: "c", NodeENI: "multus", Node: id, InstanceID: id, UID: identity.NetworkUID("multus", 0, time.Unix(1, 0)), Name: identity.ObjectName("multus", id, 0),
	}
}

func simulate(t *testing.T) (*awssim.Simulator, func() *awsec2.Client) {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: new(ec2.LaggingBehavior())})
	if err != nil {
		t.Fatal(err)
	}
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: sim.Transport()},
	}
	return sim, func() *awsec2.Client { return awsec2.New(cfg, awsec2.Options{Cluster: "c"}) }
}

// create creates an interface with a reserved address, and tries the next one while EC2 refuses it as used.
func create(ctx context.Context, cloud executor.Cloud, from executor.Addresses, m identity.Interface) (netip.Addr, error) {
	for {
		address, err := from.Reserve(ctx, subnet, m)
		if err == nil {
			_, err = cloud.CreateInterface(ctx, executor.CreateRequest{
				Token: m.Token(), SubnetID: subnet, Groups: []string{group}, Tags: m.Tags(time.Unix(1, 0), nil), PrimaryIPv4: address,
			})
		}
		switch eni.ErrorClass(err) {
		case eni.AddressTaken:
			from.Taken(subnet, address)
		case eni.Throttled, eni.Transient:
			if err == nil {
				return address, nil
			}
			time.Sleep(time.Second)
		default:
			return address, err
		}
	}
}

// race creates n interfaces concurrently, and returns their addresses in order.
func race(t *testing.T, n int, one func(n int) (netip.Addr, error)) []netip.Addr {
	t.Helper()
	got := make([]netip.Addr, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			var err error
			if got[i], err = one(i); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(got, netip.Addr.Compare)
	return got
}

// fromTheStart fails unless the addresses begin at .4 and have no gap.
func fromTheStart(t *testing.T, got []netip.Addr) {
	t.Helper()
	want := netip.MustParseAddr("10.0.64.4")
	for _, address := range got {
		if address != want {
			t.Fatalf("%s instead of %s", address, want)
		}
		want = want.Next()
	}
}

func TestManyInOneProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, client := simulate(t)
		cloud := client()
		book := addresses.NewReservations(cloud, time.Now)
		fromTheStart(t, race(t, 200, func(n int) (netip.Addr, error) { return create(t.Context(), cloud, book, member(n)) }))
		if failed := sim.Calls().Actions["CreateNetworkInterface"].Failed; failed > 0 {
			t.Errorf("%d calls collided", failed)
		}
	})
}

// Every process reads a slightly old state of EC2, and knows nothing about the others.
func TestManyProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		sim, client := simulate(t)
		instances := func(context.Context) ([]eni.Instance, error) {
			all := make([]eni.Instance, n)
			for i := range all {
				all[i].ID = member(i).InstanceID
			}
			return all, nil
		}
		wanting := func(_ context.Context, _ string, i eni.Instance) ([]identity.Interface, error) {
			m := member(0)
			m.InstanceID = i.ID
			return []identity.Interface{m}, nil
		}
		fromTheStart(t, race(t, n, func(i int) (netip.Addr, error) {
			cloud := client()
			time.Sleep(time.Duration(i*i%97) * 50 * time.Millisecond)
			return create(t.Context(), cloud, addresses.NewRanked(cloud, instances, wanting, time.Now), member(i))
		}))
		collided := sim.Calls().Actions["CreateNetworkInterface"].Errors["InvalidIPAddress.InUse"]
		t.Logf("%d processes, %d collisions", n, collided)
		if collided > n/4 {
			t.Errorf("%d calls collided", collided)
		}
	})
}

func TestReservationsAreLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := simulate(t)
		cloud := &reserved{client(), netip.MustParsePrefix("10.0.64.0/20")}
		for name, from := range map[string]executor.Addresses{
			"book":  addresses.NewReservations(cloud, time.Now),
			"queue": addresses.NewRanked(cloud, func(context.Context) ([]eni.Instance, error) { return nil, nil }, nil, time.Now),
		} {
			if address, err := from.Reserve(t.Context(), subnet, member(1)); eni.ErrorClass(err) != eni.NoAddresses {
				t.Errorf("%s: %s, %v", name, address, err)
			}
		}
	})
}

// reserved is an EC2 with a reservation.
type reserved struct {
	*awsec2.Client
	cidr netip.Prefix
}

func (r *reserved) SubnetReservations(context.Context, string) ([]eni.SubnetReservation, error) {
	return []eni.SubnetReservation{{CIDR: r.cidr, Type: eni.ReservationPrefix}}, nil
}
