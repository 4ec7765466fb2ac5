// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import "strings"

// Metadata is the answer of the instance metadata service. It lags behind EC2 and has no tags of interfaces.
type Metadata struct {
	InstanceID string
	// PrimaryMAC is the MAC address of the primary interface.
	PrimaryMAC string
	// Interfaces are the attached ones, including the primary one, each with ID, MAC address and prefixes alone.
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
