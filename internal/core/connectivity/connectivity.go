// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"net/netip"

	"github.com/multieni/multieni/internal/core/report"
)

// finding is the result of a step.
type finding struct {
	grade       report.Severity
	found, next string
	// last is set if the later steps depend on what this one has not found.
	last bool
}

func ok(found string) finding            { return finding{report.OK, found, "", false} }
func warning(found, next string) finding { return finding{report.Warning, found, next, false} }
func unknown(found, next string) finding { return finding{report.Warning, found, next, true} }
func failed(found, next string) finding  { return finding{report.Failed, found, next, true} }

// end is one of the two pods, with what the steps before have found.
type end struct {
	Pod
	network  Network
	noMultus bool
	ec2      *EC2

	definition    PodName
	configuration configuration
	addresses     []netip.Addr
}

// Examine checks each step between the pods, and says which fails. The steps after a failed one depend on it, so it
// leaves them out for the pod, and those between the pods if it does so for one of them.
func Examine(f Facts) report.Checks {
	var checks report.Checks
	add := func(step string, one finding) bool {
		checks = append(checks, report.Check{Check: step, Grade: one.grade, Found: one.found, Next: one.next})
		return !one.last
	}
	ends := [2]*end{}
	complete := true
	for i, pod := range f.Pods {
		e := f.end(pod)
		ends[i] = e
		for _, step := range podSteps {
			if step.needsEC2 && f.EC2 == nil {
				continue
			}
			if !add(step.name+" of "+pod.String(), step.examine(e)) {
				complete = false
				break
			}
		}
	}
	if !complete {
		return checks
	}
	for _, way := range [][2]*end{{ends[0], ends[1]}, {ends[1], ends[0]}} {
		path := path{from: way[0], to: way[1]}
		for _, one := range path.examine(f.Traffic) {
			add(one.step+" from "+path.from.String()+" to "+path.to.String(), one.finding)
		}
	}
	return checks
}

// podSteps are the steps of one pod, in the order in which each depends on those before it.
var podSteps = []struct {
	name     string
	examine  func(*end) finding
	needsEC2 bool
}{
	{"pod", (*end).examinePod, false},
	{"annotation", (*end).examineAnnotation, false},
	{"definition", (*end).examineDefinition, false},
	{"network", (*end).examineNetwork, false},
	{"attachment", (*end).examineAttachment, false},
	{"address", (*end).examineAddress, true},
}

func (f Facts) end(pod Pod) *end {
	return &end{Pod: pod, network: f.Network, noMultus: f.NoMultus, ec2: f.EC2}
}
