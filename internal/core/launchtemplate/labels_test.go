// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// Pods select nodes by the labels of their node templates. There is no label for what a node template does not have: a
// selector with Exists finds only what is there.
func TestTheLabelsOfANodeTemplate(t *testing.T) {
	const template, count = "networking.k8s.aws/nodetemplate", "networking.k8s.aws/interfaces"
	named := func(name string, device int) launchtemplate.Interface {
		i := at(device)
		i.Name = name
		return i
	}
	efa := at(1)
	efa.Type = eni.EFAOnly
	cases := map[string]struct {
		layout     launchtemplate.Layout
		interfaces []launchtemplate.Interface
		want       map[string]string
	}{
		"nothing declared": {"", nil, map[string]string{template: "default", count: "1"}},
		"named interfaces": {
			"", []launchtemplate.Interface{at(0), named("n3", 1), named("n6", 2)}, map[string]string{
				template: "default", count: "3", "network.networking.k8s.aws/n3": "true", "network.networking.k8s.aws/n6": "true",
			},
		},
		"two interfaces of one name": {
			"", []launchtemplate.Interface{named("n3", 0), named("n3", 1)},
			map[string]string{template: "default", count: "2", "network.networking.k8s.aws/n3": "true"},
		},
		"an EFA": {
			launchtemplate.NoLayout, []launchtemplate.Interface{at(0), efa},
			map[string]string{template: "default", count: "2", "networking.k8s.aws/efa-interfaces": "1"},
		},
		"a layout": {
			launchtemplate.IPOptimized, nil, map[string]string{
				template: "default", count: "5", "networking.k8s.aws/efa-interfaces": "4",
				"networking.k8s.aws/layout": "IPOptimized",
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Layout, n.Interfaces = tc.layout, tc.interfaces
			r := launchtemplate.Render(n, of(t, "p4d.24xlarge"), nil)
			if diff := cmp.Diff(tc.want, r.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			for key := range r.Labels {
				if !launchtemplate.IsNodeLabel(key) {
					t.Errorf("%s is not recognised as a label of a node template", key)
				}
			}
		})
	}
}

// Only the labels of node templates are updated on nodes. Other labels, even with the same prefix, stay.
func TestLabelsOfOthersAreNotTakenForOurs(t *testing.T) {
	for key, want := range map[string]bool{
		"network.networking.k8s.aws/n3": true, "network.networking.k8s.aws/": true, "networking.k8s.aws/layout": true,
		"networking.k8s.aws/layouts": false, "networking.k8s.aws/not-ready": false, "my-network.networking.k8s.aws/n3": false,
		"network.networking.k8s.aws": false, "": false,
	} {
		if got := launchtemplate.IsNodeLabel(key); got != want {
			t.Errorf("%q is a label of a node template: %t, want %t", key, got, want)
		}
	}
}
