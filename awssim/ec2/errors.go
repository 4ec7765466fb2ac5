// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/http"

	"github.com/multieni/multieni/awssim/apierror"
)

// Error is an error of EC2.
type Error = apierror.Error

// refuse returns a client error.
func refuse(code, format string, args ...any) *Error { return apierror.New(code, format, args...) }

// dryRun is the answer to a valid request with DryRun.
func dryRun() *Error {
	return &Error{
		Code:    "DryRunOperation",
		Message: "Request would have succeeded, but DryRun flag is set.",
		Status:  http.StatusPreconditionFailed,
	}
}

func missing(parameter string) *Error {
	return refuse("MissingParameter", "The request must contain the parameter %s", parameter)
}

func invalidValue(format string, args ...any) *Error {
	return refuse("InvalidParameterValue", format, args...)
}

func invalidCombination(message string) *Error {
	return refuse("InvalidParameterCombination", "%s", message)
}

// notModelled is for values that EC2 supports and the simulator does not: the simulator must not pretend.
func notModelled(what string) *Error {
	return refuse("UnknownParameter", "awssim does not model %s", what)
}

func subnetFull() *Error {
	return refuse("InsufficientFreeAddressesInSubnet",
		"The specified subnet does not have enough free addresses to satisfy the request.")
}

// noAddresses is EC2's other error for a full subnet, for prefixes and for the secondary addresses of a new interface
// (aws/amazon-vpc-cni-k8s#3105).
func noAddresses() *Error {
	return invalidValue("There aren't sufficient free Ipv4 addresses or prefixes")
}
