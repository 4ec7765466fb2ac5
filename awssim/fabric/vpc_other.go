// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package fabric

import "github.com/multieni/multieni/awssim/namespace"

// vpc does not exist on other systems: [New] returns an error.
type vpc struct{}

func newVPC() (*vpc, error) { return nil, namespace.Possible() }

func (*vpc) apply([]link) error { return namespace.Possible() }

func (*vpc) inside(func()) error { return namespace.Possible() }

func (*vpc) close() error { return nil }
