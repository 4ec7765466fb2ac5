// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/nodetemplate"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/selector"
)

// facts are the inputs for the status of a node template.
type facts struct {
	now       time.Time
	template  launchtemplate.NodeTemplate
	rendering launchtemplate.Rendering
	// sourceReadAt is when the referenced launch template was read.
	sourceReadAt time.Time
	// sourceCreatedAt is when its version was created.
	sourceCreatedAt time.Time

	// offers are the versions to launch from now, warnings are EC2's warnings about them, and refusal is EC2's reason
	// for refusing to launch from one.
	offers   []templateVersion
	warnings []string
	refusal  error
	// published are the versions that the status lists.
	published []v1alpha1.PublishedTemplate
	// unseen is set while EC2 does not return a new version everywhere.
	unseen bool

	fleet []node
}

// gather reads the resources that the node template names, and renders the template. Problems of the rendering are
// mistakes in the template; an error means that a read failed.
func (r *Reconciler) gather(ctx context.Context, object *v1alpha1.AWSNodeTemplate) (facts, error) {
	f := facts{now: r.Now()}
	t, err := nodetemplate.Convert(object, r.Cluster)
	problems := r.checkOverride(t)
	if err != nil {
		problems = append(problems, problemOf(err))
	}
	if r.NodeCluster != nil && t.Image.Family != launchtemplate.Custom {
		known, err := r.NodeCluster(ctx)
		if err != nil {
			return f, err
		}
		t.Bootstrap = t.Bootstrap.Or(known)
	}
	for _, find := range []func(context.Context, *v1alpha1.AWSNodeTemplate, *launchtemplate.NodeTemplate,
		*facts) ([]launchtemplate.Problem, error){
		r.findSource, r.findImage, r.findNetworks, r.findNamed,
	} {
		found, err := find(ctx, object, &t, &f)
		if err != nil {
			return f, err
		}
		problems = append(problems, found...)
	}
	types, err := r.Launches.InstanceTypes(ctx)
	if err != nil {
		return f, err
	}
	choices, err := r.choices(ctx, object)
	if err != nil {
		return f, err
	}
	f.template = t
	f.rendering = launchtemplate.Render(t, types, choices)
	if len(problems) > 0 {
		// A missing resource causes further problems, which add no information.
		f.rendering.Problems, f.rendering.Templates = problems, nil
	}
	return f, nil
}

func problemOf(err error) launchtemplate.Problem {
	var p launchtemplate.Problem
	if errors.As(err, &p) {
		return p
	}
	return launchtemplate.Problem{Reason: launchtemplate.InvalidInterface, Message: err.Error()}
}

// checkOverride rejects an override that is not allowed, or that EC2 would not accept.
func (r *Reconciler) checkOverride(t launchtemplate.NodeTemplate) []launchtemplate.Problem {
	const path = "spec.launchTemplateOverride"
	switch {
	case len(t.Override) == 0:
		return nil
	case r.CheckOverride == nil:
		return []launchtemplate.Problem{{Reason: launchtemplate.OverrideNotAllowed, Path: path,
			Message: "the controller accepts no overrides; express it in the other fields, or start it with " +
				"--feature-gates=LaunchTemplateOverride=true"}}
	}
	if err := r.CheckOverride(t.Override); err != nil {
		return []launchtemplate.Problem{{Reason: launchtemplate.InvalidOverride, Path: path, Message: err.Error()}}
	}
	return nil
}

