// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"net/http"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// This file has what the API server knows of the kind NetworkInterface besides its schema: the rules of its definition,
// and the definition's own life.

// definition is the state of a CustomResourceDefinition.
type definition int

const (
	// established definitions are in use.
	established definition = iota
	// terminating definitions are being deleted: so are their objects, and the API server refuses further ones.
	terminating
	// missing definitions do not exist.
	missing
)

// deleteKind deletes the definition. All of its objects are being deleted then, and it ends with the last of them.
func (s *apiServer) deleteKind() {
	if s.interfaceKind != established {
		return
	}
	s.interfaceKind = terminating
	for _, object := range s.all(netInterfaces) {
		_ = s.delete(netInterfaces, object.GetName(), "")
	}
	s.endKind()
}

// endKind ends a definition that is being deleted and has no object any more.
func (s *apiServer) endKind() {
	if s.interfaceKind == terminating && len(s.objects[netInterfaces]) == 0 {
		s.interfaceKind = missing
	}
}

// restoreKind creates the definition again, once it is gone.
func (s *apiServer) restoreKind() {
	if s.interfaceKind == missing {
		s.interfaceKind = established
	}
}

// takesNone returns the error with which the API server refuses further objects of a kind.
func (s *apiServer) takesNone(k kind, name string) error {
	switch {
	case k != netInterfaces || s.interfaceKind == established:
		return nil
	case s.interfaceKind == terminating:
		return apierrors.NewGenericServerResponse(http.StatusForbidden, "create", k.resource(), name,
			"create not allowed while custom resource definition is terminating", 0, true)
	default:
		return apierrors.NewGenericServerResponse(http.StatusNotFound, "create", k.resource(), name, "", 0, true)
	}
}

// index keeps the names of the objects that record an ENI.
func (s *apiServer) index(before, after client.Object) {
	if was, is := before.(*v1alpha1.NetworkInterface); is && s.byENI[was.Status.ENIID] == was.Name {
		delete(s.byENI, was.Status.ENIID)
	}
	if n, is := after.(*v1alpha1.NetworkInterface); is && n.Status.ENIID != "" {
		s.byENI[n.Status.ENIID] = n.Name
	}
}

// interfaceOf returns the object that records an ENI; nil for none.
func (s *apiServer) interfaceOf(eniID string) *v1alpha1.NetworkInterface {
	object, _ := s.objects[netInterfaces][s.byENI[eniID]].(*v1alpha1.NetworkInterface)
	return object
}

// interfaceWith returns the object of a UID; nil for none.
func (s *apiServer) interfaceWith(uid types.UID) *v1alpha1.NetworkInterface {
	for _, object := range s.objects[netInterfaces] {
		if object.GetUID() == uid {
			return object.(*v1alpha1.NetworkInterface)
		}
	}
	return nil
}

// interfaces returns all objects by name.
func (s *apiServer) interfaces() []*v1alpha1.NetworkInterface {
	var all []*v1alpha1.NetworkInterface
	for _, object := range s.all(netInterfaces) {
		all = append(all, object.(*v1alpha1.NetworkInterface))
	}
	return all
}

// checkRules returns the error with which the API server refuses a version of an object by the rules in CEL of the
// definition. Their words are in api/v1alpha1, and TestRules compares both: CEL itself is too slow here.
func checkRules(before client.Object, after *v1alpha1.NetworkInterface) error {
	var was *v1alpha1.NetworkInterface
	if before != nil {
		was = before.(*v1alpha1.NetworkInterface)
	}
	broken := brokenRule(was, after)
	if broken == "" {
		return nil
	}
	return apierrors.NewInvalid(k8sschema.GroupKind{Group: v1alpha1.SchemeGroupVersion.Group, Kind: "NetworkInterface"},
		after.Name, field.ErrorList{field.Invalid(field.NewPath("object"), "", broken)})
}

func brokenRule(was, is *v1alpha1.NetworkInterface) string {
	if is.Status.Node != nil && is.Status.ENIID == "" {
		return "no agent answers before there is an ENI"
	}
	if was == nil {
		return ""
	}
	a, b := was.Spec, is.Spec
	switch {
	case was.Status.ENIID != "" && is.Status.ENIID != was.Status.ENIID:
		return "status.eniID is set once"
	case was.Status.ENIID != "" && !slices.Equal(otherSubnets(was, a.Subnets), otherSubnets(was, b.Subnets)):
		return "spec.subnets is fixed once there is an ENI"
	case was.Status.AttachmentID != "" && a.Slot != b.Slot:
		return "spec.slot is fixed once there is an attachment"
	case a.NodeENI.UID == b.NodeENI.UID && b.NodeENI.Generation < a.NodeENI.Generation:
		return "nodeENI.generation never decreases"
	case a.InstanceID != b.InstanceID, a.Zone != b.Zone, a.Ordinal != b.Ordinal, a.NodeENI.Name != b.NodeENI.Name,
		a.Origin != b.Origin && b.Origin != v1alpha1.OriginDeclared:
		return "what an object is for never changes"
	}
	return brokenPrefixRule(was.Status, is.Status)
}

