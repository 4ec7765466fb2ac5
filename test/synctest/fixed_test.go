// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/test/podhost"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// TestFixedAddressesOfANodeShareACall starts two pods of a StatefulSet on a node, 20 ms apart. Their addresses are one
// call. If EC2 refuses one of them, because another interface has it as its primary address, the other one does not wait.
func TestFixedAddressesOfANodeShareACall(t *testing.T) {
	first, second := netip.MustParseAddr("10.0.95.128"), netip.MustParseAddr("10.0.95.129")
	for name, tc := range map[string]struct {
		taken  string
		within time.Duration
		calls  int
		ready  map[netip.Addr]string // the reason of Ready by address
	}{
		"EC2 moves both":      {"", 100 * time.Millisecond, 1, map[netip.Addr]string{first: "Assigned", second: "Assigned"}},
		"EC2 refuses the one": {second.String(), 200 * time.Millisecond, 3, map[netip.Addr]string{first: "Assigned", second: "AddressRefused"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := bubble.NewWithLatencies(t, bubble.World(), bubble.Latencies{Kubernetes: 10 * time.Millisecond})
				leader, host := startWithGrant(c, tc.taken)
				began := time.Now()
				request := podnet.Request{Fixed: []netip.Prefix{netip.MustParsePrefix(floatingRange)}}
				c.Must(host.StartPodThatAsks(network, "upf-0", request))
				time.Sleep(20 * time.Millisecond)
				c.Must(host.StartPodThatAsks(network, "upf-1", request))
				time.Sleep(time.Minute)

				calls := leader.Changes(began)
				if len(calls) != tc.calls || calls[len(calls)-1].At.Sub(began) > tc.within {
					t.Errorf("the calls after %s are %+v, want %d within %s", began, calls, tc.calls, tc.within)
				}
				if diff := cmp.Diff([]string{host.Pods()[0].ENI}, podhost.HoldersOf(c.EC2.State(), first)); diff != "" {
					t.Errorf("interfaces with the address of the first pod (-want +have):\n%s", diff)
				}
				for address, want := range tc.ready {
					var object v1alpha1.FloatingAddress
					key := client.ObjectKey{Name: v1alpha1.FloatingAddressName(bubble.SubnetIDs("data")[0], address.String())}
					c.Must(c.User.Get(t.Context(), key, &object))
					if ready := apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady); ready == nil || ready.Reason != want {
						t.Errorf("%s says %+v, want %s", address, ready, want)
					}
				}
			})
		})
	}
}

// startWithGrant starts a controller, and a node whose pods may ask for addresses. An interface of another program has one
// as its primary address, unless it is empty.
func startWithGrant(c *bubble.Cluster, taken string) (*bubble.Replica, *podhost.Host) {
	c.Helper()
	c.Declare(network, "a", "data")
	leader := c.Start(c.Defaults())
	subnets := bubble.SubnetIDs("data")
	c.Must(c.User.Create(c.Context(), &v1alpha1.SubnetReservation{
		ObjectMeta: metav1.ObjectMeta{Name: "fixed"},
		Spec: v1alpha1.SubnetReservationSpec{SubnetIDs: subnets[:1], Type: v1alpha1.SubnetReservationExplicit,
			CIDRs: []string{floatingRange}, DeletionPolicy: v1alpha1.DeletionPolicyDelete},
	}))
	c.ChangeNodeENI(network, func(n *v1alpha1.NodeENI) {
		n.Spec.Pods = &v1alpha1.NodeENIPods{Attachment: v1alpha1.PodAttachmentIPVLAN, Floating: []string{floatingRange},
			IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1, Max: 4}}}
	})
	if taken != "" {
		c.Console("CreateNetworkInterface", "SubnetId", subnets[0], "PrivateIpAddress", taken)
	}
	node := c.Join(1, "a")[0]
	host := podhost.Start(c.T, podhost.Options{Node: node, InstanceID: c.InstanceID(node), API: c.Agent(), EC2: c.EC2.State})
	c.Converge(10 * time.Minute)
	time.Sleep(time.Minute)
	return leader, host
}
