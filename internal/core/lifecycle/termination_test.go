// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
)

// record is an interface of an owner, with an attachment if it has a status.
func record(owner identity.Owner, status eni.AttachmentStatus, instanceID string, deleted bool) inventory.Record {
	r := inventory.Record{
		Interface: eni.Interface{ID: "eni-1", Status: eni.Available},
		Member:    identity.Member{Cluster: cluster, NodeENI: "n3", InstanceID: self, Key: identity.Key{Owner: owner}},
	}
	if status != "" {
		r.Status = eni.InUse
		r.Attachment = &eni.Attachment{ID: "attach-1", InstanceID: instanceID, Slot: eni.Slot{Device: 1}, Status: status, DeleteOnTermination: deleted}
	}
	return r
}

// pending is a record of an interface that EC2 has not created yet.
func pending(owner identity.Owner) inventory.Record {
	r := record(owner, "", "", false)
	r.Status = eni.Pending
	return r
}

func texts(actions []plan.Action) []string {
	var all []string
	for _, a := range actions {
		all = append(all, a.String())
	}
	return all
}

// Workloads of an instance that terminates may still use its interfaces: nothing is detached, and nothing remains
// afterwards.
func TestTerminationActions(t *testing.T) {
	network := identity.NetworkOwner("n3")
	deleteWithInstance := plan.DeleteOnTermination{AttachmentID: "attach-1", Enabled: true}.String() + " of eni-1"
	for name, tc := range map[string]struct {
		record inventory.Record
		want   []string
	}{
		"attached, goes with the instance":           {record(network, eni.AttachmentAttached, self, true), nil},
		"attached, would outlive the instance":       {record(network, eni.AttachmentAttached, self, false), []string{"set " + deleteWithInstance}},
		"attaching, would outlive the instance":      {record(network, eni.AttachmentAttaching, self, false), []string{"set " + deleteWithInstance}},
		"not attached":                               {record(network, "", "", false), []string{"delete eni-1: its instance is being terminated"}},
		"not made yet":                               {pending(network), nil},
		"attached to another instance by a person":   {record(network, eni.AttachmentAttached, another, false), nil},
		"of a NodeENI, not attached":                 {record("uid-1", "", "", false), nil},
		"of a NodeENI, would outlive the instance":   {record("uid-1", eni.AttachmentAttached, self, false), nil},
		"of a NodeENI whose name looks like network": {record("networks", "", "", false), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(lifecycle.TerminationActions([]inventory.Record{tc.record}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A rollback detaches first and deletes when EC2 has detached, one call for each interface at a time.
func TestRollbackActions(t *testing.T) {
	network := identity.NetworkOwner("n3")
	all := func(inventory.Record) bool { return true }
	none := func(inventory.Record) bool { return false }
	member := record(network, "", "", false).Member
	detach := []plan.Action{plan.Detach{Member: member, InterfaceID: "eni-1", AttachmentID: "attach-1", Why: "no n6"}}
	remove := []plan.Action{plan.Delete{Member: member, InterfaceID: "eni-1", Why: "no n6"}}
	for name, tc := range map[string]struct {
		record inventory.Record
		undone func(inventory.Record) bool
		want   []plan.Action
	}{
		"attached":                     {record(network, eni.AttachmentAttached, self, true), all, detach},
		"attaching":                    {record(network, eni.AttachmentAttaching, self, true), all, detach},
		"detaching":                    {record(network, eni.AttachmentDetaching, self, true), all, nil},
		"detached":                     {record(network, "", "", false), all, remove},
		"not made yet":                 {pending(network), all, nil},
		"on another instance":          {record(network, eni.AttachmentAttached, another, true), all, nil},
		"attached, not to be undone":   {record(network, eni.AttachmentAttached, self, true), none, nil},
		"detached, not to be undone":   {record(network, "", "", false), none, nil},
		"attached and of a NodeENI":    {record("uid-1", eni.AttachmentAttached, self, true), all, nil},
		"not attached and a NodeENI's": {record("uid-1", "", "", false), all, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := lifecycle.RollbackActions([]inventory.Record{tc.record}, tc.undone, "no n6")
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Only a network under "removed" loses its interfaces; one that is merely not listed keeps them and is reported.
func TestRemovedAndUnlistedNetworks(t *testing.T) {
	c := parsed(t, n3)
	c.Removed = []string{"n9"}
	for owner, want := range map[identity.Owner]bool{
		identity.NetworkOwner("n9"): true, identity.NetworkOwner("n3"): false, identity.NetworkOwner("n4"): false, "n9": false, "uid-1": false,
	} {
		t.Run(string(owner), func(t *testing.T) {
			if got := c.IsRemoved(record(owner, "", "", false)); got != want {
				t.Errorf("removed is %t, want %t", got, want)
			}
		})
	}
	counts := map[string]int{"n3": 5, "n4": 2, "n9": 1}
	if diff := cmp.Diff(map[string]int{"n4": 2}, c.Unlisted(counts)); diff != "" {
		t.Errorf("unlisted (-want +got):\n%s", diff)
	}
	if len(counts) != 3 {
		t.Errorf("the argument became %v", counts)
	}
}

// An event of another account or region means a wrong rule or queue. The message has the account or region.
func TestCheckPlace(t *testing.T) {
	for name, tc := range map[string]struct {
		event           lifecycle.Event
		account, region string
		names           string
	}{
		"same place":                         {lifecycle.Event{Account: "1", Region: "r"}, "1", "r", ""},
		"event without a place":              {lifecycle.Event{}, "1", "r", ""},
		"handler that does not know its own": {lifecycle.Event{Account: "1", Region: "r"}, "", "", ""},
		"another account":                    {lifecycle.Event{Account: "2", Region: "r"}, "1", "r", "account 2"},
		"another region":                     {lifecycle.Event{Account: "1", Region: "s"}, "1", "r", "region s"},
		"another region, own account unknown": {
			lifecycle.Event{Account: "1", Region: "s"}, "", "r", "region s",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.event.CheckPlace(tc.account, tc.region)
			var malformed *lifecycle.MalformedError
			switch {
			case tc.names == "" && err != nil:
				t.Error(err)
			case tc.names != "" && (!errors.As(err, &malformed) || !strings.Contains(err.Error(), tc.names) || malformed.Unwrap() == nil):
				t.Errorf("the error does not say %q: %v", tc.names, err)
			}
		})
	}
}

// The names of the published functions are refused; the names here differ from them.
func TestLegacyEnvironment(t *testing.T) {
	for name, want := range map[string]bool{
		"Az1SubnetIds": true, "Az2SubnetIds": true, "SubnetIds": true, "SecGroupIds": true, "TargetNodeGroupTagKey": true, "useStaticIPs": true,
		"ENITags": true, "InterfaceTags": true,
		lifecycle.ParameterSubnets + "1": false, lifecycle.ParameterGroups: false, lifecycle.ParameterLowest: false, "PATH": false, "": false,
	} {
		t.Run(name, func(t *testing.T) {
			if got := lifecycle.LegacyEnvironment(name); got != want {
				t.Errorf("legacy is %t, want %t", got, want)
			}
		})
	}
}
