// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package netattach_test

import (
	"testing"

	"github.com/multieni/multieni/internal/core/netattach"
)

func TestIsMultus(t *testing.T) {
	for name, c := range map[string]struct {
		configuration string
		want          bool
	}{
		"one program":        {`{"cniVersion":"0.3.1","name":"multus-cni-network","type":"multus","delegates":[{"type":"aws-cni"}]}`, true},
		"its daemon":         {`{"cniVersion":"1.0.0","name":"multus-cni-network","type":"multus-shim"}`, true},
		"in a list":          {`{"name":"x","plugins":[{"type":"multus"},{"type":"tuning"}]}`, true},
		"the VPC CNI":        {`{"name":"aws-cni","plugins":[{"type":"aws-cni"},{"type":"portmap"}]}`, false},
		"a half-written one": {`{"name":"multus-cni-network","type":"mul`, false},
		"an empty file":      {``, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := netattach.IsMultus([]byte(c.configuration)); got != c.want {
				t.Errorf("it is Multus': %t, want %t", got, c.want)
			}
		})
	}
}
