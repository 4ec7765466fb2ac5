// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"math/rand/v2"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
)

// TestRules compares the rules of the simulated API server with those in CEL of the definition, for random changes of a
// NetworkInterface.
func TestRules(t *testing.T) {
	known, err := schemas()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(1, 2))
	refused := 0
	for range 500 {
		was, is := anyInterface(random), anyInterface(random)
		ours := brokenRule(was, is)
		theirs := known.CheckRules(unstructuredOf(t, is), unstructuredOf(t, was))
		if (ours == "") != (theirs == nil) {
			t.Fatalf("the simulation says %q, and CEL %v, about\n%+v\nafter\n%+v", ours, theirs, is, was)
		}
		if theirs != nil {
			refused++
		}
	}
	if refused < 50 || refused > 490 {
		t.Errorf("%d of 500 changes were refused", refused)
	}
}

func unstructuredOf(t *testing.T, n *v1alpha1.NetworkInterface) map[string]any {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(n)
	if err != nil {
		t.Fatal(err)
	}
	content["kind"] = kindNames[netInterfaces]
	return content
}

// anyInterface returns one of a few versions of an object, most of them with the same values.
func anyInterface(random *rand.Rand) *v1alpha1.NetworkInterface {
	one := func(values ...string) string {
		if random.IntN(5) > 0 {
			return values[0]
		}
		return values[random.IntN(len(values))]
	}
	some := func() (list []string) {
		for _, prefix := range []string{"10.0.0.0/28", "10.0.0.16/28"} {
			if random.IntN(3) == 0 {
				list = append(list, prefix)
			}
		}
		return list
	}
	n := &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: "n"},
		Spec: v1alpha1.NetworkInterfaceSpec{
			InstanceID: one("i-0123456789abcdef0", "i-0123456789abcdef1"), Zone: "us-east-1a",
			Origin:  v1alpha1.InterfaceOrigin(one(string(v1alpha1.OriginDeclared), string(v1alpha1.OriginNetwork))),
			NodeENI: v1alpha1.NodeENIReference{Name: "n", UID: types.UID(one("u", "v")), Generation: int64(len(one("22", "1")))},
			Slot:    v1alpha1.InterfaceSlot{DeviceIndex: int32(len(one("1", "22")))},
		},
		Status: v1alpha1.NetworkInterfaceStatus{
			ENIID: one("eni-1", "", "eni-2"), AttachmentID: one("eni-attach-1", ""), SubnetID: one("subnet-b", "", "subnet-a"),
		},
	}
	for _, id := range strings.Fields(one("subnet-a", "", "subnet-b", "subnet-a subnet-b", "subnet-b subnet-a")) {
		n.Spec.Subnets = append(n.Spec.Subnets, v1alpha1.InterfaceSubnet{ID: id})
	}
	if random.IntN(2) == 0 {
		n.Status.Pods = &v1alpha1.PodPrefixes{Prefixes: some(), Returning: some()}
	}
	if random.IntN(2) == 0 {
		n.Status.Node = &v1alpha1.NodeReport{Agent: v1alpha1.AgentProcess{BootID: "b", ProcessID: "p"}, Released: some()}
	}
	return n
}
