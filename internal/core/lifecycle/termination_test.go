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

// ofNetwork and ofNodeENI are UIDs of interfaces.
var ofNetwork, ofNodeENI = identity.NetworkUID("n3", 0, launched), identity.UID("uid-1")

// record is an interface with a UID, with an attachment if it has a status.
func record(uid identity.UID, status eni.AttachmentStatus, instanceID string, deleted bool) inventory.Record {
	r := inventory.Record{
		Interface: eni.Interface{ID: "eni-1", Status: eni.Available},
		Tagged:    identity.Interface{Cluster: cluster, UID: uid, NodeENI: "n3", InstanceID: self},
	}
	if status != "" {
		r.Status = eni.InUse
		r.Attachment = &eni.Attachment{ID: "attach-1", InstanceID: instanceID, Slot: eni.Slot{Device: 1}, Status: status, DeleteOnTermination: deleted}
	}
	return r
}

// pending is a record of an interface that EC2 has not created yet.
func pending(uid identity.UID) inventory.Record {
	r := record(uid, "", "", false)
	r.Status = eni.Pending
	return r
}

func texts(calls []plan.Call) []string {
	var all []string
	for _, a := range calls {
		all = append(all, a.String())
	}
	return all
}

// Workloads of an instance that terminates may still use its interfaces: nothing is detached, and nothing remains
// afterwards.
func TestTerminationCalls(t *testing.T) {
	deleteWithInstance := plan.DeleteOnTermination{AttachmentID: "attach-1", Enabled: true}.String() + " of eni-1"
	for name, tc := range map[string]struct {
		record inventory.Record
		want   []string
	}{
		"attached, goes with the instance":           {record(ofNetwork, eni.AttachmentAttached, self, true), nil},
		"attached, would outlive the instance":       {record(ofNetwork, eni.AttachmentAttached, self, false), []string{"set " + deleteWithInstance}},
		"attaching, would outlive the instance":      {record(ofNetwork, eni.AttachmentAttaching, self, false), []string{"set " + deleteWithInstance}},
		"not attached":                               {record(ofNetwork, "", "", false), []string{"delete eni-1: its instance is being terminated"}},
		"not made yet":                               {pending(ofNetwork), nil},
		"attached to another instance by a person":   {record(ofNetwork, eni.AttachmentAttached, another, false), nil},
		"of a NodeENI, not attached":                 {record(ofNodeENI, "", "", false), nil},
		"of a NodeENI, would outlive the instance":   {record(ofNodeENI, eni.AttachmentAttached, self, false), nil},
		"of a NodeENI whose name looks like network": {record("networks", "", "", false), nil},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, texts(lifecycle.TerminationCalls([]inventory.Record{tc.record}))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A rollback detaches first and deletes when EC2 has detached, one call for each interface at a time.
func TestRollbackCalls(t *testing.T) {
	all := func(inventory.Record) bool { return true }
	none := func(inventory.Record) bool { return false }
	key := record(ofNetwork, "", "", false).Tagged
	detach := []plan.Call{plan.Detach{Key: key, InterfaceID: "eni-1", AttachmentID: "attach-1", Why: "no n6"}}
	remove := []plan.Call{plan.Delete{Key: key, InterfaceID: "eni-1", Why: "no n6"}}
	for name, tc := range map[string]struct {
		record inventory.Record
		undone func(inventory.Record) bool
		want   []plan.Call
	}{
		"attached":                     {record(ofNetwork, eni.AttachmentAttached, self, true), all, detach},
		"attaching":                    {record(ofNetwork, eni.AttachmentAttaching, self, true), all, detach},
		"detaching":                    {record(ofNetwork, eni.AttachmentDetaching, self, true), all, nil},
		"detached":                     {record(ofNetwork, "", "", false), all, remove},
		"not made yet":                 {pending(ofNetwork), all, nil},
		"on another instance":          {record(ofNetwork, eni.AttachmentAttached, another, true), all, nil},
		"attached, not to be undone":   {record(ofNetwork, eni.AttachmentAttached, self, true), none, nil},
		"detached, not to be undone":   {record(ofNetwork, "", "", false), none, nil},
		"attached and of a NodeENI":    {record(ofNodeENI, eni.AttachmentAttached, self, true), all, nil},
		"not attached and a NodeENI's": {record(ofNodeENI, "", "", false), all, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := lifecycle.RollbackCalls([]inventory.Record{tc.record}, tc.undone, "no n6")
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
	for name, want := range map[string]bool{"n9": true, "n3": false, "n4": false} {
		t.Run(name, func(t *testing.T) {
			r := record(identity.NetworkUID(name, 0, launched), "", "", false)
			r.Tagged.NodeENI = name
			if got := c.IsRemoved(r); got != want {
				t.Errorf("removed is %t, want %t", got, want)
			}
			r.Tagged.UID = ofNodeENI
			if c.IsRemoved(r) {
				t.Error("the interface of a NodeENI of the name is removed")
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
