// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// BenchmarkDescribePage measures a page of 1,000 of 10,000 interfaces, found by tag, from the request to XML.
func BenchmarkDescribePage(b *testing.B) {
	world := awssim.ExampleWorld()
	world.Quotas.NetworkInterfaces = 20000
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}})
	if err != nil {
		b.Fatal(err)
	}
	post := func(form url.Values) {
		form.Set("Version", "2016-11-15")
		request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(form.Encode()))
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		response, err := sim.Transport().RoundTrip(request)
		if err != nil {
			b.Fatal(err)
		}
		if response.StatusCode != http.StatusOK {
			b.Fatal(response.Status)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	for i := range 10000 {
		subnets := []string{subnetA, "subnet-abcdef1234567890", "subnet-0cc0000000000000a"}
		post(url.Values{
			"Action": {"CreateNetworkInterface"}, "SubnetId": {subnets[i%len(subnets)]}, "TagSpecification.1.ResourceType": {"network-interface"},
			"TagSpecification.1.Tag.1.Key": {"cluster"}, "TagSpecification.1.Tag.1.Value": {"one"},
			"TagSpecification.1.Tag.2.Key": {"node"}, "TagSpecification.1.Tag.2.Value": {"two"},
			"TagSpecification.1.Tag.3.Key": {"member"}, "TagSpecification.1.Tag.3.Value": {"three"},
		})
	}
	for b.Loop() {
		post(url.Values{
			"Action": {"DescribeNetworkInterfaces"}, "MaxResults": {"1000"}, "Filter.1.Name": {"tag:cluster"}, "Filter.1.Value.1": {"one"},
		})
	}
}
