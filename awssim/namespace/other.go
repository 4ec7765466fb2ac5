// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

// Package namespace creates Linux network namespaces, in which a simulated instance has its own links.
package namespace

import (
	"errors"
	"fmt"
)

var errSystem = fmt.Errorf("network namespaces: %w: only Linux has them", errors.ErrUnsupported)

// Namespace is a network namespace. On other systems there is none.
type Namespace struct{}

// Possible returns an error: only Linux has network namespaces.
func Possible() error { return errSystem }

// New is not supported.
func New() (*Namespace, error) { return nil, errSystem }

// Open is not supported.
func Open(string) (*Namespace, error) { return nil, errSystem }

// Close does nothing.
func (*Namespace) Close() error { return nil }

// Path is not supported.
func (*Namespace) Path() string { return "" }

// Do is not supported.
func (*Namespace) Do(func()) error { return errSystem }

// IP is not supported.
func (*Namespace) IP(string) (string, error) { return "", errSystem }

// Attach is not supported.
func (*Namespace) Attach(string, string, *Namespace, string) error { return errSystem }
