// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle_test

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
)

// Any sender can put any bytes into a queue. An event that needs an action names an instance in EC2's form, and its
// hook if one waits; every other message is ignored or malformed.
func FuzzDecode(f *testing.F) {
	const launch = `{"LifecycleTransition":"autoscaling:EC2_INSTANCE_LAUNCHING","EC2InstanceId":"i-0123456789abcdef0","AutoScalingGroupName":"g","LifecycleHookName":"h"}`
	quoted, err := json.Marshal(launch)
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{
		launch, `{"Type":"Notification","Message":` + string(quoted) + `}`, `{"Type":"Notification","Message":"{}"}`,
		`{"source":"aws.autoscaling","detail-type":"EC2 Instance-launch Lifecycle Action","detail":` + launch + `}`,
		`{"source":"aws.autoscaling","detail-type":"EC2 Instance-launch Lifecycle Action"}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":{"instance-id":"i-01234567","state":"terminated"}}`,
		`{"source":"aws.ec2","detail-type":"EC2 Instance State-change Notification","detail":[]}`,
		`{"source":"aws.events","detail-type":"Scheduled Event"}`, `{"Event":"autoscaling:TEST_NOTIFICATION"}`,
		`null`, `[]`, `{"LifecycleTransition":1}`, `{"time":"x"}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		event, err := lifecycle.Decode(body)
		if err != nil {
			if _, is := errors.AsType[*lifecycle.MalformedError](err); !is || event != (lifecycle.Event{}) {
				t.Errorf("event %+v beside the error %v, a %T", event, err, err)
			}
			return
		}
		switch event.Kind {
		case lifecycle.Launching, lifecycle.Terminating:
			if event.Hook.Group == "" || event.Hook.Name == "" || !eni.IsInstanceID(event.InstanceID) {
				t.Errorf("%+v", event)
			}
		case lifecycle.Running, lifecycle.Stopped:
			if event.Hook != (lifecycle.HookRef{}) || !eni.IsInstanceID(event.InstanceID) {
				t.Errorf("%+v", event)
			}
		case lifecycle.Scheduled:
		case lifecycle.Ignored:
			if event.Why == "" {
				t.Errorf("ignored without a reason: %q", body)
			}
		default:
			t.Errorf("unknown kind %q", event.Kind)
		}
	})
}

// A valid configuration file is the same after a round trip.
func FuzzParseConfig(f *testing.F) {
	for _, seed := range []string{
		`{"cluster":"prod","networks":[{"name":"storage","subnetIDs":["subnet-01234567"],"securityGroupIDs":["sg-01234567"],"mtu":1500}]}`,
		`{"cluster":"prod","groups":["["],"networks":[{"name":"a b","deviceIndex":-1}],"removed":[""]}`,
		`{"cluster":"prod","networks":[{"name":"a","subnetSelector":{"k":"v"},"required":false,"sysctls":{"ipv4.rp_filter":0}}]}`,
		`{"unknown":1}`, `null`, `{}{}`, "",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		if config, err := lifecycle.ParseConfig(document); err == nil {
			readsBack(t, config)
		}
	})
}

// Valid parameters are a valid configuration file, and each network has a subnet of each zone's list.
func FuzzParseParameters(f *testing.F) {
	f.Add("subnet-a subnet-b", "subnet-c,subnet-d", "", "sg-1", "true", "k=v, l = w", "prod", "hook")
	f.Add("subnet-a,subnet-b", "", "", "sg-1,sg-2", "", "", "prod", "")
	f.Add("", "", "subnet-a subnet-b", "sg-1", "no", "k", "", "Launch-LC-Hook")
	f.Add("subnet-a,subnet-a", "subnet-b", "subnet-c", "", "yes", "=", "prod", "[")
	f.Fuzz(func(t *testing.T, zone1, zone2, all, groups, lowest, tags, cluster, hooks string) {
		values := map[string]string{
			lifecycle.ParameterSubnets + "1": zone1, lifecycle.ParameterSubnets + "2": zone2, lifecycle.ParameterAllZones: all,
			lifecycle.ParameterGroups: groups, lifecycle.ParameterLowest: lowest, lifecycle.ParameterTags: tags,
			lifecycle.ParameterCluster: cluster, lifecycle.ParameterHooks: hooks,
		}
		for _, value := range values {
			if !utf8.ValidString(value) {
				t.Skip("JSON has no such text")
			}
		}
		parameters, err := lifecycle.ParseParameters(values)
		if err != nil {
			return
		}
		for _, zone := range parameters.Zones {
			listed := func(id string) bool { return slices.Contains(zone.IDs, id) }
			for _, network := range parameters.Networks {
				if !slices.ContainsFunc(network.SubnetIDs, listed) {
					t.Errorf("network %s has no subnet of %s: %v", network.Name, zone.Parameter, network.SubnetIDs)
				}
			}
		}
		readsBack(t, parameters.Config)
	})
}

func readsBack(t *testing.T, config lifecycle.Config) {
	t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	again, err := lifecycle.ParseConfig(text)
	if diff := cmp.Diff(config, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Errorf("%s: %v (-first +second):\n%s", text, err, diff)
	}
}
