// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim/ec2"
)

// Clients of other services learn what is not modelled, in the form of errors that they read.
func TestUnmodelledServicesAreRefusedByName(t *testing.T) {
	sim := simulate(t, ec2.Behavior{})
	for service, row := range map[string]struct {
		method, path, body, target string
		want                       string // a part of the answer
		header                     string // the code in a header
	}{
		"lambda":       {method: "GET", path: "/2015-03-31/functions", want: `"message":"awssim does not model GET /2015-03-31/functions of the service lambda`, header: "InvalidAction"},
		"eks":          {method: "POST", path: "/clusters", body: `{"name":"a"}`, want: `"__type":"InvalidAction"`, header: "InvalidAction"},
		"s3":           {method: "GET", path: "/", want: "<Error><Code>InvalidAction</Code><Message>awssim does not model GET / of the service s3"},
		"s3 in a path": {method: "PUT", path: "/bucket/key", want: "<Error><Code>InvalidAction</Code>"},
		"iam":          {method: "POST", path: "/", body: "Action=ListRoles&Version=2010-05-08", want: "<Code>InvalidAction</Code><Message>awssim does not model ListRoles of the service iam"},
		"dynamodb":     {method: "POST", path: "/", body: "{}", target: "DynamoDB_20120810.ListTables", want: `"message":"awssim does not model DynamoDB_20120810.ListTables`},
		"ec2":          {method: "POST", path: "/", body: "Action=DescribeVolumes&Version=2016-11-15", want: "<Response><Errors><Error><Code>InvalidAction</Code>"},
	} {
		t.Run(service, func(t *testing.T) {
			name, _, _ := strings.Cut(service, " ")
			request := httptest.NewRequestWithContext(t.Context(), row.method, row.path, strings.NewReader(row.body))
			request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/"+name+"/aws4_request, Signature=x")
			if strings.HasPrefix(row.body, "Action") {
				request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			if row.target != "" {
				request.Header.Set("X-Amz-Target", row.target)
			}
			answer := httptest.NewRecorder()
			sim.ServeHTTP(answer, request)
			if answer.Code != http.StatusBadRequest || !strings.Contains(answer.Body.String(), row.want) || answer.Header().Get("X-Amzn-Errortype") != row.header {
				t.Errorf("HTTP %d, %v: %s\nwant %s", answer.Code, answer.Header(), answer.Body, row.want)
			}
		})
	}
}
