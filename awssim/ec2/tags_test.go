// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/ec2"
)

func TestTags(t *testing.T) {
	s := play(t, ec2.Behavior{})
	id := s.create(subnetA)
	all := []string{id, instanceA, subnetA, groupA, "vpc-0000000000000000a"}
	_, err := s.CreateTags(s.call, &ec2.TagsInput{ResourceIDs: all, Tags: []ec2.Tag{tag("a", "1"), tag("b", "2"), tag("c", "3")}})
	s.must(err)
	_, err = s.DeleteTags(s.call, &ec2.TagsInput{ResourceIDs: all, Tags: []ec2.Tag{{Key: "a"}, tag("b", "another value"), tag("c", "3")}})
	s.must(err)
	state := s.State(s.call)
	subnet := state.Subnets[slices.IndexFunc(state.Subnets, func(sn *ec2.Subnet) bool { return sn.SubnetID == subnetA })]
	if diff := cmp.Diff(ec2.Tags{"b": "2"}, subnet.Tags); diff != "" {
		t.Errorf("subnet's tags (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(ec2.Tags{"b": "2", "Name": "a"}, s.instance(instanceA).Tags); diff != "" {
		t.Errorf("instance's tags (-want +got):\n%s", diff)
	}
	_, err = s.DeleteTags(s.call, &ec2.TagsInput{ResourceIDs: []string{id}})
	s.must(err)
	if got := s.eni(id).Tags; len(got) > 0 {
		t.Errorf("tags %v", got)
	}
}

func TestTagRefusals(t *testing.T) {
	try := func(ids []string, tags ...ec2.Tag) func(*scene) error {
		return func(s *scene) error {
			_, err := s.CreateTags(s.call, &ec2.TagsInput{ResourceIDs: ids, Tags: tags})
			return err
		}
	}
	many := make([]ec2.Tag, 51)
	for i := range many {
		many[i] = tag(fmt.Sprint(i), "")
	}
	here := []string{subnetA}
	refusals(t, map[string]refusal{
		"no tags":        {"MissingParameter", try(here)},
		"no resources":   {"MissingParameter", try(nil, tag("a", ""))},
		"1001 resources": {"InvalidParameterValue", try(slices.Repeat(here, 1001), tag("a", ""))},
		"51 tags":        {"TagLimitExceeded", try(here, many...)},
		"empty key":      {"InvalidTagKey.Malformed", try(here, tag("", "x"))},
		"long key":       {"InvalidTagKey.Malformed", try(here, tag(strings.Repeat("k", 129), "x"))},
		"long value":     {"InvalidParameterValue", try(here, tag("k", strings.Repeat("v", 257)))},
		"a key twice":    {"InvalidParameterValue", try(here, tag("k", "1"), tag("k", "2"))},
		"unknown ENI":    {"InvalidNetworkInterfaceID.NotFound", try([]string{"eni-0000000000000dead"}, tag("a", ""))},
		"unknown kind":   {"InvalidID", try([]string{"vol-0000000000000dead"}, tag("a", ""))},
		"one of two unknown": {"InvalidInstanceID.NotFound", func(s *scene) error {
			err := try([]string{instanceA, "i-0000000000000dead"}, tag("a", ""))(s)
			if s.instance(instanceA).Tags["a"] != "" || len(s.instance(instanceA).Tags) != 1 {
				s.Error("the known one was tagged")
			}
			return err
		}},
		"50 and one more": {"TagLimitExceeded", func(s *scene) error {
			s.must(try(here, many[:50]...)(s))
			return try(here, many[50])(s)
		}},
	})
}
