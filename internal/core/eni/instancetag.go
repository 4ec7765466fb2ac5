// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"fmt"
	"strings"
)

// InstanceTag is a tag that distinguishes the instances of the cluster from others.
type InstanceTag struct {
	Key string
	// Value is the value that the tag must have, unless AnyValue is set.
	Value    string
	AnyValue bool
}

// ParseInstanceTag parses KEY=VALUE, or KEY for any value. It cannot express an EC2 tag key that contains an equals
// sign.
func ParseInstanceTag(text string) (InstanceTag, error) {
	key, value, valued := strings.Cut(text, "=")
	if key == "" || key != strings.TrimSpace(key) {
		return InstanceTag{}, fmt.Errorf("%q is neither KEY=VALUE nor KEY of a tag", text)
	}
	return InstanceTag{Key: key, Value: value, AnyValue: !valued}, nil
}

// String returns the text that [ParseInstanceTag] parses.
func (t InstanceTag) String() string {
	if t.AnyValue {
		return t.Key
	}
	return t.Key + "=" + t.Value
}

// On reports whether the tags include the tag.
func (t InstanceTag) On(tags map[string]string) bool {
	value, has := tags[t.Key]
	return has && (t.AnyValue || value == t.Value)
}
