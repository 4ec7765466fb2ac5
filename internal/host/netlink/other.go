// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package netlink

import (
	"errors"
	"fmt"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Host is the network of a Linux host. On other systems there is none.
type Host struct{}

// Open fails: only Linux has netlink.
func Open(Options) (*Host, error) {
	return nil, fmt.Errorf("open netlink: %w: only Linux has it", errors.ErrUnsupported)
}

// Facts is not supported.
func (*Host) Facts([]string) (hostnet.Facts, error) { return hostnet.Facts{}, errors.ErrUnsupported }

// Apply is not supported.
func (*Host) Apply(hostnet.Operation) error { return errors.ErrUnsupported }

// Events returns a channel that sends nothing.
func (*Host) Events() <-chan struct{} { return nil }

// Close does nothing.
func (*Host) Close() {}
