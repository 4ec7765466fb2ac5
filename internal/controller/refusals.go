// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/multieni/multieni/internal/core/eni"
)

// runTimeReads are the EC2 reads that multieni needs to give interfaces to nodes. DescribeInstanceTypes is not among
// them: a table of known types replaces it. An interface that needs a denied read of addresses reports that itself.
var runTimeReads = []string{"DescribeInstances",
	"DescribeNetworkInterfaces", "DescribeSecurityGroups", "DescribeSubnets"}

// Refusals holds the reads that EC2 refuses because the controller's role lacks the permission, as of EC2's last
// answer. It is safe for concurrent use. The zero value holds none.
type Refusals struct {
	// mu guards refused and changed.
	mu      sync.Mutex
	refused map[string]bool
	changed []func()
}

// Note records how EC2 answered an action; the class is empty for success. It notifies the watchers of a change.
func (r *Refusals) Note(action string, class eni.Class) {
	is := class == eni.Unauthorized
	if !is && class != "" || !slices.Contains(runTimeReads, action) && action != "DescribeInstanceTypes" {
		return
	}
	r.mu.Lock()
	if r.refused == nil {
		r.refused = map[string]bool{}
	}
	isNew := r.refused[action] != is
	r.refused[action] = is
	tell := slices.Clone(r.changed)
	r.mu.Unlock()
	for _, told := range tell {
		if isNew {
			told()
		}
	}
}

// Watch registers a function that is called after each change.
func (r *Refusals) Watch(changed func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = append(r.changed, changed)
}

// CannotRead reports whether EC2 refuses a read that every plan needs.
func (r *Refusals) CannotRead() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(runTimeReads, func(action string) bool { return r.refused[action] })
}

// Refused reports whether EC2 refuses one action.
func (r *Refusals) Refused(action string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused[action]
}

// Message names the refused reads, and the next step.
func (r *Refusals) Message() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var actions []string
	for action, is := range r.refused {
		if is {
			actions = append(actions, "ec2:"+action)
		}
	}
	slices.Sort(actions)
	return fmt.Sprintf("EC2 refuses %s to the controller's role, so it cannot plan; allow it in the "+
		"role's policy (deploy/iam/controller.json has all "+
		"actions), and see with `multieni doctor` in the controller's pod what else is missing", strings.Join(actions, ", "))
}
