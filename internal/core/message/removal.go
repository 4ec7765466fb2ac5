// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"time"
)

// WhyRemoved says why an interface is removed; ended is set if its instance has ended.
func WhyRemoved(ended bool) string {
	if ended {
		return "its instance is gone"
	}
	return "its NetworkInterface is being deleted"
}

// WhyForced says why an interface that is being detached since a time is detached by force.
func WhyForced(since time.Time) string {
	return fmt.Sprintf("%s, and a plain detach has not completed since %s", WhyRemoved(false),
		since.UTC().Format("2006-01-02T15:04:05Z07:00"))
}

// Removing says that an interface is being removed, and why.
func Removing(id string, ended bool) string {
	return fmt.Sprintf("%s is being removed: %s", id, WhyRemoved(ended))
}

// Detaching is [Removing] with the announcement of a forced detach, while a person can still act.
func Detaching(id string, force time.Duration) string {
	return fmt.Sprintf("%s; if EC2 has not detached it %s after the request, multieni forces the detach",
		Removing(id, false), force)
}

// MayExist says how long an object without an interface stays, because EC2 may have one of it.
func MayExist(wait time.Duration) string {
	return "EC2 may have an interface that was created for the object and not return it yet; the object stays until EC2 " +
		"certainly returns it, for " + duration(wait) + " at most"
}

// InUseByPods says that the removal of an interface, or of the object of a launch interface, waits for pods.
func InUseByPods(id string, launched bool) string {
	what := "will be removed (" + WhyRemoved(false) + "), and is not detached"
	if launched {
		what = "is a launch interface, and stays with its instance; its NetworkInterface is not deleted"
	}
	return fmt.Sprintf("%s %s while the agent of the node has not reported that no pod and no program can use it; delete "+
		"or move the pods; if the node has no agent any more, start it, terminate the instance, or run kubectl eni release",
		id, what)
}

// RemovedElsewhere says that another instance has an interface that must be removed.
func RemovedElsewhere(id, instanceID string) string {
	return fmt.Sprintf("%s must be removed, but another program attached it to %s; detach it there", id, instanceID)
}
