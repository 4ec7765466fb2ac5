// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
)

const (
	eniA, eniB       = "eni-0000000000000000a", "eni-0000000000000000b"
	prefixA, prefixB = "10.0.4.16/28", "10.0.4.32/28"
)

// newInterface returns an interface as the controller makes it.
func newInterface(name, node string) *v1alpha1.NetworkInterface {
	return &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Finalizers: []string{v1alpha1.InterfaceFinalizer},
			Labels: map[string]string{v1alpha1.InstanceLabel: "i-0123456789abcdef0", v1alpha1.NodeENILabel: "n3"},
		},
		Spec: v1alpha1.NetworkInterfaceSpec{
			InstanceID: "i-0123456789abcdef0", Zone: "us-west-2a", Origin: v1alpha1.OriginDeclared, NodeName: node,
			NodeENI: v1alpha1.NodeENIReference{Name: "n3", UID: "uid-n3", Generation: 3},
			Subnets: []v1alpha1.InterfaceSubnet{{ID: "subnet-00000000000000001", CIDR: "10.0.4.0/24"}},
			Slot:    v1alpha1.InterfaceSlot{DeviceIndex: 2},
			Pods:    &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentIPVLAN},
		},
	}
}

// anInterface is an object of the API server in a test, and the writes of its writers.
type anInterface struct {
	*testing.T
	admin client.Client
	name  string
	uid   types.UID
}

func makeInterface(t *testing.T, admin client.Client, name, node string) *anInterface {
	t.Helper()
	object := newInterface(name, node)
	must(t, admin.Create(t.Context(), object))
	t.Cleanup(func() { tear(admin, name) })
	return &anInterface{T: t, admin: admin, name: name, uid: object.UID}
}

// tear removes an object and its finalizer.
func tear(admin client.Client, name string) {
	ctx, object := context.Background(), &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: name}}
	_ = admin.Delete(ctx, object)
	_ = admin.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
}

func (i *anInterface) read() *v1alpha1.NetworkInterface {
	i.Helper()
	return get(i.T, i.admin, &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: i.name}})
}

// observed is the status that the controller writes about an ENI.
func observed(eni string) *networkingv1alpha1ac.NetworkInterfaceStatusApplyConfiguration {
	return networkingv1alpha1ac.NetworkInterfaceStatus().WithENIID(eni).WithAttachmentID("eni-attach-1").
		WithEvidence(v1alpha1.EvidenceCreated)
}

func granted(prefixes, returning []string) *networkingv1alpha1ac.NetworkInterfaceStatusApplyConfiguration {
	return observed(eniA).WithPods(networkingv1alpha1ac.PodPrefixes().WithPrefixes(prefixes...).WithReturning(returning...))
}

// observe applies the controller's part of the status over a version.
func (i *anInterface) observe(version string, status *networkingv1alpha1ac.NetworkInterfaceStatusApplyConfiguration) error {
	apply := networkingv1alpha1ac.NetworkInterface(i.name).WithResourceVersion(version).WithStatus(status)
	return i.admin.Status().Apply(i.Context(), apply, controller, client.ForceOwnership)
}

// answer applies the agent's part of the status over a version.
func (i *anInterface) answer(as client.Client, version string, open bool, released ...string) error {
	return i.report(as, version, networkingv1alpha1ac.NodeReport().WithOpen(open).WithReleased(released...).
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("boot-1").WithProcessID("process-1")))
}

func (i *anInterface) report(as client.Client, version string, report *networkingv1alpha1ac.NodeReportApplyConfiguration) error {
	apply := networkingv1alpha1ac.NetworkInterface(i.name).WithResourceVersion(version).
		WithStatus(networkingv1alpha1ac.NetworkInterfaceStatus().WithNode(report))
	return as.Status().Apply(i.Context(), apply, agent)
}

// now observes over the version of now, and answers the same way.
func (i *anInterface) now(status *networkingv1alpha1ac.NetworkInterfaceStatusApplyConfiguration) {
	i.Helper()
	must(i.T, i.observe(i.read().ResourceVersion, status))
}

func (i *anInterface) answered(open bool, released ...string) {
	i.Helper()
	must(i.T, i.answer(i.admin, i.read().ResourceVersion, open, released...))
}

