// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "strings"

// Metadata is what the instance metadata service reports. It lags behind EC2 and has no tags of interfaces.
type Metadata struct {
	InstanceID string
	// PrimaryMAC is the address of the primary interface.
	PrimaryMAC string
	// Interfaces are those attached, the primary one included. The Attachment of one whose slot is not known yet is
	// nil.
	Interfaces []Interface
}

// ByMAC returns the interface with the MAC address, or nil.
func (m Metadata) ByMAC(mac string) *Interface {
	for n := range m.Interfaces {
		if strings.EqualFold(m.Interfaces[n].MAC, mac) {
			return &m.Interfaces[n]
		}
	}
	return nil
}
