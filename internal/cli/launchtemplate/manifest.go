// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/admission"
	"github.com/multieni/multieni/internal/cli/manifest"
	"github.com/multieni/multieni/internal/controller/nodetemplate"
	"github.com/multieni/multieni/internal/core/selector"
)

// kind is the kind that the commands look for.
const kind = "AWSNodeTemplate"

// karpenter is the API that the kind comes from.
const karpenter = "karpenter.k8s.aws/v1alpha1"

// declared is an AWSNodeTemplate of a manifest.
type declared struct {
	object *v1alpha1.AWSNodeTemplate
	// source says where it is, for people.
	source string
	// notes tell how it was read.
	notes []string
}

// read returns the AWSNodeTemplates of a file, a folder or standard input. The error has every one that cannot be read
// or that the API server would refuse. A manifest without any is an error.
func read(command *cobra.Command, file string) ([]declared, error) {
	objects, err := manifest.Read(file, command.InOrStdin())
	if err != nil {
		return nil, err
	}
	rules, err := admission.Load(kind)
	if err != nil {
		return nil, err
	}
	var all []declared
	var failures []error
	for _, o := range objects {
		if o.Kind != kind {
			continue
		}
		d, err := decode(command, rules, o)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %s %s: %w", o.Source, kind, o.Name, err))
			continue
		}
		all = append(all, d)
	}
	if len(all)+len(failures) == 0 {
		return nil, fmt.Errorf("%s has no object of kind %s; a folder is read without its subfolders", file, kind)
	}
	return all, errors.Join(failures...)
}

// decode returns a checked object. It accepts the apiVersion of Karpenter's old API.
func decode(command *cobra.Command, rules *admission.Rules, o manifest.Object) (declared, error) {
	ours := v1alpha1.SchemeGroupVersion.String()
	d := declared{source: o.Source}
	switch o.APIVersion {
	case ours:
	case karpenter:
		d.notes = append(d.notes, fmt.Sprintf(
			"apiVersion %s is read as %s; write that to apply it to a cluster, where the other group is Karpenter's",
			karpenter, ours))
	default:
		return d, fmt.Errorf("it has apiVersion %q and must have %s", o.APIVersion, ours)
	}
	if err := o.Decode(&v1alpha1.AWSNodeTemplate{}); err != nil {
		return d, fmt.Errorf("%w; see: kubectl explain awsnodetemplate.spec", err)
	}
	content, err := o.Content()
	if err != nil {
		return d, err
	}
	if broken := rules.Admit(command.Context(), content); len(broken) > 0 {
		words := []string{"the API server would refuse it:"}
		for _, rule := range broken {
			words = append(words, "  "+rule.Error())
		}
		return d, errors.New(strings.Join(words, "\n"))
	}
	// The object that the API server would store has the defaults.
	d.object = &v1alpha1.AWSNodeTemplate{}
	err = runtime.DefaultUnstructuredConverter.FromUnstructured(content, d.object)
	d.notes = append(d.notes, literal(d.object.Spec)...)
	return d, err
}

// literal returns notes on selectors that look as if they had Karpenter's patterns and lists.
func literal(spec v1alpha1.AWSNodeTemplateSpec) []string {
	var notes []string
	note := func(path string, tags map[string]v1alpha1.TagValue) {
		if _, byID := tags[nodetemplate.IDsKey]; byID {
			return
		}
		if text := selector.Literal(v1alpha1.Strings(tags)); text != "" {
			notes = append(notes, path+": "+text)
		}
	}
	note("spec.subnetSelector", spec.SubnetSelector)
	note("spec.securityGroupSelector", spec.SecurityGroupSelector)
	note("spec.amiSelector", spec.AMISelector)
	for n, i := range spec.NetworkInterfaces {
		note(fmt.Sprintf("spec.networkInterfaces[%d].subnetSelector", n), i.SubnetSelector)
		note(fmt.Sprintf("spec.networkInterfaces[%d].securityGroupSelector", n), i.SecurityGroupSelector)
	}
	return notes
}
