// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

// Parts that contain boundaries of messages stay the same, and no part is added.
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

// TestRenderTakesWhatEC2Takes renders user data at the limit of EC2, and one byte above it.
func TestRenderTakesWhatEC2Takes(t *testing.T) {
	rendered := func(networks int) (string, error) {
		return bootstrap(func(b *userdata.Bootstrap) { b.Networks = strings.Repeat("x", networks) }).Render()
	}
	one, err := rendered(1)
	if err != nil {
		t.Fatal(err)
	}
	room := userdata.MaxSize - len(one) + 1
	if text, err := rendered(room); err != nil || len(text) != 16384 {
		t.Errorf("%d bytes, %v; want 16384", len(text), err)
	}
	if _, err := rendered(room + 1); err == nil || !strings.Contains(err.Error(), "has 16385 bytes and EC2 takes 16384") {
		t.Errorf("the error of one byte too many is %v", err)
	}
}

// TestSplitTakesAMessageThatBeginsWithItsType checks that the two fields of a header may have either order, as in the
// user data that other tools write, and that a part keeps the parameters of its type.
func TestSplitTakesAMessageThatBeginsWithItsType(t *testing.T) {
	const body = "\n\n--B\nContent-Type: application/node.eks.aws; charset=utf-8\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n--B--\n"
	want := []userdata.Part{{Kind: "application/node.eks.aws; charset=utf-8", Body: "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig"}}
	for name, header := range map[string]string{
		"the version first": "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B",
		"the type first":    "Content-Type: multipart/mixed; boundary=B\nMIME-Version: 1.0",
		"spaces before it":  "\n  \nContent-Type: multipart/mixed; boundary=B",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Split(header + body)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
			al2 := bootstrap(func(b *userdata.Bootstrap) { b.Family, b.User = userdata.AL2, header+body })
			if _, err := al2.Render(); err == nil || !strings.Contains(err.Error(), "--merge has a NodeConfig") {
				t.Errorf("Amazon Linux 2 takes it: %v", err)
			}
		})
	}
}

// TestBoundaryIsTheFirstFreeOne checks the text between parts: it changes only if a part has it, so that the same parts
// give the same launch template in every release.
func TestBoundaryIsTheFirstFreeOne(t *testing.T) {
	for name, tc := range map[string]struct{ body, want string }{
		"no part has it":        {"true", "multieni-part"},
		"a part has it":         {"multieni-part", "multieni-part-1"},
		"a part has the next":   {"multieni-part-1", "multieni-part-2"},
		"a part has a long one": {"multieni-part-10", "multieni-part-2"},
	} {
		t.Run(name, func(t *testing.T) {
			want := "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"" + tc.want + "\"\n\n--" + tc.want +
				"\nContent-Type: text/x-shellscript\n\n" + tc.body + "\n--" + tc.want + "--\n"
			got := userdata.MIME([]userdata.Part{{Kind: userdata.KindScript, Body: tc.body + "\n\n"}})
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
