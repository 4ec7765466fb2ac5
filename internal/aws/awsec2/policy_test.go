// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

// The policy of a component allows exactly the calls of its API.
func TestPoliciesAllowWhatIsCalled(t *testing.T) {
	// multieni tags launch templates, keeps them while groups name them, and names images by parameters.
	besides := []string{"ec2:CreateTags", "autoscaling:DescribeAutoScalingGroups", "ssm:GetParameters"}
	for component, called := range map[awsec2.Component][]string{
		awsec2.Controller:         methods(reflect.TypeFor[awsec2.API]()),
		awsec2.Bootstrap:          methods(reflect.TypeFor[awsec2.API]()),
		awsec2.SubnetReservations: append(methods(reflect.TypeFor[awsec2.ReservationAPI]()), "ec2:CreateTags"),
		awsec2.Operator: append(methods(reflect.TypeFor[awsec2.OperatorAPI]()), "ec2:CreateTags", "ec2:DeleteNetworkInterface",
			"ec2:DescribeInstanceTypes", "ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups",
			"ec2:DescribeSubnets", "ec2:GetSubnetCidrReservations"),
		awsec2.NodeTemplates: append(methods(reflect.TypeFor[awsec2.LaunchAPI]()), besides...),
	} {
		content, err := awsec2.Policy(component, awsec2.PolicyOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var policy struct {
			Statement []struct{ Action []string }
		}
		if err := json.Unmarshal(content, &policy); err != nil {
			t.Fatal(err)
		}
		var allowed []string
		for _, s := range policy.Statement {
			if len(s.Action) == 0 {
				t.Errorf("%s: a statement is about no action", component)
			}
			allowed = append(allowed, s.Action...)
		}
		slices.Sort(allowed)
		slices.Sort(called)
		if diff := cmp.Diff(called, slices.Compact(allowed)); diff != "" {
			t.Errorf("%s: the policy allows other actions than are called (-called +allowed):\n%s", component, diff)
		}
	}
}

func methods(api reflect.Type) []string {
	var actions []string
	for method := range api.Methods() {
		actions = append(actions, "ec2:"+method.Name)
	}
	return actions
}

func TestPolicyOfNobody(t *testing.T) {
	if _, err := awsec2.Policy("janitor", awsec2.PolicyOptions{}); err == nil {
		t.Error("a component that does not exist has a policy")
	}
}

// A policy is valid in every partition, or in the one that the options name: its ARNs name no other.
func TestPoliciesOfPartitions(t *testing.T) {
	arn := regexp.MustCompile(`"arn:([^:]+):`)
	for partition, want := range map[string]string{
		"": "*", "aws": "aws", "aws-cn": "aws-cn", "aws-us-gov": "aws-us-gov", "aws-iso": "aws-iso", "aws-iso-b": "aws-iso-b", "aws-eusc": "aws-eusc",
	} {
		for _, component := range awsec2.Components() {
			policy, err := awsec2.Policy(component, awsec2.PolicyOptions{Partition: partition, AutoScalingGroups: []string{"upf"}})
			if err != nil {
				t.Fatal(err)
			}
			found := arn.FindAllSubmatch(policy, -1)
			if len(found) == 0 {
				t.Errorf("the policy of %s has no ARN", component)
			}
			for _, f := range found {
				if string(f[1]) != want {
					t.Errorf("for the partition %q the policy of %s has %s…, want the partition %s", partition, component, f[0], want)
				}
			}
		}
	}
}

func TestAPartitionThatThereIsNot(t *testing.T) {
	for _, partition := range []string{"china", "us-gov-west-1", "aws-us-gov-1", "AWS", "aws:ec2", "aws-"} {
		_, err := awsec2.Policy(awsec2.Controller, awsec2.PolicyOptions{Partition: partition})
		if err == nil || !strings.Contains(err.Error(), strconv.Quote(partition)) {
			t.Errorf("%q: %v", partition, err)
		}
	}
}
