// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// refusedKind is the kind of refused writes of objects, in [controller.ObjectRef].
const refusedKind = "NetworkInterface"

// write makes the writes of a rendering; each object fails alone. It returns how long the node waits for its turn to
// change specs.
func (r *Reconciler) write(ctx context.Context, g gathered, writes []render.Write) (wait time.Duration, err error) {
	var failed []error
	refused := map[string]bool{}
	updates := func(w render.Write) bool { return w.Verb == render.Update }
	if slices.ContainsFunc(writes, updates) {
		if wait = r.turn(g.node.Name); wait > 0 {
			for _, w := range writes {
				refused[w.Name] = updates(w) // an earlier refusal stands
			}
			writes = slices.DeleteFunc(writes, updates)
		}
	}
	confirmed := &confirmation{}
	for _, w := range writes {
		err := r.writeOne(ctx, g, w, confirmed)
		of := controller.ObjectRef{Kind: refusedKind, Name: w.Name, NodeENI: w.NodeENI, Writer: g.node.Name}
		refused[w.Name] = refused[w.Name] || err != nil
		if r.RefusedWrites.Note(of, err) {
			r.Events.Eventf(g.node, nil, corev1.EventTypeWarning, v1alpha1.ReasonStateRefused, "Render", "%s",
				controller.Note(err))
		}
		if w.Verb != render.Create { // without its object a write is void, and without their kind no object can be created
			err = client.IgnoreNotFound(err)
		}
		failed = append(failed, err)
	}
	r.RefusedWrites.Settle(refusedKind, g.node.Name, refused)
	if confirmed.behind {
		wait = sooner(wait, behindRecheck)
	}
	return wait, errors.Join(failed...)
}

func (r *Reconciler) turn(node string) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.pace.wait(node, r.Now())
}

func (r *Reconciler) writeOne(ctx context.Context, g gathered, w render.Write, confirmed *confirmation) error {
	o := g.objects[w.Name]
	switch w.Verb {
	case render.Create:
		r.Log.Debug("create an object", "node", g.node.Name, "object", w.Name)
		return object.Create(ctx, r.Client, object.New(w.Name, w.Spec))
	case render.Update:
		return object.PatchSpec(ctx, r.Client, o, object.SpecOf(w.Spec))
	case render.Report:
		return r.report(ctx, o.DeepCopy(), w.Drift)
	}
	if err := r.confirm(ctx, g, confirmed); err != nil || !confirmed.deletes[w.UID] {
		return err
	}
	r.Log.Info("delete an object", "node", g.node.Name, "nodeeni", w.NodeENI, "object", w.Name, "why", w.Why)
	if w.Verb == render.LetGo {
		if err := object.Keep(ctx, r.Client, o); err != nil {
			return err
		}
	}
	return object.Delete(ctx, r.Client, o)
}

// report states the differences of an object from its NodeENI.
func (r *Reconciler) report(ctx context.Context, o *v1alpha1.NetworkInterface, drift []plan.Drift) error {
	var fields []v1alpha1.Drift
	var conditions []metav1.Condition
	var words []string
	for _, d := range drift {
		fields = append(fields, v1alpha1.Drift{Field: d.Field, Want: d.Want, Have: d.Have})
		words = append(words, fmt.Sprintf("%s: want %s, have %s", d.Field, d.Want, d.Have))
	}
	if len(drift) > 0 {
		if before := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDrifted); before != nil {
			conditions = append(conditions, *before)
		}
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionTrue, Reason: string(plan.Drifted),
			Message: strings.Join(words, ", "), ObservedGeneration: o.Generation,
		})
	}
	was := meta.FindStatusCondition(o.Status.Conditions, v1alpha1.ConditionDrifted)
	if err := object.WriteDrift(ctx, r.Client, o, fields, conditions...); err != nil {
		return err
	}
	if len(drift) > 0 && was == nil {
		object.Announce(r.Events, o, string(plan.Drifted), "Render", o.Status.ENIID+" differs in "+strings.Join(words, ", "))
	}
	return nil
}

// behindRecheck is the time until a deletion is decided again that a cache behind the API server prevented.
const behindRecheck = 5 * time.Second

// confirmation says which objects are deleted according to the API server itself: none if the cache is behind it.
type confirmation struct {
	done, behind bool
	deletes      map[string]bool
}

