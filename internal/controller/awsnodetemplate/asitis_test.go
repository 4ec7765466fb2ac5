// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsnodetemplate_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// referring is a node template that uses a launch template with the data as it is.
func referring(t *testing.T, data launchtemplate.Document) *stage {
	t.Helper()
	object := declared()
	object.Spec = v1alpha1.AWSNodeTemplateSpec{LaunchTemplateRef: &v1alpha1.LaunchTemplateRef{Name: "base", Version: "$Latest"}}
	s := setStage(t, object)
	s.source = launchtemplate.Version{TemplateID: "lt-9", Number: 1, Data: launchtemplate.Document{
		"ImageId": image, "UserData": "#!/bin/sh", "IamInstanceProfile": map[string]any{"Name": "nodes"},
	}}
	for member, value := range data {
		s.source.Data[member] = value
	}
	return s
}

func validated(object v1alpha1.AWSNodeTemplate) metav1.Condition {
	return *apimeta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionValidated)
}

// interfaces are those of a launch template.
func interfaces(all ...map[string]any) launchtemplate.Document {
	var list []any
	for _, i := range all {
		list = append(list, i)
	}
	return launchtemplate.Document{"NetworkInterfaces": list}
}

// A launch template that is used as it is, is tried before it is offered, and only once.
func TestALaunchTemplateThatIsUsedAsItIsIsTried(t *testing.T) {
	for name, tc := range map[string]struct {
		data launchtemplate.Document
		call string
	}{
		"in the roomiest subnet of the VPC of its groups": {
			launchtemplate.Document{"SecurityGroupIds": []any{"g1"}}, `try lt-9 version 1 as m5.large in "s2"`,
		},
		"in the zone of its placement": {
			launchtemplate.Document{
				"SecurityGroupIds": []any{"g1"}, "Placement": map[string]any{"AvailabilityZone": "us-east-1b"},
			}, `try lt-9 version 1 as m5.large in "s3"`,
		},
		"in its own subnets": {
			interfaces(map[string]any{"DeviceIndex": 0, "SubnetId": "s1", "Groups": []any{"g1"}}),
			`try lt-9 version 1 as m5.large in ""`,
		},
		"as its own type": {
			launchtemplate.Document{"SecurityGroupIds": []any{"g1"}, "InstanceType": "m5.xlarge"},
			`try lt-9 version 1 as m5.xlarge in "s2"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := referring(t, tc.data)
			object, calls := s.reconcile()
			if got := validated(object); got.Status != metav1.ConditionTrue || !slices.Equal(calls, []string{tc.call}) {
				t.Errorf("%+v after %q, want %s", got, calls, tc.call)
			}
			if _, calls = s.reconcile(); len(calls) > 0 {
				t.Errorf("at rest: %q", calls)
			}
		})
	}
}

// A version from which EC2 would not launch is not offered. The one before stays.
func TestALaunchTemplateThatEC2RefusesIsNotOffered(t *testing.T) {
	s := referring(t, launchtemplate.Document{"SecurityGroupIds": []any{"g1"}})
	before, _ := s.reconcile()
	s.source.Number, s.now = 2, s.now.Add(2*time.Minute)
	s.listed()
	s.refuse = &eni.APIError{Class: eni.Invalid, Code: "InvalidParameterCombination", Message: "no"}
	object, calls := s.reconcile()
	got := validated(object)
	if got.Status != metav1.ConditionFalse || !strings.Contains(got.Message, "no") || reason(object) != v1alpha1.ReasonRefused {
		t.Errorf("%+v, %s after %q", got, reason(object), calls)
	}
	if len(calls) != 2 || !strings.HasSuffix(calls[1], `in "s3"`) {
		t.Errorf("not tried in another zone for the other type: %q", calls)
	}
	if !slices.Equal(object.Status.LaunchTemplates, before.Status.LaunchTemplates) {
		t.Errorf("offered %+v", object.Status.LaunchTemplates)
	}
	s.refuse = nil
	if object, _ = s.reconcile(); object.Status.LaunchTemplates[0].Version != 2 || validated(object).Status != metav1.ConditionTrue {
		t.Errorf("corrected: %+v", object.Status)
	}
}

// Without a trial nothing is known of EC2's answer, and the condition does not claim one.
func TestALaunchTemplateThatIsNotTried(t *testing.T) {
	denied := &eni.APIError{Class: eni.Unauthorized, Code: "UnauthorizedOperation"}
	for name, tc := range map[string]struct {
		data   launchtemplate.Document
		refuse error
	}{
		"no place to try it": {launchtemplate.Document{}, nil},
		"no permission":      {launchtemplate.Document{"SecurityGroupIds": []any{"g1"}}, denied},
	} {
		t.Run(name, func(t *testing.T) {
			s := referring(t, tc.data)
			s.refuse = tc.refuse
			for range 2 {
				object, _ := s.reconcile()
				got := validated(object)
				if got.Status != metav1.ConditionUnknown || got.Reason != v1alpha1.ReasonNotTried || reason(object) != v1alpha1.ReasonPublished {
					t.Errorf("%+v, %s", got, reason(object))
				}
				if !slices.ContainsFunc(object.Status.Warnings, func(w string) bool { return strings.HasPrefix(w, "not tried: ") }) {
					t.Errorf("warnings %q", object.Status.Warnings)
				}
			}
		})
	}
}

// What EC2 does not have, or would never launch, is found without a trial.
func TestALaunchTemplateThatIsUsedAsItIsIsChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		data launchtemplate.Document
		want launchtemplate.Reason
	}{
		"groups in both places": {
			func() launchtemplate.Document {
				d := interfaces(map[string]any{"DeviceIndex": 0, "SubnetId": "s1"})
				d["SecurityGroupIds"] = []any{"g1"}
				return d
			}(), launchtemplate.ForbiddenMember,
		},
		"an unknown group":  {launchtemplate.Document{"SecurityGroupIds": []any{"g1", "g9"}}, launchtemplate.NoSecurityGroups},
		"an unknown subnet": {interfaces(map[string]any{"DeviceIndex": 0, "SubnetId": "s9"}), launchtemplate.NoSubnets},
		"an unknown image":  {launchtemplate.Document{"ImageId": "ami-00000000000000009"}, launchtemplate.ImageRequired},
	} {
		t.Run(name, func(t *testing.T) {
			s := referring(t, tc.data)
			object, calls := s.reconcile()
			if got := validated(object); got.Status != metav1.ConditionFalse || got.Reason != string(tc.want) || len(calls) > 0 {
				t.Errorf("%+v after %q, want %s", got, calls, tc.want)
			}
		})
	}
}
