// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func newExplain() *cobra.Command {
	var in input
	command := &cobra.Command{
		Use:   "explain -f FILE",
		Short: "Explain the interfaces, the instance types that take them, and the layer of each field",
		Long: `Explain an AWSNodeTemplate: its interfaces, the instance types that take them and the number of
pods that the VPC CNI can serve there, why other types do not take them, and the layer of each
field of the launch template, with the layers that it overrides.`,
		Example: `  multieni launch-template explain -f examples/launch-two-subnets.yaml
  multieni launch-template explain -f examples/launch-efa.yaml -o json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return in.each(c, func(l loaded) error {
				e := l.explanation()
				if in.output != "text" {
					return errors.Join(write(c.OutOrStdout(), in.output, e), refusal(l.Problems))
				}
				show(c.OutOrStdout(), e.print)
				return refusal(l.Problems)
			})
		},
	}
	in.bind(command)
	return command
}

// explanation is the output of explain.
type explanation struct {
	Name       string            `json:"name"`
	Notes      []string          `json:"notes,omitempty"`
	Problems   []finding         `json:"problems,omitempty"`
	Warnings   []finding         `json:"warnings,omitempty"`
	Reported   []string          `json:"statusWarnings,omitempty"`
	Interfaces []interfaceFacts  `json:"networkInterfaces,omitempty"`
	Eligible   []typeFacts       `json:"eligible"`
	Rejected   []rejected        `json:"rejected,omitempty"`
	Origins    map[string]string `json:"origins,omitempty"`
	Shadowed   []string          `json:"shadowedFields,omitempty"`
	Labels     map[string]string `json:"nodeLabels,omitempty"`
}

type finding struct {
	Reason  string `json:"reason"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
}

type interfaceFacts struct {
	Card    int      `json:"networkCardIndex"`
	Device  int      `json:"deviceIndex"`
	Type    string   `json:"interfaceType"`
	Name    string   `json:"name,omitempty"`
	User    string   `json:"usedBy"`
	Subnet  string   `json:"subnet"`
	Groups  []string `json:"groups"`
	Deleted bool     `json:"deleteOnTermination"`
	Shape   string   `json:"shape,omitempty"`
}

type typeFacts struct {
	Name    string `json:"name"`
	MaxPods int    `json:"maxPods"`
	EFAs    int    `json:"efas,omitempty"`
	Shape   string `json:"shape,omitempty"`
}

type rejected struct {
	Reason   string   `json:"reason"`
	Count    int      `json:"count"`
	Examples []string `json:"examples"`
	Message  string   `json:"message"`
}

func (l loaded) explanation() explanation {
	e := explanation{Name: l.object.Name, Notes: l.Notes, Labels: l.Labels, Origins: map[string]string{},
		Eligible: []typeFacts{}}
	e.Problems, e.Warnings = findings(l.Problems), findings(l.Warnings)
	e.Reported = l.reported()
	for _, t := range l.Templates {
		e.Interfaces = append(e.Interfaces, l.interfaces(t)...)
	}
	e.Notes = append(e.Notes, l.unread()...)
	for _, v := range l.Types {
		if v.Eligible() {
			e.Eligible = append(e.Eligible, typeFacts{v.Name, v.MaxPods, v.EFAs, v.Shape})
		}
	}
	e.Rejected = rejections(l.Types)
	for path, origin := range l.Origins {
		e.Origins[path] = string(origin)
	}
	for _, s := range l.Shadows {
		e.Shadowed = append(e.Shadowed, s.String())
	}
	return e
}

// reported returns the controller's warnings about the declaration, without those that the command finds itself.
func (l loaded) reported() []string {
	if l.object.Status.ObservedGeneration != l.object.Generation {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(l.object.Status.Warnings), func(warning string) bool {
		return slices.ContainsFunc(l.Warnings, func(p launchtemplate.Problem) bool { return p.Error() == warning })
	})
}

// unread returns what depends on the subnets and security groups, if no controller has read them.
func (l loaded) unread() (notes []string) {
	if len(l.object.Status.Zones) > 0 {
		return nil
	}
	most, efas := 0, false
	for _, t := range l.Templates {
		most = max(most, len(t.Interfaces))
		efas = efas || slices.ContainsFunc(t.Interfaces, launchtemplate.Interface.IsEFA)
	}
	private := slices.ContainsFunc(l.template.Interfaces, func(i launchtemplate.Interface) bool {
		return i.PublicIP != nil && !*i.PublicIP
	})
	if most >= 2 && !private {
		notes = append(notes, fmt.Sprintf("the subnets are not read: EC2 gives an instance with %d interfaces no public IP "+
			"address, in a subnet that maps one at launch either (MapPublicIpOnLaunch)", most))
	}
	if efas {
		notes = append(notes, "the security groups are not read: EFAs exchange traffic only if a group has an inbound and "+
			"an outbound rule for all traffic that name the group itself")
	}
	return notes
}

func findings(problems []launchtemplate.Problem) []finding {
	var all []finding
	for _, p := range problems {
		all = append(all, finding{string(p.Reason), p.Path, p.Message})
	}
	return all
}

