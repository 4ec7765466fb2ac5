// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/smithy-go"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
)

// The texts are from real answers of EC2 or from its documentation.
func TestErrorClasses(t *testing.T) {
	cases := map[string]struct {
		reply reply
		want  eni.Class
	}{
		"throttled":                 {reply{code: "RequestLimitExceeded", message: "Request limit exceeded.", status: 503}, eni.Throttled},
		"throttled, later wording":  {reply{code: "RequestLimitExceeded", message: "Request limit exceeded. Account 1 has been throttled on ec2:AttachNetworkInterface because it exceeded its request rate limit."}, eni.Throttled},
		"throttled, SDK retries it": {reply{code: "EC2ThrottledException", status: 503}, eni.Throttled},
		"index taken":               {reply{code: "InvalidParameterValue", message: "Instance 'i-1' already has an interface attached at device index '1'."}, eni.SlotTaken},
		"deleted while attached":    {reply{code: "InvalidParameterValue", message: "Network interface 'eni-1' is currently in use."}, eni.Busy},
		"attached while attached":   {reply{code: "InvalidNetworkInterface.InUse", message: "Interface: [eni-1] in use."}, eni.Busy},
		"attached, other code":      {reply{code: "InvalidParameterValue", message: "Interface: [eni-1] in use."}, eni.Busy},
		"no addresses":              {reply{code: "InsufficientFreeAddressesInSubnet", message: "The specified subnet does not have enough free addresses to satisfy the request."}, eni.NoAddresses},
		"no prefixes":               {reply{code: "InvalidParameterValue", message: "There aren't sufficient free Ipv4 addresses or prefixes"}, eni.NoAddresses},
		"fragmented":                {reply{code: "InsufficientCidrBlocks"}, eni.NoPrefixes},
		"other invalid value":       {reply{code: "InvalidParameterValue", message: "Address does not fall within the subnet's address range"}, eni.Invalid},
		"address moved":             {reply{code: "InvalidParameterValue", message: "[10.0.0.7] assigned, but move is not allowed."}, eni.Invalid},
		"instance full":             {reply{code: "AttachmentLimitExceeded", message: "Interface count 4 exceeds the limit for t3.medium"}, eni.LimitExceeded},
		"account full":              {reply{code: "NetworkInterfaceLimitExceeded"}, eni.LimitExceeded},
		"interface full":            {reply{code: "PrivateIpAddressLimitExceeded", message: "Number of private addresses will exceed limit."}, eni.LimitExceeded},
		"too many filter values":    {reply{code: "FilterLimitExceeded", message: "The maximum number of filter values specified on a single call is 200"}, eni.Invalid},
		"other zone":                {reply{code: "InvalidParameterCombination", message: "You may not attach a network interface to an instance if they are not in the same availability zone"}, eni.WrongZone},
		"other combination":         {reply{code: "InvalidParameterCombination", message: "no"}, eni.Invalid},
		"interface unknown":         {reply{code: "InvalidNetworkInterfaceID.NotFound", message: "The networkInterface ID 'eni-1' does not exist"}, eni.NotFound},
		"instance unknown":          {reply{code: "InvalidInstanceID.NotFound", message: "The instance ID 'i-1' does not exist"}, eni.NotFound},
		"group unknown":             {reply{code: "InvalidGroup.NotFound"}, eni.NotFound},
		"malformed":                 {reply{code: "InvalidInstanceID.Malformed"}, eni.Invalid},
		"instance not running":      {reply{code: "IncorrectState", message: "Instance 'i-1' is not 'running'."}, eni.WrongState},
		"primary interface":         {reply{code: "OperationNotPermitted", message: "The network interface at device index 0 and networkCard index 0 cannot be detached."}, eni.Invalid},
		"not allowed":               {reply{code: "UnauthorizedOperation", status: 403}, eni.Unauthorized},
		"bad credentials":           {reply{code: "AuthFailure", status: 401}, eni.Unauthorized},
		"forbidden, unknown code":   {reply{code: "SomethingNew", status: 403}, eni.Unauthorized},
		"token reused":              {reply{code: "IdempotentParameterMismatch"}, eni.IdempotencyMismatch},
		"internal error":            {reply{code: "InternalError", status: 500}, eni.Transient},
		"unavailable":               {reply{code: "Unavailable", status: 503}, eni.Transient},
		"server, unknown code":      {reply{code: "SomethingNew", status: 500}, eni.Transient},
		"client, unknown code":      {reply{code: "SomethingNew", status: 400}, eni.Invalid},
		"connection lost":           {reply{fault: io.ErrUnexpectedEOF}, eni.Transient},
		"no sense in the answer":    {reply{body: "<", status: http.StatusOK}, eni.Transient},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			server := always(tc.reply)
			_, err := server.client(t, quick).AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Device: 1})
			if got := eni.ErrorClass(err); err == nil || got != tc.want {
				t.Errorf("class %s, want %s (%v)", got, tc.want, err)
			}
			var fault *eni.APIError
			if !errors.As(err, &fault) || fault.Code != tc.reply.code || fault.Operation != "AttachNetworkInterface" {
				t.Errorf("fault %+v", fault)
			}
			if server.count() != 1 && tc.want != eni.Throttled {
				t.Errorf("a mutating call was sent %d times", server.count())
			}
		})
	}
}