func (i *anInterface) patch(kind types.PatchType, content string) error {
	object := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: i.name}}
	return i.admin.Patch(i.Context(), object, client.RawPatch(kind, []byte(content)))
}

// render changes the spec as the controller does: a JSON patch that tests the UID.
func (i *anInterface) render(uid types.UID, path, value string) error {
	return i.patch(types.JSONPatchType, fmt.Sprintf(
		`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"add","path":%q,"value":%s}]`, uid, path, value))
}

func (i *anInterface) delete(uid types.UID) error {
	object := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: i.name}}
	return i.admin.Delete(i.Context(), object, client.Preconditions{UID: &uid})
}

func same(error) bool { return true }

// TestAnObjectRefusesWhatIsNotItsInterface tries each write that would make two interfaces of one object, or change what EC2
// has bound. The writes are those of a controller or an agent with an old cache, or of one that no longer leads.
func TestAnObjectRefusesWhatIsNotItsInterface(t *testing.T) {
	admin := everything(t, server.Config)
	again := func(i *anInterface) error { return i.admin.Create(i.Context(), newInterface(i.name, "node-1")) }
	for name, tc := range map[string]struct {
		before func(*anInterface)
		write  func(*anInterface) error
		is     func(error) bool
		says   string
	}{
		"a second object of the name": {write: again, is: apierrors.IsAlreadyExists},
		"a successor before the end of its predecessor": {
			before: func(i *anInterface) { must(i.T, i.delete(i.uid)) },
			write:  again, is: apierrors.IsAlreadyExists,
		},
		"another ENI": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write:  func(i *anInterface) error { return i.observe(i.read().ResourceVersion, observed(eniB)) },
			is:     apierrors.IsInvalid, says: "another ENI is another NetworkInterface",
		},
		"no ENI any more": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write: func(i *anInterface) error {
				return i.observe(i.read().ResourceVersion, networkingv1alpha1ac.NetworkInterfaceStatus().WithObservedGeneration(1))
			},
			is: apierrors.IsInvalid, says: "status.eniID is set once",
		},
		"the whole status is wiped": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write: func(i *anInterface) error {
				object := i.read()
				object.Status = v1alpha1.NetworkInterfaceStatus{}
				return i.admin.Status().Update(i.Context(), object)
			},
			is: apierrors.IsInvalid, says: "status.eniID is set once",
		},
		"other subnets of an ENI": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write: func(i *anInterface) error {
				return i.render(i.uid, "/spec/subnets", `[{"id":"subnet-00000000000000002"}]`)
			},
			is: apierrors.IsInvalid, says: "spec.subnets is fixed",
		},
		"other subnets with that of the ENI": {
			before: func(i *anInterface) { i.now(observed(eniA).WithSubnetID("subnet-00000000000000002")) },
			write: func(i *anInterface) error {
				return i.render(i.uid, "/spec/subnets", `[{"id":"subnet-00000000000000003"},{"id":"subnet-00000000000000002"}]`)
			},
			is: apierrors.IsInvalid, says: "spec.subnets is fixed",
		},
		"another slot of an attachment": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write:  func(i *anInterface) error { return i.render(i.uid, "/spec/slot", `{"deviceIndex":3}`) },
			is:     apierrors.IsInvalid, says: "spec.slot is fixed",
		},
		"a rendering for another object": {
			write: func(i *anInterface) error { return i.render("another", "/spec/required", "true") }, is: apierrors.IsInvalid,
		},
		"a rendering of an absent object": {
			before: func(i *anInterface) { tear(i.admin, i.name) },
			write:  func(i *anInterface) error { return i.render(i.uid, "/spec/required", "true") }, is: apierrors.IsNotFound,
		},
		"a rendering from an older NodeENI": {
			write: func(i *anInterface) error { return i.render(i.uid, "/spec/nodeENI/generation", "2") },
			is:    apierrors.IsInvalid, says: "rendered from an older NodeENI",
		},
		"another instance": {
			write: func(i *anInterface) error { return i.render(i.uid, "/spec/instanceID", `"i-0aaaaaaaaaaaaaaaa"`) },
			is:    apierrors.IsInvalid, says: "instanceID never changes",
		},
		"the deletion of another object": {
			write: func(i *anInterface) error { return i.delete("another") }, is: apierrors.IsConflict,
		},
		"the finalizer of another object": {
			write: func(i *anInterface) error {
				return i.patch(types.JSONPatchType, `[{"op":"test","path":"/metadata/uid","value":"another"},{"op":"remove","path":"/metadata/finalizers"}]`)
			},
			is: apierrors.IsInvalid,
		},
		"a status of an older version": {
			write: func(i *anInterface) error {
				version := i.read().ResourceVersion
				must(i.T, i.render(i.uid, "/spec/required", "true"))
				return i.observe(version, observed(eniA))
			},
			is: apierrors.IsConflict,
		},
		"a status of an older version that changes nothing": {
			write: func(i *anInterface) error {
				i.now(observed(eniA))
				version := i.read().ResourceVersion
				must(i.T, i.render(i.uid, "/spec/required", "true"))
				return i.observe(version, observed(eniA))
			},
			is: apierrors.IsConflict,
		},
		"a status of the predecessor": {
			write: func(i *anInterface) error {
				version := i.read().ResourceVersion
				tear(i.admin, i.name)
				must(i.T, again(i))
				return i.observe(version, observed(eniA))
			},
			is: apierrors.IsConflict,
		},
		"a status of an absent object": {
			before: func(i *anInterface) { tear(i.admin, i.name) },
			write:  func(i *anInterface) error { return i.observe("1", observed(eniA)) },
			is:     same,
		},
		"an answer of the agent before there is an ENI": {
			write: func(i *anInterface) error { return i.answer(i.admin, i.read().ResourceVersion, true) },
			is:    apierrors.IsInvalid, says: "no agent answers before there is an ENI",
		},
		"an answer of an older version": {
			before: func(i *anInterface) { i.now(observed(eniA)) },
			write: func(i *anInterface) error {
				version := i.read().ResourceVersion
				i.answered(true)
				return i.answer(i.admin, version, false)
			},
			is: apierrors.IsConflict,
		},
		"a prefix returns unreleased": {
			before: func(i *anInterface) { i.now(granted([]string{prefixA, prefixB}, nil)); i.answered(true, prefixA) },
			write: func(i *anInterface) error {
				return i.observe(i.read().ResourceVersion, granted([]string{prefixA}, []string{prefixB}))
			},
			is: apierrors.IsInvalid, says: "only after the agent of the node released it",
		},
		"a prefix is granted while it returns": {
			before: func(i *anInterface) {
				i.now(granted([]string{prefixA, prefixB}, nil))
				i.answered(true, prefixA)
				i.now(granted([]string{prefixB}, []string{prefixA}))
			},
			write: func(i *anInterface) error {
				return i.observe(i.read().ResourceVersion, granted([]string{prefixA, prefixB}, nil))
			},
			is: apierrors.IsInvalid, says: "only after it left status.pods.returning",
		},
		"a prefix is granted and returns": {
			before: func(i *anInterface) { i.now(granted([]string{prefixA, prefixB}, nil)); i.answered(true, prefixA) },
			write: func(i *anInterface) error {
				return i.observe(i.read().ResourceVersion, granted([]string{prefixA, prefixB}, []string{prefixA}))
			},
			is: apierrors.IsInvalid, says: "only after it left status.pods.returning",
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := makeInterface(t, admin, "refused", "node-1")
			if tc.before != nil {
				tc.before(object)
			}
			err := tc.write(object)
			if err == nil || !tc.is(err) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("the write ends with %v, want a refusal with %q", err, tc.says)
			}
		})
	}
}

