// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/terminal"
)

func newRender() *cobra.Command {
	var in input
	var consumer string
	command := &cobra.Command{
		Use:   "render -f FILE",
		Short: "Print the launch templates, or what a consumer of them needs",
		Long: `Print the launch templates of an AWSNodeTemplate: launch template data as
aws ec2 create-launch-template takes it, one for each zone if interfaces have subnets of
their own, and one for each shape if a layout gives instance types different interfaces.

--for prints what one of the consumers needs instead:
  auto-scaling-group   a MixedInstancesPolicy with the eligible instance types, and the tags for Cluster Autoscaler
  fleet                the LaunchTemplateConfigs of aws ec2 create-fleet
  managed-node-group   the data without what an EKS managed node group refuses, or the reason why it does
  karpenter            the fragment of spec.networkInterfaces of an EC2NodeClass
A group takes 40 instance types, and a fleet 300 overrides. If more are eligible, those of newer generations
are kept, then by name, and a warning lists the others: choose with spec.instanceTypes.
The first two name the launch templates by ID and version, if FILE comes from a cluster and
has them in its status.

Of a FILE with several AWSNodeTemplates, each is printed.`,
		Example: `  # the request, whole
  multieni launch-template render -f examples/launch-two-subnets.yaml

  # the input of an Auto Scaling group
  kubectl get awsnodetemplate default -o yaml | multieni launch-template render -f - --for auto-scaling-group

  # all of a cluster
  kubectl get awsnodetemplates -o yaml | multieni launch-template render -f -

  # a fragment for Karpenter
  multieni launch-template render -f examples/launch-efa.yaml --for karpenter -o yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return in.each(c, func(l loaded) error {
				notices := l.notices(c.ErrOrStderr())
				notices("note", l.Notes...)
				if err := refusal(l.Problems); err != nil {
					return err
				}
				for _, warning := range l.Warnings {
					notices("warning", warning.Error())
				}
				return l.render(c.OutOrStdout(), notices, in.output, consumer)
			})
		},
	}
	in.bind(command)
	command.Flags().StringVar(&consumer, "for", "",
		"consumer of the output: auto-scaling-group, fleet, managed-node-group or karpenter")
	return command
}

// renderedTemplate is a launch template as programs read it.
type renderedTemplate struct {
	Name        string                  `json:"name"`
	Zone        string                  `json:"zone,omitempty"`
	Shape       string                  `json:"shape,omitempty"`
	ContentHash string                  `json:"contentHash"`
	Data        launchtemplate.Document `json:"launchTemplateData"`
}

func (l loaded) templates() []renderedTemplate {
	all := []renderedTemplate{}
	for _, t := range l.Templates {
		all = append(all, renderedTemplate{l.template.TemplateName(t), t.Zone, t.Shape, t.Hash, t.Data})
	}
	return all
}

// notices returns a function that prints notes and warnings, with the name of the node template.
func (l loaded) notices(w io.Writer) func(sort string, texts ...string) {
	return func(sort string, texts ...string) {
		for _, text := range texts {
			fmt.Fprintf(w, "%s: %s: %s\n", sort, l.object.Name, terminal.Printable(text))
		}
	}
}

func (l loaded) render(w io.Writer, notices func(sort string, texts ...string), form, consumer string) error {
	if consumer != "" {
		facts, notes, err := l.consumer(consumer)
		if err != nil {
			return err
		}
		notices("warning", notes...)
		if form == "text" {
			form = "json"
		}
		return write(w, form, facts)
	}
	if form != "text" {
		return write(w, form, map[string]any{"launchTemplates": l.templates(), "source": l.source()})
	}
	if l.Source != nil {
		fmt.Fprintf(w, "Launched from %s, version %s, as it is; nothing of ours is made.\n", l.source(), l.Source.Version)
	}
	for _, t := range l.templates() {
		fmt.Fprintf(w, "# %s\n# %s, hash %s\n%s", t.Name, l.where(t), t.ContentHash, t.Data.JSON())
	}
	return nil
}

func (l loaded) source() string {
	if l.Source == nil {
		return ""
	}
	if l.Source.ID != "" {
		return l.Source.ID
	}
	return l.Source.Name
}

// where returns which launches a template is for.
func (l loaded) where(t renderedTemplate) string {
	words := "any zone: the launcher chooses the subnet"
	switch t.Zone {
	case "":
	case anyZone:
		words = "one template like this for each zone in which every interface has a subnet"
	default:
		words = "zone " + t.Zone
	}
	if t.Shape != "" {
		types := l.typesOf(t.Shape)
		words += fmt.Sprintf("; %s", few(types, 3))
	}
	return words
}

// typesOf returns the eligible types of a shape.
func (l loaded) typesOf(shape string) []string {
	var names []string
	for _, v := range l.Types {
		if v.Eligible() && v.Shape == shape {
			names = append(names, v.Name)
		}
	}
	return names
}

func few(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
