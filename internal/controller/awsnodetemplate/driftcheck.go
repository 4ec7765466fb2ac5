// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
)

// node is a node that was launched from a node template, with its differences and updates.
type node struct {
	*corev1.Node
	instanceID  string
	labels      map[string]string
	resources   map[string]int
	differences []launchtemplate.Difference
	updates     []plan.InPlaceUpdate
}

func byInstance(nodes []corev1.Node) map[string]*corev1.Node {
	all := make(map[string]*corev1.Node, len(nodes))
	for n := range nodes {
		if ref, err := eni.ParseProviderID(nodes[n].Spec.ProviderID); err == nil {
			all[ref.ID] = &nodes[n]
		}
	}
	return all
}

// checkDrift compares every node that was launched from the node template with the current declaration. It returns the
// nodes sorted by name. If the node template cannot be rendered, it reports no difference.
func (r *Reconciler) checkDrift(ctx context.Context, f *facts) ([]node, error) {
	nodes, err := r.nodesByInstance(ctx)
	if err != nil {
		return nil, err
	}
	if err := r.describeNewNodes(ctx, nodes); err != nil {
		return nil, err
	}
	var fleet []node
	if s := f.template.Source; s != nil && !s.Autofill {
		fleet, err = r.checkVersionsDrift(ctx, nodes, f)
	} else {
		fleet, err = r.checkLaunchedDrift(ctx, nodes, f)
	}
	slices.SortFunc(fleet, func(a, b node) int { return cmp.Compare(a.Name, b.Name) })
	return fleet, err
}

// describeNewNodes reads the instances of nodes that joined since the last list: EC2 returns the interfaces that they
// were launched with. Instances from before the first list are known from that list.
func (r *Reconciler) describeNewNodes(ctx context.Context, nodes map[string]*corev1.Node) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(200)
	for _, id := range r.invisibleInstances(nodes) {
		group.Go(func() error {
			return panics.AsError("instance "+id, func() error {
				_, err := r.Observer.RefreshInstance(ctx, id)
				return err
			})
		})
	}
	return group.Wait()
}

// invisibleInstances returns the instances that were never read, each only once, and forgets those that are gone.
func (r *Reconciler) invisibleInstances(nodes map[string]*corev1.Node) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var strangers []string
	since := r.Observer.Since()
	for id, n := range nodes {
		if known := r.Observer.Of(id); !r.met[id] && len(known.Launched) == 0 && n.CreationTimestamp.After(since) {
			strangers = append(strangers, id)
		}
		r.met[id] = true
	}
	for id := range r.met {
		if nodes[id] == nil {
			delete(r.met, id)
		}
	}
	return strangers
}

func (r *Reconciler) checkLaunchedDrift(ctx context.Context, nodes map[string]*corev1.Node, f *facts) ([]node, error) {
	adopted, err := r.adopted(ctx)
	if err != nil {
		return nil, err
	}
	images, err := r.images(ctx, f)
	if err != nil {
		return nil, err
	}
	var fleet []node
	for instanceID, interfaces := range r.Observer.LaunchedFrom(f.template.UID) {
		at := nodes[instanceID]
		if at == nil {
			continue
		}
		n := launchtemplate.Node{
			InstanceType: at.Labels[corev1.LabelInstanceTypeStable], Hash: launchtemplate.HashOf(interfaces),
			Interfaces: interfaces, Adopted: map[eni.Slot]bool{},
			Image: images[instanceID],
		}
		for _, i := range interfaces {
			n.Zone = cmp.Or(n.Zone, i.Zone)
			if i.Attachment != nil {
				n.Adopted[i.Attachment.Slot] = adopted[i.ID]
			}
		}
		found := node{Node: at, instanceID: instanceID}
		if f.rendering.Problems == nil {
			version, _, err := r.templates.version(ctx, f.template.Name, "", n.Hash)
			if err != nil {
				return nil, err
			}
			found.differences, found.updates = f.rendering.Drift(f.template, n, version.Data)
			found.labels, found.resources = f.template.NodeLabels(f.rendering, n), f.template.NodeResources(f.rendering, n)
		}
		fleet = append(fleet, found)
	}
	return fleet, nil
}

// images returns the images of the instances if a template names its image by a parameter: then a node can become
// outdated without a change in the cluster. Missing permissions become a warning.
func (r *Reconciler) images(ctx context.Context, f *facts) (map[string]string, error) {
	f.rendering.Images = map[string]string{}
	for _, template := range f.rendering.Templates {
		parameter, name := template.ImageParameter(), f.template.TemplateName(template)
		at := slices.IndexFunc(f.published, func(p v1alpha1.PublishedTemplate) bool { return p.Name == name })
		if parameter == "" || at < 0 || f.rendering.Images[parameter] != "" {
			continue
		}
		version, err := r.Launches.Source(ctx, f.published[at].ID, "", strconv.FormatInt(f.published[at].Version, 10))
		switch eni.ErrorClass(err) {
		case eni.Unauthorized, eni.Invalid, eni.NotFound:
			f.warnings = append(f.warnings,
				fmt.Sprintf("changes of the nodes' image are not detected: EC2 does not say which image %s names: %v",
					parameter, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		f.rendering.Images[parameter] = version.ImageID()
	}
	if len(f.rendering.Images) == 0 {
		return nil, nil
	}
	return r.Launches.ImagesOf(ctx, f.template.UID)
}

// adopted returns the interfaces that objects of NodeENIs have.
func (r *Reconciler) adopted(ctx context.Context) (map[string]bool, error) {
	objects, err := object.All(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	ids := map[string]bool{}
	for n := range objects {
		ids[objects[n].Status.ENIID] = true
	}
	return ids, nil
}

// checkVersionsDrift reads from EC2 which version of the source's launch template each instance was launched from. The
// interfaces of these instances have no tags of multieni.
func (r *Reconciler) checkVersionsDrift(ctx context.Context, nodes map[string]*corev1.Node, f *facts) ([]node, error) {
	versions, err := r.Launches.InstancesOf(ctx, f.template.Source.ID)
	if err != nil {
		return nil, err
	}
	var fleet []node
	for instanceID, version := range versions {
		if nodes[instanceID] != nil {
			fleet = append(fleet, node{
				Node: nodes[instanceID], instanceID: instanceID, labels: f.rendering.Labels,
				differences: launchtemplate.SourceDrift(*f.template.Source, version),
			})
		}
	}
	return fleet, nil
}

// updateNodes passes the updates in place to the instance reconciler, unless the policy only reports them.
func (r *Reconciler) updateNodes(ctx context.Context, object *v1alpha1.AWSNodeTemplate, fleet []node) {
	byInstance := map[string][]plan.InPlaceUpdate{}
	if object.Spec.DriftPolicy.InPlace != v1alpha1.InPlaceReport {
		for _, n := range fleet {
			byInstance[n.instanceID] = n.updates
		}
	}
	for _, instanceID := range r.Repairs.Set(string(object.UID), byInstance) {
		r.Observer.Enqueue(ctx, instanceID)
	}
}
