// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
)

// Kubelets and cloud providers write provider IDs. A parsed one has an instance ID in EC2's form, a short zone without a
// slash, and reads the same when the cloud provider writes both again.
func FuzzParseProviderID(f *testing.F) {
	for _, seed := range []string{
		"aws:///us-east-1a/i-0123456789abcdef0", "aws://us-east-1a/i-01234567", "aws:////i-01234567", "aws://",
		"aws:///us-east-1a/i-0123456789abcdef0/x", "aws:///us-east-1a/fargate-ip-10-0-0-1", "gce://project/zone/name",
		"aws:///" + strings.Repeat("a", 65) + "/i-01234567", "aws:///a b/i-0123456G",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ref, err := eni.ParseProviderID(text)
		if err != nil {
			if ref != (eni.InstanceRef{}) {
				t.Fatalf("%+v beside the error %v", ref, err)
			}
			return
		}
		if !eni.IsInstanceID(ref.ID) || len(ref.ID) > 19 || ref.Zone == "" || len(ref.Zone) > 64 || strings.Contains(ref.Zone, "/") {
			t.Fatalf("%+v", ref)
		}
		if again, err := eni.ParseProviderID("aws:///" + ref.Zone + "/" + ref.ID); err != nil || again != ref {
			t.Fatalf("%+v is read as %+v: %v", ref, again, err)
		}
	})
}

// The String of a parsed tag is the parsed text.
func FuzzParseInstanceTag(f *testing.F) {
	for _, seed := range []string{"kubernetes.io/cluster/a", "key=value", "key=", "=value", " key", "a=b=c", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		tag, err := eni.ParseInstanceTag(text)
		if err == nil && tag.String() != text {
			t.Errorf("%q became %q", text, tag)
		}
	})
}
