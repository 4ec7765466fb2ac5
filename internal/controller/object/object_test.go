// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// full is a spec with a value in each field.
func full() render.Spec {
	return render.Spec{
		InstanceID: "i-00000000000000001", Zone: "us-east-1a", Ordinal: 2, Origin: render.OriginDeclared, NodeName: "node-1",
		NodeENI: render.Reference{Name: "n3", UID: "uid-n3", Generation: 7}, Revision: "r",
		Subnets: []render.Subnet{{ID: "subnet-1", CIDR: "10.0.1.0/24", IPv6CIDR: "fd00::/64"}},
		Problem: &plan.Problem{Reason: plan.SecurityGroupNotFound, Message: "there is none"},
		Slot:    eni.Slot{Card: 1, Device: 2}, ExactSlot: true,
		Template: render.Template{
			InterfaceType: "efa", Required: true,
			EC2: eni.Spec{
				Description: "d", Groups: []string{"sg-1"}, Tags: map[string]string{"team": "ran"}, SourceDestCheck: true, DeleteOnTermination: true,
				LowestFree: true, ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 350, UDPStream: 120, UDP: 40}, TrackAsPrimary: true,
				ENAExpress: "TCP", AddressCounts: eni.AddressCounts{SecondaryIPv4: 1, IPv4Prefixes: 2, IPv6: 3, IPv6Prefixes: 4},
			},
			Link: &render.Link{MTU: 9001, AddressMode: "Node", Sysctls: map[string]int{"ipv4.rp_filter": 1}},
			DPDK: &render.DPDK{Driver: "vfio-pci", ResourceName: "r/n", PCIAddress: "0000:00:06.0"},
			Pods: &render.Pods{Attachment: "IPVLAN", Closed: true, OnRemoval: "Evict", IPv4: &render.PodPrefixes{Min: 1, Max: 3, Spare: 8},
				IPv6Prefixes: 1, Routes: []string{"10.60.0.0/16"}, Floating: []string{"10.0.1.192/26"}},
		},
	}
}

func TestASpecIsStoredAsItIs(t *testing.T) {
	spec := object.SpecOf(full())
	if diff := cmp.Diff(full(), object.RenderedSpec(&spec)); diff != "" {
		t.Errorf("after a round trip (-want +got):\n%s", diff)
	}
}

// TestWritesAreOfOneObject has another object under the name by the time of a write.
func TestWritesAreOfOneObject(t *testing.T) {
	ctx := t.Context()
	api := controllertest.API(t)
	o := object.New("n3-i-00000000000000001-2", full())
	o.UID = "uid-1"
	if err := object.Create(ctx, api, o); err != nil {
		t.Fatal(err)
	}
	if err := object.Create(ctx, api, object.New(o.Name, full())); !apierrors.IsAlreadyExists(err) {
		t.Errorf("a second object: %v", err)
	}
	gone := o.DeepCopy()
	gone.UID = "uid-0"
	if err := object.PatchSpec(ctx, api, gone, o.Spec); err == nil {
		t.Error("the spec of another object was written")
	}
	if err := object.RemoveFinalizer(ctx, api, gone); err == nil {
		t.Error("another object was ended")
	}
	if now, err := object.Live(ctx, api, gone); err != nil || now != nil {
		t.Errorf("it is %v, %v", now, err)
	}
	next := *o.Spec.DeepCopy()
	next.NodeName = "node-2"
	if err := object.PatchSpec(ctx, api, o, next); err != nil {
		t.Fatal(err)
	}
	if now, err := object.OfNode(ctx, api, "node-2"); err != nil || len(now) != 1 || now[0].Spec.NodeName != "node-2" {
		t.Errorf("after a patch: %v, %v", now, err)
	}
}

// TestEachWriterHasItsPartOfTheStatus writes the status as the instance reconciler, as the node reconciler and as the
// agent.
func TestEachWriterHasItsPartOfTheStatus(t *testing.T) {
	ctx := t.Context()
	api := controllertest.API(t)
	o := object.New("n3-i-00000000000000001-2", full())
	if err := object.Create(ctx, api, o); err != nil {
		t.Fatal(err)
	}
	stale := o.DeepCopy()
	condition := func(of string) metav1.Condition {
		return metav1.Condition{Type: of, Status: metav1.ConditionTrue, Reason: "R", Message: "m", LastTransitionTime: metav1.Now()}
	}
	o.Status.ENIID, o.Status.Conditions = "eni-1", []metav1.Condition{condition(v1alpha1.ConditionReady)}
	if err := object.WriteStatus(ctx, api, o); err != nil {
		t.Fatal(err)
	}
	drift := []v1alpha1.Drift{{Field: "subnet", Want: "a", Have: "b"}}
	if err := object.WriteDrift(ctx, api, o, drift, condition(v1alpha1.ConditionDrifted)); err != nil {
		t.Fatal(err)
	}
	if err := object.WriteStatus(ctx, api, stale); !apierrors.IsConflict(err) {
		t.Errorf("a write over an older version: %v", err)
	}
	now, err := object.Get(ctx, api, o.Name)
	if err != nil || now.Status.ENIID != "eni-1" || len(now.Status.Conditions) != 2 || len(now.Status.Drift) != 1 {
		t.Fatalf("the status is %+v, %v", now.Status, err)
	}
	if err := object.WriteStatus(ctx, api, now); err != nil {
		t.Fatal(err)
	}
	if err := object.WriteDrift(ctx, api, now, nil); err != nil {
		t.Fatal(err)
	}
	now, err = object.Get(ctx, api, o.Name)
	if err != nil || now.Status.ENIID != "eni-1" || len(now.Status.Conditions) != 1 || len(now.Status.Drift) != 0 {
		t.Errorf("after the drift ended the status is %+v, %v", now.Status, err)
	}
}

func TestDeletionsNameTheObject(t *testing.T) {
	ctx := t.Context()
	api := controllertest.API(t)
	o := object.New("n3-i-00000000000000001-2", full())
	o.UID = "uid-1"
	if err := object.Create(ctx, api, o); err != nil {
		t.Fatal(err)
	}
	if err := object.Delete(ctx, api, o); err != nil {
		t.Fatal(err)
	}
	now, err := object.Get(ctx, api, o.Name)
	if err != nil || now == nil || now.DeletionTimestamp == nil {
		t.Fatalf("after a deletion it is %+v, %v", now, err)
	}
	if err := object.RemoveFinalizer(ctx, api, now); err != nil {
		t.Fatal(err)
	}
	for _, again := range []error{object.RemoveFinalizer(ctx, api, now), object.Delete(ctx, api, now), object.DeleteVersion(ctx, api, now)} {
		if again != nil {
			t.Errorf("what is gone is no error: %v", again)
		}
	}
}
