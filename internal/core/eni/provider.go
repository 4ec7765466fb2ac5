// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"fmt"
	"strings"
)

// maxZone is the most bytes of a zone's name that is believed; EC2's are a third as long.
const maxZone = 64

// InstanceRef is the instance of a Node.
type InstanceRef struct{ ID, Zone string }

// ParseProviderID returns the instance that a Node's spec.providerID names. The AWS cloud provider writes
// aws:///ZONE/INSTANCE-ID; nodes that are no EC2 instances, such as Fargate and hybrid ones, have other forms and are
// an error here.
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

// IsInstanceID reports whether a text has the form of EC2's instance IDs, the shorter one of before 2016 included (EC2
// user guide, "Resource IDs").
func IsInstanceID(id string) bool {
	hex, found := strings.CutPrefix(id, "i-")
	return found && len(hex) >= 8 && len(hex) <= 17 && strings.Trim(hex, "0123456789abcdef") == ""
}
