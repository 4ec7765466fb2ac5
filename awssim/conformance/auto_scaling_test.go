// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	groups "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

const (
	launching   = "autoscaling:EC2_INSTANCE_LAUNCHING"
	terminating = "autoscaling:EC2_INSTANCE_TERMINATING"
)

// scaled is an Auto Scaling group of a row.
type scaled struct {
	*autoscaling.Client
	ec   *endpoint
	name string
}

type groupInput = autoscaling.CreateAutoScalingGroupInput

// scale creates a group of some instances, which is deleted after the row.
func (ec *endpoint) scale(t *testing.T, size int32, changes ...func(*groupInput)) scaled {
	t.Helper()
	g := scaled{ec.autoScaling(), ec, "conformance-" + rand.Text()}
	in := ec.groupRequest(t, g.name, size, changes...)
	_, err := g.CreateAutoScalingGroup(t.Context(), in)
	ok(t, err)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_, _ = g.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &g.name, ForceDelete: aws.Bool(true)})
		g.await(t, "the end of the group", func(now *groups.AutoScalingGroup) string {
			if now == nil {
				return ""
			}
			return fmt.Sprintf("%d instances", len(now.Instances))
		})
	})
	return g
}

func (ec *endpoint) groupRequest(t *testing.T, name string, size int32, changes ...func(*groupInput)) *groupInput {
	t.Helper()
	in := &groupInput{
		AutoScalingGroupName: &name, MinSize: aws.Int32(0), MaxSize: aws.Int32(10), DesiredCapacity: &size,
		VPCZoneIdentifier: ec.subnet.SubnetId,
		LaunchTemplate: &groups.LaunchTemplateSpecification{
			LaunchTemplateId: ec.template(t).LaunchTemplateId, Version: aws.String("1"),
		},
	}
	for _, change := range changes {
		change(in)
	}
	return in
}

func hooked(name, transition string, heartbeat int32, result string) func(*groupInput) {
	return func(in *groupInput) {
		in.LifecycleHookSpecificationList = append(in.LifecycleHookSpecificationList, groups.LifecycleHookSpecification{
			LifecycleHookName: &name, LifecycleTransition: &transition, HeartbeatTimeout: &heartbeat, DefaultResult: &result,
		})
	}
}

func (g scaled) describe(ctx context.Context) (*groups.AutoScalingGroup, error) {
	out, err := g.DescribeAutoScalingGroups(ctx, &autoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{g.name}})
	if err != nil || len(out.AutoScalingGroups) == 0 {
		return nil, err
	}
	return &out.AutoScalingGroups[0], nil
}

// await reads the group until nothing is missing.
func (g scaled) await(t *testing.T, what string, missing func(*groups.AutoScalingGroup) string) {
	t.Helper()
	g.ec.await(t, what, func(ctx context.Context) (string, error) {
		now, err := g.describe(ctx)
		if err != nil {
			return "", err
		}
		return missing(now), nil
	})
}

// awaitStates waits until the instances are in these states, and returns their IDs.
func (g scaled) awaitStates(t *testing.T, want ...string) (ids []string) {
	t.Helper()
	g.await(t, fmt.Sprintf("instances in %v", want), func(now *groups.AutoScalingGroup) string {
		var states []string
		ids = nil
		for _, instance := range now.Instances {
			states, ids = append(states, string(instance.LifecycleState)), append(ids, *instance.InstanceId)
		}
		slices.Sort(states)
		if slices.Equal(states, want) {
			return ""
		}
		return fmt.Sprint(states)
	})
	return ids
}

func (g scaled) complete(ctx context.Context, hook, instanceID, result string) error {
	_, err := g.CompleteLifecycleAction(ctx, &autoscaling.CompleteLifecycleActionInput{
		AutoScalingGroupName: &g.name, LifecycleHookName: &hook, InstanceId: &instanceID, LifecycleActionResult: &result,
	})
	return err
}

func (g scaled) desire(t *testing.T, size int32) {
	t.Helper()
	_, err := g.SetDesiredCapacity(t.Context(), &autoscaling.SetDesiredCapacityInput{AutoScalingGroupName: &g.name, DesiredCapacity: &size})
	ok(t, err)
}

