// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package text_test

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/text"
)

func TestClip(t *testing.T) {
	for name, tc := range map[string]struct {
		message string
		size    int
		want    string
	}{
		"a short message stays":                {"short", 5, "short"},
		"a long one ends in an ellipsis":       {"too long", 6, "too…"},
		"no character is cut in two":           {"süß und lang", 6, "sü…"},
		"less than an ellipsis has no room":    {"long", 1, "…"},
		"an empty message is an empty one":     {"", 0, ""},
		"a message of the size is not clipped": {"süß", 5, "süß"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Clip(tc.message, tc.size); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestClipIsValidAndBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		message, size := rapid.String().Draw(t, "message"), rapid.IntRange(3, 40).Draw(t, "size")
		if got := text.Clip(message, size); len(got) > size || !utf8.ValidString(got) {
			t.Errorf("%q has %d bytes, want at most %d of valid UTF-8", got, len(got), size)
		}
	})
}

func TestFit(t *testing.T) {
	for name, tc := range map[string]struct {
		text  string
		width int
		want  string
	}{
		"a short text stays":             {"süß", 3, "süß"},
		"a long one ends in an ellipsis": {"süß und lang", 5, "süß …"},
		"one column is the ellipsis":     {"long", 1, "…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text.Fit(tc.text, tc.width); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCount(t *testing.T) {
	for n, want := range map[int]string{0: "0 nodes", 1: "1 node", 2: "2 nodes"} {
		if got := text.Count(n, "node"); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
