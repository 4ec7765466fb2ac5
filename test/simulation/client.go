// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
)

// kubernetes is the client of a process. It reads from the process' informers, and writes to the API server. Methods
// that the product does not use are those of the embedded nil interface.
type kubernetes struct {
	client.Client
	p *process
}

// Scheme implements [client.Client].
func (c kubernetes) Scheme() *runtime.Scheme { return c.p.run.scheme }

// Get implements [client.Reader].
func (c kubernetes) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	k := kindOf(into)
	object := c.p.informers.views[k].objects[key.Name]
	if object == nil {
		return apierrors.NewNotFound(k.resource(), key.Name)
	}
	assign(into, c.p.seen(object).DeepCopyObject())
	return nil
}

// List implements [client.Reader].
func (c kubernetes) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	options := (&client.ListOptions{}).ApplyOptions(opts)
	all := c.p.informers.known(kindOf(into))
	if len(all) > 1 {
		// An informer's store has no order.
		at := c.p.run.pick(len(all))
		all = append(all[at:len(all):len(all)], all[:at]...)
	}
	for _, object := range all {
		if !selected(object, options.LabelSelector, options.FieldSelector) {
			continue
		}
		object = c.p.seen(object)
		if !ptr.Deref(options.UnsafeDisableDeepCopy, false) {
			object = object.DeepCopyObject().(client.Object)
		}
		add(into, object)
	}
	return nil
}

func add(into client.ObjectList, object client.Object) {
	switch into := into.(type) {
	case *corev1.NodeList:
		into.Items = append(into.Items, *object.(*corev1.Node))
	case *v1alpha1.NodeENIList:
		into.Items = append(into.Items, *object.(*v1alpha1.NodeENI))
	case *v1alpha1.NetworkInterfaceList:
		into.Items = append(into.Items, *object.(*v1alpha1.NetworkInterface))
	case *v1alpha1.FloatingAddressList:
		into.Items = append(into.Items, *object.(*v1alpha1.FloatingAddress))
	}
}

func selected(object client.Object, byLabel labels.Selector, byField fields.Selector) bool {
	if byLabel != nil && !byLabel.Matches(labels.Set(object.GetLabels())) {
		return false
	}
	if byField == nil {
		return true
	}
	for _, requirement := range byField.Requirements() {
		values, is := indexes()[indexKey{kindOf(object), requirement.Field}]
		if !is || !slices.Contains(values(object), requirement.Value) {
			return false
		}
	}
	return true
}

// indexKey is a kind and the field of an index.
type indexKey struct {
	kind  kind
	field string
}

// indexer collects the indexes of the product.
type indexer map[indexKey]client.IndexerFunc

// IndexField implements [client.FieldIndexer].
func (i indexer) IndexField(_ context.Context, object client.Object, field string, values client.IndexerFunc) error {
	i[indexKey{kindOf(object), field}] = values
	return nil
}

// indexes are those of the product.
var indexes = sync.OnceValue(func() indexer {
	all := indexer{}
	if err := controller.Index(context.Background(), all); err != nil {
		panic(err)
	}
	return all
})

// directReader reads the API server itself.
type directReader struct {
	client.Reader
	p *process
}

// Get implements [client.Reader].
func (d directReader) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Pod:
		return d.getPod(key, into)
	case *apiextensionsv1.CustomResourceDefinition:
		return d.getDefinition(key, &into.ObjectMeta)
	case *metav1.PartialObjectMetadata:
		return d.getDefinition(key, &into.ObjectMeta)
	}
	k := kindOf(into)
	if err := d.p.asks(k, key.Name); err != nil {
		return err
	}
	object, known := d.p.api().objects[k][key.Name]
	if !known {
		return apierrors.NewNotFound(k.resource(), key.Name)
	}
	assign(into, d.p.seen(object).DeepCopyObject())
	return nil
}

// List implements [client.Reader].
func (d directReader) List(_ context.Context, into client.ObjectList, opts ...client.ListOption) error {
	if err := d.p.asks(kindOf(into), "all"); err != nil {
		return err
	}
	options := (&client.ListOptions{}).ApplyOptions(opts)
	for _, object := range d.p.api().all(kindOf(into)) {
		if selected(object, options.LabelSelector, options.FieldSelector) {
			add(into, d.p.seen(object))
		}
	}
	if all, is := into.(*v1alpha1.NetworkInterfaceList); is {
		d.p.noteList(all.Items)
	}
	return nil
}

