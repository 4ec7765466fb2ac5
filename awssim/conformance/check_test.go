// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// check is one row: a sentence about EC2, and code that fails when the sentence is false.
type check struct {
	name string
	// strict marks rows that a useful emulator may still fail.
	strict bool
	run    func(t *testing.T, ec *endpoint)
}

// verify runs the rows one after the other against one endpoint, the strict ones as a group of their own.
func verify(t *testing.T, ec *endpoint, checks []check) {
	t.Helper()
	for _, c := range checks {
		if !c.strict {
			t.Run(c.name, func(t *testing.T) { c.run(t, ec) })
		}
	}
	if !slices.ContainsFunc(checks, func(c check) bool { return c.strict }) {
		return
	}
	t.Run("strict", func(t *testing.T) {
		if os.Getenv("MULTIENI_CONFORMANCE_LENIENT") == "1" {
			t.Skip("MULTIENI_CONFORMANCE_LENIENT=1")
		}
		for _, c := range checks {
			if c.strict {
				t.Run(c.name, func(t *testing.T) { c.run(t, ec) })
			}
		}
	})
}

// call is one request whose answer does not matter, only whether it is refused.
type call func(ctx context.Context, ec *endpoint) error

// refused is the body of a row that expects one of the codes (separated by "|": EC2's documentation and its behaviour
// do not always agree) and the HTTP status that belongs to it.
func refused(codes string, do call) func(*testing.T, *endpoint) {
	return func(t *testing.T, ec *endpoint) {
		t.Helper()
		expectRefusal(t, codes, do(t.Context(), ec))
	}
}

// refusedOnSimulator is for requests that would do harm on AWS if it did not refuse them.
func refusedOnSimulator(codes string, do call) func(*testing.T, *endpoint) {
	return func(t *testing.T, ec *endpoint) {
		t.Helper()
		if !ec.simulated {
			t.Skip("only on the simulator: not with other people's interfaces")
		}
		expectRefusal(t, codes, do(t.Context(), ec))
	}
}

// refusedSomehow is for requests that EC2 refuses with an undocumented code.
func refusedSomehow(do call) func(*testing.T, *endpoint) {
	return func(t *testing.T, ec *endpoint) {
		t.Helper()
		expectRefusalSomehow(t, do(t.Context(), ec))
	}
}

func expectRefusalSomehow(t *testing.T, err error) {
	t.Helper()
	if status := statusOf(err); codeOf(err) == "" || status < 400 || status >= 500 {
		t.Errorf("got %v (HTTP %d), want a refusal", err, status)
	}
}

func expectRefusal(t *testing.T, codes string, err error) {
	t.Helper()
	want := http.StatusBadRequest
	if codes == "DryRunOperation" {
		want = http.StatusPreconditionFailed
	}
	if err == nil {
		t.Fatalf("got success, want %s", codes)
	}
	if !slices.Contains(strings.Split(codes, "|"), codeOf(err)) || statusOf(err) != want {
		t.Errorf("got %q (HTTP %d), want %s (HTTP %d): %v", codeOf(err), statusOf(err), codes, want, err)
	}
}

// codeOf is EC2's error code, "" when err is nil or does not come from EC2.
func codeOf(err error) string {
	if api, ok := errors.AsType[smithy.APIError](err); ok {
		return api.ErrorCode()
	}
	return ""
}

func statusOf(err error) int {
	if response, ok := errors.AsType[*awshttp.ResponseError](err); ok {
		return response.HTTPStatusCode()
	}
	return 0
}

// ok stops the test if a step that prepares the row failed.
func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
