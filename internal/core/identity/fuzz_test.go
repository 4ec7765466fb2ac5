// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
)

// Principals with ec2:CreateTags write any tags. An owned interface is within the bounds of the API's schemas, and has the
// same identity in the tags that it gets then. A time of creation fits a time of Kubernetes.
func FuzzRead(f *testing.F) {
	const uid, instance = "0bf0a4c2-1f4d-4f5e-9d0e-3f4f5a6b7c8d", "i-0123456789abcdef0"
	f.Add("prod", "storage", uid, "node-1", instance, "storage-"+instance+"-0", "1700000000", "")
	f.Add("prod", "storage", uid, "node-1", instance, "storage-"+instance+"-127", "253402300800", "")
	f.Add("prod", "storage", uid, "node-1", instance, "storage-"+instance+"-128", "-1", "")
	f.Add("prod", "storage", uid, "node-1", instance, "storage-"+instance+"-4294967296", "9223372036854775808", "")
	f.Add("prod", "storage", "network/a/0/1", "node-1", "i-", "storage-i--+1", "1e9", "")
	f.Add("prod", "", "", "", "", "", "", "workers")
	f.Add("other", "storage", uid, "node-1", instance, "storage-"+instance+"-0", "0", "")
	f.Fuzz(func(t *testing.T, cluster, nodeENI, uid, node, instance, object, created, template string) {
		tags := map[string]string{
			identity.TagCluster: cluster, identity.TagNodeENI: nodeENI, identity.TagUID: uid, identity.TagNode: node,
			identity.TagInstanceID: instance, identity.TagInterface: object,
			identity.TagCreatedAt: created, identity.TagNodeTemplate: template,
		}
		if at, known := identity.CreatedAt(tags); known {
			if _, err := at.MarshalJSON(); err != nil || at.Unix() <= 0 {
				t.Errorf("%q was read as %v: %v", created, at, err)
			}
		}
		i, verdict := identity.Read("prod", tags)
		if (verdict == identity.Foreign) != (cluster != "prod") {
			t.Errorf("verdict %v on cluster %q", verdict, cluster)
		}
		if verdict != identity.Owned {
			return
		}
		if i.Ordinal < 0 || i.Ordinal > identity.MaxOrdinal || !eni.IsInstanceID(i.InstanceID) {
			t.Errorf("out of bounds: %+v", i)
		}
		again, verdict := identity.Read("prod", i.Tags(time.Unix(1, 0), map[string]string{"user": "tag"}))
		if diff := cmp.Diff(i, again); verdict != identity.Owned || diff != "" {
			t.Errorf("verdict %v on what was written (-want +got):\n%s", verdict, diff)
		}
	})
}

// The link settings in tags are within the bounds of the API's schemas, and the same after they are written and read
// again.
func FuzzReadLink(f *testing.F) {
	f.Add("9001", "ipv4.rp_filter=0 ipv6.accept_ra=2")
	f.Add("1279", "ipv4.rp_filter=9 ipv4.rp_filter=-1 ipv4.rp_filter")
	f.Add("99999999999999999999", "kernel.panic=1 = ==")
	f.Fuzz(func(t *testing.T, mtuText, sysctls string) {
		mtu, settings := identity.ReadLink(map[string]string{identity.TagMTU: mtuText, identity.TagSysctls: sysctls})
		if mtu != 0 && (mtu < identity.MinMTU || mtu > identity.MaxMTU) {
			t.Errorf("MTU %d from %q", mtu, mtuText)
		}
		for setting, value := range settings {
			if !slices.Contains(hostnet.Settings(), setting) || value < 0 || value > identity.MaxSetting {
				t.Errorf("%q is %d", setting, value)
			}
		}
		mtuAgain, settingsAgain := identity.ReadLink(identity.LinkTags(mtu, settings))
		if diff := cmp.Diff(settings, settingsAgain); mtu != mtuAgain || diff != "" {
			t.Errorf("MTU %d, then %d; settings (-first +second):\n%s", mtu, mtuAgain, diff)
		}
	})
}
