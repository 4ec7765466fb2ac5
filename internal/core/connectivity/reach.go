// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/report"
	"github.com/multieni/multieni/internal/core/text"
)

// statistics is the line with which the ping programs of iputils and BusyBox end.
var statistics = regexp.MustCompile(`(\d+) packets transmitted, (\d+) (?:packets )?received`)

// mostOutput is the number of bytes of a program's output, or of an annotation, that a verdict repeats.
const mostOutput = 200

// Reach judges a ping by what its program printed.
func Reach(p Ping) report.Check {
	check := report.Check{Check: fmt.Sprintf("ping from %v to %v", p.From, p.To)}
	way := fmt.Sprintf("from %v to %v", p.Source, p.Destination)
	counts := statistics.FindStringSubmatch(p.Output)
	switch {
	case counts == nil:
		check.Grade = report.Warning
		check.Found = fmt.Sprintf("no packet was sent %s: %s", way, summary(p.Output))
		check.Next = fmt.Sprintf("You need the permission to create pods/exec in namespace %s, and the pod a container with "+
			"ping. Without ping: kubectl debug -n %s %s -it --image=busybox --profile=netadmin -- ping -c 3 -I %v %v",
			p.From.Namespace, p.From.Namespace, p.From.Name, p.Source, p.Destination)
	case counts[2] == "0":
		check.Grade, check.Found = report.Failed, fmt.Sprintf("no answer to %s packets %s", counts[1], way)
		check.Next = "The failed step above is the cause. If there is none, check the network ACLs of both subnets, a " +
			"NetworkPolicy or firewall in the pods, and the agents' logs."
	case counts[1] != counts[2]:
		check.Grade, check.Found = report.Warning, fmt.Sprintf("%s of %s packets were answered %s", counts[2], counts[1], way)
		check.Next = "Repeat the check."
	default:
		check.Grade, check.Found = report.OK, fmt.Sprintf("%s packets were answered %s", counts[1], way)
	}
	return check
}

// summary returns the last line of the output that says more than the exit code.
func summary(output string) string {
	for _, line := range slices.Backward(strings.Split(output, "\n")) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "command terminated with exit code") {
			return text.Clip(line, mostOutput)
		}
	}
	return "ping printed nothing"
}