func TestLifecycleHooks(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a launch hook holds the instance until it is completed", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("attach", launching, 7200, "ABANDON"))
			id := g.awaitStates(t, "Pending:Wait")[0]
			ok(t, g.complete(t.Context(), "attach", id, "CONTINUE"))
			g.awaitStates(t, "InService")
		}},
		{name: "all hooks of a transition must be completed", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("one", launching, 7200, "ABANDON"), hooked("two", launching, 7200, "ABANDON"))
			id := g.awaitStates(t, "Pending:Wait")[0]
			ok(t, g.complete(t.Context(), "one", id, "CONTINUE"))
			g.awaitStates(t, "Pending:Wait")
			ok(t, g.complete(t.Context(), "two", id, "CONTINUE"))
			g.awaitStates(t, "InService")
		}},
		{name: "an abandoned launch is replaced", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("attach", launching, 7200, "CONTINUE"))
			first := g.awaitStates(t, "Pending:Wait")[0]
			ok(t, g.complete(t.Context(), "attach", first, "ABANDON"))
			g.await(t, "another instance", func(now *groups.AutoScalingGroup) string {
				if len(now.Instances) == 1 && *now.Instances[0].InstanceId != first {
					return ""
				}
				return fmt.Sprintf("%d instances", len(now.Instances))
			})
		}},
		{name: "without a heartbeat the default result holds", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("attach", launching, 30, "CONTINUE"))
			g.awaitStates(t, "InService")
		}},
		{name: "a termination hook holds the instance, whatever it is completed with", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("drain", terminating, 7200, "CONTINUE"))
			id := g.awaitStates(t, "InService")[0]
			g.desire(t, 0)
			g.awaitStates(t, "Terminating:Wait")
			ok(t, g.complete(t.Context(), "drain", id, "ABANDON"))
			g.awaitStates(t)
		}},
		{name: "an action is completed once", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("attach", launching, 7200, "ABANDON"))
			id := g.awaitStates(t, "Pending:Wait")[0]
			ok(t, g.complete(t.Context(), "attach", id, "CONTINUE"))
			expectRefusal(t, "ValidationError", g.complete(t.Context(), "attach", id, "CONTINUE"))
			_, err := g.RecordLifecycleActionHeartbeat(t.Context(), &autoscaling.RecordLifecycleActionHeartbeatInput{
				AutoScalingGroupName: &g.name, LifecycleHookName: aws.String("attach"), InstanceId: &id,
			})
			expectRefusal(t, "ValidationError", err)
		}},
		{name: "what cannot be completed", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, hooked("attach", launching, 7200, "ABANDON"))
			id := g.awaitStates(t, "Pending:Wait")[0]
			expectRefusal(t, "ValidationError", g.complete(t.Context(), "other", id, "CONTINUE"))
			expectRefusal(t, "ValidationError", g.complete(t.Context(), "attach", "i-0123456789abcdef0", "CONTINUE"))
			expectRefusal(t, "ValidationError", g.complete(t.Context(), "attach", id, "PERHAPS"))
			g.name = "nobody"
			expectRefusal(t, "ValidationError", g.complete(t.Context(), "attach", id, "CONTINUE"))
		}},
		{name: "hooks are described with their timeouts", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 0, hooked("attach", launching, 300, "ABANDON"))
			out, err := g.DescribeLifecycleHooks(t.Context(), &autoscaling.DescribeLifecycleHooksInput{AutoScalingGroupName: &g.name})
			ok(t, err)
			if len(out.LifecycleHooks) != 1 || *out.LifecycleHooks[0].HeartbeatTimeout != 300 || *out.LifecycleHooks[0].GlobalTimeout != 30000 {
				t.Errorf("got %+v", out.LifecycleHooks)
			}
		}},
		{name: "a heartbeat timeout is from 30 to 7200 seconds", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 0)
			for _, seconds := range []int32{29, 7201} {
				_, err := g.PutLifecycleHook(t.Context(), &autoscaling.PutLifecycleHookInput{
					AutoScalingGroupName: &g.name, LifecycleHookName: aws.String("h"), LifecycleTransition: aws.String(launching), HeartbeatTimeout: &seconds,
				})
				expectRefusal(t, "ValidationError", err)
			}
		}},
	})
}

