// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/userdata"
)

func TestValuesOfTheClusterFillInWhatIsLeftOut(t *testing.T) {
	own := userdata.Cluster{ClusterName: "prod", Endpoint: "https://prod", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16"}
	for name, tc := range map[string]struct{ declared, want userdata.Cluster }{
		"nothing declared": {userdata.Cluster{}, own},
		"the name alone":   {userdata.Cluster{ClusterName: "prod"}, own},
		"a field has precedence": {
			userdata.Cluster{Endpoint: "https://other"},
			userdata.Cluster{ClusterName: "prod", Endpoint: "https://other", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16"},
		},
		"another cluster": {userdata.Cluster{ClusterName: "stage"}, userdata.Cluster{ClusterName: "stage"}},
		"the DNS service is kept": {
			userdata.Cluster{ClusterDNS: "10.100.0.10"},
			userdata.Cluster{ClusterName: "prod", Endpoint: "https://prod", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16", ClusterDNS: "10.100.0.10"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.declared.Or(own)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestCompleteNeedsEveryField leaves out one field at a time. A node cannot join with the rest, and Render says so
// before it boots; the address of the DNS service alone may be absent.
func TestCompleteNeedsEveryField(t *testing.T) {
	for name, tc := range map[string]struct {
		remove   func(*userdata.Cluster)
		complete bool
	}{
		"all":                         {func(*userdata.Cluster) {}, true},
		"without the DNS service":     {func(c *userdata.Cluster) { c.ClusterDNS = "" }, true},
		"without a name":              {func(c *userdata.Cluster) { c.ClusterName = "" }, false},
		"without an endpoint":         {func(c *userdata.Cluster) { c.Endpoint = "" }, false},
		"without an authority":        {func(c *userdata.Cluster) { c.CA = "" }, false},
		"without a range of services": {func(c *userdata.Cluster) { c.ServiceCIDR = "" }, false},
		"the DNS service alone":       {func(c *userdata.Cluster) { *c = userdata.Cluster{ClusterDNS: c.ClusterDNS} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			c := cluster
			tc.remove(&c)
			if c.Complete() != tc.complete {
				t.Errorf("complete is %t, want %t", c.Complete(), tc.complete)
			}
			_, err := bootstrap(func(b *userdata.Bootstrap) { b.Cluster = c }).Render()
			const together = "--service-cidr are needed together"
			if (err == nil) != tc.complete || err != nil && !strings.Contains(err.Error(), together) {
				t.Errorf("the error is %v", err)
			}
		})
	}
}

// TestOrIsIdempotent checks that a second merge with the same values changes nothing, and that no declared value is
// lost.
func TestOrIsIdempotent(t *testing.T) {
	value := func(t *rapid.T, name string) string { return rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, name) }
	draw := func(t *rapid.T) userdata.Cluster {
		return userdata.Cluster{
			ClusterName: value(t, "name"), Endpoint: value(t, "endpoint"), CA: value(t, "CA"), ServiceCIDR: value(t, "range"),
			ClusterDNS: value(t, "DNS"),
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		declared, defaults := draw(t), draw(t)
		merged := declared.Or(defaults)
		if diff := cmp.Diff(merged, merged.Or(defaults)); diff != "" {
			t.Fatalf("merged again (-first +second):\n%s", diff)
		}
		named := declared.ClusterName != "" // without a name, the merged values are of another cluster
		if diff := cmp.Diff(merged, merged.Or(declared)); named && diff != "" {
			t.Fatalf("a declared value was lost (-merged +declared):\n%s", diff)
		}
		if diff := cmp.Diff(declared, declared.Or(userdata.Cluster{})); diff != "" {
			t.Fatalf("without defaults (-declared +merged):\n%s", diff)
		}
	})
}