// TestAnInterfaceFromCreationToEnd makes the writes of a whole life. The API server refuses none.
func TestAnInterfaceFromCreationToEnd(t *testing.T) {
	admin := everything(t, server.Config)
	guardAgents(t, admin)
	byAgent := everything(t, withToken(agentToken(t, admin, "node-a")))
	life := makeInterface(t, admin, "life", "node-a")
	must(t, life.render(life.uid, "/spec/slot", `{"deviceIndex":4}`)) // there is no attachment yet
	must(t, life.render(life.uid, "/spec/nodeENI/generation", "4"))
	life.now(granted([]string{prefixA, prefixB}, nil))
	must(t, life.answer(byAgent, life.read().ResourceVersion, true))
	must(t, life.render(life.uid, "/spec/nodeENI", `{"name":"n3","uid":"another","generation":1}`)) // created again
	must(t, life.render(life.uid, "/spec/pods/closed", "true"))
	must(t, life.render(life.uid, "/spec/pods/closed", "false"))
	must(t, life.answer(byAgent, life.read().ResourceVersion, true, prefixA))
	life.now(granted([]string{prefixB}, []string{prefixA}))
	life.now(granted([]string{prefixB}, nil))
	life.now(granted([]string{prefixA, prefixB}, nil))

	object := life.read()
	if !object.Status.Node.Open || len(object.Status.Node.Released) != 1 || object.Status.ENIID != eniA {
		t.Errorf("the two writers of the status have lost a part of each other: %+v", object.Status)
	}
	if err := life.observe(object.ResourceVersion, granted([]string{prefixA, prefixB}, nil)); err != nil {
		t.Error(err)
	}
	if now := life.read().ResourceVersion; now != object.ResourceVersion {
		t.Errorf("a status that changes nothing makes version %s of %s", now, object.ResourceVersion)
	}

	none := client.RawPatch(types.MergePatchType, []byte(`{"status":{"node":null}}`))
	if err := byAgent.Status().Patch(t.Context(), object, none); err == nil || !strings.Contains(err.Error(), "not remove it") {
		t.Errorf("an agent takes its answer back: %v", err)
	}

	must(t, life.delete(life.uid))
	if life.read().Final() {
		t.Error("the object is final while its agent holds it")
	}
	must(t, life.answer(byAgent, life.read().ResourceVersion, true)) // a hold that stands may be confirmed
	must(t, life.answer(byAgent, life.read().ResourceVersion, false))
	if !life.read().Final() {
		t.Error("the object is not final")
	}
	if err := life.answer(byAgent, life.read().ResourceVersion, true); err == nil || !strings.Contains(err.Error(), "opens for no pod") {
		t.Errorf("a hold on an object that is being deleted: %v", err)
	}
	must(t, life.patch(types.JSONPatchType, fmt.Sprintf(
		`[{"op":"test","path":"/metadata/uid","value":%q},{"op":"remove","path":"/metadata/finalizers"}]`, life.uid)))
	must(t, admin.Create(t.Context(), newInterface("life", "node-a")))
}

