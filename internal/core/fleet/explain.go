// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"fmt"
	"strings"

	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// explainDrift says what happens to a live interface that is not as declared.
func (s survey) explainDrift(i *surveyed, o Object) plan.Problem {
	drift := i.drift[o.Name]
	switch {
	case drift[0].Want == render.Nowhere:
		why := "the NodeENI has no subnet for the node; add one, or narrow its nodeSelector"
		if len(i.placed.Problems) > 0 {
			why = i.placed.Problems[0].Message
		}
		return plan.Problem{Reason: plan.Drifted, Message: fmt.Sprintf(
			"%s in %s stays as it is: %s, or change the NodeENI back", o.ENIID, o.SubnetID, why)}
	case !s.n.Replace:
		return plan.Problem{Reason: plan.Drifted, Message: fmt.Sprintf("%s is not as declared (%s), and only a new "+
			"interface can have what is declared; set updatePolicy: Replace, or change the NodeENI back",
			o.ENIID, joined(drift))}
	case i.placed.GroupProblem != nil:
		return *i.placed.GroupProblem
	default:
		return plan.Problem{Reason: plan.Replacing, Message: fmt.Sprintf("%s will be replaced (%s) once %s",
			o.ENIID, explain(drift[0]), s.awaited(i))}
	}
}

// awaited says what the replacement of an interface waits for. The text changes only if that does.
func (s survey) awaited(i *surveyed) string {
	switch {
	case i.down(), i.deleting():
		return "every other interface of the node is attached"
	case !i.placed.Complete:
		return "all selectors of its NodeENI are resolved"
	default:
		return fmt.Sprintf("it is the node's turn: no more than %d at a time (maxUnavailable) are without an interface of "+
			"NodeENI %s", s.n.limit(), s.n.Name)
	}
}

// joined writes drift in one line.
func joined(all []plan.Drift) string {
	words := make([]string, len(all))
	for n, d := range all {
		words[n] = explain(d)
	}
	return strings.Join(words, ", ")
}
