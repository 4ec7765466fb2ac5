// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// A program with the wrong region fails, as with AWS: otherwise it would get the zones and subnets of another region.
func TestCallsForAnotherRegionAreRefused(t *testing.T) {
	sim, err := awssim.New(awssim.Options{World: awssim.World{World: ec2.World{
		Region: "eu-west-1", AvailabilityZones: []ec2.WorldZone{{ZoneName: "eu-west-1a", ZoneID: "euw1-az1"}},
		VPCs: []ec2.WorldVPC{{VPCID: "vpc-00000000000000001", CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	const (
		vpcs     = "Action=DescribeVpcs&Version=2016-11-15"
		identity = "Action=GetCallerIdentity&Version=2011-06-15"
		groups   = "Action=DescribeAutoScalingGroups&Version=2011-01-01"
	)
	for name, row := range map[string]struct {
		signedFor    string // region and service; "" for a call without a signature
		body, target string
		status       int
		code         string
	}{
		"the world's region":             {signedFor: "eu-west-1/ec2", body: vpcs, status: http.StatusOK},
		"no signature":                   {body: vpcs, status: http.StatusOK},
		"another region":                 {"us-east-1/ec2", vpcs, "", http.StatusUnauthorized, "AuthFailure"},
		"a zone for a region":            {"eu-west-1a/ec2", vpcs, "", http.StatusUnauthorized, "AuthFailure"},
		"Auto Scaling":                   {"us-west-2/autoscaling", groups, "", http.StatusForbidden, "SignatureDoesNotMatch"},
		"a queue":                        {"us-east-1/sqs", "{}", "AmazonSQS.ListQueues", http.StatusBadRequest, "InvalidSignatureException"},
		"STS of the region":              {signedFor: "eu-west-1/sts", body: identity, status: http.StatusOK},
		"STS's global endpoint":          {signedFor: "us-east-1/sts", body: identity, status: http.StatusOK},
		"STS of a third region":          {"eu-central-1/sts", identity, "", http.StatusForbidden, "SignatureDoesNotMatch"},
		"a service that is not modelled": {"us-east-1/iam", "Action=ListRoles&Version=2010-05-08", "", http.StatusBadRequest, "InvalidAction"},
	} {
		t.Run(name, func(t *testing.T) {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", strings.NewReader(row.body))
			request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			if row.target != "" {
				request.Header.Set("X-Amz-Target", row.target)
			}
			if row.signedFor != "" {
				request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/"+row.signedFor+"/aws4_request, Signature=x")
			}
			answer := httptest.NewRecorder()
			sim.ServeHTTP(answer, request)
			body := answer.Body.String()
			if answer.Code != row.status || !strings.Contains(body, row.code) {
				t.Errorf("HTTP %d: %s\nwant %d %s", answer.Code, body, row.status, row.code)
			}
			foreign := row.code != "" && row.code != "InvalidAction"
			if foreign != strings.Contains(body, "AWS_REGION=eu-west-1") {
				t.Errorf("names the world's region and the way to it: %t, want %t: %s", !foreign, foreign, body)
			}
		})
	}
}
