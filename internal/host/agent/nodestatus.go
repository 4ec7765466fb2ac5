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

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
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

// updateNode reports the interfaces on the Node, and removes the startup taint last.
func (a *Agent) updateNode(ctx context.Context, s *snapshot) error {
	if s.node == nil {
		return nil
	}
	verdict := a.waitForCNI(s.node, EvaluateReadiness(s.state, s.observed, s.networks))
	node := s.node.DeepCopy()
	if changes := changedStatus(node, verdict, s.capacity()); len(changes) > 0 {
		var err error
		if node, err = a.API.writeNodeStatus(ctx, changes); err != nil {
			return fmt.Errorf("write condition %s and capacity of Node %s: %w",
				v1alpha1.NodeConditionInterfacesReady, a.Node, err)
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
	if err := a.API.writeNode(ctx, before, node); err != nil {
		return fmt.Errorf("write labels, annotation and taint of Node %s: %w", a.Node, err)
	}
	return nil
}

// changedStatus returns the changes of a Node's status for a patch: the condition, and the agents' part of the
// capacity.
func changedStatus(node *corev1.Node, v Readiness, capacity map[corev1.ResourceName]int64) map[string]any {
	changes := map[string]any{}
	if setCondition(node, v) {
		changes["conditions"] = []any{interfacesReady(node)}
	}
	if resources := changedCapacity(node, capacity); len(resources) > 0 {
		changes["capacity"] = resources
	}
	return changes
}

// writeNodeStatus writes one condition and the agents' part of the capacity, and returns the changed Node. Other
// conditions and resources belong to other programs.
func (a *API) writeNodeStatus(ctx context.Context, changes map[string]any) (*corev1.Node, error) {
	content, err := json.Marshal(map[string]any{"status": changes})
	if err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	return node, a.nodes.patch(ctx, a.node,
		change{kind: types.StrategicMergePatchType, of: []string{"status"}, content: content}, node)
}

// writeNode writes the differences. Taints are replaced as a whole, so the patch includes the resource version that was
// read: the write then fails if another client changed the taints meanwhile.
func (a *API) writeNode(ctx context.Context, before, now *corev1.Node) error {
	before, now = before.DeepCopy(), now.DeepCopy()
	before.ResourceVersion = ""
	was, err := json.Marshal(before)
	if err != nil {
		return err
	}
	is, err := json.Marshal(now)
	if err != nil {
		return err
	}
	content, err := jsonpatch.CreateMergePatch(was, is)
	if err != nil {
		return err
	}
	return a.nodes.patch(ctx, a.node, change{kind: types.MergePatchType, content: content}, &corev1.Node{})
}

// setCondition sets the condition of the Node to the readiness, and reports whether it changed. The condition's times
// change only with its content.
func setCondition(node *corev1.Node, v Readiness) (news bool) {
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
		news = before.Status != condition.Status || before.Reason != condition.Reason || before.Message != condition.Message
		if news {
			node.Status.Conditions[n] = condition
		}
		return news
	}
	node.Status.Conditions = append(node.Status.Conditions, condition)
	return true
}

// describe sets the label and the annotation of the node's usable interfaces.
func (s *snapshot) describe(node *corev1.Node) error {
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.InterfaceLabelPrefix) })
	usable := map[string]Interface{}
	for _, o := range s.observed {
		i := interfaceOf(s.state, o.Link.MAC)
		if i == nil || !o.State.Usable() {
			continue
		}
		altName := hostnet.AltName(o.Link.Name)
		described := Interface{NodeENI: i.NodeENI, ENIID: i.ENIID, MAC: i.MACAddress, SubnetID: i.SubnetID,
			PCIAddress: o.Link.Device}
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

// taint removes the startup taint from a node that is ready. With ReapplyTaint it adds the taint again to a node that
// is not.
func (a *Agent) taint(node *corev1.Node, v Readiness) {
	ours := func(t corev1.Taint) bool { return t.Key == a.Taint }
	switch {
	case v.Status == corev1.ConditionTrue:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, ours)
	case v.Status == corev1.ConditionFalse && a.ReapplyTaint && !slices.ContainsFunc(node.Spec.Taints, ours):
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: a.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
}
