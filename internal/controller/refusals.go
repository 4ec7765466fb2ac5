// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/multieni/multieni/internal/core/eni"
)

// runTimeReads are the EC2 reads that multieni needs to give interfaces to nodes. DescribeInstanceTypes is not among
// them: a table of known types replaces it. An interface that needs a denied read of addresses reports that itself.
var runTimeReads = []string{"DescribeInstances",
	"DescribeNetworkInterfaces", "DescribeSecurityGroups", "DescribeSubnets"}

// Refusals holds the reads that EC2 refuses because the controller's role lacks the permission, or because EC2 does not
// accept its credentials, as of EC2's last answer. It is safe for concurrent use. The zero value holds none.
type Refusals struct {
	// mu guards refused and changed.
	mu sync.Mutex
	// refused has EC2's error codes by action.
	refused map[string]string
	changed []func()
}

// Note records how EC2 answered an action; class and code are empty for success. It notifies the watchers of a change.
func (r *Refusals) Note(action string, class eni.Class, code string) {
	is := class == eni.Unauthorized
	if !is && class != "" || !slices.Contains(runTimeReads, action) && action != "DescribeInstanceTypes" {
		return
	}
	r.mu.Lock()
	if r.refused == nil {
		r.refused = map[string]string{}
	}
	was, had := r.refused[action]
	isNew := had != is || is && was != code
	delete(r.refused, action)
	if is {
		r.refused[action] = code
	}
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
	return slices.ContainsFunc(runTimeReads, r.isRefused)
}

// Refused reports whether EC2 refuses one action.
func (r *Refusals) Refused(action string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.isRefused(action)
}

// isRefused is [Refusals.Refused] for callers that hold the lock.
func (r *Refusals) isRefused(action string) bool {
	_, is := r.refused[action]
	return is
}

// permissionCodes are EC2's error codes for a missing permission. Other codes of the class Unauthorized are about the
// credentials.
var permissionCodes = []string{"UnauthorizedOperation", "AccessDenied", "AccessDeniedException", ""}

// Message names the refused reads, and the next step.
func (r *Refusals) Message() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var actions []string
	for _, action := range slices.Sorted(maps.Keys(r.refused)) {
		if code := r.refused[action]; !slices.Contains(permissionCodes, code) {
			return fmt.Sprintf("EC2 does not accept the controller's AWS credentials (%s: %s), so it cannot plan; check "+
				"which credentials the controller's pod has with `multieni doctor` in it, whether their account has the region "+
				"enabled, and the clock of the node", action, code)
		}
		actions = append(actions, "ec2:"+action)
	}
	return fmt.Sprintf("EC2 refuses %s to the controller's role, so it cannot plan; allow it in the "+
		"role's policy (deploy/iam/controller.json has all "+
		"actions), and see with `multieni doctor` in the controller's pod what else is missing", strings.Join(actions, ", "))
}