// TestPublishedCodes checks EC2's own list. A transient state is not a mistake of the user.
func TestPublishedCodes(t *testing.T) {
	list, err := os.ReadFile("testdata/error-codes.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(list)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		status, err := strconv.Atoi(fields[1])
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got := awsec2.Classify(fields[0], "", status); got != eni.Class(fields[2]) {
			t.Errorf("%s is %s, want %s", fields[0], got, fields[2])
		}
	}
}

// The SDK repeats requests that it considers throttled, which only reads may be.
func TestThrottlingIsTheSDKs(t *testing.T) {
	for code := range retry.DefaultThrottleErrorCodes {
		if got := awsec2.Classify(code, "", http.StatusBadRequest); got != eni.Throttled {
			t.Errorf("%s is %s, want %s", code, got, eni.Throttled)
		}
	}
}

// An error without a code is not an answer of EC2, but the page of an intermediate server.
func TestAnErrorWithoutACode(t *testing.T) {
	for _, status := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusBadGateway} {
		for _, body := range []string{"", "<html><body>Sign in</body></html>", "<html><body>Sign in<br></body></html>", "Not here."} {
			_, err := always(reply{status: status, verbatim: strings.NewReader(body)}).client(t, quick).AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Device: 1})
			if got := eni.ErrorClass(err); err == nil || got != eni.Transient {
				t.Errorf("%d with %q is %s, want %s (%v)", status, body, got, eni.Transient, err)
			}
		}
	}
}

// quick is a bucket so large that no request waits for it.
var quick = awsec2.Options{Buckets: map[string]awsec2.Bucket{"AttachNetworkInterface": {Capacity: 1000, Refill: 100_000}}}

func TestWhatIsGoneNeedsNoDetach(t *testing.T) {
	cases := map[string]struct {
		code   string
		remove func(*awsec2.Client, context.Context) error
		want   bool
	}{
		"attachment gone": {"InvalidAttachmentID.NotFound", func(c *awsec2.Client, ctx context.Context) error { return c.DetachInterface(ctx, "a", false) }, true},
		"interface unknown, which it can be for being new": {"InvalidNetworkInterfaceID.NotFound", func(c *awsec2.Client, ctx context.Context) error { return c.DeleteInterface(ctx, "eni-1") }, false},
		"still in use": {"InvalidNetworkInterface.InUse", func(c *awsec2.Client, ctx context.Context) error { return c.DeleteInterface(ctx, "eni-1") }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := tc.remove(always(reply{code: tc.code}).client(t, awsec2.Options{}), t.Context())
			if (err == nil) != tc.want {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCancelledCallKeepsItsCause(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := always(reply{}).client(t, awsec2.Options{}).AttachInterface(ctx, "eni-1", "i-1", eni.Slot{Device: 1})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestAnErrorTextIsTheSameForEveryAttempt compares the errors of two attempts with one cause: the IDs of requests and the
// ports of connections differ.
func TestAnErrorTextIsTheSameForEveryAttempt(t *testing.T) {
	for name, texts := range map[string][2]string{
		"no name service": {
			"dial tcp: lookup ec2.eu-west-1.amazonaws.com on 10.100.0.10:53: read udp 10.0.1.7:41234->10.100.0.10:53: i/o timeout",
			"dial tcp: lookup ec2.eu-west-1.amazonaws.com on 10.100.0.10:53: read udp 10.0.1.7:53211->10.100.0.10:53: i/o timeout",
		},
		"no route":         {"dial tcp 52.95.1.2:443: i/o timeout", "dial tcp 52.95.7.8:443: i/o timeout"},
		"no route by IPv6": {"dial tcp [2600:1f18::1]:443: i/o timeout", "dial tcp [2600:1f18::2]:443: i/o timeout"},
		"reset":            {"read tcp 10.0.1.7:5000->52.95.1.2:443: read: connection reset by peer", "read tcp 10.0.1.7:5001->52.95.1.3:443: read: connection reset by peer"},
	} {
		synctest.Test(t, func(t *testing.T) {
			var got []string
			for _, text := range texts {
				server := always(reply{fault: errors.New(text)})
				got = append(got, server.client(t, awsec2.Options{}).Ping(t.Context()).Error())
			}
			if got[0] != got[1] || !strings.HasPrefix(got[0], "DescribeNetworkInterfaces: no answer from EC2: ") || strings.Contains(got[0], "RequestID") {
				t.Errorf("%s: got\n%s\n%s", name, got[0], got[1])
			}
		})
	}
}

// TestMissingCredentialsAreNamed has a credential chain that fails with the answer of another service.
func TestMissingCredentialsAreNamed(t *testing.T) {
	cfg := aws.Config{Region: "us-west-2", HTTPClient: always(reply{})}
	cfg.Credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{}, &smithy.OperationError{ServiceID: "STS", OperationName: "AssumeRoleWithWebIdentity", Err: &smithy.GenericAPIError{Code: "AccessDenied", Message: "Not authorized to perform sts:AssumeRoleWithWebIdentity"}}
	})
	var class eni.Class
	err := awsec2.New(cfg, awsec2.Options{Observe: func(c awsec2.Call) { class = c.Class }}).Ping(t.Context())
	var fault *eni.APIError
	if !errors.As(err, &fault) || !fault.NoCredentials || !strings.Contains(err.Error(), "no AWS credentials: operation error STS: AssumeRoleWithWebIdentity") {
		t.Errorf("got %v", err)
	}
	if class == eni.Unauthorized {
		t.Error("the answer of STS counts as a refusal of EC2")
	}
}