// confirm renders again with the Nodes, the NodeENIs and the objects from the API server itself, once for all
// deletions. A cache can be stale without any sign: its first list may come from an API server that lags, its watch
// may be silent, and after changes of a Node and of a NodeENI it may have only the later one. It may also lack that
// an object ended in whose place another one serves now. A deletion cannot be taken back.
func (r *Reconciler) confirm(ctx context.Context, g gathered, c *confirmation) error {
	if c.done {
		return nil
	}
	nodes, behind, err := r.liveNodes(ctx, g)
	if err != nil {
		return fmt.Errorf("confirm that node %s must lose an interface: %w", g.node.Name, err)
	}
	nodeENIs, err := r.liveNodeENIs(ctx, g)
	if err != nil {
		return fmt.Errorf("confirm that node %s must lose an interface: %w", g.node.Name, err)
	}
	in := g.in
	in.Nodes, in.NodeENIs, in.Objects = nodes, nodeENIs, nil
	var objects v1alpha1.NetworkInterfaceList
	labels := client.MatchingLabels{v1alpha1.InstanceLabel: g.in.Instance.ID}
	if err := r.Reader.List(ctx, &objects, labels); err != nil {
		return fmt.Errorf("confirm that node %s must lose an interface: %w", g.node.Name, err)
	}
	for n := range objects.Items {
		in.Objects = append(in.Objects, object.Rendered(&objects.Items[n]))
	}
	c.done, c.behind, c.deletes = true, behind, map[string]bool{}
	for _, w := range render.Node(in) {
		if w.Verb == render.Delete || w.Verb == render.LetGo {
			c.deletes[w.UID] = true
		}
	}
	return nil
}

// liveNodes reads the Nodes of the instance from the API server: those that the cache has, and those that objects name.
// None is left, so that nothing is deleted, if the instance has another oldest Node, or if the cache is behind: it may
// lack further Nodes of the instance then. A Node without a providerID in the cache may be one by now.
func (r *Reconciler) liveNodes(ctx context.Context, g gathered) (live []render.Registration, behind bool, err error) {
	var unnamed corev1.NodeList
	if err := r.Client.List(ctx, &unnamed, controller.OfNoInstance(), client.UnsafeDisableDeepCopy); err != nil {
		return nil, false, err
	}
	names := map[string]bool{}
	for n := range unnamed.Items {
		names[unnamed.Items[n].Name] = true
	}
	for _, known := range g.in.Nodes {
		names[known.Name] = true
	}
	for _, o := range g.objects {
		names[o.Spec.NodeName] = true
	}
	delete(names, "")
	var nodes []corev1.Node
	for _, name := range slices.Sorted(maps.Keys(names)) {
		var cached, node corev1.Node
		if err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Name: name}, &cached)); err != nil {
			return nil, false, err
		}
		if err := client.IgnoreNotFound(r.Reader.Get(ctx, client.ObjectKey{Name: name}, &node)); err != nil {
			return nil, false, err
		}
		if cached.UID != node.UID || cached.Spec.ProviderID != node.Spec.ProviderID {
			return nil, true, nil
		}
		if ref, err := eni.ServedInstance(node.Spec.ProviderID, node.Labels); err == nil && ref.ID == g.in.Instance.ID {
			nodes = append(nodes, node)
		}
	}
	slices.SortFunc(nodes, controller.CompareNodes)
	if len(nodes) == 0 || nodes[0].Name != g.node.Name {
		return nil, false, nil
	}
	return registrations(nodes), false, nil
}

// liveNodeENIs reads the NodeENIs from the API server. One that is gone is not among them: its objects are orphans. One
// that changed is resolved again.
func (r *Reconciler) liveNodeENIs(ctx context.Context, g gathered) ([]render.NodeENI, error) {
	var all v1alpha1.NodeENIList
	if err := r.Reader.List(ctx, &all); err != nil {
		return nil, err
	}
	var live []render.NodeENI
	for n := range all.Items {
		if !slices.Contains(all.Items[n].Finalizers, v1alpha1.Finalizer) {
			continue
		}
		converted := controller.NodeENI(&all.Items[n])
		at := slices.IndexFunc(g.in.NodeENIs, func(known render.NodeENI) bool {
			return known.UID == converted.UID && known.Generation == converted.Generation
		})
		if at >= 0 {
			converted.Found, converted.FloatingOf = g.in.NodeENIs[at].Found, g.in.NodeENIs[at].FloatingOf
		}
		if converted.Found == nil && converted.Selects(g.node.Labels) {
			if err := r.resolve(ctx, &converted, &all.Items[n]); err != nil {
				return nil, err
			}
		}
		live = append(live, converted)
	}
	return live, nil
}