// otherSubnets returns subnets without that of the interface of an object.
func otherSubnets(n *v1alpha1.NetworkInterface, all []v1alpha1.InterfaceSubnet) []v1alpha1.InterfaceSubnet {
	return slices.DeleteFunc(slices.Clone(all), func(s v1alpha1.InterfaceSubnet) bool {
		return n.Status.SubnetID != "" && s.ID == n.Status.SubnetID
	})
}

// brokenPrefixRule has the rules about prefixes: none is granted while it is being returned, and only a released one is
// returned.
func brokenPrefixRule(was, is v1alpha1.NetworkInterfaceStatus) string {
	if is.Pods == nil {
		return ""
	}
	var before v1alpha1.PodPrefixes
	if was.Pods != nil {
		before = *was.Pods
	}
	for _, p := range is.Pods.Prefixes {
		granted := slices.Contains(before.Prefixes, p)
		if was.Pods != nil && (slices.Contains(is.Pods.Returning, p) || !granted && slices.Contains(before.Returning, p)) {
			return "a prefix is granted again only after it left status.pods.returning"
		}
	}
	for _, p := range is.Pods.Returning {
		released := was.Node != nil && slices.Contains(was.Node.Released, p)
		if !slices.Contains(before.Returning, p) && !released {
			return "a prefix is returned only after the agent of the node released it"
		}
	}
	return ""
}

// errPolicy is the refusal of the policy for agents.
var errPolicy = errors.New("an object that is being deleted is not opened any more")

// admits returns the refusal of the policy for agents: it refuses a hold on an object that is being deleted, once an
// agent has answered, and reports about objects of other nodes.
func admits(was *v1alpha1.NetworkInterface, node string, report v1alpha1.NodeReport) error {
	switch {
	case was.Spec.NodeName != node:
		return fmt.Errorf("the object is of node %s", was.Spec.NodeName)
	case !was.DeletionTimestamp.IsZero() && was.Status.Node != nil && !was.Status.Node.Open && report.Open:
		return errPolicy
	default:
		return nil
	}
}

// ownedFields are the fields of a status that a field owner has: names of fields, and types of conditions.
type ownedFields map[string]bool

// conditionsField is the field of a status with the conditions.
const conditionsField = "conditions"

// applied returns the status of an object after a field owner applied some: fields that the owner applied before and
// does not any more end, and those of others stay. Each condition has an owner of its own. The second result are the
// fields that the owner has then.
func (s *apiServer) applied(owner string, n *v1alpha1.NetworkInterface,
	fields map[string]any) (v1alpha1.NetworkInterfaceStatus, ownedFields, error) {
	before, now := s.owned[n.UID][owner], ownedFields{}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&n.Status)
	if err != nil {
		return n.Status, nil, err
	}
	var status, own v1alpha1.NetworkInterfaceStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &own); err != nil {
		return n.Status, nil, err
	}
	for name, value := range fields {
		if name != conditionsField {
			now[name], content[name] = true, value
		}
	}
	for _, c := range own.Conditions {
		now[conditionsField+c.Type] = true
	}
	for name := range before {
		if !now[name] {
			delete(content, name)
		}
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, &status); err != nil {
		return n.Status, nil, err
	}
	status.Conditions = slices.DeleteFunc(status.Conditions, func(c metav1.Condition) bool {
		return before[conditionsField+c.Type] && !now[conditionsField+c.Type]
	})
	for _, c := range own.Conditions {
		if at := slices.IndexFunc(status.Conditions, func(o metav1.Condition) bool { return o.Type == c.Type }); at >= 0 {
			status.Conditions[at] = c
		} else {
			status.Conditions = append(status.Conditions, c)
		}
	}
	return status, now, nil
}

// owns records the fields that a field owner has.
func (s *apiServer) owns(owner string, uid types.UID, now ownedFields) {
	if s.owned[uid] == nil {
		s.owned[uid] = map[string]ownedFields{}
	}
	s.owned[uid][owner] = now
}
