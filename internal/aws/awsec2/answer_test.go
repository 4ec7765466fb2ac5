// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
)

// foreign are answers that come with status 200 and are not the service's answer to an action.
var foreign = map[string]func(action string) string{
	"nothing":      func(string) string { return "" },
	"an HTML page": func(string) string { return "<!DOCTYPE html><html><body>Sign in</body></html>" },
	"plain text":   func(string) string { return "OK" },
	"another action's answer": func(string) string {
		return "<DescribeVpcsResponse><requestId>r-1</requestId><vpcSet/></DescribeVpcsResponse>"
	},
	"errors": func(string) string {
		return "<Response><Errors><Error><Code>InternalError</Code></Error></Errors><RequestID>r-1</RequestID></Response>"
	},
	"an answer that is cut": func(action string) string {
		return fmt.Sprintf("<%sResponse><requestId>r-1</requestId><return>tr", action)
	},
	"an answer without request ID": func(action string) string {
		return fmt.Sprintf("<%[1]sResponse>%[2]s</%[1]sResponse>", action, least[action])
	},
}

// A change may have been made, and a read proves nothing. Therefore each answer counts as lost.
func TestAnAnswerThatIsNone(t *testing.T) {
	for answer, body := range foreign {
		t.Run(answer, func(t *testing.T) {
			for call, do := range calls {
				if call == "limits" {
					continue // falls back to the offline table
				}
				synctest.Test(t, func(t *testing.T) {
					server := &fake{answer: func(r request) reply { return reply{verbatim: strings.NewReader(body(r.action))} }}
					err := do(t.Context(), server.client(t, awsec2.Options{}))
					var fault *eni.APIError
					if !errors.As(err, &fault) || fault.Class != eni.Transient || fault.Operation == "" {
						t.Errorf("%s: %v, want a fault of class %s that names the action", call, err, eni.Transient)
					}
				})
			}
		})
	}
}

func TestAnAnswerWithoutItsElement(t *testing.T) {
	bodies := map[string]string{
		"nothing of it":             "<x/>",
		"only what comes beside it": "<clientToken>token-1</clientToken><networkCardIndex>0</networkCardIndex><nextToken>n</nextToken>",
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) {
			for _, call := range []string{"create", "attach", "look", "subnets", "groups read", "more IPv4", "reservations"} {
				synctest.Test(t, func(t *testing.T) {
					err := calls[call](t.Context(), always(reply{body: body}).client(t, awsec2.Options{}))
					if err == nil || eni.ErrorClass(err) != eni.Transient {
						t.Errorf("%s: %v, want a fault of class %s", call, err, eni.Transient)
					}
				})
			}
		})
	}
}

// The client does not repeat a change: only the caller knows whether it may.
func TestAChangeWithoutAnswerIsSentOnce(t *testing.T) {
	server := &fake{answer: func(request) reply { return reply{verbatim: strings.NewReader("")} }}
	_ = calls["create"](t.Context(), server.client(t, awsec2.Options{}))
	if server.count() != 1 {
		t.Errorf("sent %d times", server.count())
	}
}

// counted is an endless text that counts the bytes read.
type counted struct{ read int }

func (c *counted) Read(p []byte) (int, error) {
	for n := range p {
		p[n] = ' '
	}
	c.read += len(p)
	return len(p), nil
}

func TestWhatIsReadOfAnAnswerIsBounded(t *testing.T) {
	const limit = 50 << 20
	cases := map[string]struct {
		begins string
		status int
	}{
		"an answer":       {begins: "<DetachNetworkInterfaceResponse><requestId>r-1</requestId>"},
		"something else":  {begins: "<html>"},
		"an error":        {begins: "<Response>", status: http.StatusServiceUnavailable},
		"an error's HTML": {begins: "<html>", status: http.StatusBadGateway},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			endless := &counted{}
			server := always(reply{status: tc.status, verbatim: io.MultiReader(strings.NewReader(tc.begins), endless)})
			err := calls["detach"](t.Context(), server.client(t, awsec2.Options{}))
			if err == nil || eni.ErrorClass(err) != eni.Transient {
				t.Errorf("got %v", err)
			}
			if endless.read > limit {
				t.Errorf("%d MB were read", endless.read>>20)
			}
		})
	}
}

// The configuration adds the check to the clients of all services.
func TestAnAnswerThatIsNoneOfAnotherService(t *testing.T) {
	cases := map[string]func(*testing.T, aws.Config) error{
		"Auto Scaling reads": func(t *testing.T, cfg aws.Config) error {
			_, err := autoscaling.NewFromConfig(cfg).DescribeAutoScalingGroups(t.Context(), &autoscaling.DescribeAutoScalingGroupsInput{})
			return err
		},
		"Auto Scaling is told": func(t *testing.T, cfg aws.Config) error {
			_, err := autoscaling.NewFromConfig(cfg).CompleteLifecycleAction(t.Context(), &autoscaling.CompleteLifecycleActionInput{
				AutoScalingGroupName: aws.String("g"), LifecycleHookName: aws.String("h"), LifecycleActionResult: aws.String("CONTINUE"),
			})
			return err
		},
		"SQS reads": func(t *testing.T, cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).ReceiveMessage(t.Context(), &sqs.ReceiveMessageInput{QueueUrl: aws.String("q")})
			return err
		},
		"SQS is told": func(t *testing.T, cfg aws.Config) error {
			_, err := sqs.NewFromConfig(cfg).DeleteMessage(t.Context(), &sqs.DeleteMessageInput{QueueUrl: aws.String("q"), ReceiptHandle: aws.String("r")})
			return err
		},
		"a parameter": func(t *testing.T, cfg aws.Config) error {
			_, err := ssm.NewFromConfig(cfg).GetParameter(t.Context(), &ssm.GetParameterInput{Name: aws.String("p")})
			return err
		},
	}
	for answer, body := range foreign {
		t.Run(answer, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.WriteString(w, body("X"))
			}))
			defer server.Close()
			cfg := loaded(t, server.URL)
			cfg.RetryMaxAttempts = 1
			for call, do := range cases {
				if err := do(t, cfg); err == nil {
					t.Errorf("%s: taken for success", call)
				}
			}
		})
	}
}

// loaded returns the configuration that programs work with, for an endpoint.
func loaded(t *testing.T, endpoint string) aws.Config {
	t.Helper()
	return loadedWith(t, endpoint, slog.New(slog.DiscardHandler))
}

func loadedWith(t *testing.T, endpoint string, log *slog.Logger) aws.Config {
	t.Helper()
	bareEnvironment(t)
	t.Setenv("AWS_ENDPOINT_URL", endpoint)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	cfg, err := awsec2.Load(t.Context(), "eu-west-3", "v1.2.3", log)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}