func TestAutoScalingGroups(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "instances are spread over the subnets", run: func(t *testing.T, ec *endpoint) {
			other := need(t, ec, ec.otherZone, "subnet in another zone")
			g := ec.scale(t, 4, func(in *groupInput) { in.VPCZoneIdentifier = aws.String(*ec.subnet.SubnetId + "," + *other.SubnetId) })
			zones := map[string]int{}
			g.await(t, "four instances", func(now *groups.AutoScalingGroup) string {
				zones = map[string]int{}
				for _, instance := range now.Instances {
					zones[*instance.AvailabilityZone]++
				}
				if len(now.Instances) == 4 {
					return ""
				}
				return fmt.Sprint(zones)
			})
			if want := map[string]int{*ec.subnet.AvailabilityZone: 2, *other.AvailabilityZone: 2}; !maps.Equal(zones, want) {
				t.Errorf("got %v, want %v", zones, want)
			}
		}},
		{name: "instances have the tags of the group and its name", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1, func(in *groupInput) {
				in.Tags = []groups.Tag{
					{Key: aws.String("role"), Value: aws.String("worker"), PropagateAtLaunch: aws.Bool(true)},
					{Key: aws.String("cost"), Value: aws.String("7"), PropagateAtLaunch: aws.Bool(false)},
				}
			})
			tags := tagsOf(ec.awaitInstance(t, g.awaitStates(t, "InService")[0], types.InstanceStateNameRunning).Tags)
			if tags["aws:autoscaling:groupName"] != g.name || tags["role"] != "worker" || tags["cost"] != "" {
				t.Errorf("tags %v", tags)
			}
		}},
		{name: "a terminated instance is replaced, unless the group shall shrink", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1)
			first := g.awaitStates(t, "InService")[0]
			end := func(id string, shrink bool) {
				_, err := g.TerminateInstanceInAutoScalingGroup(t.Context(), &autoscaling.TerminateInstanceInAutoScalingGroupInput{
					InstanceId: &id, ShouldDecrementDesiredCapacity: &shrink,
				})
				ok(t, err)
			}
			end(first, false)
			second := first
			for second == first {
				second = g.awaitStates(t, "InService")[0]
			}
			end(second, true)
			g.awaitStates(t)
		}},
		{name: "a group that has instances is not deleted without force", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 1)
			g.awaitStates(t, "InService")
			_, err := g.DeleteAutoScalingGroup(t.Context(), &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: &g.name})
			expectRefusal(t, "ResourceInUse", err)
		}},
		{name: "names are unique", strict: true, run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 0)
			_, err := g.CreateAutoScalingGroup(t.Context(), ec.groupRequest(t, g.name, 0))
			expectRefusal(t, "AlreadyExists", err)
		}},
		{name: "what makes no group", strict: true, run: func(t *testing.T, ec *endpoint) {
			for name, change := range map[string]func(*groupInput){
				"more than the maximum": func(in *groupInput) { in.DesiredCapacity = aws.Int32(11) },
				"no place":              func(in *groupInput) { in.VPCZoneIdentifier = nil },
				"no such subnet":        func(in *groupInput) { in.VPCZoneIdentifier = aws.String("subnet-0123456789abcdef0") },
				"no such version":       func(in *groupInput) { in.LaunchTemplate.Version = aws.String("7") },
			} {
				_, err := ec.autoScaling().CreateAutoScalingGroup(t.Context(), ec.groupRequest(t, "conformance-"+rand.Text(), 0, change))
				if codeOf(err) != "ValidationError" {
					t.Errorf("%s: got %v", name, err)
				}
			}
		}},
	})
}

// mixed lets a group launch from two templates of its own.
func mixed(base *string, overrides ...groups.LaunchTemplateOverrides) func(*groupInput) {
	return func(in *groupInput) {
		in.LaunchTemplate = nil
		in.MixedInstancesPolicy = &groups.MixedInstancesPolicy{LaunchTemplate: &groups.LaunchTemplate{
			LaunchTemplateSpecification: versionOne(base), Overrides: overrides,
		}}
	}
}