// getDefinition reads the definition of NetworkInterface.
// Nothing else happens meanwhile: the product holds a lock, so that one read answers for all objects.
func (d directReader) getDefinition(key client.ObjectKey, into *metav1.ObjectMeta) error {
	d.p.mustLive()
	d.p.run.pass(d.p.run.faults.latency())
	if err := d.p.unwritable(netInterfaces, "definition"); err != nil {
		return err
	}
	switch d.p.api().interfaceKind {
	case missing:
		return apierrors.NewNotFound(apiextensionsv1.Resource("customresourcedefinitions"), key.Name)
	case terminating:
		at := metav1.NewTime(d.p.api().now())
		into.DeletionTimestamp = &at
	case established:
	}
	into.Name = key.Name
	return nil
}

// assign sets the object behind a pointer.
func assign(into client.Object, from runtime.Object) {
	switch into := into.(type) {
	case *corev1.Node:
		*into = *from.(*corev1.Node)
	case *v1alpha1.NodeENI:
		*into = *from.(*v1alpha1.NodeENI)
	case *v1alpha1.NetworkInterface:
		*into = *from.(*v1alpha1.NetworkInterface)
	case *v1alpha1.SubnetReservation:
		*into = *from.(*v1alpha1.SubnetReservation)
	case *v1alpha1.FloatingAddress:
		*into = *from.(*v1alpha1.FloatingAddress)
	}
}

// Create implements [client.Writer].
func (c kubernetes) Create(_ context.Context, object client.Object, _ ...client.CreateOption) error {
	return c.p.write("create", object, func() (client.Object, error) { return c.p.api().create(c.p.stored(object)) })
}

// Delete implements [client.Writer].
func (c kubernetes) Delete(_ context.Context, object client.Object, opts ...client.DeleteOption) error {
	options := (&client.DeleteOptions{}).ApplyOptions(opts)
	var uid types.UID
	var version string
	if options.Preconditions != nil {
		uid, version = ptr.Deref(options.Preconditions.UID, ""), ptr.Deref(options.Preconditions.ResourceVersion, "")
	}
	return c.p.write("delete", object, func() (client.Object, error) {
		k := kindOf(object)
		stored := c.p.api().get(k, object.GetName())
		if stored != nil && version != "" && version != stored.GetResourceVersion() {
			return nil, apierrors.NewConflict(k.resource(), object.GetName(), fmt.Errorf("the version is another"))
		}
		if n, is := stored.(*v1alpha1.NetworkInterface); is && (uid == "" || uid == n.UID) {
			c.p.run.deleting(c.p, n)
			c.p.run.closing(c.p, n)
		}
		return nil, c.p.api().delete(k, object.GetName(), uid)
	})
}

// Patch implements [client.Writer].
func (c kubernetes) Patch(_ context.Context, object client.Object, patch client.Patch, _ ...client.PatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	return c.p.write("patch", object, func() (client.Object, error) {
		k := kindOf(object)
		version, uid := "", ""
		change := merge
		if patch.Type() == types.JSONPatchType {
			change = patched
		} else {
			version, uid = lockOf(data)
		}
		return c.p.api().update(k, object.GetName(), version, func(current client.Object) (client.Object, error) {
			if uid != "" && uid != string(current.GetUID()) {
				return nil, apierrors.NewConflict(k.resource(), object.GetName(), fmt.Errorf("the UID is another"))
			}
			after, err := change(current, data)
			if err != nil {
				return nil, err
			}
			keepStatus(current, after)
			if n, is := current.(*v1alpha1.NetworkInterface); is && isEnd(n, after) {
				c.p.run.ending(c.p, n)
			}
			return c.p.stored(after), nil
		})
	})
}

// isEnd reports whether a version of an object has no finalizer any more.
func isEnd(before *v1alpha1.NetworkInterface, after client.Object) bool {
	return !before.DeletionTimestamp.IsZero() && len(before.Finalizers) > 0 && len(after.GetFinalizers()) == 0
}

