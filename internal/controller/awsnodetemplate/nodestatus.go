// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

const (
	// nodeWriters is how many nodes are written at the same time.
	nodeWriters = 8
	// maxEventNote is the most bytes of an event's note (events.k8s.io/v1, Event).
	maxEventNote = 1024
)

// writeNodes writes the labels, the capacity and the drift of each node if they changed.
func (r *Reconciler) writeNodes(ctx context.Context, object *v1alpha1.AWSNodeTemplate, f facts) error {
	r.remember(object.Name, f)
	if f.rendering.Problems != nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(nodeWriters)
	for _, n := range f.fleet {
		group.Go(func() error {
			return panics.AsError("node "+n.Name, func() error { return client.IgnoreNotFound(r.writeNode(ctx, object, n)) })
		})
	}
	return group.Wait()
}

func (r *Reconciler) remember(name string, f facts) {
	s := Counts{Nodes: len(f.fleet), Drifted: map[string]int{}, ReadAt: f.sourceReadAt}
	for _, n := range f.fleet {
		if drifted := n.drift(); len(drifted) > 0 {
			s.Drifted[drifted[0].Field]++
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.standings[name] = s
}

// drift returns the differences that count as drift.
func (n node) drift() []launchtemplate.Difference {
	return slices.DeleteFunc(slices.Clone(n.differences), func(d launchtemplate.Difference) bool {
		return d.Class == launchtemplate.Behavioral
	})
}

func (r *Reconciler) writeNode(ctx context.Context, object *v1alpha1.AWSNodeTemplate, n node) error {
	if changed := labelChanges(n.Labels, n.labels); len(changed) > 0 {
		if err := r.patch(ctx, n.Node, types.MergePatchType,
			map[string]any{"metadata": map[string]any{"labels": changed}}); err != nil {
			return fmt.Errorf("label node %s: %w", n.Name, err)
		}
	}
	status := map[string]any{}
	if changed := capacityChanges(n.Status.Capacity, n.resources); len(changed) > 0 {
		status["capacity"] = changed
	}
	was, now := condition(n.Node), n.condition(object.Name)
	differs := was == nil || was.Status != now.Status || was.Reason != now.Reason || was.Message != now.Message
	if differs {
		now.LastTransitionTime, now.LastHeartbeatTime = metav1.NewTime(r.Now()), metav1.NewTime(r.Now())
		if was != nil && was.Status == now.Status {
			now.LastTransitionTime = was.LastTransitionTime
		}
		status["conditions"] = []corev1.NodeCondition{now}
	}
	if len(status) == 0 {
		return nil
	}
	if err := r.patch(ctx, n.Node, types.StrategicMergePatchType, map[string]any{"status": status}, "status"); err != nil {
		return fmt.Errorf("write condition %s of node %s: %w", v1alpha1.NodeConditionDrifted, n.Name, err)
	}
	if differs {
		r.recordEvents(object, n, was, now)
	}
	return nil
}

// patch sends a patch of a node, or of its status.
func (r *Reconciler) patch(
	ctx context.Context, n *corev1.Node, kind types.PatchType, content map[string]any, subresource ...string,
) error {
	body, err := json.Marshal(content)
	if err != nil {
		return err
	}
	patch, target := client.RawPatch(kind, body), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
	if len(subresource) > 0 {
		return r.Client.Status().Patch(ctx, target, patch, client.FieldOwner(v1alpha1.FieldOwnerController))
	}
	return r.Client.Patch(ctx, target, patch, client.FieldOwner(v1alpha1.FieldOwnerController))
}

// recordEvents records an event on the node and on its node template when a drift begins, changes or ends.
func (r *Reconciler) recordEvents(
	object *v1alpha1.AWSNodeTemplate, n node, was *corev1.NodeCondition, now corev1.NodeCondition,
) {
	kind := corev1.EventTypeWarning
	if now.Status != corev1.ConditionTrue {
		kind = corev1.EventTypeNormal
		if was == nil || was.Status != corev1.ConditionTrue {
			return
		}
	}
	note := fmt.Sprintf("node %s: %s", n.Name, now.Message)
	r.Events.Eventf(n.Node, object, kind, now.Reason,
		"Compare", "%s", strings.ToValidUTF8(note[:min(len(note), maxEventNote)], ""))
}

// condition returns the condition of the node that says whether it differs. The reason is the class of the first
// difference.
func (n node) condition(nodeTemplate string) corev1.NodeCondition {
	drift := n.drift()
	c := corev1.NodeCondition{
		Type: v1alpha1.NodeConditionDrifted, Status: corev1.ConditionFalse, Reason: v1alpha1.ReasonAsDeclared,
		Message: "the node matches AWSNodeTemplate " + nodeTemplate,
	}
	if len(drift) == 0 {
		return c
	}
	c.Status, c.Reason = corev1.ConditionTrue, string(drift[0].Class)
	var words []string
	for _, d := range drift {
		words = append(words, d.Told())
	}
	c.Message = fmt.Sprintf("it differs from AWSNodeTemplate %s in %s", nodeTemplate, strings.Join(words, "; "))
	return c
}

// condition returns the drift condition of a node.
func condition(n *corev1.Node) *corev1.NodeCondition {
	at := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == v1alpha1.NodeConditionDrifted
	})
	if at < 0 {
		return nil
	}
	return &n.Status.Conditions[at]
}

// labelChanges returns the labels to set and, as null, the labels to remove. It removes only multieni's own labels.
func labelChanges(have, want map[string]string) map[string]any {
	changes := map[string]any{}
	for key, value := range want {
		if had, is := have[key]; !is || had != value {
			changes[key] = value
		}
	}
	for key := range have {
		if _, wanted := want[key]; !wanted && launchtemplate.IsNodeLabel(key) {
			changes[key] = nil
		}
	}
	return changes
}

// capacityChanges returns the resources to set and, as null, the resources to remove. A null in a patch of a status
// removes the member.
func capacityChanges(have corev1.ResourceList, want map[string]int) map[string]any {
	changes := map[string]any{}
	for name, count := range want {
		if had, is := have[corev1.ResourceName(name)]; !is || had.CmpInt64(int64(count)) != 0 {
			changes[name] = resource.NewQuantity(int64(count), resource.DecimalSI).String()
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		if _, wanted := want[string(name)]; !wanted && launchtemplate.IsNodeLabel(string(name)) {
			changes[string(name)] = nil
		}
	}
	return changes
}

// clearNodes removes the labels, resources and the condition of a node template from the nodes that still have them.
func (r *Reconciler) clearNodes(ctx context.Context, nodes map[string]*corev1.Node, nodeTemplate string) error {
	for _, n := range nodes {
		if n.Labels[launchtemplate.LabelNodeTemplate] != nodeTemplate {
			continue
		}
		status := map[string]any{
			"capacity":   capacityChanges(n.Status.Capacity, nil),
			"conditions": []map[string]any{{"type": v1alpha1.NodeConditionDrifted, "$patch": "delete"}},
		}
		err := r.patch(ctx, n, types.StrategicMergePatchType, map[string]any{"status": status}, "status")
		if err == nil {
			err = r.patch(ctx, n, types.MergePatchType,
				map[string]any{"metadata": map[string]any{"labels": labelChanges(n.Labels, nil)}})
		}
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove the labels of AWSNodeTemplate %s from node %s: %w", nodeTemplate, n.Name, err)
		}
	}
	return nil
}
