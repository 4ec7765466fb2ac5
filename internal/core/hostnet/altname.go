// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

const (
	altNamePrefix = "net-"
	// maxAltName keeps alternative names as short as link names (IFNAMSIZ less its terminator), because not every
	// program that takes a link name is prepared for a longer one.
	maxAltName = 15
	digest     = 5
	// maxFullName is the most characters of an alternative name (ALTIFNAMSIZ in linux/if.h, less its terminator).
	maxFullName = 127
)

// FullName returns the second alternative name of a link, the whole net-NAME, for users: "" if [AltName] is the whole
// name, or if the kernel accepts no name of that length.
func FullName(name string) string {
	whole := altNamePrefix + name
	if len(whole) <= maxAltName || len(whole) > maxFullName {
		return ""
	}
	return whole
}

// AltName returns the alternative name of a link: net-NAME if that has at most 15 characters, else a prefix and a
// digest of it, so that it is the same on every node.
func AltName(name string) string {
	whole := altNamePrefix + name
	if len(whole) <= maxAltName {
		return whole
	}
	sum := sha256.Sum256([]byte(name))
	tail := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:digest]
	return whole[:maxAltName-digest-1] + "-" + tail
}
