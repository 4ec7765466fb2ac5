// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
	parameters "github.com/aws/aws-sdk-go-v2/service/ssm/types"
)

func putParameter(ctx context.Context, ec *endpoint, name, value string, overwrite bool) error {
	_, err := ec.systemsManager().PutParameter(ctx, &ssm.PutParameterInput{
		Name: &name, Value: &value, Type: parameters.ParameterTypeString, Overwrite: &overwrite,
	})
	return err
}

func TestParameters(t *testing.T) {
	ec := open(t)
	if !ec.simulated {
		t.Skip("only on the simulator: parameters are not removed")
	}
	verify(t, ec, []check{
		{name: "what was put can be got, decrypted or not", run: func(t *testing.T, ec *endpoint) {
			name := "/conformance/" + rand.Text()
			ok(t, putParameter(t.Context(), ec, name, "one", false))
			ok(t, putParameter(t.Context(), ec, name, "two", true))
			out, err := ec.systemsManager().GetParameter(t.Context(), &ssm.GetParameterInput{Name: &name, WithDecryption: aws.Bool(true)})
			ok(t, err)
			if p := out.Parameter; *p.Value != "two" || p.Version != 2 || p.Type != parameters.ParameterTypeString {
				t.Errorf("got %+v", p)
			}
		}},
		{name: "some of several are unknown", run: func(t *testing.T, ec *endpoint) {
			name := "/conformance/" + rand.Text()
			ok(t, putParameter(t.Context(), ec, name, "one", false))
			out, err := ec.systemsManager().GetParameters(t.Context(), &ssm.GetParametersInput{Names: []string{name, "/conformance/none"}})
			ok(t, err)
			if len(out.Parameters) != 1 || len(out.InvalidParameters) != 1 || out.InvalidParameters[0] != "/conformance/none" {
				t.Errorf("got %+v", out)
			}
		}},
		{name: "an unknown parameter", strict: true, run: refused("ParameterNotFound", func(ctx context.Context, ec *endpoint) error {
			_, err := ec.systemsManager().GetParameter(ctx, &ssm.GetParameterInput{Name: aws.String("/conformance/none")})
			return err
		})},
		{name: "one that exists is not overwritten by accident", strict: true, run: func(t *testing.T, ec *endpoint) {
			name := "/conformance/" + rand.Text()
			ok(t, putParameter(t.Context(), ec, name, "one", false))
			expectRefusal(t, "ParameterAlreadyExists", putParameter(t.Context(), ec, name, "two", false))
		}},
	})
}
