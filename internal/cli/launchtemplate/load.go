// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/controller/nodetemplate"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/core/terminal"
)

// anyZone is the placeholder for zones that are unknown offline.
const anyZone = "ZONE"

// plenty is the number of addresses assumed for subnets that are unknown offline.
const plenty = 1 << 20

// loaded is a node template with all that is known of it offline.
type loaded struct {
	object   *v1alpha1.AWSNodeTemplate
	template launchtemplate.NodeTemplate
	launchtemplate.Rendering
	// Notes tell how the manifest was read.
	Notes []string
}

// load reads the AWSNodeTemplates of a manifest and renders them. The error has those that cannot be rendered; the
// others are returned with it.
func (i *input) load(command *cobra.Command, file string) ([]loaded, error) {
	all, err := read(command, file)
	failures := []error{err}
	references := 0
	for _, d := range all {
		if d.object.Spec.LaunchTemplateRef != nil {
			references++
		}
	}
	if i.source != "" && references != 1 {
		return nil, errors.Join(append(failures, fmt.Errorf("--source is the launch template of one "+
			"spec.launchTemplateRef, and %s has %d of them", file, references))...)
	}
	var ready []loaded
	for _, d := range all {
		l, err := i.render(command, d)
		if err != nil {
			failures = append(failures, fmt.Errorf("%s: %s %s: %w", d.source, kind, d.object.Name, err))
			continue
		}
		ready = append(ready, l)
	}
	return ready, errors.Join(failures...)
}

// each runs a command for each AWSNodeTemplate of the file, in their order. One that fails does not stop the others.
func (i *input) each(command *cobra.Command, run func(loaded) error) error {
	if err := i.check(); err != nil {
		return err
	}
	all, err := i.load(command, i.file)
	failures := []error{err}
	for n, l := range all {
		if n > 0 {
			fmt.Fprint(command.OutOrStdout(), map[string]string{"yaml": "---\n", "text": "\n"}[i.output])
		}
		if err := run(l); err != nil {
			failures = append(failures, fmt.Errorf("%s %s: %w", kind, l.object.Name, err))
		}
	}
	return errors.Join(failures...)
}

func (i *input) render(command *cobra.Command, d declared) (loaded, error) {
	l := loaded{object: d.object, Notes: d.notes}
	var err error
	if l.template, err = nodetemplate.Convert(l.object, i.cluster); err != nil {
		return l, err
	}
	if err := awsec2.CheckLaunchTemplateData(l.template.Override); err != nil {
		return l, fmt.Errorf("spec.launchTemplateOverride: %w", err)
	}
	if l.template.Source, err = i.readSource(command, l.object.Spec); err != nil {
		return l, err
	}
	i.imagine(&l)
	l.Rendering = launchtemplate.Render(l.template, launchtemplate.Offline(), nil)
	return l, nil
}

// imagine fills in placeholders for what only EC2 has.
func (i *input) imagine(l *loaded) {
	t, spec := &l.template, l.object.Spec
	if t.UID == "" {
		t.UID = "UID"
	}
	if t.Image.KubernetesVersion == "" {
		t.Image.KubernetesVersion = i.kubernetes
	}
	switch {
	case t.Image.Architecture != "":
	case t.Image.ID == "" && len(spec.AMISelector) == 0 && t.Override["ImageId"] == nil && t.Source == nil:
		t.Image.Architecture = "amd64"
	default:
		t.Image.Architecture = architectureFound(l.object)
	}
	if t.Image.ID == "" && len(spec.AMISelector) > 0 {
		t.Image.ID = placeholder("image", v1alpha1.Strings(spec.AMISelector))
	}
	if !nodetemplate.AsItIs(spec) {
		t.Network = launchtemplate.Network{Subnets: subnets(nodetemplate.SubnetTerms(spec.SubnetSelector)),
			Groups: groups(nodetemplate.GroupTerms(spec.SecurityGroupSelector))}
	}
	for n, declared := range spec.NetworkInterfaces {
		if len(declared.SubnetSelector) > 0 {
			t.Interfaces[n].Subnets = subnets(nodetemplate.SubnetTerms(declared.SubnetSelector))
		}
		if len(declared.SecurityGroupSelector) > 0 {
			t.Interfaces[n].Groups = groups(nodetemplate.GroupTerms(declared.SecurityGroupSelector))
		}
	}
	t.Named = named(*t)
}

// architectureFound returns the architecture of the image that the controller found for the object: that of the types
// that the status calls eligible, if it rejects others for their architecture. It is "" if the status does not tell, or
// is about another declaration.
func architectureFound(object *v1alpha1.AWSNodeTemplate) string {
	types := object.Status.InstanceTypes
	told := slices.ContainsFunc(types.Rejected, func(r v1alpha1.RejectedTypes) bool {
		return r.Reason == string(launchtemplate.OtherArchitecture)
	})
	if !told || len(types.Types) == 0 || object.Status.ObservedGeneration != object.Generation {
		return ""
	}
	return instancetype.Architecture(types.Types[0].Name)
}

