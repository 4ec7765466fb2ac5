// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/text"
)

// The maximum lengths of lists in the status (api/v1alpha1).
const (
	maxTypes          = 200
	maxSubnets        = 200
	maxWarnings       = 50
	maxShadowedFields = 100
	maxTemplates      = 200
	maxZones          = 64
	maxReferrers      = 5
)

// The prefixes of warnings that EC2 gives once, when a version is created. They stay in the status as long as the
// version is offered.
const (
	warns     = "EC2 warns: "
	notDryRun = "not tried: "
)

// report computes the status.
func report(object *v1alpha1.AWSNodeTemplate, f facts) v1alpha1.AWSNodeTemplateStatus {
	before := object.Status
	st := v1alpha1.AWSNodeTemplateStatus{
		ObservedGeneration: object.Generation, LaunchTemplates: f.published, InstanceTypes: instanceTypes(f.rendering.Types),
		Source: source(before.Source, f), Nodes: int32(len(f.fleet)),
	}
	for _, z := range f.rendering.Zones[:min(len(f.rendering.Zones), maxZones)] {
		st.Zones = append(st.Zones, zone(z))
	}
	for _, s := range f.rendering.Shadows[:min(len(f.rendering.Shadows), maxShadowedFields)] {
		st.ShadowedFields = append(st.ShadowedFields, text.Clip(s.String(), 256))
	}
	if f.rendering.Problems == nil {
		st.NodeLabels = map[string]v1alpha1.LabelValue{}
		for key, value := range f.rendering.Labels {
			st.NodeLabels[key] = v1alpha1.LabelValue(value)
		}
	}
	st.Warnings = warnings(before, st, f)
	for _, n := range f.fleet {
		if len(n.drift()) > 0 {
			st.Drifted++
		}
	}
	st.Conditions = status.Summarize(before.Conditions, object.Generation, outcome(object, f, st),
		validated(st, f), drifted(st, f))
	return st
}

// leaving returns the status of a deleted node template whose launch templates must stay for now.
func leaving(object *v1alpha1.AWSNodeTemplate, nodes int, why string) v1alpha1.AWSNodeTemplateStatus {
	st := *object.Status.DeepCopy()
	st.ObservedGeneration, st.Nodes = object.Generation, int32(nodes)
	st.Conditions = status.Summarize(st.Conditions, object.Generation, status.Outcome{
		State: status.Progressing, Reason: v1alpha1.ReasonDeleting, Message: why,
	})
	return st
}

func nodesRun(count int) string {
	return fmt.Sprintf("its launch templates are kept until the nodes are gone that were launched from them: %d", count)
}

// referred names the first few users of the launch templates.
func referred(by []launchtemplate.Reference) string {
	var names []string
	for _, r := range by {
		names = append(names, r.By)
	}
	slices.Sort(names)
	names = slices.Compact(names)
	more := ""
	if n := len(names) - maxReferrers; n > 0 {
		names, more = names[:maxReferrers], fmt.Sprintf(" and %d more", n)
	}
	return "its launch templates are kept while they are launched from; delete, or give another launch template, to " +
		strings.Join(names, ", ") + more
}

// offered returns the versions to launch from. A version that could not be updated stays listed.
func offered(object *v1alpha1.AWSNodeTemplate, f facts) []v1alpha1.PublishedTemplate {
	before := object.Status.LaunchTemplates
	if f.rendering.Problems != nil || controller.Paused(object) {
		return before
	}
	if f.rendering.Source != nil {
		if len(f.offers) == 0 {
			return before
		}
		o := f.offers[0]
		return []v1alpha1.PublishedTemplate{{ID: o.id, Name: o.name, Version: o.version}}
	}
	var all []v1alpha1.PublishedTemplate
	for _, t := range f.rendering.Templates {
		name := f.template.TemplateName(t)
		if at := slices.IndexFunc(f.offers, func(o templateVersion) bool { return o.name == name }); at >= 0 {
			o := f.offers[at]
			all = append(all, v1alpha1.PublishedTemplate{
				ID: o.id, Name: name, Version: o.version, ContentHash: t.Hash, Zone: t.Zone, Shape: t.Shape,
				Interfaces: int32(len(t.Interfaces)),
			})
		} else if at := slices.IndexFunc(before, func(p v1alpha1.PublishedTemplate) bool { return p.Name == name }); at >= 0 {
			all = append(all, before[at])
		}
	}
	return all[:min(len(all), maxTemplates)]
}

func zone(z launchtemplate.ZoneVerdict) v1alpha1.TemplateZone {
	zone := v1alpha1.TemplateZone{Name: z.Zone, Eligible: z.Eligible, Message: text.Clip(z.Message, 1024)}
	for _, slot := range slices.SortedFunc(maps.Keys(z.Subnets), eni.CompareSlots) {
		zone.Subnets = append(zone.Subnets, z.Subnets[slot]...)
	}
	zone.Subnets = zone.Subnets[:min(len(zone.Subnets), maxSubnets)]
	return zone
}

