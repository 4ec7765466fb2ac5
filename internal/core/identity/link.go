// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// The tag keys for the desired link of a network's interface. For the interfaces of a NodeENI, the agent reads the
// NodeENI; a network has no object to read.
const (
	TagMTU     = Prefix + "mtu"
	TagSysctls = Prefix + "sysctls"
)

// Bounds of the values in tags for links, as in the schemas of the API.
const (
	// MinMTU is the minimum MTU that IPv6 requires, in bytes (RFC 8200, section 5).
	MinMTU = 1280
	// MaxMTU is the largest MTU inside a VPC, in bytes (EC2 user guide, "Network MTU").
	MaxMTU = hostnet.DefaultMTU
	// MaxSetting is the highest value of a kernel setting.
	MaxSetting = 8
)

// LinkTags returns the tags for a link's MTU in bytes, with 0 for the agent's default, and for its kernel settings.
func LinkTags(mtu int, settings map[hostnet.Setting]int) map[string]string {
	tags := map[string]string{}
	if mtu > 0 {
		tags[TagMTU] = strconv.Itoa(mtu)
	}
	var words []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		words = append(words, fmt.Sprintf("%s=%d", name, settings[name]))
	}
	if len(words) > 0 {
		tags[TagSysctls] = strings.Join(words, " ")
	}
	return tags
}

// ReadLink returns the values that [LinkTags] wrote. It ignores unknown settings and values out of bounds, because
// multieni writes none.
func ReadLink(tags map[string]string) (mtu int, settings map[hostnet.Setting]int) {
	if n, err := strconv.Atoi(tags[TagMTU]); err == nil && n >= MinMTU && n <= MaxMTU {
		mtu = n
	}
	for word := range strings.FieldsSeq(tags[TagSysctls]) {
		name, text, _ := strings.Cut(word, "=")
		value, err := strconv.Atoi(text)
		if err != nil || value < 0 || value > MaxSetting || !slices.Contains(hostnet.Settings(), hostnet.Setting(name)) {
			continue
		}
		if settings == nil {
			settings = map[hostnet.Setting]int{}
		}
		settings[hostnet.Setting(name)] = value
	}
	return mtu, settings
}
