// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

func rendered(t *testing.T, interfaces ...launchtemplate.Interface) launchtemplate.Template {
	t.Helper()
	n := plain()
	n.Interfaces, n.InstanceProfile = interfaces, "nodes"
	r := launchtemplate.Render(n, of(t, "m5n.24xlarge"), nil)
	if len(r.Templates) != 1 {
		t.Fatal(r.Problems)
	}
	return r.Templates[0]
}

// Case 14, and its sibling.
func TestWhyAManagedNodeGroupRefusesATemplate(t *testing.T) {
	own := at(0)
	own.Subnets = []eni.Subnet{subnet("subnet-a", "us-east-1a")}
	if _, problem := launchtemplate.ForManagedNodeGroup(rendered(t, own)); problem == nil || problem.Reason != launchtemplate.PerInterfaceSubnet {
		t.Errorf("with a subnet: %v", problem)
	}
	if _, problem := launchtemplate.ForManagedNodeGroup(rendered(t, at(0), at(1))); problem == nil || problem.Reason != launchtemplate.SeveralInterfaces {
		t.Errorf("with two interfaces: %v", problem)
	}
	data, problem := launchtemplate.ForManagedNodeGroup(rendered(t, at(0)))
	if problem != nil || data["IamInstanceProfile"] != nil || data["NetworkInterfaces"] == nil {
		t.Errorf("problem %v, data %s", problem, data.JSON())
	}
}

func TestWhatKarpenterCanSayAndWhatNot(t *testing.T) {
	described, efa := at(1), at(2)
	described.Description, described.Management, efa.Type = "n3", launchtemplate.CNI, eni.EFAOnly
	interfaces, lost := launchtemplate.ForKarpenter(rendered(t, at(0), described, efa))
	want := []launchtemplate.KarpenterInterface{{0, 0, "interface"}, {0, 1, "interface"}, {0, 2, "efa-only"}}
	if diff := cmp.Diff(want, interfaces); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(lost) != 1 {
		t.Errorf("what is lost: %v", lost)
	}
}

func TestForemost(t *testing.T) {
	for name, c := range map[string]struct {
		types      []string
		most       int
		kept, left []string
	}{
		"none is too many":           {[]string{"c3.large", "m7i.large"}, 2, []string{"c3.large", "m7i.large"}, nil},
		"newer generations are kept": {[]string{"c3.large", "m7i.large", "u-6tb1.metal", "x8g.large"}, 2, []string{"x8g.large", "m7i.large"}, []string{"c3.large", "u-6tb1.metal"}},
		"names decide among equals":  {[]string{"m5.large", "c5n.large", "hpc5a.large"}, 1, []string{"c5n.large"}, []string{"hpc5a.large", "m5.large"}},
	} {
		t.Run(name, func(t *testing.T) {
			kept, left := launchtemplate.Foremost(c.types, c.most)
			if !slices.Equal(kept, c.kept) || !slices.Equal(left, c.left) {
				t.Errorf("kept %v and left %v", kept, left)
			}
		})
	}
}
