// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"maps"
	"slices"

	"github.com/multieni/multieni/internal/core/eni"
)

// Equal reports whether two reads of an interface have the same content.
func Equal(a, b eni.Interface) bool {
	return sameAttachment(a.Attachment, b.Attachment) && sameAddresses(a.Addresses, b.Addresses) &&
		a.ID == b.ID && a.Type == b.Type && a.Status == b.Status && a.Description == b.Description && a.MAC == b.MAC &&
		a.SubnetID == b.SubnetID && a.SourceDestCheck == b.SourceDestCheck &&
		slices.Equal(a.Groups, b.Groups) && maps.Equal(a.Tags, b.Tags)
}

func sameAttachment(a, b *eni.Attachment) bool {
	return (a == nil) == (b == nil) && (a == nil || *a == *b)
}

func sameAddresses(a, b eni.Addresses) bool {
	return a.PrimaryIPv4 == b.PrimaryIPv4 &&
		slices.Equal(a.SecondaryIPv4, b.SecondaryIPv4) && slices.Equal(a.IPv4Prefixes, b.IPv4Prefixes) &&
		slices.Equal(a.IPv6, b.IPv6) && slices.Equal(a.IPv6Prefixes, b.IPv6Prefixes)
}
