// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apierror has the errors of simulated AWS services. Each protocol encodes them in its own form.
package apierror

import (
	"fmt"
	"net/http"
)

// Error is an error of AWS. Match Code; AWS changes messages.
type Error struct {
	// Code is the error code, such as "InvalidNetworkInterfaceID.NotFound".
	Code string
	// Message is for people.
	Message string
	// Status is the status of the HTTP response.
	Status int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// New returns a client error (status 400).
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}
