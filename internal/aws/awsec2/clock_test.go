// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/internal/aws/awsec2"
)

// TestAnswersTellEC2sTime has a server whose clock differs from the local one, and one whose answers come from a cache.
func TestAnswersTellEC2sTime(t *testing.T) {
	for name, tc := range map[string]struct {
		ahead  time.Duration
		status int
		header map[string]string
		dated  bool
	}{
		"an hour ahead":          {time.Hour, http.StatusOK, nil, true},
		"an hour behind":         {-time.Hour, http.StatusOK, nil, true},
		"a refusal":              {time.Hour, http.StatusForbidden, nil, true},
		"an answer from a cache": {time.Hour, http.StatusOK, map[string]string{"Age": "7"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Date", time.Now().Add(tc.ahead).UTC().Format(http.TimeFormat))
				w.Header().Set("X-Amzn-Requestid", "r-1")
				for key, value := range tc.header {
					w.Header().Set(key, value)
				}
				w.WriteHeader(tc.status)
				_, _ = w.Write([]byte("<DescribeNetworkInterfacesResponse><networkInterfaceSet/></DescribeNetworkInterfacesResponse>"))
			}))
			defer server.Close()
			var calls []awsec2.Call
			config := aws.Config{
				Region: "us-east-1", BaseEndpoint: aws.String(server.URL), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
			}
			client := awsec2.New(config, awsec2.Options{Cluster: "c", Observe: func(c awsec2.Call) { calls = append(calls, c) }})
			_, _, _ = client.ListOwned(t.Context())
			if len(calls) != 1 || calls[0].Dated != tc.dated {
				t.Fatalf("got %+v", calls)
			}
			if off := (calls[0].Ahead - tc.ahead).Abs(); tc.dated && off > time.Minute {
				t.Errorf("EC2's clock is said to be %s ahead, want %s", calls[0].Ahead, tc.ahead)
			}
		})
	}
}
