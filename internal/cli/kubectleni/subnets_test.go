// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/report"
)

func TestSubnets(t *testing.T) {
	c := newCluster(t)
	withEC2(t, foreign())
	wants(t, succeeds(t, "subnets", "--cluster-name", clusterName), "No NodeENI selects a subnet")

	c.put(&v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "n3"},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector: map[string]v1alpha1.LabelValue{"ng": "n3"}, SubnetIDs: []string{"subnet-0f59b4f14737be9ad"}, SecurityGroupIDs: []string{"sg-0aa00000000000001"},
		},
		Status: v1alpha1.NodeENIStatus{Subnets: []v1alpha1.ResolvedSubnet{{ID: "subnet-0f59b4f14737be9ad", Zone: "us-east-1a"}}},
	})
	wants(t, succeeds(t, "subnets", "--cluster-name", clusterName),
		"subnet-0f59b4f14737be9ad", "4090 of 4091 addresses free, 254 free /28s", "others: 1 address on 1 interface", "selected by n3")

	var view report.Subnets
	must(t, json.Unmarshal([]byte(succeeds(t, "subnets", "subnet-0f59b4f14737be9ad", "--cluster-name", clusterName, "-o", "json")), &view))
	if len(view.Subnets) != 1 {
		t.Fatalf("%d subnets", len(view.Subnets))
	}
	if diff := cmp.Diff([]report.AddressHolder{{Name: "others", Interfaces: 1, Addresses: 1}}, view.Subnets[0].Holders); diff != "" {
		t.Error(diff)
	}
}

func TestASubnetThatEC2DoesNotHaveIsNamed(t *testing.T) {
	newCluster(t)
	withEC2(t)
	r := run(t, "", "subnets", "subnet-00000000000000001", "--cluster-name", clusterName)
	if r.failure == nil {
		t.Fatal("the command succeeds")
	}
	wants(t, r.failure.Error(), "EC2 has no subnet-00000000000000001 in us-east-1", "aws ec2 describe-subnets --region us-east-1")
}