func versionOne(id *string) *groups.LaunchTemplateSpecification {
	return &groups.LaunchTemplateSpecification{LaunchTemplateId: id, Version: aws.String("1")}
}

func TestMixedInstances(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a group names the launch templates of its overrides, scaled to zero", run: func(t *testing.T, ec *endpoint) {
			base, other := ec.template(t).LaunchTemplateId, ec.template(t).LaunchTemplateId
			g := ec.scale(t, 0, mixed(base, groups.LaunchTemplateOverrides{InstanceType: aws.String("m5.large")},
				groups.LaunchTemplateOverrides{InstanceType: aws.String("m6i.large"), LaunchTemplateSpecification: versionOne(other)}))
			now, err := g.describe(t.Context())
			ok(t, err)
			if now.LaunchTemplate != nil || now.MixedInstancesPolicy == nil {
				t.Fatalf("got %+v and %+v", now.LaunchTemplate, now.MixedInstancesPolicy)
			}
			policy := now.MixedInstancesPolicy.LaunchTemplate
			if *policy.LaunchTemplateSpecification.LaunchTemplateId != *base || *policy.Overrides[0].InstanceType != "m5.large" ||
				policy.Overrides[0].LaunchTemplateSpecification != nil || *policy.Overrides[1].LaunchTemplateSpecification.LaunchTemplateId != *other {
				t.Errorf("got %+v", policy)
			}
		}},
		{name: "an instance comes from an override", run: func(t *testing.T, ec *endpoint) {
			base, other := ec.template(t).LaunchTemplateId, ec.template(t).LaunchTemplateId
			g := ec.scale(t, 1, mixed(base, groups.LaunchTemplateOverrides{InstanceType: aws.String("m5.large"), LaunchTemplateSpecification: versionOne(other)}))
			g.awaitStates(t, "InService")
			now, err := g.describe(t.Context())
			ok(t, err)
			if i := now.Instances[0]; *i.InstanceType != "m5.large" || *i.LaunchTemplate.LaunchTemplateId != *other || *i.LaunchTemplate.Version != "1" {
				t.Errorf("got a %s from %+v", *i.InstanceType, i.LaunchTemplate)
			}
		}},
		{name: "a group is given one launch template instead", run: func(t *testing.T, ec *endpoint) {
			g := ec.scale(t, 0, mixed(ec.template(t).LaunchTemplateId))
			one := ec.template(t).LaunchTemplateId
			_, err := g.UpdateAutoScalingGroup(t.Context(), &autoscaling.UpdateAutoScalingGroupInput{AutoScalingGroupName: &g.name, LaunchTemplate: versionOne(one)})
			ok(t, err)
			now, err := g.describe(t.Context())
			ok(t, err)
			if now.MixedInstancesPolicy != nil || *now.LaunchTemplate.LaunchTemplateId != *one {
				t.Errorf("got %+v and %+v", now.LaunchTemplate, now.MixedInstancesPolicy)
			}
		}},
		{name: "both at once", strict: true, run: func(t *testing.T, ec *endpoint) {
			in := ec.groupRequest(t, "conformance-"+rand.Text(), 0)
			both := *in.LaunchTemplate
			mixed(in.LaunchTemplate.LaunchTemplateId)(in)
			in.LaunchTemplate = &both
			_, err := ec.autoScaling().CreateAutoScalingGroup(t.Context(), in)
			expectRefusal(t, "ValidationError", err)
		}},
		{name: "an override by a launch template that does not exist", run: func(t *testing.T, ec *endpoint) {
			none := aws.String("lt-00000000000000000")
			in := ec.groupRequest(t, "conformance-"+rand.Text(), 0, mixed(ec.template(t).LaunchTemplateId, groups.LaunchTemplateOverrides{LaunchTemplateSpecification: versionOne(none)}))
			_, err := ec.autoScaling().CreateAutoScalingGroup(t.Context(), in)
			expectRefusal(t, "ValidationError", err)
		}},
	})
}
