// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

func TestPermissionsAreAskedForWithoutDoingAnything(t *testing.T) {
	answers := map[string]string{"AttachNetworkInterface": "UnauthorizedOperation", "DeleteNetworkInterface": "InvalidParameter", "CreateTags": "InvalidNetworkInterfaceID.NotFound"}
	server := &fake{answer: func(r request) reply {
		if r.form.Get("DryRun") != "true" {
			t.Errorf("%s was called for real", r.action)
		}
		if tagged := r.form.Encode(); r.action == "CreateNetworkInterface" &&
			!strings.Contains(tagged, "=networking.k8s.aws%2Fcluster") {
			t.Errorf("the creation lacks the cluster's tag, which the policy requires: %s", tagged)
		}
		if subnet, is := r.form["SubnetId"]; is && subnet[0] != "subnet-1" {
			t.Errorf("%s is tried in %s, want the subnet of the cluster", r.action, subnet)
		}
		code, other := answers[r.action]
		if !other {
			code = "DryRunOperation"
		}
		return reply{code: code}
	}}
	got := map[string]awsec2.Grant{}
	all, err := server.client(t, awsec2.Options{}).Permissions(t.Context(), "subnet-1")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		got[strings.TrimPrefix(p.Action, "ec2:")] = p.Grant
		if (p.Err == nil) != (p.Grant == awsec2.Granted) {
			t.Errorf("%s is %s with error %v", p.Action, p.Grant, p.Err)
		}
		if p.MadeUp != (p.Action == "ec2:CreateTags") {
			t.Errorf("%s was answered for a made-up resource: %t", p.Action, p.MadeUp)
		}
	}
	want := map[string]awsec2.Grant{}
	for method := range reflect.TypeFor[awsec2.API]().Methods() {
		// EC2 has no dry run of these.
		if !strings.HasPrefix(method.Name, "Assign") && !strings.HasPrefix(method.Name, "Unassign") {
			want[method.Name] = awsec2.Granted
		}
	}
	want["AttachNetworkInterface"], want["DeleteNetworkInterface"] = awsec2.Denied, awsec2.Unknown
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
