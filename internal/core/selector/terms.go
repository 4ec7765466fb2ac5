// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// mostNamed is the number of objects that a message lists; it only counts the rest.
const mostNamed = 5

func filter[T any](all []T, keep func(T) bool) []T {
	var kept []T
	for _, one := range all {
		if keep(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// distinctTerms drops duplicates, and keeps the order.
func distinctTerms(list []string) []string {
	var kept []string
	for _, one := range list {
		if !slices.Contains(kept, one) {
			kept = append(kept, one)
		}
	}
	return kept
}

func hasTags(have, want map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

func tagText(tags map[string]string) string {
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		pairs = append(pairs, key+"="+tags[key])
	}
	return strings.Join(pairs, ",")
}

// Literal says that values and keys mean themselves, if they look like the patterns, lists and words that Karpenter's
// selectors have. It is empty for other tags.
func Literal(tags map[string]string) string {
	var notes []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		value := tags[key]
		switch {
		case strings.HasPrefix(key, "aws::"):
			notes = append(notes, fmt.Sprintf(
				"the key %s means a tag of this name; in an AWSNodeTemplate aws-ids lists IDs", key))
		case strings.ContainsAny(value, "*?"):
			notes = append(notes, fmt.Sprintf("the value %s of %s means itself: there are no wildcards", value, key))
		case strings.Contains(value, ","):
			notes = append(notes, fmt.Sprintf("the value %s of %s means itself: there are no lists of values", value, key))
		}
	}
	return strings.Join(notes, "; ")
}

// Explained adds what [Literal] says of the tags to the message that nothing has them.
func Explained(message string, tags map[string]string) string {
	if literal := Literal(tags); literal != "" {
		return message + "; " + literal
	}
	return message
}

func abridged(list []string) string {
	if more := len(list) - mostNamed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNamed], ", "), more)
	}
	return strings.Join(list, ", ")
}
