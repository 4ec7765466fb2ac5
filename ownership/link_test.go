// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ownership_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/hostnet"
	"github.com/multieni/multieni/ownership"
)

func TestLinkTagsSayHowTheLinkShallBe(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mtu := rapid.OneOf(rapid.Just(0), rapid.IntRange(ownership.MinMTU, ownership.MaxMTU)).Draw(rt, "mtu")
		settings := rapid.MapOf(rapid.SampledFrom(hostnet.Settings()), rapid.IntRange(0, ownership.MaxSetting)).Draw(rt, "settings")
		tags := ownership.LinkTags(mtu, settings)
		if len(tags[ownership.TagSysctls]) > 256 {
			rt.Errorf("%q is longer than a tag", tags[ownership.TagSysctls])
		}
		gotMTU, got := ownership.ReadLink(tags)
		if gotMTU != mtu || len(got) != len(settings) || len(got) > 0 && !cmp.Equal(got, settings) {
			rt.Errorf("%d %v became %d %v by %v", mtu, settings, gotMTU, got, tags)
		}
	})
}

func TestForeignLinkTagsAreNotBelieved(t *testing.T) {
	for _, tags := range []map[string]string{
		{ownership.TagMTU: "100000"}, {ownership.TagMTU: "0"}, {ownership.TagMTU: "-1"}, {ownership.TagMTU: "large"},
		{ownership.TagSysctls: "ipv4.forwarding=1"}, {ownership.TagSysctls: "ipv4.rp_filter=9 ipv4.arp_ignore=-1 ipv4.arp_filter ipv4.proxy_arp=x"},
	} {
		if mtu, settings := ownership.ReadLink(tags); mtu != 0 || len(settings) != 0 {
			t.Errorf("%v says %d and %v", tags, mtu, settings)
		}
	}
}
