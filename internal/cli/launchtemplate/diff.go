// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func newDiff() *cobra.Command {
	var in input
	var from string
	command := &cobra.Command{
		Use:   "diff -f FILE --from OLD",
		Short: "Show the effects of a change on launch templates and on running nodes",
		Long: `Show the changes of the launch templates between two versions of an AWSNodeTemplate, and their
effects on nodes that were launched from the old one: whether a difference is Static, Dynamic
or Behavioral, and whether it is repaired in place or needs a new node. Several AWSNodeTemplates
are compared by name.

The exit status is 0 with and without differences.`,
		Example: `  git show HEAD:default.yaml > old.yaml
  multieni launch-template diff -f default.yaml --from old.yaml`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			earlier, err := in.load(c, from)
			if err != nil {
				return err
			}
			return in.each(c, func(now loaded) error {
				then, err := counterpart(earlier, now, from)
				if err != nil {
					return err
				}
				for _, l := range []loaded{then, now} {
					if err := refusal(l.Problems); err != nil {
						return err
					}
				}
				d := compare(then, now)
				if in.output != "text" {
					return write(c.OutOrStdout(), in.output, d)
				}
				if len(earlier) > 1 {
					fmt.Fprintf(c.OutOrStdout(), "%s %s\n", kind, now.object.Name)
				}
				show(c.OutOrStdout(), d.print)
				return nil
			})
		},
	}
	in.bind(command)
	command.Flags().StringVar(&from, "from", "", "manifest with the old AWSNodeTemplate")
	_ = command.MarkFlagRequired("from")
	return command
}

// counterpart returns the earlier version of a node template: the one of its name or, if there is only one, that one.
func counterpart(earlier []loaded, now loaded, from string) (loaded, error) {
	if len(earlier) == 1 {
		return earlier[0], nil
	}
	at := slices.IndexFunc(earlier, func(l loaded) bool { return l.object.Name == now.object.Name })
	if at < 0 {
		return loaded{}, fmt.Errorf("%s has several %ss and none of this name; give --from a file with one", from, kind)
	}
	return earlier[at], nil
}

// difference is the output of diff.
type difference struct {
	Templates []templateChange `json:"launchTemplates"`
	Nodes     []nodeChange     `json:"nodes"`
	// Gained are the instance types that have become eligible, Lost those that no longer are.
	Gained []string `json:"instanceTypesGained,omitempty"`
	Lost   []string `json:"instanceTypesLost,omitempty"`
}

type templateChange struct {
	Name    string   `json:"name"`
	Change  string   `json:"change"`
	Members []string `json:"members,omitempty"`
}

type nodeChange struct {
	Field  string `json:"field"`
	Slot   string `json:"slot,omitempty"`
	Class  string `json:"class"`
	Action string `json:"action"`
	Detail string `json:"detail"`
}

func compare(then, now loaded) difference {
	d := difference{Templates: []templateChange{}, Nodes: []nodeChange{}}
	old := map[string]launchtemplate.Template{}
	for _, t := range then.Templates {
		old[then.template.TemplateName(t)] = t
	}
	for _, t := range now.Templates {
		name := now.template.TemplateName(t)
		was, is := old[name]
		delete(old, name)
		switch {
		case !is:
			d.Templates = append(d.Templates, templateChange{Name: name, Change: "created"})
		case was.Hash != t.Hash:
			d.Templates = append(d.Templates, templateChange{name, "new version", changedMembers(was.Data, t.Data)})
			d.note(nodesOf(was, t, now))
		}
	}
	for _, name := range sortedKeys(old) {
		d.Templates = append(d.Templates, templateChange{Name: name, Change: "retired"})
	}
	d.Gained, d.Lost = missingFrom(then, now), missingFrom(now, then)
	return d
}

// nodesOf compares an instance that was launched from the old template with the new one.
func nodesOf(was, is launchtemplate.Template, now loaded) []launchtemplate.Difference {
	want := launchtemplate.Wanted{Interfaces: is.Interfaces, Subnets: map[eni.Slot][]string{}}
	for slot, id := range subnetsBySlot(is) {
		want.Subnets[slot] = []string{id}
	}
	ids := subnetsBySlot(was)
	var have []eni.Interface
	for _, i := range was.Interfaces {
		have = append(have, i.AsLaunched(ids[i.Slot]))
	}
	differences := launchtemplate.CompareInterfaces(want, have)
	return append(differences, launchtemplate.CompareData(is.Data, now.Origins, was.Data)...)
}

func subnetsBySlot(t launchtemplate.Template) map[eni.Slot]string {
	ids := map[eni.Slot]string{}
	list, _ := t.Data["NetworkInterfaces"].([]any)
	for n, i := range t.Interfaces {
		if members, is := list[n].(map[string]any); is && members["SubnetId"] != nil {
			ids[i.Slot] = fmt.Sprint(members["SubnetId"])
		}
	}
	return ids
}

func (d *difference) note(differences []launchtemplate.Difference) {
	for _, one := range differences {
		n := nodeChange{Field: one.Field, Class: string(one.Class), Action: string(one.Action), Detail: one.String()}
		if one.Want != "" || one.Have != "" {
			n.Slot = one.Slot.String()
		}
		if !slices.Contains(d.Nodes, n) {
			d.Nodes = append(d.Nodes, n)
		}
	}
}

func changedMembers(was, is launchtemplate.Document) []string {
	var changed []string
	for _, member := range sortedKeys(is) {
		if !same(was[member], is[member]) && member != "TagSpecifications" {
			changed = append(changed, member)
		}
	}
	for _, member := range sortedKeys(was) {
		if _, still := is[member]; !still {
			changed = append(changed, member)
		}
	}
	return changed
}

func same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}

// missingFrom returns the types that are eligible in b and not in a.
func missingFrom(a, b loaded) []string {
	had := map[string]bool{}
	for _, v := range a.Types {
		had[v.Name] = v.Eligible()
	}
	var names []string
	for _, v := range b.Types {
		if v.Eligible() && !had[v.Name] {
			names = append(names, v.Name)
		}
	}
	return names
}

func (d difference) print(w io.Writer) {
	if len(d.Templates) == 0 {
		fmt.Fprintln(w, "The launch templates stay as they are, and so do the nodes.")
	} else {
		fmt.Fprintln(w, "Launch templates")
	}
	for _, t := range d.Templates {
		fmt.Fprintf(w, "  %s: %s", t.Name, t.Change)
		if len(t.Members) > 0 {
			fmt.Fprintf(w, " (%s)", few(t.Members, 5))
		}
		fmt.Fprintln(w)
	}
	if len(d.Nodes) > 0 {
		fmt.Fprintln(w, "\nNodes that run")
		table(w, func(t io.Writer) {
			fmt.Fprintln(t, "  DIFFERENCE\tCLASS\tACTION")
			for _, n := range d.Nodes {
				fmt.Fprintf(t, "  %s\t%s\t%s\n", n.Detail, n.Class, n.Action)
			}
		})
	}
	if len(d.Gained) > 0 {
		fmt.Fprintf(w, "\n%d more instance types can be chosen: %s\n", len(d.Gained), few(d.Gained, 6))
	}
	if len(d.Lost) > 0 {
		fmt.Fprintf(w, "\n%d instance types cannot be chosen any more: %s\n", len(d.Lost), few(d.Lost, 6))
	}
}
