// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// ReadsFor counts the reads since a time that name an instance, or an interface that is attached to it.
func ReadsFor(instance string, interfaces []*ec2.NetworkInterface, calls []awssim.RecentCall,
	since time.Time) (reads int) {
	ids := []string{instance}
	for _, i := range interfaces {
		if i.Attachment != nil && i.Attachment.InstanceID == instance {
			ids = append(ids, i.NetworkInterfaceID)
		}
	}
	for _, call := range calls {
		if !call.Time.Before(since) && strings.HasPrefix(call.Action, "Describe") && names(call, ids) {
			reads++
		}
	}
	return reads
}

func names(call awssim.RecentCall, ids []string) bool {
	for _, value := range call.Parameters {
		if slices.Contains(ids, value) {
			return true
		}
	}
	return false
}
