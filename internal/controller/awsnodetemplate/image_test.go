// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"testing"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// A selector by tags chooses the newest image that fits, and the next version follows when EC2 makes a newer one
// available.
func TestASelectorChoosesAnImageThatFits(t *testing.T) {
	for name, tc := range map[string]struct {
		newer launchtemplate.MachineImage
		want  string
	}{
		"the newest is available": {launchtemplate.MachineImage{Architecture: "amd64", State: "available"}, "ami-new"},
		"the newest is pending":   {launchtemplate.MachineImage{Architecture: "amd64", State: "pending"}, image},
		"the newest is for other types": {
			launchtemplate.MachineImage{Architecture: "arm64", State: "available"}, image,
		},
	} {
		t.Run(name, func(t *testing.T) {
			object := declared()
			object.Spec.AMISelector = map[string]v1alpha1.TagValue{"role": "node"}
			s := setStage(t, object)
			tc.newer.ID, tc.newer.CreatedAt = "ami-new", "2026-01-01"
			s.newer = []launchtemplate.MachineImage{tc.newer}
			got, _ := s.reconcile()
			if reason(got) != v1alpha1.ReasonPublished {
				t.Fatalf("%s: %+v", reason(got), got.Status.Conditions)
			}
			if id := s.versions["lt-1"][0].ImageID(); id != tc.want {
				t.Errorf("image %s, want %s", id, tc.want)
			}
			s.newer[0].State, s.newer[0].Architecture = "available", "amd64"
			s.now = s.now.Add(2 * time.Minute)
			s.listed()
			s.reconcile()
			versions := s.versions["lt-1"]
			if id := versions[len(versions)-1].ImageID(); id != "ami-new" {
				t.Errorf("later image %s", id)
			}
		})
	}
}
