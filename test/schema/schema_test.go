// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package schema_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/test/schema"
)

// TestRulesOfTransitions tries the rules that compare an object with its stored version.
func TestRulesOfTransitions(t *testing.T) {
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	before := v1alpha1.NetworkInterface{
		Spec: v1alpha1.NetworkInterfaceSpec{InstanceID: "i-0123456789abcdef0", Zone: "us-east-1a",
			Origin: v1alpha1.OriginDeclared, NodeENI: v1alpha1.NodeENIReference{Name: "n", UID: "u", Generation: 2},
			Subnets: []v1alpha1.InterfaceSubnet{{ID: "subnet-a"}}},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: "eni-1", AttachmentID: "eni-attach-1",
			Pods: &v1alpha1.PodPrefixes{Prefixes: []string{"10.0.0.0/28"}, Returning: []string{"10.0.0.16/28"}},
			Node: &v1alpha1.NodeReport{Agent: v1alpha1.AgentProcess{BootID: "b", ProcessID: "p"}}},
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.NetworkInterface)
		ok     bool
	}{
		"nothing":             {func(*v1alpha1.NetworkInterface) {}, true},
		"no subnets any more": {func(n *v1alpha1.NetworkInterface) { n.Spec.Subnets = nil }, false},
		"another ENI":         {func(n *v1alpha1.NetworkInterface) { n.Status.ENIID = "eni-2" }, false},
		"no status":           {func(n *v1alpha1.NetworkInterface) { n.Status = v1alpha1.NetworkInterfaceStatus{} }, false},
		"another subnet":      {func(n *v1alpha1.NetworkInterface) { n.Spec.Subnets[0].ID = "subnet-b" }, false},
		"another slot":        {func(n *v1alpha1.NetworkInterface) { n.Spec.Slot.DeviceIndex = 3 }, false},
		"another instance":    {func(n *v1alpha1.NetworkInterface) { n.Spec.InstanceID = "i-0123456789abcdef1" }, false},
		"older generation":    {func(n *v1alpha1.NetworkInterface) { n.Spec.NodeENI.Generation = 1 }, false},
		"another NodeENI":     {func(n *v1alpha1.NetworkInterface) { n.Spec.NodeENI.UID, n.Spec.NodeENI.Generation = "v", 1 }, true},
		"grant of returning":  {func(n *v1alpha1.NetworkInterface) { n.Status.Pods.Prefixes = []string{"10.0.0.16/28"} }, false},
		"return of a held prefix": {func(n *v1alpha1.NetworkInterface) {
			n.Status.Pods = &v1alpha1.PodPrefixes{Returning: []string{"10.0.0.0/28"}}
		}, false},
		"return of a released prefix": {func(n *v1alpha1.NetworkInterface) { n.Status.Pods.Returning = nil }, true},
	} {
		t.Run(name, func(t *testing.T) {
			after := before.DeepCopy()
			tc.change(after)
			if err := schemas.CheckRules(content(t, after), content(t, &before)); (err == nil) != tc.ok {
				t.Errorf("error %v", err)
			}
		})
	}
}

func content(tb testing.TB, n *v1alpha1.NetworkInterface) map[string]any {
	tb.Helper()
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		tb.Fatal(err)
	}
	object["kind"] = "NetworkInterface"
	return object
}

// TestInterfacesWithoutSubnets says that an interface that no NodeENI declares can have an ENI, without subnets.
func TestInterfacesWithoutSubnets(t *testing.T) {
	schemas, err := schema.Load()
	if err != nil {
		t.Fatal(err)
	}
	n := &v1alpha1.NetworkInterface{Spec: v1alpha1.NetworkInterfaceSpec{InstanceID: "i-0123456789abcdef0", Zone: "us-east-1a",
		Origin: v1alpha1.OriginNetwork, NodeENI: v1alpha1.NodeENIReference{Name: "n"}},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: "eni-1"}}
	if err := schemas.CheckRules(content(t, n), content(t, n)); err != nil {
		t.Error(err)
	}
}
