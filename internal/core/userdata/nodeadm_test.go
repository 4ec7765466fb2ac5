// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

func TestValuesOfTheClusterFillInWhatIsLeftOut(t *testing.T) {
	own := userdata.Cluster{ClusterName: "prod", Endpoint: "https://prod", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16"}
	for name, tc := range map[string]struct{ declared, want userdata.Cluster }{
		"nothing declared":        {userdata.Cluster{}, own},
		"the name alone":          {userdata.Cluster{ClusterName: "prod"}, own},
		"a field has precedence":  {userdata.Cluster{Endpoint: "https://other"}, userdata.Cluster{ClusterName: "prod", Endpoint: "https://other", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16"}},
		"another cluster":         {userdata.Cluster{ClusterName: "stage"}, userdata.Cluster{ClusterName: "stage"}},
		"the DNS service is kept": {userdata.Cluster{ClusterDNS: "10.100.0.10"}, userdata.Cluster{ClusterName: "prod", Endpoint: "https://prod", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16", ClusterDNS: "10.100.0.10"}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.declared.Or(own)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