func instanceTypes(verdicts []launchtemplate.TypeVerdict) v1alpha1.TemplateInstanceTypes {
	var all v1alpha1.TemplateInstanceTypes
	at := map[launchtemplate.TypeReason]int{}
	for _, v := range verdicts {
		switch {
		case v.Eligible():
			all.Eligible++
			if len(all.Types) < maxTypes {
				all.Types = append(all.Types, v1alpha1.EligibleType{Name: v.Name, MaxPods: int32(max(0, v.MaxPods)),
					EFAs: int32(v.EFAs), Shape: v.Shape})
			}
		case v.Reason != launchtemplate.Excluded:
			n, known := at[v.Reason]
			if !known {
				n = len(all.Rejected)
				at[v.Reason] = n
				all.Rejected = append(all.Rejected,
					v1alpha1.RejectedTypes{Reason: string(v.Reason), Message: text.Clip(v.Name+": "+v.Message, 512)})
			}
			all.Rejected[n].Count++
			if len(all.Rejected[n].Examples) < 3 {
				all.Rejected[n].Examples = append(all.Rejected[n].Examples, v.Name)
			}
		}
	}
	all.TypesOmitted = all.Eligible - int32(len(all.Types))
	slices.SortFunc(all.Rejected, func(a, b v1alpha1.RejectedTypes) int { return cmp.Compare(a.Reason, b.Reason) })
	return all
}

// source returns the version that the reference resolves to, and since when.
func source(before *v1alpha1.TemplateSource, f facts) *v1alpha1.TemplateSource {
	s := f.template.Source
	if s == nil {
		return nil
	}
	now := &v1alpha1.TemplateSource{ID: s.ID, Version: s.Resolved, ResolvedAt: metav1.NewTime(f.now.Truncate(time.Second))}
	if before != nil && before.ID == now.ID && before.Version == now.Version {
		now.ResolvedAt = before.ResolvedAt
	}
	return now
}

// warnings returns the current warnings, and EC2's warnings from the creation of the versions that are still offered.
func warnings(before, st v1alpha1.AWSNodeTemplateStatus, f facts) []string {
	var all []string
	for _, p := range f.rendering.Warnings {
		all = append(all, p.Error())
	}
	all = append(all, f.warnings...)
	if slices.Equal(before.LaunchTemplates, st.LaunchTemplates) {
		all = append(all, slices.DeleteFunc(slices.Clone(before.Warnings), func(w string) bool {
			return !strings.HasPrefix(w, warns) && !strings.HasPrefix(w, notDryRun)
		})...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for n := range all {
		all[n] = text.Clip(all[n], 1024)
	}
	return all[:min(len(all), maxWarnings)]
}

// outcome returns, in one word and one sentence, whether nodes can be launched as declared.
func outcome(object *v1alpha1.AWSNodeTemplate, f facts, st v1alpha1.AWSNodeTemplateStatus) status.Outcome {
	switch {
	case controller.Paused(object):
		return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonPaused, Message: fmt.Sprintf(
			"nothing is changed for it while it has the annotation %s", v1alpha1.PausedAnnotation)}
	case f.rendering.Problems != nil:
		return status.Outcome{State: status.Stalled, Reason: string(f.rendering.Problems[0].Reason),
			Message: summary(f.rendering.Problems) + meanwhile(st)}
	case f.refusal != nil:
		return status.Outcome{State: status.Stalled, Reason: v1alpha1.ReasonRefused,
			Message: f.refusal.Error() + meanwhile(st)}
	case f.unseen:
		return status.Outcome{State: status.Progressing, Reason: v1alpha1.ReasonProgressing,
			Message: "EC2 does not return the new versions everywhere yet" + meanwhile(st)}
	default:
		return status.Outcome{State: status.Ready, Reason: v1alpha1.ReasonPublished, Message: fmt.Sprintf(
			"%s to launch from, for %s", text.Count(len(st.LaunchTemplates), "launch template"),
			text.Count(int(st.InstanceTypes.Eligible), "instance type"))}
	}
}

// meanwhile says that the previous launch templates stay listed, if there are any.
func meanwhile(st v1alpha1.AWSNodeTemplateStatus) string {
	if len(st.LaunchTemplates) == 0 {
		return ""
	}
	return " (the launch templates in the status are unchanged)"
}

func summary(problems []launchtemplate.Problem) string {
	var words []string
	for _, p := range problems {
		words = append(words, p.Error())
	}
	return strings.Join(words, "; ")
}

func validated(st v1alpha1.AWSNodeTemplateStatus, f facts) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionValidated, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid,
		Message: "EC2 would launch from it"}
	switch {
	case f.rendering.Problems != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, string(f.rendering.Problems[0].Reason), summary(
			f.rendering.Problems)
	case f.refusal != nil:
		c.Status, c.Reason, c.Message = metav1.ConditionFalse, v1alpha1.ReasonRefused, f.refusal.Error()
	case f.unseen:
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonProgressing,
			"EC2 does not return the new versions everywhere yet"
	case slices.ContainsFunc(st.Warnings, func(w string) bool { return strings.HasPrefix(w, notDryRun) }):
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, v1alpha1.ReasonNotTried,
			"it breaks no known rule, and EC2 was not asked whether it would launch: status.warnings has the cause"
	}
	return c
}

func drifted(st v1alpha1.AWSNodeTemplateStatus, f facts) metav1.Condition {
	c := metav1.Condition{Type: v1alpha1.ConditionDrifted, Status: metav1.ConditionFalse,
		Reason: v1alpha1.ReasonAsDeclared, Message: "no node differs from it"}
	if f.rendering.Problems != nil {
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, string(
			f.rendering.Problems[0].Reason), "the desired state of nodes is not known"
		return c
	}
	for _, n := range f.fleet {
		if drift := n.drift(); len(drift) > 0 {
			c.Status, c.Reason = metav1.ConditionTrue, string(drift[0].Class)
			c.Message = fmt.Sprintf("%d of %s differ, %s among them: %s", st.Drifted, text.Count(len(f.fleet), "node"),
				n.Name, drift[0].Told())
			return c
		}
	}
	return c
}
