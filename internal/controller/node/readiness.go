// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/render"
)

// writeReadiness writes the differences between a Node and its readiness, and the names of its objects. The startup
// taint goes last.
func (r *Reconciler) writeReadiness(ctx context.Context, g gathered, names []string) error {
	if !r.concerns(g) {
		return nil
	}
	readiness := render.Readiness(r.facts(g))
	node, err := r.writeStatus(ctx, g.node, r.changedCondition(g.node, readiness), names)
	if err != nil {
		return err
	}
	after := node.DeepCopy()
	if err := describe(after, readiness.Usable); err != nil {
		return err
	}
	r.setTaint(after, readiness)
	if equality.Semantic.DeepEqual(after, node) {
		return nil
	}
	// A patch replaces all taints, so it fails if another client changed the Node meanwhile.
	patch := client.MergeFromWithOptions(node, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, after, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return fmt.Errorf("write labels, annotation and taint of Node %s: %w", node.Name, err)
	}
	return nil
}

// writeStatus writes the condition of a Node, if it changed, with the names of its objects. The API server takes an
// annotation with a status, so both are one write. A name that is gone waits for the next condition: it costs the agent
// a silent watch.
func (r *Reconciler) writeStatus(ctx context.Context, node *corev1.Node, condition *corev1.NodeCondition,
	names []string,
) (*corev1.Node, error) {
	known := strings.Split(node.Annotations[v1alpha1.NetworkInterfacesAnnotation], ",")
	isMissing := func(name string) bool { return !slices.Contains(known, name) }
	if condition == nil && !slices.ContainsFunc(names, isMissing) {
		return node, nil
	}
	change := map[string]any{"metadata": map[string]any{
		"annotations": map[string]string{v1alpha1.NetworkInterfacesAnnotation: strings.Join(names, ",")},
	}}
	if condition != nil {
		change["status"] = map[string]any{"conditions": []any{condition}}
	}
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	written := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}
	patch := client.RawPatch(types.StrategicMergePatchType, body)
	if err := r.Client.Status().Patch(ctx, written, patch, client.FieldOwner(v1alpha1.FieldOwnerController)); err != nil {
		return nil, fmt.Errorf("write condition %s of Node %s and the names of its objects: %w",
			v1alpha1.NodeConditionInterfacesReady, node.Name, err)
	}
	return written, nil
}

// concerns reports whether a Node gets a readiness. Without the startup taint, an agent and a condition from earlier,
// nothing would report its links. An interface that was taken over is held until an agent has answered for it. No link
// appears then, so only the Node tells the agent of the object.
func (r *Reconciler) concerns(g gathered) bool {
	for _, o := range g.objects {
		report := o.Status.Node
		if report == nil && o.Held() || report != nil && (report.Link != nil || report.CNI != nil) {
			return true
		}
	}
	return r.isTainted(g.node) || conditionOf(g.node) != nil
}

// facts converts what decides about the readiness of a Node.
func (r *Reconciler) facts(g gathered) render.ReadinessIn {
	in := render.ReadinessIn{
		In: g.in, Node: g.node.Name, Tainted: r.isTainted(g.node), Listed: r.Observer.Synced(),
		Reports: map[string]render.InterfaceReport{},
	}
	in.NodeENIs = slices.Concat(g.in.NodeENIs, g.waiting)
	for name, o := range g.objects {
		in.Reports[name] = reportOf(o)
	}
	return in
}

// reportOf converts the status of an object.
func reportOf(o *v1alpha1.NetworkInterface) render.InterfaceReport {
	report := render.InterfaceReport{Phase: string(object.PhaseOf(o)), MAC: o.Status.MACAddress}
	ready := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionReady)
	if ready != nil && ready.Status != metav1.ConditionTrue {
		report.Message = ready.Message
	}
	node := o.Status.Node
	if node == nil {
		return report
	}
	if l := node.Link; l != nil {
		report.Link = &render.LinkReport{
			Usable: slices.Contains([]v1alpha1.LinkPhase{v1alpha1.LinkReady, v1alpha1.LinkMoved, v1alpha1.LinkBound}, l.State),
			State:  string(l.State), Reason: l.Reason, Message: l.Message, Name: l.Name, PCIAddress: l.PCIAddress,
		}
	}
	if p := node.Pods; p != nil && o.Spec.Pods != nil {
		report.Pods = &render.PodsReport{Ready: p.Ready, Reason: p.Reason, Message: p.Message,
			Draining: p.Reason == v1alpha1.ReasonNetworkDraining}
	}
	if c := node.CNI; c != nil {
		report.CNI = &render.CNIReport{Ready: c.Ready, Message: c.Message}
	}
	return report
}

// describe sets the labels and the annotation of a node's usable interfaces.
func describe(node *corev1.Node, usable map[string]render.Usable) error {
	labels := maps.Clone(node.Labels)
	maps.DeleteFunc(labels, func(key, _ string) bool { return strings.HasPrefix(key, v1alpha1.InterfaceLabelPrefix) })
	for altName, i := range usable {
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

// changedCondition returns the condition of a Node for its readiness, or nil if the Node has it. The time of the
// transition changes only with the status.
func (r *Reconciler) changedCondition(node *corev1.Node, v render.NodeReadiness) *corev1.NodeCondition {
	now := metav1.NewTime(r.Now())
	condition := corev1.NodeCondition{
		Type: v1alpha1.NodeConditionInterfacesReady, Status: corev1.ConditionStatus(v.Status), Reason: v.Reason,
		Message: v.Message, LastHeartbeatTime: now, LastTransitionTime: now,
	}
	before := conditionOf(node)
	switch {
	case before == nil, before.Status != condition.Status:
		return &condition
	case before.Reason != condition.Reason || before.Message != condition.Message:
		condition.LastTransitionTime = before.LastTransitionTime
		return &condition
	default:
		return nil
	}
}

func conditionOf(node *corev1.Node) *corev1.NodeCondition {
	for n := range node.Status.Conditions {
		if node.Status.Conditions[n].Type == v1alpha1.NodeConditionInterfacesReady {
			return &node.Status.Conditions[n]
		}
	}
	return nil
}

func (r *Reconciler) isStartupTaint(t corev1.Taint) bool { return t.Key == r.Taint }

func (r *Reconciler) isTainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, r.isStartupTaint)
}

// setTaint removes the startup taint from a Node that is ready. With ReapplyTaint it adds the taint again to a Node
// that is not.
func (r *Reconciler) setTaint(node *corev1.Node, v render.NodeReadiness) {
	switch {
	case v.Status == render.True:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, r.isStartupTaint)
	case v.Status == render.False && r.ReapplyTaint && !r.isTainted(node):
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: r.Taint, Effect: corev1.TaintEffectNoSchedule})
	}
}
