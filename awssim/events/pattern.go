// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"fmt"
	"slices"
	"strings"
)

// matches reports whether an event has, under each key of the pattern, one of the values listed there (EventBridge user
// guide, "Event patterns").
func matches(pattern, event map[string]any) bool {
	for key, want := range pattern {
		have, exists := event[key]
		if nested, ok := want.(map[string]any); ok {
			inner, ok := have.(map[string]any)
			if !ok || !matches(nested, inner) {
				return false
			}
			continue
		}
		list, _ := want.([]any)
		if !slices.ContainsFunc(list, func(w any) bool { return matchesOne(w, have, exists) }) {
			return false
		}
	}
	return true
}

// matchesOne compares with a value, or with an operator. A list in the event matches if any member does.
func matchesOne(want, have any, exists bool) bool {
	operator, isOperator := want.(map[string]any)
	if isOperator {
		if present, ok := operator["exists"].(bool); ok {
			return present == exists
		}
	}
	if list, ok := have.([]any); ok {
		return slices.ContainsFunc(list, func(member any) bool { return matchesOne(want, member, true) })
	}
	if !isOperator {
		return exists && want == have
	}
	text, _ := have.(string)
	if prefix, ok := operator["prefix"].(string); ok {
		return exists && strings.HasPrefix(text, prefix)
	}
	if suffix, ok := operator["suffix"].(string); ok {
		return exists && strings.HasSuffix(text, suffix)
	}
	but, _ := operator["anything-but"].([]any)
	if one, ok := operator["anything-but"].(string); ok {
		but = []any{one}
	}
	return exists && !slices.Contains(but, have)
}

// validate returns an error for patterns that matches does not support.
func validate(pattern map[string]any) error {
	for key, want := range pattern {
		switch want := want.(type) {
		case map[string]any:
			if err := validate(want); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		case []any:
			for _, one := range want {
				if err := validateOne(one); err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
			}
		default:
			return fmt.Errorf("%s: a pattern has lists and objects, not %v", key, want)
		}
	}
	return nil
}

func validateOne(want any) error {
	operator, ok := want.(map[string]any)
	if !ok {
		return nil
	}
	for name := range operator {
		if len(operator) != 1 || !slices.Contains([]string{"exists", "prefix", "suffix", "anything-but"}, name) {
			return fmt.Errorf("awssim does not model the operator %s", name)
		}
	}
	return nil
}
