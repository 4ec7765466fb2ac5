// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/base64"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

// blueCluster has all values that a node needs to join the cluster.
func blueCluster() userdata.Cluster {
	return userdata.Cluster{
		ClusterName: "blue", Endpoint: "https://blue.example", CA: "Q0E=", ServiceCIDR: "172.20.0.0/16",
	}
}

// autofilled is a launch template of another program that multieni completes.
func autofilled(t *testing.T, text string) *launchtemplate.Source {
	t.Helper()
	return &launchtemplate.Source{ID: "lt-1", Version: "$Latest", Resolved: 3, Autofill: true, Data: document(t, text)}
}

// only renders a node template, for m5.xlarge if no type is named, and returns its only launch template.
func only(t *testing.T, n launchtemplate.NodeTemplate, types ...string) launchtemplate.Template {
	t.Helper()
	if len(types) == 0 {
		types = []string{"m5.xlarge"}
	}
	r := launchtemplate.Render(n, of(t, types...), nil)
	if len(r.Problems) > 0 || len(r.Templates) != 1 {
		t.Fatalf("%d launch templates, problems %v; want 1 without problems", len(r.Templates), r.Problems)
	}
	return r.Templates[0]
}

// userDataOf is the user data of a launch template as the instance reads it.
func userDataOf(t *testing.T, template launchtemplate.Template) string {
	t.Helper()
	encoded, _ := template.Data["UserData"].(string)
	plain, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatalf("the user data %q is not base64: %v", encoded, err)
	}
	return string(plain)
}

// refusedFor renders a node template and compares all problems, which leave no launch template.
func refusedFor(t *testing.T, n launchtemplate.NodeTemplate, want ...launchtemplate.Problem) {
	t.Helper()
	r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
	if diff := cmp.Diff(want, r.Problems); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if len(r.Templates) > 0 {
		t.Errorf("%d launch templates are rendered in spite of %v", len(r.Templates), r.Problems)
	}
}

// zonal is an interface with a subnet of its own in each zone, so that each zone gets a launch template.
func zonal(device int, zones ...string) launchtemplate.Interface {
	i := at(device)
	for _, zone := range zones {
		i.Subnets = append(i.Subnets, subnet("subnet-own-"+zone, zone))
	}
	return i
}

// secondSlot is the slot after the primary one.
var secondSlot = eni.Slot{Device: 1}
