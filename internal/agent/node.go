// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/hostnet"
)

// Interface is what the annotation of a Node says about one usable interface, by altname.
type Interface struct {
	NodeENI    string `json:"nodeENI"`
	ENIID      string `json:"eniID"`
	MAC        string `json:"mac"`
	Name       string `json:"name,omitempty"`
	SubnetID   string `json:"subnetID,omitempty"`
	PCIAddress string `json:"pciAddress,omitempty"`
}

// mark says on the Node how its interfaces are, and opens it for pods, last of all.
func (a *Agent) mark(ctx context.Context, s *subject) error {
	if s.node == nil {
		return nil
	}
	verdict := Judge(s.state, s.observed)
	node := s.node.DeepCopy()
	setCondition(node, verdict)
	if !equality.Semantic.DeepEqual(node.Status, s.node.Status) {
		if err := a.Client.Status().Patch(ctx, node, client.StrategicMergeFrom(s.node)); err != nil {
			return fmt.Errorf("write condition %s of Node %s: %w", v1alpha1.NodeConditionInterfacesReady, a.Node, err)
		}
	}
	before := node.DeepCopy()
	if err := s.describe(node); err != nil {
		return err
	}
	a.taint(node, verdict)
	if equality.Semantic.DeepEqual(node, before) {
		return nil
	}
	// Taints are replaced as a whole, so the lock keeps us from undoing what somebody else did to them meanwhile.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := a.Client.Patch(ctx, node, patch); err != nil {
		return fmt.Errorf("write labels, annotation and taint of Node %s: %w", a.Node, err)
	}
	return nil
}

// setCondition puts the verdict into the conditions. Its times move only with what it says.
func setCondition(node *corev1.Node, v Verdict) {
	now := metav1.Now()
	condition := corev1.NodeCondition{
		Type: v1alpha1.NodeConditionInterfacesReady, Status: v.Status, Reason: v.Reason, Message: v.Message,
		LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for n, before := range node.Status.Conditions {
		if before.Type != condition.Type {
			continue
		}
		if before.Status == condition.Status {
			condition.LastTransitionTime = before.LastTransitionTime
		}
		if before.Status != condition.Status || before.Reason != condition.Reason || before.Message != condition.Message {
			node.Status.Conditions[n] = condition
		}
		return
	}
	node.Status.Conditions = append(node.Status.Conditions, condition)
}

// describe labels the node with its usable interfaces.
func (s *subject) describe(node *corev1.Node) error {
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.InterfaceLabelPrefix) })
	usable := map[string]Interface{}
	for _, o := range s.observed {
		i := interfaceOf(s.state, o.Link.MAC)
		if i == nil || !o.State.Usable() {
			continue
		}
		altName := hostnet.AltName(o.Link.Name)
		described := Interface{NodeENI: i.NodeENI, ENIID: i.ENIID, MAC: i.MACAddress, SubnetID: i.SubnetID, PCIAddress: o.Link.Device}
		if o.Facts != nil {
			described.Name, described.PCIAddress = o.Facts.Name, o.Facts.Device
		}
		usable[altName] = described
		if labels == nil {
			labels = map[string]string{}
		}
		labels[v1alpha1.InterfaceLabelPrefix+altName] = i.ENIID
	}
	node.Labels = labels
	if len(usable) == 0 {
		delete(node.Annotations, v1alpha1.InterfacesAnnotation)
		return nil
	}
	text, err := json.Marshal(usable)
	if err != nil {
		return err
	}
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, v1alpha1.InterfacesAnnotation, string(text))
	return nil
}

// taint takes the startup taint away from a node that is ready, and gives it back if it is to be so continuously.
func (a *Agent) taint(node *corev1.Node, v Verdict) {
	ours := func(t corev1.Taint) bool { return t.Key == a.Taint }
	switch {
	case v.Status == corev1.ConditionTrue:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, ours)
	case v.Status == corev1.ConditionFalse && a.Continuous && !slices.ContainsFunc(node.Spec.Taints, ours):
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: a.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
}
