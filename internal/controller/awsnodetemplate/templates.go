// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"cmp"
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
	name, id  string
	version   int64
	createdAt time.Time
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
	if f.rendering.Source != nil {
		return r.offerSource(ctx, object, f)
	}
	for _, template := range f.rendering.Templates {
		name := f.template.TemplateName(template)
		version, warnings, err := r.templates.put(ctx, f.template, name, template)
		if fault := refusal(err); fault != nil {
			f.refusal = fmt.Errorf("EC2 refuses launch template %s: %w", name, fault)
			continue
		}
		if err != nil {
			return fmt.Errorf("publish launch template %s: %w", name, err)
		}
		f.warnings = append(f.warnings, warnings...)
		subnet := ""
		if template.Zone == "" {
			subnet = anySubnet(f.rendering.Zones)
		}
		made := templateVersion{template, name, version.TemplateID, version.Number, version.CreatedAt}
		if err := r.offer(ctx, object, f, made, []string{subnet}); err != nil {
			return err
		}
	}
	return nil
}

// offer offers a version that the status lists, or from which EC2 would launch.
func (r *Reconciler) offer(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, f *facts, made templateVersion, subnets []string,
) error {
	var err error
	if !listed(object, made) {
		err = r.try(ctx, f, made, subnets)
	}
	missing := eni.ErrorClass(err) == eni.NotFound
	switch {
	case missing && f.now.Sub(made.createdAt) < settled:
		f.unseen = true
	case missing || refusal(err) != nil:
		f.refusal = fmt.Errorf("EC2 would not launch from version %d of launch template %s: %w", made.version,
			cmp.Or(made.name, made.id), err)
	case err != nil:
		return fmt.Errorf("try launch template %s: %w", cmp.Or(made.name, made.id), err)
	default:
		f.offers = append(f.offers, made)
	}
	return nil
}

// listed reports whether the status lists the version.
func listed(object *v1alpha1.AWSNodeTemplate, made templateVersion) bool {
	return slices.ContainsFunc(object.Status.LaunchTemplates, func(p v1alpha1.PublishedTemplate) bool {
		return p.Name == made.name && p.ID == made.id && p.Version == made.version
	})
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

// try asks EC2 whether it would launch, in one subnet after the other for one type after the other. A missing
// permission becomes only a warning: a launch needs permissions that the controller need not have.
func (r *Reconciler) try(ctx context.Context, f *facts, o templateVersion, subnets []string) error {
	var first error
	tried := 0
	for _, name := range typesToTry(f.rendering.Types, o) {
		err := r.EC2.DryRunLaunch(ctx, launchtemplate.DryRun{TemplateID: o.id, Version: o.version, Data: o.Data,
			InstanceType: name, SubnetID: subnets[tried%len(subnets)]})
		switch {
		case err == nil:
			return nil
		case eni.ErrorClass(err) == eni.Unauthorized:
			f.warnings = append(f.warnings, notDryRun+"the controller may not ask EC2 whether it would launch: "+err.Error())
			return nil
		case first == nil:
			first = err
		}
		tried++
	}
	return first
}

// typesToTry returns the first eligible types of the template's shape. The type that the template itself names comes
// first.
func typesToTry(verdicts []launchtemplate.TypeVerdict, o templateVersion) []string {
	var names []string
	for _, v := range verdicts {
		switch {
		case !v.Eligible() || v.Shape != o.Shape:
		case v.Name == o.Data.InstanceType():
			names = slices.Insert(names, 0, v.Name)
		default:
			names = append(names, v.Name)
		}
	}
	return names[:min(len(names), maxPublishAttempts)]
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
