// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package selector_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/selector"
)

// A message about tags that nothing has says so if the tags look like patterns or lists.
func TestTagsThatMeanThemselves(t *testing.T) {
	for name, tc := range map[string]struct {
		tags map[string]string
		want string
	}{
		"plain":       {map[string]string{"team": "net"}, ""},
		"a wildcard":  {map[string]string{"team": "net", "Name": "*Public*"}, "; the value *Public* of Name means itself: there are no wildcards"},
		"one letter":  {map[string]string{"Name": "node-?"}, "; the value node-? of Name means itself: there are no wildcards"},
		"a list":      {map[string]string{"Name": "a,b"}, "; the value a,b of Name means itself: there are no lists of values"},
		"Karpenter's": {map[string]string{"aws::ids": "x"}, "; the key aws::ids means a tag of this name; in an AWSNodeTemplate aws-ids lists IDs"},
		"two": {map[string]string{"a": "*", "b": "1,2"},
			"; the value * of a means itself: there are no wildcards; the value 1,2 of b means itself: there are no lists of values"},
	} {
		t.Run(name, func(t *testing.T) {
			subnets := selector.MatchSubnets(selector.SubnetTerms{Tags: tc.tags}, nil).Problems()
			_, groups := selector.MatchGroups(selector.GroupTerms{Tags: tc.tags}, nil).ForVPC("vpc-1")
			for kind, message := range map[string]string{"subnets": subnets[0].Message, "groups": groups[0].Message} {
				if _, literal, _ := strings.Cut(message, "select another"); !strings.HasSuffix(message, tc.want) || tc.want == "" && strings.Contains(literal, "means") {
					t.Errorf("%s: %s", kind, message)
				}
			}
		})
	}
}

func TestTagsWithAStarSelectSubnetsThatHaveThem(t *testing.T) {
	match := selector.MatchSubnets(selector.SubnetTerms{Tags: map[string]string{"Name": "*"}}, []eni.Subnet{{ID: "subnet-1", Tags: map[string]string{"Name": "*"}}})
	if len(match.Problems()) > 0 || len(match.Subnets()) != 1 {
		t.Errorf("problems %v, subnets %v", match.Problems(), match.Subnets())
	}
}
