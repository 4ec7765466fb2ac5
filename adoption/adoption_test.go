// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package adoption_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/adoption"
	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/ownership"
	"github.com/multieni/multieni/plan"
)

const instanceID = "i-00000000000000001"

// legacy is an interface of the other controller at a device index.
func legacy(id, nodeENI, subnet string, device int, edit ...func(*eni.Interface)) eni.Interface {
	i := eni.Interface{
		ID: id, SubnetID: subnet, Status: eni.InUse,
		Tags:       map[string]string{adoption.TagManagedBy: adoption.ManagedBy, adoption.TagNodeENI: nodeENI},
		Attachment: &eni.Attachment{InstanceID: instanceID, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached},
	}
	for _, f := range edit {
		f(&i)
	}
	return i
}

func TestFind(t *testing.T) {
	claim := plan.Claim{NodeENI: "multus", NodeENIUID: "uid", Standing: plan.Wanted, Wishes: []plan.Wish{
		{Ordinal: 0, Subnets: []string{"subnet-1"}}, {Ordinal: 1, Subnets: []string{"subnet-2"}},
	}}
	released := plan.Claim{NodeENI: "old", NodeENIUID: "uid-old", Standing: plan.Released, Why: "the labels do not match"}
	detached := func(i *eni.Interface) { i.Attachment = nil }
	cases := map[string]struct {
		interfaces []eni.Interface
		// want is the ordinal that each interface becomes.
		want   map[string]int
		passed []string
	}{
		"by subnet, in whatever slot": {
			[]eni.Interface{legacy("eni-1", "multus", "subnet-2", 1), legacy("eni-2", "multus", "subnet-1", 2)}, map[string]int{"eni-1": 1, "eni-2": 0}, nil,
		},
		"two for one wish: the lower slot": {
			[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 3), legacy("eni-2", "multus", "subnet-1", 2)}, map[string]int{"eni-2": 0}, []string{"eni-1"},
		},
		"another subnet":        {[]eni.Interface{legacy("eni-1", "multus", "subnet-3", 1)}, map[string]int{}, []string{"eni-1"}},
		"no such NodeENI":       {[]eni.Interface{legacy("eni-1", "other", "subnet-1", 1)}, map[string]int{}, []string{"eni-1"}},
		"a NodeENI that leaves": {[]eni.Interface{legacy("eni-1", "old", "subnet-1", 1)}, map[string]int{}, []string{"eni-1"}},
		"not attached":          {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, detached)}, map[string]int{}, []string{"eni-1"}},
		"attached elsewhere": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { i.Attachment.InstanceID = "i-2" })},
			map[string]int{}, []string{"eni-1"}},
		"ours already": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { i.Tags[ownership.TagCluster] = "c" })},
			map[string]int{}, []string{"eni-1"}},
		"not the other controller's": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { delete(i.Tags, adoption.TagManagedBy) })},
			map[string]int{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			d := plan.Desired{Cluster: "c", Node: "n", InstanceID: instanceID, Claims: []plan.Claim{claim, released}}
			got := adoption.Find(d, tc.interfaces, 7)
			ordinals := map[string]int{}
			for _, m := range got.Matches {
				ordinals[m.Interface.ID] = m.Member.Ordinal
				if _, verdict := ownership.Read("c", m.Member.DesiredTags(nil)); verdict != ownership.Ours || m.Member.Generation != 7 {
					t.Errorf("the tags of %+v do not make it ours", m.Member)
				}
			}
			if diff := cmp.Diff(tc.want, ordinals); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			var passed []string
			for _, p := range got.Passed {
				passed = append(passed, p.Interface.ID)
				if p.Why == "" {
					t.Errorf("nothing says why %s is passed over", p.Interface.ID)
				}
			}
			if diff := cmp.Diff(tc.passed, passed); diff != "" {
				t.Errorf("passed (-want +got):\n%s", diff)
			}
		})
	}
}