// findSource reads the referenced launch template.
func (r *Reconciler) findSource(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, t *launchtemplate.NodeTemplate, f *facts,
) ([]launchtemplate.Problem, error) {
	ref := object.Spec.LaunchTemplateRef
	if ref == nil {
		return nil, nil
	}
	source, err := r.Launches.Source(ctx, ref.ID, ref.Name, ref.Version)
	switch eni.ErrorClass(err) {
	case eni.NotFound, eni.Invalid:
		return []launchtemplate.Problem{{Reason: launchtemplate.SourceNotFound, Path: "spec.launchTemplateRef",
			Message: fmt.Sprintf(
				"EC2 has no version %s of launch template %s; correct the reference, or make it. Nodes that run are "+
					"not concerned", ref.Version, ref.ID+ref.Name)}}, nil
	}
	if err != nil {
		return nil, err
	}
	f.sourceReadAt, f.sourceCreatedAt = source.ReadAt, source.CreatedAt
	t.Source = &launchtemplate.Source{
		ID: source.TemplateID, Name: ref.Name, Version: ref.Version, Resolved: source.Number,
		Autofill: !nodetemplate.AsItIs(object.Spec), Data: source.Data.Clone(),
	}
	return nil, nil
}

// findImage finds the image, its architecture, and the version of Kubernetes that the image of a family is for.
func (r *Reconciler) findImage(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, t *launchtemplate.NodeTemplate, _ *facts,
) ([]launchtemplate.Problem, error) {
	spec := object.Spec
	if id, path := layeredImage(*t); strings.HasPrefix(id, "ami-") {
		image, err := r.Launches.ImageByID(ctx, id)
		if err != nil {
			return nil, err
		}
		problems := t.CheckImage(id, path, image)
		t.Image.Architecture = image.Architecture
		return problems, nil
	} else if id != "" {
		return nil, nil // a parameter of Systems Manager: EC2 finds the image
	}
	if len(spec.AMISelector) > 0 {
		return r.chooseImage(ctx, v1alpha1.Strings(spec.AMISelector), t)
	}
	if t.Image.Architecture == "" {
		t.Image.Architecture = "amd64"
	}
	if t.Image.KubernetesVersion == "" {
		version, err := r.KubernetesVersion()
		if err != nil {
			return nil, fmt.Errorf("read the version of the Kubernetes API: %w", err)
		}
		t.Image.KubernetesVersion = version
	}
	return nil, nil
}

// chooseImage chooses among the images that have the tags.
func (r *Reconciler) chooseImage(
	ctx context.Context, tags map[string]string, t *launchtemplate.NodeTemplate,
) ([]launchtemplate.Problem, error) {
	images, err := r.Launches.Images(ctx, tags)
	if err != nil {
		return nil, err
	}
	types, err := r.Launches.InstanceTypes(ctx)
	if err != nil {
		return nil, err
	}
	image, problems := t.ChooseImage(images, types)
	for n := range problems {
		if len(images) == 0 {
			problems[n].Message = selector.Explained(problems[n].Message, tags)
		}
	}
	t.Image.ID, t.Image.Architecture = image.ID, image.Architecture
	return problems, nil
}

// layeredImage returns the image that takes precedence, if any layer names one by ID, and the field that names it.
func layeredImage(t launchtemplate.NodeTemplate) (id, path string) {
	if id, is := t.Override["ImageId"].(string); is {
		return id, "spec.launchTemplateOverride"
	}
	if t.Source != nil {
		if id, is := t.Source.Data["ImageId"].(string); is {
			return id, "spec.launchTemplateRef"
		}
	}
	return t.Image.ID, "spec.amiSelector"
}

