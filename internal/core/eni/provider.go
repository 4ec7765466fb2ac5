// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"fmt"
	"strings"
)

// maxZone bounds the length of a zone's name, in bytes; EC2's names are a third as long.
const maxZone = 64

// InstanceRef is the instance of a Node.
type InstanceRef struct{ ID, Zone string }

// ParseProviderID returns the instance that a Node's spec.providerID names. The AWS cloud provider writes
// aws:///ZONE/INSTANCE-ID. Nodes that are not EC2 instances, such as Fargate and hybrid nodes, have other forms and
// result in an error.
func ParseProviderID(providerID string) (InstanceRef, error) {
	rest, isAWS := strings.CutPrefix(providerID, "aws://")
	if !isAWS {
		return InstanceRef{}, fmt.Errorf("providerID %q is not of the AWS cloud provider", providerID)
	}
	parts := strings.Split(strings.TrimPrefix(rest, "/"), "/")
	if len(parts) != 2 || parts[0] == "" || len(parts[0]) > maxZone || !IsInstanceID(parts[1]) {
		return InstanceRef{}, fmt.Errorf("providerID %q names no EC2 instance", providerID)
	}
	return InstanceRef{Zone: parts[0], ID: parts[1]}, nil
}

// IsInstanceID reports whether a text has the form of an EC2 instance ID, including the shorter form from before 2016
// (EC2 user guide, "Resource IDs").
func IsInstanceID(id string) bool {
	hex, found := strings.CutPrefix(id, "i-")
	return found && len(hex) >= 8 && len(hex) <= 17 && strings.Trim(hex, "0123456789abcdef") == ""
}