func (l loaded) interfaces(t launchtemplate.Template) []interfaceFacts {
	var all []interfaceFacts
	list, _ := t.Data["NetworkInterfaces"].([]any)
	for n, i := range t.Interfaces {
		f := interfaceFacts{
			Card: i.Slot.Card, Device: i.Slot.Device, Type: cmp.Or(string(i.Type), "interface"), Name: i.Name,
			Groups: i.Groups, Deleted: i.DeleteOnTermination, Shape: t.Shape, Subnet: "chosen at launch",
			User: "the node and its pods",
		}
		switch {
		case i.Slot.Card == 0 && i.Slot.Device == 0, i.Management == launchtemplate.CNI && i.TakesIP():
			f.User = "the VPC CNI"
		case !i.TakesIP():
			f.User = "EFA"
		}
		if members, is := list[n].(map[string]any); is && members["SubnetId"] != nil {
			f.Subnet = fmt.Sprint(members["SubnetId"])
		}
		all = append(all, f)
	}
	return all
}

// rejections groups the chosen types that cannot carry the interfaces by reason, the most frequent first.
func rejections(types []launchtemplate.TypeVerdict) []rejected {
	var all []rejected
	for _, v := range types {
		if v.Eligible() || v.Reason == launchtemplate.Excluded {
			continue
		}
		at := slices.IndexFunc(all, func(r rejected) bool { return r.Reason == string(v.Reason) })
		if at < 0 {
			all = append(all, rejected{Reason: string(v.Reason), Message: v.Message})
			at = len(all) - 1
		}
		all[at].Count++
		if len(all[at].Examples) < 3 {
			all[at].Examples = append(all[at].Examples, v.Name)
		}
	}
	slices.SortStableFunc(all, func(a, b rejected) int { return b.Count - a.Count })
	return all
}

// shown is the maximum number of instance types in text output.
const shown = 12

func (e explanation) print(w io.Writer) {
	fmt.Fprintf(w, "AWSNodeTemplate %s\n", e.Name)
	list(w, "Notes", e.Notes)
	list(w, "Problems", sentences(e.Problems))
	list(w, "Warnings", sentences(e.Warnings))
	list(w, "Warnings of the controller", e.Reported)
	if len(e.Interfaces) > 0 {
		fmt.Fprintf(w, "\nNetwork interfaces\n")
		table(w, func(t io.Writer) {
			fmt.Fprintln(t, "  CARD\tDEVICE\tTYPE\tNAME\tUSED BY\tSUBNET\tSECURITY GROUPS\tON TERMINATION")
			for n := 0; n < len(e.Interfaces); {
				i, last := e.Interfaces[n], alike(e.Interfaces, n)
				cards := strconv.Itoa(i.Card)
				if last > n {
					cards = fmt.Sprintf("%d-%d", i.Card, e.Interfaces[last].Card)
				}
				fmt.Fprintf(t, "  %s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", cards, i.Device, i.Type, cmp.Or(i.Name, "-"), i.User, i.Subnet,
					strings.Join(i.Groups, ","), map[bool]string{true: "deleted", false: "kept"}[i.Deleted])
				n = last + 1
			}
		})
	}
	e.printTypes(w)
	if len(e.Problems) == 0 {
		e.printOrigins(w)
	}
	list(w, "Shadowed", e.Shadowed)
	var labels []string
	for _, key := range sortedKeys(e.Labels) {
		labels = append(labels, key+"="+e.Labels[key])
	}
	list(w, "Node labels", labels)
}

// alike returns the last of the interfaces from n on that differ only in their card, which counts up.
func alike(all []interfaceFacts, n int) int {
	for last := n; ; last++ {
		if last+1 == len(all) {
			return last
		}
		next := all[last+1]
		next.Card--
		if !reflect.DeepEqual(all[last], next) {
			return last
		}
	}
}

func (e explanation) printTypes(w io.Writer) {
	fmt.Fprintf(w, "\nInstance types: %d can carry the interfaces\n", len(e.Eligible))
	table(w, func(t io.Writer) {
		for n, v := range e.Eligible {
			if n == shown {
				fmt.Fprintf(t, "  and %d more (-o json has all)\n", len(e.Eligible)-shown)
				break
			}
			fmt.Fprintf(t, "  %s\tmaxPods %d%s\n", v.Name, v.MaxPods, efaWords(v.EFAs))
		}
	})
	for _, r := range e.Rejected {
		fmt.Fprintf(w, "  not %d for %s, such as %s: %s\n", r.Count, r.Reason, strings.Join(r.Examples, ", "), r.Message)
	}
}

func efaWords(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("\tEFA %d", n)
}

// printOrigins prints the members of each layer.
func (e explanation) printOrigins(w io.Writer) {
	by := map[string][]string{}
	for _, path := range sortedKeys(e.Origins) {
		if member, _, nested := strings.Cut(path, "["); !nested || e.Origins[member] == "" {
			by[e.Origins[path]] = append(by[e.Origins[path]], path)
		}
	}
	fmt.Fprintf(w, "\nWhere the members come from\n")
	for _, origin := range []launchtemplate.Origin{launchtemplate.FromOverride, launchtemplate.FromTemplate,
		launchtemplate.FromInline, launchtemplate.FromDefault} {
		if paths := by[string(origin)]; len(paths) > 0 {
			fmt.Fprintf(w, "  %-8s  %s\n", origin, strings.Join(paths, ", "))
		}
	}
}

func list(w io.Writer, title string, lines []string) {
	if len(lines) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s\n", title)
	for _, line := range lines {
		fmt.Fprintf(w, "  %s\n", line)
	}
}

func sentences(findings []finding) []string {
	var all []string
	for _, f := range findings {
		all = append(all, fmt.Sprintf("%s: %s", f.Reason, launchtemplate.Problem{Path: f.Path, Message: f.Message}.Error()))
	}
	return all
}

func table(w io.Writer, rows func(io.Writer)) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows(t)
	t.Flush()
}
