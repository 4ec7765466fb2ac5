// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"errors"
	"fmt"
)

// Class says what a failed EC2 call means for its caller. The set is closed: every error code of EC2 has one class, and
// decisions use classes, never error texts.
type Class string

// The classes of failure, and what to do about each.
const (
	// Throttled: the account's token bucket is empty. Retry later, at a lower rate.
	Throttled Class = "Throttled"
	// Transient: EC2 or the connection to it failed. The call may have taken effect: read before the next attempt.
	Transient Class = "Transient"
	// NotFound: EC2 does not know the interface, attachment or instance, either not yet or not any more.
	NotFound Class = "NotFound"
	// SlotTaken: another interface has the device index. Read the instance again and choose another slot.
	SlotTaken Class = "SlotTaken"
	// Busy: the interface is attached or still detaching. Read it again.
	Busy Class = "Busy"
	// LimitExceeded: the instance, the account or the interface has no room for more.
	LimitExceeded Class = "LimitExceeded"
	// NoAddresses: the subnet has too few free addresses.
	NoAddresses Class = "NoAddresses"
	// NoPrefixes: the subnet has no free block for a prefix. It can have free addresses.
	NoPrefixes Class = "NoPrefixes"
	// AddressTaken: another interface has the named address.
	AddressTaken Class = "AddressTaken"
	// WrongZone: the interface and the instance are in different zones or VPCs.
	WrongZone Class = "WrongZone"
	// WrongState: the state of the instance does not allow the call. Read it again.
	WrongState Class = "WrongState"
	// Unauthorized: the role does not allow the call. A person must act.
	Unauthorized Class = "Unauthorized"
	// IdempotencyMismatch: the client token was used before with other parameters.
	IdempotencyMismatch Class = "TokenSpent"
	// Invalid: EC2 refuses the request itself. A person must change it.
	Invalid Class = "Invalid"
)

// APIError is a failed EC2 call.
type APIError struct {
	Class Class
	// Operation is the EC2 action, for example "AttachNetworkInterface".
	Operation string
	// Code and Message are EC2's own. Without an answer Code is empty, and Message is the SDK's, without what differs from
	// attempt to attempt.
	Code, Message string
	// NoCredentials is set if the call was not sent because the SDK found no credentials.
	NoCredentials bool
	// Err is the cause as the SDK reported it.
	Err error
}

// Error implements error.
func (f *APIError) Error() string {
	switch {
	case f.NoCredentials:
		return fmt.Sprintf("%s: no AWS credentials: %s", f.Operation, f.Message)
	case f.Code == "" && f.Message == "":
		return fmt.Sprintf("%s: no answer from EC2: %v", f.Operation, f.Err)
	case f.Code == "":
		return fmt.Sprintf("%s: no answer from EC2: %s", f.Operation, f.Message)
	}
	return fmt.Sprintf("%s: %s: %s", f.Operation, f.Code, f.Message)
}

// Unwrap returns the cause.
func (f *APIError) Unwrap() error { return f.Err }

// ErrorClass returns the class of the [APIError] in err's chain. An error without one counts as Transient, because the
// effect of the call is unknown.
func ErrorClass(err error) Class {
	var fault *APIError
	if errors.As(err, &fault) {
		return fault.Class
	}
	return Transient
}