func placeholder(what string, tags map[string]string) string {
	var pairs []string
	for _, key := range sortedKeys(tags) {
		pairs = append(pairs, key+"="+tags[key])
	}
	return "<" + what + " with " + strings.Join(pairs, ",") + ">"
}

func subnets(terms selector.SubnetTerms) []eni.Subnet {
	ids := terms.IDs
	if len(terms.Tags) > 0 {
		ids = []string{placeholder("subnet", terms.Tags)}
	}
	all := []eni.Subnet{}
	for _, id := range ids {
		all = append(all, eni.Subnet{ID: id, Zone: anyZone, FreeIPv4: plenty, HasIPv6: true})
	}
	return all
}

func groups(terms selector.GroupTerms) []string {
	if len(terms.Tags) > 0 {
		return []string{placeholder("security groups", terms.Tags)}
	}
	return append([]string{}, terms.IDs...)
}

// named returns the subnets that the source and the override name. They are assumed to exist.
func named(t launchtemplate.NodeTemplate) []eni.Subnet {
	layers := []launchtemplate.Document{t.Override}
	if t.Source != nil {
		layers = append(layers, t.Source.Data)
	}
	var all []eni.Subnet
	for _, id := range launchtemplate.SubnetIDs(layers...) {
		all = append(all, eni.Subnet{ID: id, Zone: anyZone, FreeIPv4: plenty, HasIPv6: true})
	}
	return all
}

// readSource reads the referenced launch template from the file of --source.
func (i *input) readSource(command *cobra.Command, spec v1alpha1.AWSNodeTemplateSpec) (*launchtemplate.Source, error) {
	ref := spec.LaunchTemplateRef
	switch {
	case ref == nil:
		return nil, nil
	case i.source == "":
		return nil, fmt.Errorf("the launch template of spec.launchTemplateRef is in EC2, which this command does not call: "+
			"save it with\n  aws ec2 "+
			"describe-launch-template-versions %s --versions '%s' > FILE\nand set --source FILE", refFlag(ref), ref.Version)
	}
	r, err := open(command, i.source)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, version, err := readData(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", i.source, err)
	}
	return &launchtemplate.Source{ID: ref.ID, Name: ref.Name, Version: ref.Version, Resolved: version,
		Autofill: !nodetemplate.AsItIs(spec), Data: data}, nil
}

func refFlag(ref *v1alpha1.LaunchTemplateRef) string {
	if ref.ID != "" {
		return "--launch-template-id " + ref.ID
	}
	return "--launch-template-name " + ref.Name
}

// readData reads launch template data, alone or in an answer of EC2. It returns user data as plain text.
func readData(r io.Reader) (launchtemplate.Document, int64, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, 0, err
	}
	var answer struct {
		LaunchTemplateVersions []struct {
			VersionNumber      int64
			LaunchTemplateData launchtemplate.Document
		}
	}
	data, version := launchtemplate.Document{}, int64(1)
	if err := yaml.Unmarshal(text, &answer); err == nil && len(answer.LaunchTemplateVersions) > 0 {
		data, version = answer.LaunchTemplateVersions[0].LaunchTemplateData, answer.LaunchTemplateVersions[0].VersionNumber
	} else if err := yaml.Unmarshal(text, &data); err != nil {
		return nil, 0, fmt.Errorf("it is not launch template data: %w", err)
	}
	if err := awsec2.CheckLaunchTemplateData(data); err != nil {
		return nil, 0, err
	}
	if user, is := data["UserData"].(string); is {
		if plain, err := base64.StdEncoding.DecodeString(user); err == nil {
			data["UserData"] = string(plain)
		}
	}
	return data, version, nil
}

// show prints a text. The names, tags and descriptions of AWS in it cannot control the terminal.
func show(w io.Writer, print func(io.Writer)) {
	var text strings.Builder
	print(&text)
	fmt.Fprint(w, terminal.Printable(text.String()))
}

// write prints facts as JSON or YAML.
func write(w io.Writer, form string, facts any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(facts); err != nil {
		return err
	}
	out := text.Bytes()
	if form == "yaml" {
		var err error
		if out, err = yaml.JSONToYAML(out); err != nil {
			return err
		}
	}
	_, err := w.Write(out)
	return err
}

// refusal returns the error of a node template that cannot be rendered, with all its problems.
func refusal(problems []launchtemplate.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	var words []string
	for _, p := range problems {
		words = append(words, fmt.Sprintf("  %s: %s", p.Reason, p.Error()))
	}
	return fmt.Errorf("the node template cannot be rendered:\n%s", strings.Join(words, "\n"))
}
