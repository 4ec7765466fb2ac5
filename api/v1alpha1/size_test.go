// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestLargestNetworkInterface fills an interface of the largest type: 50 IPv4 addresses (EC2 user guide, "Maximum IP
// addresses per network interface"), messages of the greatest length, and as many subnets as the schema allows. The
// object must stay far below the 1.5 MiB limit of etcd, because the controller watches all of a fleet.
func TestLargestNetworkInterface(t *testing.T) {
	const addresses, subnets, most = 50, 64, 32 << 10
	long := strings.Repeat("x", 1024)
	i := v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: "storage-network-01-i-0123456789abcdef0-0", UID: "00000000-0000-4000-8000-000000000001"},
		Spec: v1alpha1.NetworkInterfaceSpec{
			InstanceID: "i-0123456789abcdef0", Zone: "us-east-1a", NodeName: "ip-10-0-123-123.us-east-1.compute.internal",
			NodeENI: v1alpha1.NodeENIReference{Name: "storage-network-01", UID: "00000000-0000-4000-8000-000000000002"},
			Problem: &v1alpha1.InterfaceProblem{Reason: "SubnetNotFound", Message: long},
		},
		Status: v1alpha1.NetworkInterfaceStatus{
			ENIID: "eni-0123456789abcdef0", AttachmentID: "eni-attach-0123456789abcdef0", MACAddress: "0a:ff:ff:ff:ff:ff",
			SubnetID: "subnet-0123456789abcdef0", Node: &v1alpha1.NodeReport{
				Link: &v1alpha1.LinkReport{State: v1alpha1.LinkReady, Reason: "Configured", Message: long, Name: "ens5", Driver: "ena"},
				Pods: &v1alpha1.PodsReport{Reason: "NetworkReady", Message: long},
			},
		},
	}
	for n := range subnets {
		i.Spec.Subnets = append(i.Spec.Subnets, v1alpha1.InterfaceSubnet{ID: fmt.Sprintf("subnet-0123456789abcde%02d", n), CIDR: "10.123.112.0/20"})
	}
	for n := range addresses {
		address := fmt.Sprintf("10.123.100.%d", 100+n)
		i.Status.Addresses.SecondaryPrivateIPs = append(i.Status.Addresses.SecondaryPrivateIPs, address)
		i.Status.Requested = append(i.Status.Requested, address)
		i.Status.Node.Link.Addresses = append(i.Status.Node.Link.Addresses, address+"/20")
	}
	for n := range 4 {
		i.Status.Conditions = append(i.Status.Conditions, metav1.Condition{Type: fmt.Sprint(n), Reason: "Reason", Message: long})
	}
	for n := range 16 {
		i.Status.Node.Pods.Pods = append(i.Status.Node.Pods.Pods, v1alpha1.PodReference{
			Namespace: "user-plane", Name: fmt.Sprintf("upf-data-plane-7d9c5b8f6-x%04d", n), UID: "00000000-0000-4000-8000-000000000003",
		})
	}
	text, err := json.Marshal(i)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bytes", len(text))
	if len(text) > most {
		t.Errorf("an interface takes %d bytes, more than %d", len(text), most)
	}
}
