// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package importer_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
)

const instanceID = "i-00000000000000001"

// legacy is an interface of the other controller at a device index.
func legacy(id, nodeENI, subnet string, device int, edit ...func(*eni.Interface)) eni.Interface {
	i := eni.Interface{
		ID: id, SubnetID: subnet, Status: eni.InUse,
		Tags:       map[string]string{importer.TagManagedBy: importer.ManagedBy, importer.TagNodeENI: nodeENI},
		Attachment: &eni.Attachment{InstanceID: instanceID, Slot: eni.Slot{Device: device}, Status: eni.AttachmentAttached},
	}
	for _, f := range edit {
		f(&i)
	}
	return i
}

var decided = time.Unix(7, 0)

func wanted(ordinal int, subnet string) importer.Wanted {
	return importer.Wanted{Ordinal: ordinal, Settings: eni.Settings{Subnets: []string{subnet}, Slot: eni.Slot{Device: ordinal + 1}}}
}

func declares(all ...importer.NodeENI) importer.Declared {
	return importer.Declared{Cluster: "c", Node: "n", InstanceID: instanceID, NodeENIs: all, DecidedAt: decided}
}

func TestFind(t *testing.T) {
	declared := []importer.NodeENI{
		{Name: "multus", Interfaces: []importer.Wanted{wanted(0, "subnet-1"), wanted(1, "subnet-2")}},
		{Name: "old", Why: "the labels do not match"},
	}
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
		"two for one desired: the lower slot": {
			[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 3), legacy("eni-2", "multus", "subnet-1", 2)}, map[string]int{"eni-2": 0}, []string{"eni-1"},
		},
		"another subnet":        {[]eni.Interface{legacy("eni-1", "multus", "subnet-3", 1)}, map[string]int{}, []string{"eni-1"}},
		"no such NodeENI":       {[]eni.Interface{legacy("eni-1", "other", "subnet-1", 1)}, map[string]int{}, []string{"eni-1"}},
		"a NodeENI that leaves": {[]eni.Interface{legacy("eni-1", "old", "subnet-1", 1)}, map[string]int{}, []string{"eni-1"}},
		"not attached":          {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, detached)}, map[string]int{}, []string{"eni-1"}},
		"attached elsewhere": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { i.Attachment.InstanceID = "i-2" })},
			map[string]int{}, []string{"eni-1"}},
		"ours already": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { i.Tags[identity.TagCluster] = "c" })},
			map[string]int{}, []string{"eni-1"}},
		"not the other controller's": {[]eni.Interface{legacy("eni-1", "multus", "subnet-1", 1, func(i *eni.Interface) { delete(i.Tags, importer.TagManagedBy) })},
			map[string]int{}, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := importer.Find(declares(declared...), tc.interfaces)
			ordinals := map[string]int{}
			for _, m := range got.Matches {
				ordinals[m.Interface.ID] = m.Key.Ordinal
				read, verdict := identity.Read("c", m.Key.Tags(decided, nil))
				if verdict != identity.Owned || read != m.Key || !m.Key.UID.IsNetwork() || m.Key.Name != identity.ObjectName("multus", instanceID, m.Key.Ordinal) {
					t.Errorf("the tags of %+v do not make it ours", m.Key)
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

// unowned is an interface of the published Multus functions at a device index.
func unowned(id, subnet string, device int, edit ...func(*eni.Interface)) eni.Interface {
	return legacy(id, "", subnet, device, append([]func(*eni.Interface){
		func(i *eni.Interface) { i.Tags = map[string]string{identity.TagNoManage: "true"} },
	}, edit...)...)
}

func TestFindUnowned(t *testing.T) {
	declared := []importer.NodeENI{
		{Name: "old", Why: "it is being deleted", Interfaces: []importer.Wanted{wanted(0, "subnet-1")}},
		{Name: "multus", Interfaces: []importer.Wanted{wanted(0, "subnet-1"), wanted(1, "subnet-2"), wanted(2, "subnet-1")}},
	}
	ours := func(ordinal int) func(*eni.Interface) {
		return func(i *eni.Interface) {
			key := declares().Key("multus", ordinal)
			key.UID = "uid"
			i.Tags = key.Tags(decided, nil)
		}
	}
	tagged := func(key, value string) func(*eni.Interface) { return func(i *eni.Interface) { i.Tags[key] = value } }
	for name, tc := range map[string]struct {
		interfaces []eni.Interface
		want       map[string]int
		passed     []string
	}{
		"by subnet and slot":              {[]eni.Interface{unowned("eni-1", "subnet-1", 1), unowned("eni-2", "subnet-2", 2)}, map[string]int{"eni-1": 0, "eni-2": 1}, nil},
		"the slot comes before the order": {[]eni.Interface{unowned("eni-1", "subnet-1", 2), unowned("eni-3", "subnet-1", 3)}, map[string]int{"eni-1": 0, "eni-3": 2}, nil},
		"at another slot":                 {[]eni.Interface{unowned("eni-1", "subnet-2", 3)}, map[string]int{"eni-1": 1}, nil},
		"beside one that is ours":         {[]eni.Interface{unowned("eni-1", "subnet-2", 1), legacy("eni-2", "", "subnet-2", 2, ours(1))}, map[string]int{}, []string{"eni-1"}},
		"beside one that is ours under another ordinal": {
			[]eni.Interface{unowned("eni-1", "subnet-2", 1), legacy("eni-2", "", "subnet-2", 2, ours(9))}, map[string]int{}, []string{"eni-1"},
		},
		"one more than are wanted":       {[]eni.Interface{unowned("eni-1", "subnet-2", 1), unowned("eni-2", "subnet-2", 2)}, map[string]int{"eni-2": 1}, []string{"eni-1"}},
		"another cluster's":              {[]eni.Interface{unowned("eni-1", "subnet-1", 1, tagged(identity.TagCluster, "d"))}, map[string]int{}, nil},
		"the aws-multi-eni-controller's": {[]eni.Interface{unowned("eni-1", "subnet-1", 1, tagged(importer.TagManagedBy, importer.ManagedBy))}, map[string]int{}, nil},
		"the VPC CNI's":                  {[]eni.Interface{unowned("eni-1", "subnet-1", 1, tagged(identity.TagNoManage, "false"))}, map[string]int{}, nil},
		"the primary one":                {[]eni.Interface{unowned("eni-1", "subnet-1", 0)}, map[string]int{}, nil},
		"of another instance":            {[]eni.Interface{unowned("eni-1", "subnet-1", 1, func(i *eni.Interface) { i.Attachment.InstanceID = "i-2" })}, map[string]int{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := importer.FindUnowned(declares(declared...), tc.interfaces)
			ordinals := map[string]int{}
			for _, m := range got.Matches {
				ordinals[m.Interface.ID] = m.Key.Ordinal
				if m.Key.NodeENI != "multus" {
					t.Errorf("%s becomes %+v", m.Interface.ID, m.Key)
				}
			}
			var passed []string
			for _, p := range got.Passed {
				passed = append(passed, p.Interface.ID)
			}
			if diff := cmp.Diff(tc.want, ordinals); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.passed, passed); diff != "" {
				t.Errorf("passed (-want +got):\n%s", diff)
			}
		})
	}
}