// TestAnInterfaceIsTakenOverWhileItIsBeingDeleted records an ENI of before on an object that is being deleted. The agent may
// answer that pods use it.
func TestAnInterfaceIsTakenOverWhileItIsBeingDeleted(t *testing.T) {
	admin := everything(t, server.Config)
	guardAgents(t, admin)
	byAgent := everything(t, withToken(agentToken(t, admin, "node-a")))
	object := makeInterface(t, admin, "takeover", "node-a")
	must(t, object.delete(object.uid))
	object.now(observed(eniA).WithEvidence(v1alpha1.EvidenceTakenOver))
	if !object.read().Held() {
		t.Error("an interface that was taken over is not held before its agent answers")
	}
	must(t, object.answer(byAgent, object.read().ResourceVersion, true))
	must(t, object.answer(byAgent, object.read().ResourceVersion, false))
	if !object.read().Final() {
		t.Error("the object is not final")
	}
}

// TestConditionsOfTwoWriters ends the condition of one writer by an apply without a status. The other writer keeps its part.
func TestConditionsOfTwoWriters(t *testing.T) {
	admin := everything(t, server.Config)
	made := makeInterface(t, admin, "conditions", "node-1")
	made.now(observed(eniA).WithConditions(condition(v1alpha1.ConditionReady, metav1.ConditionTrue)))
	orphaned := *condition(v1alpha1.ConditionOrphaned, metav1.ConditionTrue)
	must(t, object.WriteConditions(t.Context(), admin, object.OwnerNodeENI, made.read(), metav1.Condition{
		Type: *orphaned.Type, Status: *orphaned.Status, Reason: *orphaned.Reason, LastTransitionTime: *orphaned.LastTransitionTime,
	}))
	if got := made.read().Status.Conditions; len(got) != 2 {
		t.Fatalf("conditions %v, want both", got)
	}
	must(t, object.WriteConditions(t.Context(), admin, object.OwnerNodeENI, made.read()))
	if got := made.read().Status; len(got.Conditions) != 1 || got.ENIID != eniA {
		t.Errorf("the status is %+v, want what the other writer has written", got)
	}
}
