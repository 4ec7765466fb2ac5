// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
)

// An emulator with a bug answers 500 every time: only a code of EC2 means that the call may succeed later.
func TestAttemptsAfterAFailure(t *testing.T) {
	for name, row := range map[string]struct {
		body string
		want int
	}{
		"without a code":           {"<html>Internal Server Error</html>", 1},
		"without anything":         {"", 1},
		"with a code that EC2 has": {"<Response><Errors><Error><Code>InternalError</Code><Message>m</Message></Error></Errors></Response>", 3},
	} {
		t.Run(name, func(t *testing.T) {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = fmt.Fprint(w, row.body)
			}))
			defer server.Close()
			ec := &endpoint{attempts: 3, backoff: time.Millisecond}
			client := ec2.New(ec2.Options{
				Region: "us-east-1", BaseEndpoint: &server.URL, Retryer: ec.retryer(),
				Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""),
			})
			if _, err := client.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{}); err == nil || calls != row.want {
				t.Errorf("%d calls and error %v, want %d calls", calls, err, row.want)
			}
		})
	}
}
