// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launch_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/launch"
)

func rendered(t *testing.T, interfaces ...launch.Interface) launch.Template {
	t.Helper()
	n := plain()
	n.Interfaces, n.InstanceProfile = interfaces, "nodes"
	r := launch.Render(n, of(t, "m5n.24xlarge"), nil)
	if len(r.Templates) != 1 {
		t.Fatal(r.Problems)
	}
	return r.Templates[0]
}

// Case 14, and its sibling.
func TestWhyAManagedNodeGroupRefusesATemplate(t *testing.T) {
	own := at(0)
	own.Subnets = []eni.Subnet{subnet("subnet-a", "us-east-1a")}
	if _, problem := launch.ForManagedNodeGroup(rendered(t, own)); problem == nil || problem.Reason != launch.PerInterfaceSubnet {
		t.Errorf("with a subnet: %v", problem)
	}
	if _, problem := launch.ForManagedNodeGroup(rendered(t, at(0), at(1))); problem == nil || problem.Reason != launch.SeveralInterfaces {
		t.Errorf("with two interfaces: %v", problem)
	}
	data, problem := launch.ForManagedNodeGroup(rendered(t, at(0)))
	if problem != nil || data["IamInstanceProfile"] != nil || data["NetworkInterfaces"] == nil {
		t.Errorf("problem %v, data %s", problem, data.JSON())
	}
}

func TestWhatKarpenterCanSayAndWhatNot(t *testing.T) {
	described, efa := at(1), at(2)
	described.Description, described.Management, efa.Type = "n3", launch.CNI, eni.EFAOnly
	interfaces, lost := launch.ForKarpenter(rendered(t, at(0), described, efa))
	want := []launch.KarpenterInterface{{0, 0, "interface"}, {0, 1, "interface"}, {0, 2, "efa-only"}}
	if diff := cmp.Diff(want, interfaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(lost) != 1 {
		t.Errorf("what is lost: %v", lost)
	}
}
