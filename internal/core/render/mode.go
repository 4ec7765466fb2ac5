// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render

// Mode says what a NodeENI may do on an instance.
type Mode int

const (
	// Retain claims keep their interfaces; nothing is created, changed or removed.
	Retain Mode = iota
	// Ensure claims get their desired interfaces.
	Ensure
	// Release claims lose their interfaces, for a confirmed reason.
	Release
	// Paused claims keep their interfaces in every case, until a user ends the pause.
	Paused
)

// SelectionFacts are the facts that determine the mode of a claim.
type SelectionFacts struct {
	// NodeENIKnown is set if the API server has the NodeENI, NodeENIDeleting if a user deleted it, and NodeENIGone if a
	// live read confirmed that it does not exist any more.
	NodeENIKnown, NodeENIDeleting, NodeENIGone bool
	// NodePresent is set if a Node names this instance, and Selected if its labels match the NodeENI's selector.
	NodePresent, Selected bool
	// DuplicateSelected is set if the labels of another Node that names the instance match.
	DuplicateSelected bool
	// NodeENIPaused and NodePaused are set by users, by annotation.
	NodeENIPaused, NodePaused bool
}

// Unpaused returns the facts without the pauses.
func (c SelectionFacts) Unpaused() SelectionFacts {
	c.NodeENIPaused, c.NodePaused = false, false
	return c
}

// ModeFor returns what a NodeENI may do on an instance, and why. Only a requested or confirmed deletion, and the labels
// of a present Node, are reasons to remove interfaces; an absent object is none. The end of the instance is not a fact
// about a claim: [Interfaces] handles it.
func ModeFor(c SelectionFacts) (Mode, string) {
	switch {
	case c.NodeENIPaused:
		return Paused, "its NodeENI is paused"
	case c.NodePaused:
		return Paused, "its node is paused"
	case c.NodeENIGone:
		return Release, "its NodeENI does not exist any more"
	case !c.NodeENIKnown:
		return Retain, "its NodeENI is not known to the API server"
	case c.NodeENIDeleting:
		return Release, "its NodeENI is being deleted"
	case !c.NodePresent:
		return Retain, "the API server has no Node for the instance"
	case !c.Selected && c.DuplicateSelected:
		return Retain, "the labels of another Node that names the instance match its NodeENI"
	case !c.Selected:
		return Release, "the node's labels no longer match its NodeENI"
	default:
		return Ensure, ""
	}
}
