// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
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

// prometheus is a Prometheus server that knows some values of a subnet, by the name of their metric. Queries without deriv ask
// whether it knows the subnet.
func prometheus(t *testing.T, subnet string, days map[string]string) (address string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		query, samples := r.FormValue("query"), ""
		for metric, value := range days {
			if strings.Contains(query, metric) && strings.Contains(query, "deriv") == (metric != "addresses") {
				samples = fmt.Sprintf(`{"metric": {"subnet": %q}, "value": [1, %q]}`, subnet, value)
			}
		}
		fmt.Fprintf(w, `{"status": "success", "data": {"resultType": "vector", "result": [%s]}}`, samples)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestDaysUntilASubnetIsFull(t *testing.T) {
	const subnet = "subnet-0f59b4f14737be9ad"
	for name, tc := range map[string]struct {
		days map[string]string
		want string
	}{
		"addresses and prefixes": {
			map[string]string{"addresses": "4090", "free_addresses": "12.34", "free_prefixes": "2"},
			"no address in 12.3 days, no /28 in 2.0 days at the growth of the last day",
		},
		"prefixes alone": {map[string]string{"addresses": "4090", "free_prefixes": "2"}, "  no /28 in 2.0 days at the growth of the last day"},
		"no growth":      {map[string]string{"addresses": "4090"}, "no growth in the last day"},
	} {
		t.Run(name, func(t *testing.T) {
			newCluster(t)
			withEC2(t, foreign())
			wants(t, succeeds(t, "subnets", subnet, "--cluster-name", clusterName, "--prometheus", prometheus(t, subnet, tc.days)), tc.want)
		})
	}
}

// The error names a server that does not answer like Prometheus, and the request to it.
func TestAServerThatIsNoPrometheus(t *testing.T) {
	newCluster(t)
	withEC2(t, foreign())
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	r := run(t, "", "subnets", "subnet-0f59b4f14737be9ad", "--cluster-name", clusterName, "--prometheus", server.URL)
	if r.failure == nil {
		t.Fatal("the command succeeds")
	}
	wants(t, r.failure.Error(), "growth of subnets", server.URL)
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
