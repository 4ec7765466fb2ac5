// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
)

func TestLinkTagsSayHowTheLinkShallBe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.OneOf(rapid.Just(0), rapid.IntRange(identity.MinMTU, identity.MaxMTU)).Draw(rt, "mtu")
		settings := rapid.MapOf(rapid.SampledFrom(hostnet.Settings()), rapid.IntRange(0, identity.MaxSetting)).Draw(rt, "settings")
		tags := identity.LinkTags(mtu, settings)
		if len(tags[identity.TagSysctls]) > 256 {
			rt.Errorf("%q is longer than a tag", tags[identity.TagSysctls])
		}
		gotMTU, got := identity.ReadLink(tags)
		if gotMTU != mtu || len(got) != len(settings) || len(got) > 0 && !cmp.Equal(got, settings) {
			rt.Errorf("%d %v became %d %v by %v", mtu, settings, gotMTU, got, tags)
		}
	})
}

func TestForeignLinkTagsAreNotBelieved(t *testing.T) {
	for _, tags := range []map[string]string{
		{identity.TagMTU: "100000"}, {identity.TagMTU: "0"}, {identity.TagMTU: "-1"}, {identity.TagMTU: "large"},
		{identity.TagSysctls: "ipv4.forwarding=1"}, {identity.TagSysctls: "ipv4.rp_filter=9 ipv4.arp_ignore=-1 ipv4.arp_filter ipv4.proxy_arp=x"},
	} {
		if mtu, settings := identity.ReadLink(tags); mtu != 0 || len(settings) != 0 {
			t.Errorf("%v says %d and %v", tags, mtu, settings)
		}
	}
}
