// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
	"github.com/multieni/multieni/internal/core/report"
)

// undo gives imported interfaces back to the program that created them.
func (i *importRun) undo(c *cobra.Command, s *screen, q question, dryRun bool) error {
	ctx := c.Context()
	if err := i.findImported(ctx); err != nil {
		return err
	}
	v := report.ImportUndo{Release: i.matched(), Passed: i.passed()}
	for _, o := range i.objects {
		v.Objects = append(v.Objects, o.Name)
	}
	if err := s.print(c.OutOrStdout(), v); err != nil || dryRun || len(i.outcome.Matches)+len(i.objects) == 0 {
		return err
	}
	if err := i.isOwnControllerStopped(ctx); err != nil {
		return err
	}
	if err := q.ask(c, "Give them back?"); err != nil {
		return err
	}
	return i.release(ctx)
}

// findImported finds the imported interfaces of the nodes, and the NodeENIs that keep none.
func (i *importRun) findImported(ctx context.Context) error {
	o, err := i.read(ctx)
	if err != nil {
		return err
	}
	all, err := i.cloud.ListTagged(ctx, map[string]string{identity.TagCluster: i.cloud.cluster})
	if err != nil {
		return err
	}
	for n := range o.nodes {
		ref, err := eni.ParseProviderID(o.nodes[n].Spec.ProviderID)
		if err != nil || !i.selects(o.nodes[n]) {
			continue
		}
		found := importer.FindImported(i.cloud.cluster, ref.ID, i.from, all)
		i.outcome.Passed = append(i.outcome.Passed, found.Passed...)
		for _, m := range found.Matches {
			if nodeENI := i.nodeENIs[m.Key.NodeENI]; nodeENI != nil && nodeENI.Spec.Pods != nil {
				i.outcome.Passed = append(i.outcome.Passed, importer.Skipped{Interface: m.Interface, Why: fmt.Sprintf(
					"pods have addresses of NodeENI %s; remove spec.pods, and wait until no pod has one", nodeENI.Name)})
				continue
			}
			i.outcome.Matches = append(i.outcome.Matches, m)
		}
	}
	keeping := map[string]bool{}
	for _, one := range all {
		if tagged, _ := identity.Read(i.cloud.cluster, one.Tags); !i.releases(one.ID) {
			keeping[tagged.NodeENI] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(i.nodeENIs)) {
		nodeENI := i.nodeENIs[name]
		released := slices.ContainsFunc(i.outcome.Matches, func(m importer.Match) bool {
			return m.Key.NodeENI == name
		})
		held := controllerutil.ContainsFinalizer(nodeENI, v1alpha1.Finalizer)
		if held && released && !keeping[name] {
			i.objects = append(i.objects, *nodeENI)
		}
	}
	return nil
}

func (i *importRun) releases(interfaceID string) bool {
	return slices.ContainsFunc(i.outcome.Matches, func(m importer.Match) bool { return m.Interface.ID == interfaceID })
}

// isOwnControllerStopped returns an error while the controller of multieni runs: it would write the tags again.
func (i *importRun) isOwnControllerStopped(ctx context.Context) error {
	var all appsv1.DeploymentList
	if err := i.api.List(ctx, &all, client.MatchingLabels{
		"app.kubernetes.io/name": "multieni", "app.kubernetes.io/component": "eni-controller",
	}); err != nil {
		return fmt.Errorf("check whether the controller of multieni runs: %w", err)
	}
	for _, d := range all.Items {
		if d.Spec.Replicas == nil || *d.Spec.Replicas > 0 {
			return fmt.Errorf("the controller of multieni still runs as deployment %[1]s in %[2]s, and would write the tags "+
				"again; stop it first: kubectl scale -n %[2]s deployment/%[1]s --replicas=0", d.Name, d.Namespace)
		}
	}
	return nil
}

// release removes our finalizer from the objects, the records of the interfaces, and last our tags: they lead a
// repeated command to what an earlier one left.
func (i *importRun) release(ctx context.Context) error {
	for n := range i.objects {
		object := &i.objects[n]
		before := object.DeepCopy()
		controllerutil.RemoveFinalizer(object, v1alpha1.Finalizer)
		if err := i.api.Patch(ctx, object, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("remove the finalizer from NodeENI %s: %w", object.Name, err)
		}
	}
	var failed []error
	for _, m := range i.outcome.Matches {
		err := i.forget(ctx, m.Interface.ID)
		if err == nil {
			err = i.cloud.RemoveTags(ctx, m.Interface.ID, importer.ImportedKeys(m.Interface.Tags))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("give %s back: %w", m.Interface.ID, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("not all interfaces are given back; run the command again: %w", errors.Join(failed...))
	}
	return nil
}

// forget lets the NetworkInterface of an ENI go without a call: its finalizer is removed, and then the object. The
// controller makes it again for what a NodeENI still declares.
func (i *importRun) forget(ctx context.Context, interfaceID string) error {
	var all v1alpha1.NetworkInterfaceList
	if err := i.api.List(ctx, &all); err != nil {
		return unlisted("NetworkInterfaces", err)
	}
	for n := range all.Items {
		object := &all.Items[n]
		if object.Status.ENIID != interfaceID {
			continue
		}
		before := object.DeepCopy()
		controllerutil.RemoveFinalizer(object, v1alpha1.InterfaceFinalizer)
		changed := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := i.api.Patch(ctx, object, changed); err != nil {
			return fmt.Errorf("remove the finalizer of NetworkInterface %s: %w", object.Name, err)
		}
		if err := i.api.Delete(ctx, object, client.Preconditions{UID: &object.UID}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete NetworkInterface %s: %w", object.Name, err)
		}
	}
	return nil
}
