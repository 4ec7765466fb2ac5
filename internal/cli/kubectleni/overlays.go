// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/autoscaling"
	"github.com/multieni/multieni/internal/core/report"
)

// overlay has the fields of a NodeOverlay of Karpenter (karpenter.sh/v1alpha1) that doctor reads.
type overlay struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Requirements []corev1.NodeSelectorRequirement `json:"requirements"`
		Capacity     map[string]resource.Quantity     `json:"capacity"`
	} `json:"spec"`
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// promise returns what a NodeOverlay says about pod networks. Without a resource of one, it is none of multieni's.
func (n overlay) promise() (p autoscaling.Promise, ours bool) {
	p = autoscaling.Promise{Overlay: n.Metadata.Name, Capacity: map[string]int64{}}
	for name, quantity := range n.Spec.Capacity {
		if strings.HasPrefix(name, v1alpha1.AddressesResourcePrefix) {
			p.Capacity[name] = quantity.Value()
		}
	}
	for _, r := range n.Spec.Requirements {
		switch {
		case r.Operator != corev1.NodeSelectorOpIn:
		case r.Key == "karpenter.sh/nodepool":
			p.Pools = r.Values
		case r.Key == corev1.LabelInstanceTypeStable:
			p.Types = r.Values
		}
	}
	if c := meta.FindStatusCondition(n.Status.Conditions, "Ready"); c != nil {
		p.Ready, p.Reason, p.Message = string(c.Status), c.Reason, c.Message
	}
	// Karpenter says in this condition why a NodeOverlay is not Ready.
	if c := meta.FindStatusCondition(n.Status.Conditions, "ValidationSucceeded"); c != nil && p.Ready != "True" {
		p.Reason, p.Message = c.Reason, c.Message
	}
	return p, len(p.Capacity) > 0
}

// karpenterList reads all objects of a kind of Karpenter. A cluster without the kind has none.
func karpenterList(ctx context.Context, api client.Reader, version, kind string) ([]unstructured.Unstructured, error) {
	var all unstructured.UnstructuredList
	all.SetGroupVersionKind(schema.GroupVersionKind{Group: "karpenter.sh", Version: version, Kind: kind + "List"})
	err := api.List(ctx, &all)
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list %ss: %w", kind, err)
	}
	return all.Items, nil
}

// promises returns what the NodeOverlays of the cluster say about pod networks.
func promises(ctx context.Context, api client.Reader) ([]autoscaling.Promise, error) {
	objects, err := karpenterList(ctx, api, "v1alpha1", "NodeOverlay")
	if err != nil {
		return nil, err
	}
	var all []autoscaling.Promise
	for _, object := range objects {
		var n overlay
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &n); err != nil {
			return nil, fmt.Errorf("read NodeOverlay %s: %w", object.GetName(), err)
		}
		if p, ours := n.promise(); ours {
			all = append(all, p)
		}
	}
	return all, nil
}

// demands returns the demand of each NodeENI with pod networks. One with a network in some zones only has a demand with
// the other networks, if there are any.
func (o objects) demands() []autoscaling.Demand {
	var all []autoscaling.Demand
	for i := range o.nodeENIs {
		if d, _, err := demandOf(&o.nodeENIs[i]); err == nil || len(d.SomeZones) > 0 {
			all = append(all, d)
		}
	}
	return all
}

// overlays warns about NodeOverlays that promise other addresses than nodes have, or that Karpenter does not use.
func (d *doctor) overlays(ctx context.Context, o objects) {
	const check = "NodeOverlay"
	demands := o.demands()
	all, err := promises(ctx, d.api)
	if apierrors.IsForbidden(err) && len(demands) == 0 {
		return
	}
	if err != nil {
		d.add(report.Warning, check, err.Error(), "Ask for permission to list NodeOverlays (karpenter.sh).")
		return
	}
	if len(all) == 0 {
		return
	}
	var pools []string
	objects, err := karpenterList(ctx, d.api, "v1", "NodePool")
	if err != nil {
		d.add(report.Warning, check, err.Error(), "Ask for permission to list NodePools (karpenter.sh).")
	} else {
		pools = []string{}
	}
	for _, pool := range objects {
		pools = append(pools, pool.GetName())
	}
	faulty := map[string]bool{}
	for _, fault := range autoscaling.Faults(all, demands, pools) {
		faulty[fault.Overlay] = true
		d.add(report.Warning, check+" "+fault.Overlay, fault.Found, fault.Next)
	}
	for _, p := range all {
		if !faulty[p.Overlay] {
			d.add(report.OK, check+" "+p.Overlay, "promises the addresses that nodes have from the start", "")
		}
	}
}
