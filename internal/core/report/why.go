// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/terminal"
	"github.com/multieni/multieni/internal/core/text"
)

// Why explains what is not as desired on one object, and the next steps.
type Why struct {
	// Kind is NodeENI, Node or NetworkInterface.
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Fine is set if there is nothing to explain.
	Fine bool `json:"fine"`
	// Verdict is the answer in one sentence.
	Verdict string `json:"verdict"`
	// Notes are further information, each a sentence or two.
	Notes    []string `json:"notes,omitempty"`
	Troubles []Issue  `json:"troubles,omitempty"`
}

// WhyNodeENI explains a NodeENI of the fleet.
func WhyNodeENI(f Fleet, n NodeENI) Why {
	w := Why{Kind: "NodeENI", Name: n.Name}
	for _, t := range issues(f.sorted().Nodes) {
		if t.NodeENI == n.Name {
			w.Troubles = append(w.Troubles, t)
		}
	}
	w.noteConditions(n.Conditions)
	switch {
	case n.Deleting:
		w.explainDeletion(n)
	case n.unable():
		w.Verdict = "The controller runs, and can change nothing for it."
		w.explainReady(n.Ready)
	case !n.Accepted:
		w.Verdict = "No controller has taken it up."
		w.Notes = append(w.Notes, notRunning)
	case n.Paused:
		w.Verdict = "It is paused: nothing is made, changed or removed for it."
		w.Notes = append(w.Notes, Remediation(reasonPaused))
	case n.Desired == 0 && n.Nodes == 0:
		w.Verdict = fmt.Sprintf("No node carries the labels %s, so nothing is wanted.", pairs(n.Selector))
		w.Notes = append(w.Notes, nearest(f.Nodes, n)...)
	case n.Ready.Status == "True" && len(w.Troubles) == 0:
		w.Fine, w.Verdict = true, fmt.Sprintf("All is as declared: %s on %s attached.",
			text.Count(n.Attached, "interface"), text.Count(n.Nodes, "node"))
	default:
		w.Verdict = fmt.Sprintf("%d of %s attached, %d blocked.", n.Attached, text.Count(n.Desired, "interface"), n.Blocked)
		w.explainReady(n.Ready)
	}
	return w
}

const notRunning = "Is it running? kubectl get pods -n eni-controller-system, and kubectl logs -n " +
	"eni-controller-system deployment/eni-controller."

// explain reports whether an issue already has the message of a condition.
func (w *Why) explain(message string) bool {
	return slices.ContainsFunc(w.Troubles, func(t Issue) bool {
		return t.Message != "" && strings.Contains(message, t.Message)
	})
}

// noteConditions adds the false conditions other than Ready, unless an issue already has the same message.
func (w *Why) noteConditions(conditions []Condition) {
	for _, c := range conditions {
		if c.Status == "False" && c.Type != "Ready" && !w.explain(c.Message) {
			w.Notes = append(w.Notes, fmt.Sprintf("%s: %s: %s", c.Type, c.Reason, c.Message))
		}
	}
}

// explainReady adds the message of the condition, unless an issue already has it.
func (w *Why) explainReady(ready Condition) {
	if ready.Status == "True" || ready.Message == "" || w.explain(ready.Message) {
		return
	}
	w.Notes = append(w.Notes, fmt.Sprintf("%s: %s", ready.Reason, ready.Message))
	if advice := Remediation(ready.Reason); advice != "" && len(w.Troubles) == 0 {
		w.Notes = append(w.Notes, advice)
	}
}

// explainDeletion says what the deletion of a NodeENI waits for.
func (w *Why) explainDeletion(n NodeENI) {
	if n.NotObserved {
		w.Verdict = "It is to be deleted, and no controller has taken note of that: its finalizer waits for one."
		w.Notes = append(w.Notes, notRunning)
		return
	}
	w.Verdict = "It is being deleted, and goes when EC2 confirms that none of its interfaces is left."
	if n.Ready.Reason != reasonDeleting && n.Ready.Reason != reasonPaused {
		w.explainReady(n.Ready)
	}
	if n.Paused {
		w.Notes = append(w.Notes, "It is paused as well, so that nothing is removed. "+Remediation(reasonPaused))
	}
}

// nearest returns what the nodes lack that match most of a selector.
func nearest(nodes []Node, n NodeENI) []string {
	least := len(n.Selector)
	byLack := map[string][]string{}
	for _, node := range nodes {
		missing := n.missing(node.Labels)
		if len(missing) == 0 || len(missing) > least || node.Absent ||
			len(missing) == len(n.Selector) && len(n.Selector) > 1 {
			continue
		}
		if len(missing) < least {
			least, byLack = len(missing), map[string][]string{}
		}
		lack := strings.Join(missingLabels(n, node.Labels, missing), " and ")
		byLack[lack] = append(byLack[lack], node.Name)
	}
	var notes []string
	for _, lack := range slices.Sorted(maps.Keys(byLack)) {
		slices.Sort(byLack[lack])
		names := byLack[lack]
		notes = append(notes, fmt.Sprintf("%s: %s.", Page{}.Names(names), lack))
		if len(notes) == mostNames {
			break
		}
	}
	if len(nodes) > 0 {
		notes = append(notes, "To give a node the interfaces: kubectl label node NODE "+
			strings.ReplaceAll(pairs(n.Selector), ",", " "))
	}
	return notes
}

func missingLabels(n NodeENI, labels map[string]string, missing []string) []string {
	var all []string
	for _, key := range missing {
		if have, ok := labels[key]; ok {
			all = append(all, fmt.Sprintf("label %s is %q and not %q", key, have, n.Selector[key]))
		} else {
			all = append(all, "no label "+key)
		}
	}
	return all
}

