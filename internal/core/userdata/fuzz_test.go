// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

// Users write user data in any form. User data that splits into parts has the same parts after they were joined again,
// so that a merge never loses, adds or changes a part.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{
		"#!/bin/sh\necho x\n", "#cloud-config\npackages: []", "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n", "", "\n\n", "echo x",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"B\"\n\n--B\nContent-Type: text/x-shellscript\n\n#!/bin/sh\n--B--\n",
		"MIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary=B\r\n\r\n--B\r\nContent-Type: text/cloud-config\r\n\r\n#cloud-config\r\n--B--",
		"Content-Type: multipart/mixed\n\n", "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\n\n#!/bin/sh\nno type\n--B--\n",
		"MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Transfer-Encoding: base64\n\nIyEvYmluL3NoCg==\n--B--\n",
		"Content-Type: text/x-shellscript\nContent-Transfer-Encoding: quoted-printable\nX-Merge-Type: a\n\n#!/bin/sh =C3=A9\n",
		"{\"apiVersion\": \"node.eks.aws/v1alpha1\", \"kind\": \"NodeConfig\"}", "IyEvYmluL3NoCg==",
		"Content-Type: multipart/mixed; boundary=//\r\n\r\n--//\r\nContent-Type: text/cloud-boothook\r\n\r\nx\n--//\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		parts, err := userdata.Split(user)
		if err != nil || len(parts) == 0 {
			return
		}
		text := userdata.MIME(parts)
		once, err := userdata.Split(text)
		if err != nil {
			t.Fatalf("%q, joined as %q: %v", user, text, err)
		}
		if len(once) != len(parts) {
			t.Fatalf("%d parts became %d:\n%q\n%q", len(parts), len(once), user, text)
		}
		if diff := cmp.Diff(text, userdata.MIME(once)); diff != "" {
			t.Errorf("parts that were joined change when they are joined again (-first +second):\n%s", diff)
		}
	})
}
