// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"strings"
	"testing"
)

// Without a controller, explain says what the rules of the security groups of EFAs decide.
func TestWhatExplainTellsOfGroupsOfEFAs(t *testing.T) {
	const efa, unread = ", networkInterfaces: [{deviceIndex: 0}, {deviceIndex: 1, interfaceType: efa-only}], instanceTypes: {include: [c5n.18xlarge]}",
		"the security groups are not read: EFAs exchange traffic only if"
	const zones = ", zones: [{name: a, eligible: true}], observedGeneration: 2"
	for name, tc := range map[string]struct {
		spec, status string
		says         bool
	}{
		"no EFA":                       {"", "", false},
		"an EFA":                       {efa, "", true},
		"the controller has read them": {efa, zones, false},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, selecting(tc.spec, tc.status), "explain", "-f", "-")
			if err != nil || strings.Contains(out, unread) != tc.says {
				t.Errorf("%v in\n%s", err, out)
			}
		})
	}
}

// explain tells the warnings of the controller, which has read the subnets. Without them it tells what it did not read.
func TestWhatExplainTellsOfPublicSubnets(t *testing.T) {
	const two, unread = ", networkInterfaces: [{deviceIndex: 0}, {deviceIndex: 1}]", "the subnets are not read"
	const zones = ", zones: [{name: a, eligible: true}], observedGeneration: 2"
	for name, tc := range map[string]struct {
		spec, status  string
		says, doesNot string
	}{
		"one interface": {"", "", "AWSNodeTemplate any", unread},
		"two interfaces": {two, "", unread + ": EC2 gives an instance with 2 interfaces no public IP address",
			"Warnings of"},
		"the controller warns": {two, zones + `, warnings: ["nodes get no public IP address"]`,
			"Warnings of the controller\n  nodes get no public IP address", unread},
		"no public address is wanted": {
			", networkInterfaces: [{deviceIndex: 0, associatePublicIPAddress: false}, {deviceIndex: 1}]", "",
			"AWSNodeTemplate any", unread,
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, selecting(tc.spec, tc.status), "explain", "-f", "-")
			if err != nil || !strings.Contains(out, tc.says) || strings.Contains(out, tc.doesNot) {
				t.Errorf("%v in\n%s", err, out)
			}
		})
	}
}
