// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/instancetype"
)

// selecting is an AWSNodeTemplate with an image that only EC2 knows, in two zones, with more of its spec and its status.
func selecting(spec, status string) string {
	return fmt.Sprintf(`{apiVersion: networking.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: any, generation: 2},
  spec: {subnetSelector: {a: b}, securityGroupSelector: {a: b}, amiSelector: {role: node}, userData: '#!/bin/sh'%s},
  status: {launchTemplates: [{id: lt-1, version: 1, zone: a}, {id: lt-2, version: 1, zone: b}]%s}}`, spec, status)
}

// typesIn returns the instance types in an output.
func typesIn(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		if _, value, is := strings.Cut(line, `"InstanceType": `); is {
			var name string
			_ = json.Unmarshal([]byte(strings.Trim(value, " ,\n")), &name)
			names = append(names, name)
		}
	}
	return names
}

// A group or a fleet gets only types that the image can run, and each warning once.
func TestTypesOfTheImagesArchitecture(t *testing.T) {
	const found = `, observedGeneration: 2, instanceTypes: {eligible: 1, types: [{name: %s, maxPods: 9}],
		rejected: [{reason: OtherArchitecture, count: 1, message: arm64}]}`
	for name, tc := range map[string]struct{ spec, status, want string }{
		"the controller found an image for amd64": {"", fmt.Sprintf(found, "m5.large"), "amd64"},
		"the controller found an image for arm64": {"", fmt.Sprintf(found, "m6g.large"), "arm64"},
		"it is declared":       {", architecture: amd64", "", "amd64"},
		"the types are of one": {`, instanceTypes: {include: ["c7g.*", "m7g.*"]}`, "", "arm64"},
	} {
		for _, consumer := range []string{"auto-scaling-group", "fleet"} {
			t.Run(name+" for "+consumer, func(t *testing.T) {
				out, warnings, err := run(t, selecting(tc.spec, tc.status), "render", "-f", "-", "--for", consumer)
				names := typesIn(out)
				if err != nil || len(names) == 0 {
					t.Fatalf("%d types, %v", len(names), err)
				}
				if at := slices.IndexFunc(names, func(n string) bool { return instancetype.Architecture(n) != tc.want }); at >= 0 {
					t.Errorf("%s is not for %s", names[at], tc.want)
				}
				if n := strings.Count(warnings, "are left out"); n > 1 {
					t.Errorf("the warning is printed %d times", n)
				}
			})
		}
	}
}

// If the image is not known, a list of types would name some that it cannot run.
func TestAnUnknownArchitectureIsRefused(t *testing.T) {
	stale := `, observedGeneration: 1, instanceTypes: {eligible: 1, types: [{name: m5.large, maxPods: 9}],
		rejected: [{reason: OtherArchitecture, count: 1, message: arm64}]}`
	for name, status := range map[string]string{"a file": "", "a status of an earlier declaration": stale} {
		for _, consumer := range []string{"auto-scaling-group", "fleet"} {
			_, _, err := run(t, selecting("", status), "render", "-f", "-", "--for", consumer)
			if err == nil || !strings.Contains(err.Error(), "set spec.architecture") {
				t.Errorf("%s for %s: %v", name, consumer, err)
			}
		}
	}
}
