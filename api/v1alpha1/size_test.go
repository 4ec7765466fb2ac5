// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestLargestNodeENIState fills a node of the largest type with one network card: 15 interfaces of 50 IPv4 addresses
// each (m5.24xlarge, EC2 user guide, "Maximum IP addresses per network interface"). The object must stay far below the
// 1.5 MiB limit of etcd, because the controller watches one for each node of a fleet.
func TestLargestNodeENIState(t *testing.T) {
	const slots, addresses, most = 15, 50, 64 << 10
	state := v1alpha1.NodeENIState{
		ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-123-123.us-east-1.compute.internal", UID: "00000000-0000-4000-8000-000000000001"},
		Spec:       v1alpha1.NodeENIStateSpec{InstanceID: "i-0123456789abcdef0", Zone: "us-east-1a", InstanceType: "m5.24xlarge"},
	}
	for slot := range slots {
		member := v1alpha1.Member{
			NodeENI: fmt.Sprintf("storage-network-%02d", slot), NodeENIUID: "00000000-0000-4000-8000-000000000002", Ordinal: int32(slot), Generation: time.Now().Unix(),
		}
		var plain, withLength []string
		for n := range addresses {
			plain = append(plain, fmt.Sprintf("10.123.%d.%d", 100+slot, 100+n))
			withLength = append(withLength, plain[n]+"/20")
		}
		mac := fmt.Sprintf("0a:ff:ff:ff:ff:%02x", slot)
		state.Spec.Members = append(state.Spec.Members, member)
		state.Status.Interfaces = append(state.Status.Interfaces, v1alpha1.InterfaceState{
			Member: member, Phase: v1alpha1.PhaseAttached, ENIID: "eni-0123456789abcdef0", AttachmentID: "eni-attach-0123456789abcdef0",
			MACAddress: mac, PrivateIP: plain[0], SecondaryPrivateIPs: plain[1:], SubnetID: "subnet-0123456789abcdef0", Zone: "us-east-1a",
			DeviceIndex: int32(slot), RequestedDeviceIndex: int32(slot), DeleteOnTermination: true, MTU: 9001, SubnetCIDR: "10.123.112.0/20",
		})
		state.Status.Links = append(state.Status.Links, v1alpha1.LinkState{
			MACAddress: mac, NodeENI: member.NodeENI, ENIID: "eni-0123456789abcdef0", State: v1alpha1.LinkReady, Reason: "Configured", Name: "ens5",
			AltName: member.NodeENI, MTU: 9001, Addresses: withLength, Driver: "ena", PCIAddress: "0000:00:06.0",
		})
		network := v1alpha1.PodNetworkState{
			Network: member.NodeENI, NodeENI: member.NodeENI, ENIID: "eni-0123456789abcdef0", Ready: true, Reason: "NetworkReady", Used: 64,
		}
		for n := range 4 {
			network.Prefixes = append(network.Prefixes, v1alpha1.PodPrefix{CIDR: fmt.Sprintf("10.123.%d.%d/28", 100+slot, n*16), Used: 16, Phase: v1alpha1.PodPrefixActive})
		}
		for n := range v1alpha1.MaxPodsOfNetwork {
			network.Pods = append(network.Pods, v1alpha1.PodReference{Namespace: "user-plane", Name: fmt.Sprintf("upf-data-plane-7d9c5b8f6-x%04d", n)})
		}
		state.Status.PodNetworks = append(state.Status.PodNetworks, network)
	}
	text, err := json.Marshal(state)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(text))
	if len(text) > most {
		t.Errorf("a node with %d interfaces takes %d bytes, more than %d", slots, len(text), most)
	}
}
