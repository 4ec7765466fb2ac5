// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package apierror is how a simulated AWS service refuses. Each protocol writes it in its own way.
package apierror

import (
	"fmt"
	"net/http"
)

// Error is a refusal, as AWS words it. Match Code; AWS changes messages.
type Error struct {
	// Code is the service's, such as "InvalidNetworkInterfaceID.NotFound".
	Code string
	// Message is for people.
	Message string
	// Status is that of the HTTP response.
	Status int
}

func (e *Error) Error() string { return e.Code + ": " + e.Message }

// New makes the usual error, which is the client's fault.
func New(code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...), Status: http.StatusBadRequest}
}
