// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/text"
)

// State is the progress of a link.
type State string

// The states of a link.
const (
	// Missing links do not exist.
	Missing State = "Missing"
	// Moved links are in another network namespace, where they serve a pod.
	Moved State = "Moved"
	// Refused links exist, but cannot be as desired until a user changes something.
	Refused State = "Refused"
	// Configuring links are not yet as desired.
	Configuring State = "Configuring"
	// NoCarrier links are as desired, but no packet can pass.
	NoCarrier State = "NoCarrier"
	// Ready links are as desired and carry packets.
	Ready State = "Ready"
	// Binding devices are about to get a driver for user space, or to be returned to the kernel; Bound ones have a driver
	// for user space, and so no link. Package hostpci sets both.
	Binding State = "Binding"
	Bound   State = "Bound"
)

// Usable reports whether the link serves its purpose.
func (s State) Usable() bool { return s == Ready || s == Moved || s == Bound }

// The reasons in addition to the states: one for each state, and the cases of [Refused].
const (
	ReasonNotFound     = "LinkNotFound"
	ReasonMoved        = "InOtherNamespace"
	ReasonAmbiguous    = "AmbiguousMAC"
	ReasonExcluded     = "Excluded"
	ReasonPrimary      = "PrimaryInterface"
	ReasonAliasTooLong = "AliasTooLong"
	ReasonNameTaken    = "NameTaken"
	ReasonConfiguring  = "Configuring"
	ReasonNoCarrier    = "NoCarrier"
	ReasonReady        = "LinkReady"
)

// Observation is the state of one desired link.
type Observation struct {
	Link    Link
	State   State
	Reason  string
	Message string
	// AltName is the alternative name that the link has, or "".
	AltName string
	// Facts is the link itself, or nil if it does not exist.
	Facts *LinkFacts
}

// Observe returns the state of each of the links, in the order of their MAC addresses.
func Observe(links []Link, facts Facts) []Observation {
	operations := Diff(Configure(links, facts), facts)
	var all []Observation
	for _, f := range findAll(links, facts) {
		all = append(all, f.observe(operations, facts))
	}
	return all
}

func (f foundLinks) observe(operations []Operation, facts Facts) Observation {
	o := Observation{Link: f.link, Facts: f.facts}
	if f.facts != nil {
		o.AltName = f.facts.hasName(f.altName)
	}
	if f.problem != nil {
		o.State, o.Reason, o.Message = f.problem.state, f.problem.reason, f.problem.message
		return o
	}
	rest := slices.DeleteFunc(slices.Clone(operations), func(op Operation) bool { return !f.linkProblems(op) })
	switch {
	case len(rest) > 0:
		o.State, o.Reason = Configuring, ReasonConfiguring
		o.Message = fmt.Sprintf("%s left to make, the first: %s", text.Count(len(rest), "change"), rest[0])
	case !f.facts.Carrier:
		o.State, o.Reason, o.Message = NoCarrier, ReasonNoCarrier, fmt.Sprintf("%s is up but has no carrier", f.facts.Name)
	default:
		o.State, o.Reason, o.Message = Ready, ReasonReady, f.summary(facts)
	}
	return o
}

// linkProblems reports whether the operation is on the link, its routes or its rules.
func (f foundLinks) linkProblems(op Operation) bool {
	switch op := op.(type) {
	case AddRule:
		return slices.Contains(f.link.rules(), op.Rule)
	case RemoveRule:
		return false
	default:
		return op.LinkIndex() == f.facts.Index
	}
}

// summary describes the link in a sentence, with the requests that the kernel cannot meet.
func (f foundLinks) summary(facts Facts) string {
	text := fmt.Sprintf("%s is up", f.facts.Name)
	if want := f.link.MTU; want > f.facts.MTU {
		text += fmt.Sprintf("; its device cannot do an MTU of %d", want)
	}
	var missing []string
	for setting, value := range f.link.settings() {
		if have, has := f.facts.Settings[setting]; has && have != value && slices.Contains(facts.ReadOnly, setting) {
			missing = append(missing, string(setting))
		}
	}
	if len(missing) > 0 {
		slices.Sort(missing)
		text += fmt.Sprintf("; left as they are, because /proc/sys is read-only: %s", strings.Join(missing, ", "))
	}
	return text
}