// WhyNode explains a node of the fleet.
func WhyNode(f Fleet, n Node) Why {
	w := Why{Kind: "Node", Name: n.Name, Troubles: issues([]Node{n})}
	var meant []string
	for _, e := range f.sorted().NodeENIs {
		if e.Selects(n.Labels) {
			meant = append(meant, e.Name)
		}
	}
	w.notes(f, n, meant)
	switch {
	case n.Unserved != "":
		w.Verdict = "It is passed over, and can get no interfaces: " + n.Unserved + "."
	case n.OwningNode != "":
		w.Verdict = fmt.Sprintf("It gets no interfaces: its instance %s is node %s already, whose Node is older.",
			n.InstanceID, n.OwningNode)
		w.Notes = append(w.Notes, Remediation(reasonAnotherNode))
	case n.Absent:
		w.Verdict = "There is no Node of that name any more; its NetworkInterfaces stay until EC2 confirms that its " +
			"interfaces are gone."
	case len(meant) == 0 && len(n.Interfaces) == 0:
		w.Verdict = "No NodeENI selects this node, so it gets no interfaces."
		w.Notes = append(w.Notes, unmatched(f, n)...)
	case n.Paused:
		w.Verdict = "It is paused: nothing is made, changed or removed for it."
		w.Notes = append(w.Notes, Remediation(reasonPaused))
	case !n.concerned() && w.unable(f, meant):
	case w.unjudged(f, n, meant):
	case n.ready() && len(w.Troubles) == 0:
		w.Fine, w.Verdict = true, fmt.Sprintf("All is as declared: %s attached.", text.Count(n.Attached, "interface"))
	default:
		w.Verdict = fmt.Sprintf("%d of %s attached.", n.Attached, text.Count(n.Desired, "interface"))
		w.explainReady(n.Ready)
	}
	return w
}

// unable explains why the controller can change nothing for NodeENIs that select a node, and reports whether
// there is one.
func (w *Why) unable(f Fleet, meant []string) bool {
	for _, name := range meant {
		if e, _ := f.NodeENI(name); e.unable() {
			w.Verdict = fmt.Sprintf("%s wants interfaces here, and the controller can change nothing for it.", name)
			w.explainReady(e.Ready)
			return true
		}
	}
	return false
}

// unjudged names the NodeENIs that select a node and have no NetworkInterface there, and reports whether there is one.
func (w *Why) unjudged(f Fleet, n Node, meant []string) bool {
	var names []string
	for _, name := range meant {
		e, _ := f.NodeENI(name)
		has := slices.ContainsFunc(n.Interfaces, func(i Interface) bool { return i.NodeENI == name && !i.Deleting })
		if !has && !e.Paused && !e.Deleting && (e.Accepted || !n.concerned()) {
			names = append(names, name)
			w.explainReady(e.Ready)
		}
	}
	if len(names) == 0 {
		return false
	}
	w.Verdict = fmt.Sprintf("%s wants interfaces here, and the controller has not begun.", strings.Join(names, ", "))
	if !n.concerned() {
		w.Notes = append(w.Notes, notRunning)
	}
	return true
}

func (w *Why) notes(f Fleet, n Node, meant []string) {
	for _, name := range meant {
		switch e, _ := f.NodeENI(name); {
		case e.Paused:
			w.Notes = append(w.Notes, fmt.Sprintf("NodeENI %s is paused.", name))
		case !e.Accepted && !e.unable():
			w.Notes = append(w.Notes, fmt.Sprintf("No controller has taken NodeENI %s up. %s", name, notRunning))
		}
	}
	if n.Tainted {
		w.Notes = append(w.Notes, "The taint networking.k8s.aws/not-ready keeps pods away until all required interfaces are "+
			"ready.")
	}
}

// unmatched returns what each NodeENI selects.
func unmatched(f Fleet, n Node) []string {
	if len(f.NodeENIs) == 0 {
		return []string{"None is declared: kubectl apply -f examples/single-subnet.yaml; see what it would do first: " +
			"kubectl eni plan -f FILE."}
	}
	var notes []string
	for _, e := range f.sorted().NodeENIs {
		if missing := e.missing(n.Labels); len(missing) > 0 && len(notes) < mostNames {
			notes = append(notes, fmt.Sprintf("NodeENI %s selects nodes with %s: %s.", e.Name, pairs(e.Selector),
				strings.Join(missingLabels(e, n.Labels, missing), " and ")))
		}
	}
	return notes
}

func pairs(labels map[string]string) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		all = append(all, key+"="+labels[key])
	}
	return cmp.Or(strings.Join(all, ","), "(none)")
}

// Text prints the explanation.
func (w Why) Text(p Page) string {
	m := terminal.Bad
	switch {
	case w.Fine:
		m = terminal.Good
	case !slices.ContainsFunc(w.Troubles, func(t Issue) bool { return !t.Passing }) && len(w.Troubles) > 0:
		m = terminal.Busy
	case len(w.Troubles) == 0:
		m = terminal.Idle
	}
	var b strings.Builder
	b.WriteString(p.paint(terminal.Strong, terminal.Line(w.Kind+" "+w.Name)) + "\n")
	b.WriteString(p.paragraph(p.sign(m)+" ", w.Verdict))
	for _, note := range w.Notes {
		b.WriteString(p.paragraph("  ", note))
	}
	for _, t := range w.Troubles {
		b.WriteString("\n" + t.text(p))
	}
	return b.String()
}