// keepStatus keeps the status of an object that is not written through its subresource.
func keepStatus(current, after client.Object) {
	switch after := after.(type) {
	case *v1alpha1.NodeENI:
		after.Status = current.(*v1alpha1.NodeENI).Status
	case *v1alpha1.SubnetReservation:
		after.Status = current.(*v1alpha1.SubnetReservation).Status
	case *v1alpha1.FloatingAddress:
		after.Status = current.(*v1alpha1.FloatingAddress).Status
	case *v1alpha1.NetworkInterface:
		after.Status = current.(*v1alpha1.NetworkInterface).Status
	}
}

// patched applies a JSON patch (RFC 6902) to an object. The API server answers a failed test as an invalid object,
// without a cause.
func patched(object client.Object, patch []byte) (client.Object, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	content, err := operations.Apply(before)
	if err != nil {
		k := kindOf(object)
		return nil, apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", k.resource(),
			object.GetName(), err.Error(), 0, false)
	}
	after := kindOf(object).empty()
	return after, json.Unmarshal(content, after)
}

// Patch implements [client.SubResourceWriter]: the strategic merge patch of a condition and an annotation of a Node.
func (w statusWriter) Patch(_ context.Context, object client.Object, patch client.Patch,
	_ ...client.SubResourcePatchOption) error {
	data, err := patch.Data(object)
	if err != nil {
		return err
	}
	var body corev1.Node
	if err := json.Unmarshal(data, &body); err != nil {
		return err
	}
	return w.p.write(statusOf, object, func() (client.Object, error) {
		return w.p.api().update(nodes, object.GetName(), "", func(current client.Object) (client.Object, error) {
			node := current.(*corev1.Node)
			for key, value := range body.Annotations {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, key, value)
			}
			for _, c := range body.Status.Conditions {
				node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(o corev1.NodeCondition) bool {
					return o.Type == c.Type
				})
				node.Status.Conditions = append(node.Status.Conditions, c)
				w.p.run.note(w.p, "says of node %s: %s %s", node.Name, c.Status, c.Reason)
			}
			return node, nil
		})
	})
}

// Status implements [client.StatusClient].
func (c kubernetes) Status() client.SubResourceWriter { return statusWriter{p: c.p} }

// statusOf is the verb of a write to a status.
const statusOf = "status of"

// statusWriter writes statuses by server-side apply. A status of a NetworkInterface has several field owners.
type statusWriter struct {
	client.SubResourceWriter
	p *process
}

// Apply implements [client.SubResourceWriter].
func (w statusWriter) Apply(_ context.Context, applied runtime.ApplyConfiguration,
	opts ...client.SubResourceApplyOption) error {
	owner := (&client.SubResourceApplyOptions{}).ApplyOpts(opts).FieldManager
	content := applied.(interface{ UnstructuredContent() map[string]any }).UnstructuredContent()
	metadata, _ := content["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	uid, _ := metadata["uid"].(string)
	resourceVersion, _ := metadata["resourceVersion"].(string)
	k := kind(slices.Index(kindNames[:], fmt.Sprint(content["kind"])))
	into := k.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, into); err != nil {
		return err
	}
	record := func() {}
	return w.p.write(statusOf, into, func() (client.Object, error) {
		after, err := w.p.api().update(k, name, resourceVersion, func(current client.Object) (client.Object, error) {
			if uid != "" && uid != string(current.GetUID()) {
				return nil, apierrors.NewConflict(k.resource(), name, fmt.Errorf("the UID is another"))
			}
			switch current := current.(type) {
			case *v1alpha1.NodeENI:
				st := into.(*v1alpha1.NodeENI).Status
				w.p.run.stamp(current.Status.Conditions, st.Conditions)
				w.p.lint(k, name, status.Lint(st.Conditions, current.Generation))
				w.p.noteTurns(current, st.Turns)
				current.Status = st
			case *v1alpha1.SubnetReservation:
				st := into.(*v1alpha1.SubnetReservation).Status
				w.p.run.stamp(current.Status.Conditions, st.Conditions)
				w.p.lint(k, name, status.Lint(st.Conditions, current.Generation))
				w.p.run.note(w.p, "says of SubnetReservation %s:%s", name, reservedBlocks(st.Reservations))
				current.Status = st
			case *v1alpha1.FloatingAddress:
				st := into.(*v1alpha1.FloatingAddress).Status
				w.p.run.stamp(current.Status.Conditions, st.Conditions)
				w.p.lint(k, name, status.Lint(st.Conditions, current.Generation))
				w.p.run.note(w.p, "says of %s: %s", name, assignmentDigest(st))
				current.Status.Assignment, current.Status.Conditions = st.Assignment, st.Conditions
			case *v1alpha1.NetworkInterface:
				applied, own, err := w.applyTo(current, owner, content)
				record = own
				return applied, err
			}
			return w.p.stored(current), nil
		})
		if err == nil {
			record()
			applied.(interface{ SetResourceVersion(string) }).SetResourceVersion(after.GetResourceVersion())
		}
		return after, err
	})
}

