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

// The tag keys that say how the link of a network's interface shall be. A NodeENI says it of its own interfaces, and a network has
// no object that an agent could read.
const (
	TagMTU     = Prefix + "mtu"
	TagSysctls = Prefix + "sysctls"
)

// Bounds of what tags say of a link; those of the API's schemas.
const (
	// MinMTU is the least that IPv6 asks of a link, in bytes (RFC 8200, section 5).
	MinMTU = 1280
	// MaxMTU is the largest inside a VPC, in bytes (EC2 user guide, "Network MTU").
	MaxMTU = hostnet.DefaultMTU
	// MaxSetting is the highest value of a kernel setting.
	MaxSetting = 8
)

// LinkTags returns the tags that say a link's MTU in bytes, 0 for the agent's default, and its kernel settings.
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

// ReadLink returns what [LinkTags] wrote. What is out of bounds or unknown was not written by us, and is left out.
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