// findNetworks resolves the selectors of subnets and security groups.
func (r *Reconciler) findNetworks(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, t *launchtemplate.NodeTemplate, _ *facts,
) (problems []launchtemplate.Problem, err error) {
	if nodetemplate.AsItIs(object.Spec) {
		if t.Source == nil {
			return nil, nil // reported elsewhere
		}
		return r.checkSourceGroups(ctx, t.Source.Data)
	}
	spec := object.Spec
	var p []launchtemplate.Problem
	if t.Network.Subnets, p, err = r.subnets(ctx, spec.SubnetSelector, "spec.subnetSelector"); err != nil {
		return nil, err
	}
	problems = append(problems, p...)
	vpc := vpcOf(t.Network.Subnets)
	if t.Network.Groups, p, err = r.groups(ctx, t, spec.SecurityGroupSelector, vpc,
		"spec.securityGroupSelector"); err != nil {
		return nil, err
	}
	problems = append(problems, p...)
	for n, i := range spec.NetworkInterfaces {
		path := fmt.Sprintf("spec.networkInterfaces[%d].", n)
		if len(i.SubnetSelector) > 0 {
			if t.Interfaces[n].Subnets, p, err = r.subnets(ctx, i.SubnetSelector, path+"subnetSelector"); err != nil {
				return nil, err
			}
			problems = append(problems, p...)
		}
		if len(i.SecurityGroupSelector) > 0 {
			if t.Interfaces[n].Groups, p,
				err = r.groups(ctx, t, i.SecurityGroupSelector, vpc, path+"securityGroupSelector"); err != nil {
				return nil, err
			}
			problems = append(problems, p...)
		}
	}
	return problems, nil
}

// vpcOf returns the VPC of the subnets, or "" when they are in several: the zones are then checked one by one.
func vpcOf(subnets []eni.Subnet) string {
	for _, s := range subnets {
		if s.VPCID != subnets[0].VPCID {
			return ""
		}
	}
	if len(subnets) == 0 {
		return ""
	}
	return subnets[0].VPCID
}

func (r *Reconciler) subnets(
	ctx context.Context, terms map[string]v1alpha1.TagValue, path string,
) ([]eni.Subnet, []launchtemplate.Problem, error) {
	match, err := r.Resolver.Subnets(ctx, nodetemplate.SubnetTerms(terms))
	if err != nil {
		return nil, nil, err
	}
	return append([]eni.Subnet{}, match.Subnets()...), described(launchtemplate.NoSubnets, path, match.Problems()), nil
}

// groups returns the IDs of the security groups that the terms select in the VPC, and adds the groups to the node
// template.
func (r *Reconciler) groups(
	ctx context.Context, t *launchtemplate.NodeTemplate, terms map[string]v1alpha1.TagValue, vpc, path string,
) ([]string, []launchtemplate.Problem, error) {
	match, err := r.Resolver.SecurityGroups(ctx, nodetemplate.GroupTerms(terms))
	if err != nil {
		return nil, nil, err
	}
	t.Groups = append(t.Groups, match.Groups()...)
	ids, problems := match.ForVPC(vpc)
	return append([]string{}, ids...), described(launchtemplate.NoSecurityGroups, path, problems), nil
}

func described(reason launchtemplate.Reason, path string, found []plan.Problem) []launchtemplate.Problem {
	var problems []launchtemplate.Problem
	for _, p := range found {
		problems = append(problems, launchtemplate.Problem{Reason: reason, Path: path, Message: p.Message})
	}
	return problems
}

// findNamed reads the subnets and security groups that the source and the override name by ID.
func (r *Reconciler) findNamed(
	ctx context.Context, object *v1alpha1.AWSNodeTemplate, t *launchtemplate.NodeTemplate, _ *facts,
) ([]launchtemplate.Problem, error) {
	layers := []launchtemplate.Document{t.Override}
	if t.Source != nil {
		layers = append(layers, t.Source.Data)
	}
	for _, layer := range layers {
		groups := layer.GroupIDs()
		if len(groups) == 0 {
			continue
		}
		match, err := r.Resolver.SecurityGroups(ctx, selector.GroupTerms{IDs: groups})
		if err != nil {
			return nil, err
		}
		t.Groups = append(t.Groups, match.Groups()...)
	}
	ids := launchtemplate.SubnetIDs(layers...)
	if len(ids) == 0 {
		return nil, nil
	}
	var err error
	t.Named, _, err = r.subnets(ctx, map[string]v1alpha1.TagValue{"aws-ids": v1alpha1.TagValue(strings.Join(ids, ","))},
		"")
	return nil, err
}
