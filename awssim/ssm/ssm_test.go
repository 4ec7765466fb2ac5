// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ssm_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/ssm"
	"github.com/multieni/multieni/awssim/timeline"
)

var began = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// store is the parameters of a world with /images/upf.
func store(t *testing.T) (*ssm.Model, *timeline.Timeline) {
	t.Helper()
	clock := timeline.New(began)
	world := ec2.World{Region: "us-east-1", Parameters: map[string]string{"/images/upf": "ami-1"},
		AvailabilityZones: []ec2.WorldZone{{ZoneName: "us-east-1a", ZoneID: "use1-az1"}}}
	model, err := ec2.New(ec2.Options{World: world, Timeline: clock, Faults: fault.NewSet(1)})
	if err != nil {
		t.Fatal(err)
	}
	return ssm.New(model, clock), clock
}

func get(t *testing.T, m *ssm.Model, name string) ssm.Parameter {
	t.Helper()
	out, err := m.GetParameter(&ssm.GetParameterInput{Name: name})
	if err != nil {
		t.Fatal(err)
	}
	return *out.Parameter
}

func codeOf(err error) string {
	if refused, is := errors.AsType[*apierror.Error](err); is {
		return refused.Code
	}
	return ""
}

func TestAParameterHasAVersionAndTheTimeOfItsLastWrite(t *testing.T) {
	m, clock := store(t)
	want := ssm.Parameter{ARN: "arn:aws:ssm:us-east-1:123456789012:parameter/images/upf", Name: "/images/upf", Type: "String",
		Value: "ami-1", Version: 1, DataType: "text", LastModifiedDate: float64(began.Unix())}
	if diff := cmp.Diff(want, get(t, m, "/images/upf")); diff != "" {
		t.Errorf("a parameter of the world (-want +got):\n%s", diff)
	}
	clock.Advance(began.Add(time.Hour))
	out, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/upf", Value: "ami-2", Overwrite: true})
	if err != nil || out.Version != 2 || out.Tier != "Standard" {
		t.Fatalf("got %+v, %v", out, err)
	}
	want.Value, want.Version, want.LastModifiedDate = "ami-2", 2, float64(began.Add(time.Hour).Unix())
	if diff := cmp.Diff(want, get(t, m, "/images/upf")); diff != "" {
		t.Errorf("after a write (-want +got):\n%s", diff)
	}
}

func TestGetParametersNamesTheUnknownOnes(t *testing.T) {
	m, _ := store(t)
	out, err := m.GetParameters(&ssm.GetParametersInput{Names: []string{"/images/smf", "/images/upf"}})
	if err != nil || len(out.Parameters) != 1 || out.Parameters[0].Value != "ami-1" {
		t.Fatalf("got %+v, %v", out, err)
	}
	if diff := cmp.Diff([]string{"/images/smf"}, out.InvalidParameters); diff != "" {
		t.Error(diff)
	}
}

// A name with a selector is a parameter that exists, in a form that is not modelled: "not found" would be untrue.
func TestSelectorsAreRefusedByName(t *testing.T) {
	m, _ := store(t)
	for _, name := range []string{"/images/upf:1", "/images/upf:stable", "arn:aws:ssm:us-east-1:123456789012:parameter/images/upf"} {
		_, one := m.GetParameter(&ssm.GetParameterInput{Name: name})
		_, several := m.GetParameters(&ssm.GetParametersInput{Names: []string{"/images/upf", name}})
		for call, err := range map[string]error{"GetParameter": one, "GetParameters": several} {
			if codeOf(err) != "ValidationException" || !strings.Contains(fmt.Sprint(err), "does not model versions, labels and ARNs") {
				t.Errorf("%s of %s: %v", call, name, err)
			}
		}
	}
}

func TestWhatTheParameterStoreRefuses(t *testing.T) {
	eleven := make([]string, 11)
	for name, tc := range map[string]struct {
		code string
		call func(*ssm.Model) error
	}{
		"an unknown parameter": {"ParameterNotFound", func(m *ssm.Model) error {
			_, err := m.GetParameter(&ssm.GetParameterInput{Name: "/images"})
			return err
		}},
		"no name": {"ValidationException", func(m *ssm.Model) error { _, err := m.GetParameters(&ssm.GetParametersInput{}); return err }},
		"eleven names": {"ValidationException", func(m *ssm.Model) error {
			_, err := m.GetParameters(&ssm.GetParametersInput{Names: eleven})
			return err
		}},
		"a write over one that exists": {"ParameterAlreadyExists", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/upf", Type: "String", Value: "ami-2"})
			return err
		}},
		"a new one without a type": {"UnsupportedParameterType", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/smf", Value: "ami-2"})
			return err
		}},
		"a secure string": {"UnsupportedParameterType", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/smf", Type: "SecureString", Value: "ami-2"})
			return err
		}},
		"a name with a selector": {"ValidationException", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/smf:1", Type: "String", Value: "ami-2"})
			return err
		}},
		"an empty value": {"ValidationException", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/smf", Type: "String"})
			return err
		}},
		"a value of more than 4096 bytes": {"ValidationException", func(m *ssm.Model) error {
			_, err := m.PutParameter(&ssm.PutParameterInput{Name: "/images/smf", Type: "String", Value: strings.Repeat("x", 4097)})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, _ := store(t)
			if err := tc.call(m); codeOf(err) != tc.code {
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
}