// applyTo applies a status to an object as one of its field owners. The second result records the owner's fields.
func (w statusWriter) applyTo(current *v1alpha1.NetworkInterface, owner string,
	content map[string]any) (after client.Object, record func(), err error) {
	fields, _ := content["status"].(map[string]any)
	st, now, err := w.p.api().applied(owner, current, fields)
	if err != nil {
		return nil, nil, err
	}
	w.p.run.stamp(current.Status.Conditions, st.Conditions)
	if meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionReady) != nil {
		w.p.lint(netInterfaces, current.Name, status.Lint(st.Conditions, current.Generation))
	}
	before := interfaceDigest(current)
	current.Status = st
	if said := interfaceDigest(current); said != before {
		w.p.run.note(w.p, "says of %s: %s", current.Name, said)
	}
	uid := current.UID
	return w.p.stored(current), func() { w.p.api().owns(owner, uid, now) }, nil
}

// interfaceDigest summarizes what a controller says of an interface, for the trace.
func interfaceDigest(n *v1alpha1.NetworkInterface) string {
	words := fmt.Appendf(nil, "%s %s", n.Status.ENIID, n.Status.Evidence)
	if n.Status.Slot != nil {
		words = fmt.Appendf(words, " at %d/%d", n.Status.Slot.NetworkCardIndex, n.Status.Slot.DeviceIndex)
	}
	if n.Status.Pods != nil {
		words = fmt.Appendf(words, " prefixes %v returning %v", n.Status.Pods.Prefixes, n.Status.Pods.Returning)
	}
	for _, c := range n.Status.Conditions {
		words = fmt.Appendf(words, ", %s %s %s", c.Type, c.Status, c.Reason)
	}
	return string(words)
}

// reservedBlocks summarizes the blocks of subnets in a status for the trace.
func reservedBlocks(blocks []v1alpha1.ReservedBlock) string {
	var words []byte
	for _, b := range blocks {
		words = fmt.Appendf(words, " %s %s %s,", b.CIDR, b.ID, b.Reason)
	}
	return string(words)
}

// stamp gives conditions the times of the virtual clock: the library that sets them knows only the real clock.
func (r *run) stamp(before, after []metav1.Condition) {
	for n := range after {
		after[n].LastTransitionTime = metav1.NewTime(r.now)
		if was := meta.FindStatusCondition(before, after[n].Type); was != nil && was.Status == after[n].Status {
			after[n].LastTransitionTime = was.LastTransitionTime
		}
	}
}

// lint records the errors in a status that a process writes.
func (p *process) lint(k kind, name string, faults []string) {
	p.run.judged("I9")
	for _, fault := range faults {
		p.run.violate("I9", "the status of %s %s: %s", k, name, fault)
	}
}

// RESTMapper implements [client.Client].
func (c kubernetes) RESTMapper() meta.RESTMapper { panic("not simulated") }

// lockOf returns the resource version and UID that a patch requires.
func lockOf(patch []byte) (version, uid string) {
	var lock struct {
		Metadata struct{ ResourceVersion, UID string }
	}
	if err := json.Unmarshal(patch, &lock); err != nil {
		return "", ""
	}
	return lock.Metadata.ResourceVersion, lock.Metadata.UID
}
