// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package message writes the messages of the planner for people. Each names the object, the cause and the next step;
// the planner decides which one is true. Package plan describes its calls itself, because logs name calls so as well.
package message

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// The messages that depend on nothing.
const (
	// NoAnswer is about the call that creates an interface.
	NoAnswer = "EC2 was asked to make the interface and has not answered yet"
	// NotReturned is about an interface whose client token EC2 remembers.
	NotReturned = "an earlier attempt created the interface with other parameters, and EC2 does not return it; another " +
		"one is created"
	// NoSubnet is about an object.
	NoSubnet = "the object names no subnet"
)

// InProgress says which state of an interface EC2 reports.
func InProgress(i eni.Interface) string {
	state := string(i.Status)
	if i.Attachment != nil {
		state = string(i.Attachment.Status)
	}
	return fmt.Sprintf("EC2 reports %s as %s", i.ID, state)
}

// RecordedFirst says that an object first records the interface that it takes over.
func RecordedFirst(id string) string {
	return id + " existed before the object or its record of it, and is recorded first"
}

// MayBeTakenOver says that a read does not prove yet whose interface one is.
func MayBeTakenOver(id string) string {
	return id + " may be the interface of the object; multieni takes it over once a read of EC2 certainly shows the " +
		"effects of all earlier calls"
}

// TagsCopied says that an interface and others have the UID of one object in their tags.
func TagsCopied(id string) string {
	return fmt.Sprintf("several interfaces have the tag %s of the object, %s among them; remove the tag from those that "+
		"are not its own", identity.TagUID, id)
}

// NotImported says that an interface without an owner fills the place of a desired one.
func NotImported(id, subnetID string, slot eni.Slot) string {
	return fmt.Sprintf("%s in %s is already at %s, and its tags name no owner; import it with kubectl eni import --from "+
		"multus-function, or detach it", id, subnetID, slot)
}

// OutsideCluster says that an instance has none of the tags.
func OutsideCluster(instanceID string, tags []eni.InstanceTag) string {
	words := make([]string, len(tags))
	for n, t := range tags {
		words[n] = t.String()
	}
	return fmt.Sprintf("instance %s lacks the tag %s, which the cluster's instances have; correct the Node's providerID "+
		"or, if that is right, add the tag to the instance", instanceID, strings.Join(words, " or "))
}

// InstanceNotReady says that the state of an instance allows no attachment.
func InstanceNotReady(instanceID string, state eni.InstanceState) string {
	return fmt.Sprintf("instance %s is %s; interfaces are attached once it runs", instanceID, state)
}

// ManyUnattached says that creations wait for the attachment of earlier interfaces.
func ManyUnattached(n int) string {
	return fmt.Sprintf("%d interfaces of the node exist and are not attached yet; they come first", n)
}

// MayBeCreated says that EC2 refused a client token, and for how long multieni waits for the interface.
func MayBeCreated(wait time.Duration) string {
	return "an earlier attempt created the interface, and EC2 does not return it: it is too new, or deleted; multieni " +
		"creates another one if EC2 does not return it within " + duration(wait)
}

// NotVisible says that EC2 omits an interface.
func NotVisible(id string) string {
	return fmt.Sprintf("EC2's last answer omits %s; multieni reads it again before it treats it as deleted", id)
}

// RemovedExternally says at which age of its object an interface gets a successor.
func RemovedExternally(id string, age time.Duration) string {
	return fmt.Sprintf("another program removed %s or edited its tags shortly after its creation; multieni creates the "+
		"next one when the object is %s old", id, duration(age))
}

// AttachedElsewhere says that an interface is attached to another instance.
func AttachedElsewhere(id, instanceID string) string {
	return fmt.Sprintf("another program attached %s to %s; detach it there", id, instanceID)
}

// AttachFailed says that EC2 did not complete several attempts to attach an interface.
func AttachFailed(id, instanceID string, attempts int) string {
	return fmt.Sprintf("EC2 did not complete the attachment of %s in %d attempts; multieni retries at growing intervals. "+
		"Check whether instance %s is healthy; a stop and start of it can help", id, attempts, instanceID)
}

// AttachOverdue says that EC2 takes too long to attach an interface, and from which age of its object it is replaced.
func AttachOverdue(id, instanceID string, timeout, age time.Duration) string {
	return fmt.Sprintf("EC2 has not attached %s within %s; multieni replaces it once its NetworkInterface is %s old and "+
		"nothing uses it. Check whether instance %s is healthy; a stop and start of it can help. kubectl delete eni "+
		"replaces it now", id, timeout, duration(age), instanceID)
}

// Reverted says that another program reverts a field of an interface, and how to find it.
func Reverted(field, id, wanted, shown string) string {
	return fmt.Sprintf("the %s of %s does not last: EC2 accepted the change to %s more than once and shows %s, so "+
		"another program reverts it; find that program in CloudTrail (aws cloudtrail lookup-events --lookup-attributes "+
		"AttributeKey=ResourceName,AttributeValue=%s), and stop it, or declare the value that it sets; multieni sets the "+
		"value again at growing intervals, at least every hour", field, id, wanted, shown, id)
}

// Tags writes the tags that an interface has of some.
func Tags(tags map[string]string) string {
	if len(tags) == 0 {
		return "none of them"
	}
	var all []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		all = append(all, key+"="+tags[key])
	}
	return strings.Join(all, ",")
}

// GroupsKept says that an interface keeps its security groups, because the desired ones are unknown.
func GroupsKept(id string, groups []string, why string) string {
	return fmt.Sprintf("%s keeps the security groups that it has (%s), since %s", id, strings.Join(groups, ", "), why)
}

// UnsupportedByType says that an instance type does not support some fields of a NodeENI.
func UnsupportedByType(fields []string) string {
	return fmt.Sprintf("the instance type does not support %s, or EC2 did not say that it does; the interface works "+
		"without; remove the field from the NodeENI, or use an instance type that supports it",
		strings.Join(fields, " and "))
}

// duration writes a wait in its largest unit.
func duration(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%d seconds", int(d.Seconds()))
	case d == time.Minute:
		return "minute"
	default:
		return fmt.Sprintf("%d minutes", int(d.Minutes()))
	}
}
