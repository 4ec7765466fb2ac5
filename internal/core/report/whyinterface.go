// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/multieni/multieni/internal/core/plan"
)

// WhyInterface explains a NetworkInterface of the fleet.
func WhyInterface(f Fleet, i Interface) Why {
	w := Why{Kind: "NetworkInterface", Name: i.Name, Troubles: issues([]Node{{Name: i.Node, Interfaces: []Interface{i}}})}
	where := fmt.Sprintf("%s at %s of node %s", i.ENIID, i.Slot, i.Node)
	switch {
	case i.Deleting:
		w.explainRemoval(f, i)
	case i.Phase == plan.Attached && !i.unfinished():
		w.Fine, w.Verdict = true, fmt.Sprintf("It is as declared: %s.", where)
	case i.Phase == plan.Attached:
		w.Verdict = fmt.Sprintf("It is attached, and not as declared: %s.", where)
	case i.ENIID != "":
		w.Verdict = fmt.Sprintf("%s exists and is not attached to node %s.", i.ENIID, i.Node)
	default:
		w.Verdict = fmt.Sprintf("It has no ENI yet, for %s of node %s.", i.Slot, i.Node)
	}
	w.noteUse(i)
	w.noteOwner(f, i)
	return w
}

// explainRemoval says what the removal of an interface waits for.
func (w *Why) explainRemoval(f Fleet, i Interface) {
	switch {
	case i.Held && i.Unanswered:
		w.Verdict = fmt.Sprintf("It is to be removed, and no agent has answered for %s, which pods may use: it stays until "+
			"the agent of node %s says that nothing uses it.", i.ENIID, i.Node)
	case i.Held:
		w.Verdict = fmt.Sprintf("It is to be removed, and stays attached until nothing on node %s uses it.", i.Node)
	default:
		w.Verdict = "It is being removed: nothing uses it any more."
	}
	if n, known := f.Node(i.Node); i.Held && (!known || n.Absent) {
		w.Notes = append(w.Notes, "There is no Node "+i.Node+" any more. If its instance runs and its agent will not come "+
			"back: kubectl eni release "+i.Name)
	} else if i.Held {
		w.Notes = append(w.Notes, "If the agent of the node will not come back: kubectl eni release "+i.Name)
	}
}

// noteUse says who uses an interface, or may begin to.
func (w *Why) noteUse(i Interface) {
	if i.Closed && !i.Deleting {
		w.Notes = append(w.Notes, "It is closed: it serves the pods that it has, and no further ones.")
	}
	if len(i.Pods) > 0 {
		w.Notes = append(w.Notes, "Pods with an address of it: "+Page{}.Names(i.Pods)+".")
	}
	if n := len(i.Foreign); n > 0 {
		w.Notes = append(w.Notes, "Another program assigned "+strings.Join(i.Foreign[:min(n, mostNames)], ", ")+".")
	}
}

// noteOwner says what the NodeENI or the node of an interface has that keeps it as it is.
func (w *Why) noteOwner(f Fleet, i Interface) {
	e, known := f.NodeENI(i.NodeENI)
	switch {
	case known && e.Paused:
		w.Notes = append(w.Notes, fmt.Sprintf("NodeENI %s is paused. %s", e.Name, Remediation(reasonPaused)))
	case known && e.Deleting:
		w.Notes = append(w.Notes, fmt.Sprintf("NodeENI %s is being deleted.", e.Name))
	}
	if n, known := f.Node(i.Node); known && n.Paused {
		w.Notes = append(w.Notes, fmt.Sprintf("Node %s is paused. %s", n.Name, Remediation(reasonPaused)))
	}
	if l := i.Link; l != nil {
		w.Notes = append(w.Notes, fmt.Sprintf("Its link is %s, %s.", cmp.Or(l.AltName, l.Name), strings.ToLower(l.State)))
	}
}
