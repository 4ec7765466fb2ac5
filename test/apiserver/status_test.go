// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	controller = client.FieldOwner(v1alpha1.FieldOwnerController)
	agent      = client.FieldOwner("multieni-agent")
)

func plainNodeENI(name string) *v1alpha1.NodeENI {
	return &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector:     map[string]v1alpha1.LabelValue{"ng": "multi-eni"},
			SubnetID:         "subnet-0f59b4f14737be9ad",
			SecurityGroupIDs: []string{"sg-05da196f3314d4af8"},
		},
	}
}

// A status write changes no spec and no generation, and a write of the object changes no status.
func TestStatusIsASubresource(t *testing.T) {
	c := connect(t)
	object := plainNodeENI("subresource")
	create(t, c, object)
	created := object.DeepCopy()

	object.Status.Attached = 4
	object.Spec.DeviceIndex = 7
	if err := c.Status().Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if object.Generation != created.Generation || object.Spec.DeviceIndex != 1 {
		t.Errorf("a status write made generation %d and device index %d", object.Generation, object.Spec.DeviceIndex)
	}
	object.Status.Attached = 0
	object.Spec.DeviceIndex = 7
	if err := c.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	if object.Status.Attached != 4 || object.Generation != created.Generation+1 {
		t.Errorf("a spec write made attached %d and generation %d", object.Status.Attached, object.Generation)
	}
}

// The API server stores a status of the largest size that the API allows, so no other limit can refuse the controller's
// writes.
func TestLargestAttachmentListIsStored(t *testing.T) {
	c := connect(t)
	object := plainNodeENI("largest")
	create(t, c, object)
	status := networkingv1alpha1ac.NodeENIStatus().WithAttached(5000).WithAttachmentsOmitted(4900)
	for i := range int32(100) {
		status.WithAttachments(networkingv1alpha1ac.Attachment().
			WithNodeID("ip-10-0-0-1.us-west-2.compute.internal").WithInstanceID("i-0123456789abcdef0").
			WithENIID("eni-0123456789abcdef0").WithAttachmentID("eni-attach-0123456789abcdef0").
			WithSubnetID("subnet-0f59b4f14737be9ad").WithNetworkCardIndex(0).WithDeviceIndex(i).
			WithMACAddress("02:00:00:00:00:01").WithPrivateIP("255.255.255.255").
			WithStatus(v1alpha1.AttachmentAttached))
	}
	apply := networkingv1alpha1ac.NodeENI(object.Name).WithStatus(status)
	if err := c.Status().Apply(t.Context(), apply, controller); err != nil {
		t.Fatal(err)
	}
	stored := get(t, c, object)
	if len(stored.Status.Attachments) != 100 || stored.Status.Attachments[99].DeviceIndex != 99 {
		t.Errorf("stored %d attachments", len(stored.Status.Attachments))
	}
}

// An apply without a change is no write: the resource version stays as it was, and watches receive no event.
func TestUnchangedApplyIsNoWrite(t *testing.T) {
	c := connect(t)
	object := plainNodeENI("unchanged")
	create(t, c, object)
	status := func() *networkingv1alpha1ac.NodeENIApplyConfiguration {
		return networkingv1alpha1ac.NodeENI(object.Name).WithStatus(networkingv1alpha1ac.NodeENIStatus().
			WithObservedGeneration(1).WithNodes(2).WithDesired(2).WithAttached(2).
			WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionTrue)))
	}
	applyStatus(t, c, status(), controller)
	before := get(t, c, object)
	applyStatus(t, c, status(), controller)
	after := get(t, c, object)
	if before.ResourceVersion != after.ResourceVersion {
		t.Errorf("resource version went from %s to %s", before.ResourceVersion, after.ResourceVersion)
	}
	if !meta.IsStatusConditionTrue(after.Status.Conditions, v1alpha1.ConditionReady) {
		t.Error("not Ready")
	}
}

func condition(kind string, status metav1.ConditionStatus) *metav1ac.ConditionApplyConfiguration {
	return metav1ac.Condition().WithType(kind).WithStatus(status).WithReason(v1alpha1.ReasonAttached).
		WithMessage("").WithLastTransitionTime(metav1.Unix(1_800_000_000, 0))
}
