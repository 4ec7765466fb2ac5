// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

// Parts that hold what parts messages come out as they went in, and no part is added.
func TestPartsMayHoldABoundary(t *testing.T) {
	for name, body := range map[string]string{
		"none":            "#!/bin/sh\necho x",
		"the usual one":   "#!/bin/sh\n--multieni-part\nContent-Type: text/x-shellscript\n\nrm -rf /\n--multieni-part--",
		"the first three": "#!/bin/sh\n--multieni-part\n--multieni-part-1\n--multieni-part-2--",
	} {
		t.Run(name, func(t *testing.T) {
			parts := []userdata.Part{{Kind: userdata.KindScript, Body: body}, {Kind: userdata.KindCloudConfig, Body: "#cloud-config"}}
			text := userdata.MIME(parts)
			got, err := userdata.Split(text)
			if diff := cmp.Diff(parts, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			if again := userdata.MIME(parts); again != text {
				t.Error("the same parts make another text")
			}
		})
	}
}
