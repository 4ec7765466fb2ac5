// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// templateVersion is a version of a launch template to launch from.
type templateVersion struct {
	launchtemplate.Template
	name, id string
	version  int64
}

// maxPublishAttempts is how many instance types the controller tries before it accepts EC2's refusal: not every zone
// has every type.
const maxPublishAttempts = 3

// choices returns the subnets that the published versions name.
func (r *Reconciler) choices(ctx context.Context, object *v1alpha1.AWSNodeTemplate) (launchtemplate.Choices, error) {
	choices := launchtemplate.Choices{}
	for _, p := range object.Status.LaunchTemplates {
		if p.Zone == "" {
			continue
		}
		version, is, err := r.templates.version(ctx, object.Name, p.ID, p.ContentHash)
		if err != nil {
			return nil, err
		}
		if is {
			choices[p.Zone] = launchtemplate.ChosenSubnets(version.Data)
		}
	}
	return choices, nil
}

// publish creates the missing versions, and offers those from which EC2 would launch. Otherwise the previously offered
// version stays.
func (r *Reconciler) publish(ctx context.Context, object *v1alpha1.AWSNodeTemplate, f *facts) error {
	for _, template := range f.rendering.Templates {
		name := f.template.TemplateName(template)
		before := slices.IndexFunc(object.Status.LaunchTemplates, func(p v1alpha1.PublishedTemplate) bool {
			return p.Name == name
		})
		version, warnings, err := r.templates.put(ctx, f.template, name, template)
		if fault := refusal(err); fault != nil {
			f.refusal = fmt.Errorf("EC2 refuses launch template %s: %w", name, fault)
			continue
		}
		if err != nil {
			return fmt.Errorf("publish launch template %s: %w", name, err)
		}
		f.warnings = append(f.warnings, warnings...)
		made := templateVersion{template, name, version.TemplateID, version.Number}
		if before < 0 || object.Status.LaunchTemplates[before].ID != made.id ||
			object.Status.LaunchTemplates[before].Version != made.version {
			err = r.try(ctx, f, made)
		}
		missing := eni.ErrorClass(err) == eni.NotFound
		switch {
		case missing && f.now.Sub(version.CreatedAt) < settled:
			f.unseen = true
			continue
		case missing || refusal(err) != nil:
			f.refusal = fmt.Errorf("EC2 would not launch from version %d of launch template %s: %w", made.version, name, err)
			continue
		}
		if err != nil {
			return fmt.Errorf("try launch template %s: %w", name, err)
		}
		f.offers = append(f.offers, made)
	}
	return nil
}

// settled is the time after which EC2 returns a new resource everywhere (EC2 API reference, "Eventual consistency").
const settled = time.Minute

// refusal returns the error if EC2's decision is final, and nil when the same request may succeed later.
func refusal(err error) error {
	switch eni.ErrorClass(err) {
	case eni.Throttled, eni.Transient, eni.NotFound, "":
		return nil
	default:
		return err
	}
}

// try asks EC2 whether it would launch. A missing permission becomes only a warning: a launch needs permissions that
// the controller need not have.
func (r *Reconciler) try(ctx context.Context, f *facts, o templateVersion) error {
	subnet := ""
	if o.Zone == "" {
		subnet = anySubnet(f.rendering.Zones)
	}
	var first error
	tried := 0
	for _, v := range f.rendering.Types {
		if !v.Eligible() || v.Shape != o.Shape || tried == maxPublishAttempts {
			continue
		}
		tried++
		err := r.EC2.DryRunLaunch(ctx, launchtemplate.DryRun{TemplateID: o.id, Version: o.version, Data: o.Data,
			InstanceType: v.Name, SubnetID: subnet})
		switch {
		case err == nil:
			return nil
		case eni.ErrorClass(err) == eni.Unauthorized:
			f.warnings = append(f.warnings, notDryRun+"the controller may not ask EC2 whether it would launch: "+err.Error())
			return nil
		case first == nil:
			first = err
		}
	}
	return first
}

// anySubnet returns a subnet in which to try a launch, in an eligible zone if there is one.
func anySubnet(zones []launchtemplate.ZoneVerdict) string {
	some := ""
	for _, z := range zones {
		for _, ids := range z.Subnets {
			if z.Eligible && len(ids) > 0 {
				return ids[0]
			}
			if len(ids) > 0 {
				some = ids[0]
			}
		}
	}
	return some
}

// collect deletes the launch templates and versions of the node template that nothing refers to any more, after a
// while.
func (r *Reconciler) collect(ctx context.Context, f facts) error {
	launched := r.Observer.LaunchedFrom(f.template.UID)
	hashes := map[string]bool{}
	for _, interfaces := range launched {
		hashes[launchtemplate.HashOf(interfaces)] = true
	}
	current := map[string]int64{}
	for _, o := range f.offers {
		current[o.id] = o.version
	}
	return r.templates.collect(ctx, f.template.Name, current, func(hash string) bool { return hashes[hash] })
}
