// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
)

func TestParseInstanceTag(t *testing.T) {
	for text, want := range map[string]eni.InstanceTag{
		"kubernetes.io/cluster/blue":       {Key: "kubernetes.io/cluster/blue", AnyValue: true},
		"kubernetes.io/cluster/blue=owned": {Key: "kubernetes.io/cluster/blue", Value: "owned"},
		"team=a=b":                         {Key: "team", Value: "a=b"},
		"empty=":                           {Key: "empty"},
	} {
		if got, err := eni.ParseInstanceTag(text); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, %v, printed as %q; want %+v", text, got, err, got, want)
		}
	}
	for _, text := range []string{"", "=owned", " key"} {
		if got, err := eni.ParseInstanceTag(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, got)
		}
	}
}
