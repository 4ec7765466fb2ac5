// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	gocmp "github.com/google/go-cmp/cmp"
)

// lasting requests a fleet of n that is not instant.
func lasting(kind types.FleetType, id string, n int32) *ec2.CreateFleetInput {
	in := fleet(id, n)
	in.Type = kind
	return in
}

func (ec *endpoint) createFleet(t *testing.T, in *ec2.CreateFleetInput) string {
	t.Helper()
	out, err := ec.CreateFleet(t.Context(), in)
	ok(t, err)
	if in.Type != types.FleetTypeInstant && len(out.Instances) > 0 {
		t.Errorf("the answer for a fleet of type %s has instances: %+v", in.Type, out.Instances)
	}
	return *out.FleetId
}

// awaitFleet waits until the fleet has the expected state.
func (ec *endpoint) awaitFleet(t *testing.T, id, what string, is func(types.FleetData) bool) (found types.FleetData) {
	t.Helper()
	ec.await(t, "fleet "+id+" "+what, func(ctx context.Context) (string, error) {
		out, err := ec.DescribeFleets(ctx, &ec2.DescribeFleetsInput{FleetIds: []string{id}})
		if codeOf(err) == "InvalidFleetId.NotFound" {
			return "not there yet", nil
		}
		if err != nil {
			return "", err
		}
		if found = out.Fleets[0]; is(found) {
			return "", nil
		}
		return fmt.Sprintf("%s, %s, %v fulfilled", found.FleetState, found.ActivityStatus, aws.ToFloat64(found.FulfilledCapacity)), nil
	})
	return found
}

// instanceOfFleet returns the only instance of a fleet, when it runs.
func (ec *endpoint) instanceOfFleet(t *testing.T, id string) string {
	t.Helper()
	ec.awaitFleet(t, id, "full", has(1))
	var ids []string
	ec.await(t, "the instance", func(context.Context) (string, error) {
		if ids = ec.instancesOfFleet(t, id); len(ids) != 1 {
			return fmt.Sprint(ids), nil
		}
		return "", nil
	})
	ec.awaitInstance(t, ids[0], types.InstanceStateNameRunning)
	return ids[0]
}

// instancesOfFleet returns the instances that are not terminating.
func (ec *endpoint) instancesOfFleet(t *testing.T, id string) (ids []string) {
	t.Helper()
	out, err := ec.DescribeInstances(t.Context(), &ec2.DescribeInstancesInput{Filters: []types.Filter{
		filter("tag:aws:ec2:fleet-id", id), filter("instance-state-name", "pending", "running"),
	}})
	ok(t, err)
	for _, r := range out.Reservations {
		for _, i := range r.Instances {
			ids = append(ids, *i.InstanceId)
		}
	}
	return ids
}

func has(n float64) func(types.FleetData) bool {
	return func(f types.FleetData) bool {
		return f.FleetState == types.FleetStateCodeActive && aws.ToFloat64(f.FulfilledCapacity) == n
	}
}

func inState(state types.FleetStateCode) func(types.FleetData) bool {
	return func(f types.FleetData) bool { return f.FleetState == state }
}

func TestFleetsThatStay(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a fleet without instances names its launch template", run: func(t *testing.T, ec *endpoint) {
			template := *ec.twoInterfaces(t).LaunchTemplateId
			in := lasting(types.FleetTypeMaintain, template, 0)
			in.LaunchTemplateConfigs[0].Overrides = []types.FleetLaunchTemplateOverridesRequest{{InstanceType: "m5.large"}}
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeFleet, Tags: []types.Tag{tag("of", "test")}}}
			f := ec.awaitFleet(t, ec.createFleet(t, in), "active", has(0))
			config := f.LaunchTemplateConfigs[0]
			if s := config.LaunchTemplateSpecification; aws.ToString(s.LaunchTemplateId) != template || aws.ToString(s.Version) != "1" {
				t.Errorf("launch template %+v", s)
			}
			if f.Type != types.FleetTypeMaintain || config.Overrides[0].InstanceType != "m5.large" || *f.TargetCapacitySpecification.TotalTargetCapacity != 0 || tagsOf(f.Tags)["of"] != "test" {
				t.Errorf("got %+v", f)
			}
		}},
		{name: "a request launches once", run: func(t *testing.T, ec *endpoint) {
			id := ec.createFleet(t, lasting(types.FleetTypeRequest, *ec.twoInterfaces(t).LaunchTemplateId, 1))
			host := ec.awaitInstance(t, ec.instanceOfFleet(t, id), types.InstanceStateNameRunning)
			if len(host.NetworkInterfaces) != 2 {
				t.Errorf("%d interfaces", len(host.NetworkInterfaces))
			}
			ec.terminate(t, *host.InstanceId)
			ec.awaitFleet(t, id, "empty", has(0))
		}},
		{name: "a maintained fleet launches again", run: func(t *testing.T, ec *endpoint) {
			id := ec.createFleet(t, lasting(types.FleetTypeMaintain, *ec.twoInterfaces(t).LaunchTemplateId, 1))
			first := ec.instanceOfFleet(t, id)
			ec.terminate(t, first)
			ec.await(t, "another instance", func(context.Context) (string, error) {
				if now := ec.instancesOfFleet(t, id); len(now) != 1 || now[0] == first {
					return fmt.Sprint(now), nil
				}
				return "", nil
			})
		}},
		{name: "a listing has pages, and no instant fleets", run: func(t *testing.T, ec *endpoint) {
			template := *ec.twoInterfaces(t).LaunchTemplateId
			want := []string{ec.createFleet(t, lasting(types.FleetTypeMaintain, template, 0)), ec.createFleet(t, lasting(types.FleetTypeMaintain, template, 0))}
			instant := ec.createFleet(t, fleet(template, 1))
			ec.awaitFleet(t, instant, "known by its ID", has(1))
			for _, id := range want {
				ec.awaitFleet(t, id, "active", has(0))
			}
			var got []string
			pages := ec2.NewDescribeFleetsPaginator(ec, &ec2.DescribeFleetsInput{MaxResults: aws.Int32(1), Filters: []types.Filter{filter("fleet-state", "active")}})
			for pages.HasMorePages() {
				page, err := pages.NextPage(t.Context())
				ok(t, err)
				for _, f := range page.Fleets {
					got = append(got, *f.FleetId)
				}
			}
			for _, id := range want {
				if !slices.Contains(got, id) {
					t.Errorf("%s is missing in %q", id, got)
				}
			}
			if slices.Contains(got, instant) {
				t.Errorf("the instant fleet is listed")
			}
		}},
	})
}

func TestFleetsThatStayAreDeleted(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "deleted with its instances", run: func(t *testing.T, ec *endpoint) {
			id := ec.createFleet(t, lasting(types.FleetTypeMaintain, *ec.twoInterfaces(t).LaunchTemplateId, 1))
			host := ec.instanceOfFleet(t, id)
			out, err := ec.DeleteFleets(t.Context(), &ec2.DeleteFleetsInput{FleetIds: []string{id}, TerminateInstances: aws.Bool(true)})
			ok(t, err)
			if len(out.SuccessfulFleetDeletions) != 1 || out.SuccessfulFleetDeletions[0].CurrentFleetState != types.FleetStateCodeDeletedTerminatingInstances {
				t.Errorf("got %+v", out.SuccessfulFleetDeletions)
			}
			ec.awaitInstance(t, host, types.InstanceStateNameTerminated)
			ec.awaitFleet(t, id, "deleted", inState(types.FleetStateCodeDeleted))
		}},
		{name: "deleted without its instances", run: func(t *testing.T, ec *endpoint) {
			id := ec.createFleet(t, lasting(types.FleetTypeRequest, *ec.twoInterfaces(t).LaunchTemplateId, 1))
			host := ec.instanceOfFleet(t, id)
			_, err := ec.DeleteFleets(t.Context(), &ec2.DeleteFleetsInput{FleetIds: []string{id}, TerminateInstances: aws.Bool(false)})
			ok(t, err)
			ec.awaitFleet(t, id, "deleted, its instance running", inState(types.FleetStateCodeDeletedRunning))
			ec.terminate(t, host)
			ec.awaitFleet(t, id, "deleted", inState(types.FleetStateCodeDeleted))
		}},
		{name: "what cannot be deleted is told of each", strict: true, run: func(t *testing.T, ec *endpoint) {
			id := ec.createFleet(t, lasting(types.FleetTypeMaintain, *ec.twoInterfaces(t).LaunchTemplateId, 0))
			out, err := ec.DeleteFleets(t.Context(), &ec2.DeleteFleetsInput{
				FleetIds: []string{"fleet-00000000-0000-0000-0000-000000000000", id}, TerminateInstances: aws.Bool(true),
			})
			ok(t, err)
			var codes []types.DeleteFleetErrorCode
			for _, e := range out.UnsuccessfulFleetDeletions {
				codes = append(codes, e.Error.Code)
			}
			if diff := gocmp.Diff([]types.DeleteFleetErrorCode{types.DeleteFleetErrorCodeFleetIdDoesNotExist}, codes); diff != "" || len(out.SuccessfulFleetDeletions) != 1 {
				t.Errorf("%d deleted, (-want +got):\n%s", len(out.SuccessfulFleetDeletions), diff)
			}
		}},
	})
}

func TestFleetsThatStayAreRefused(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "a launch template without a version", strict: true, run: refusedFleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.Version = nil
		})},
		{name: "tags for the instances of a fleet that stays", strict: true, run: refusedFleet(func(in *ec2.CreateFleetInput) {
			in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{tag("a", "b")}}}
		})},
		{name: "a launch template that does not exist", run: refusedFleet(func(in *ec2.CreateFleetInput) {
			in.LaunchTemplateConfigs[0].LaunchTemplateSpecification.LaunchTemplateId = aws.String("lt-00000000000000000")
		})},
	})
}

func refusedFleet(change func(*ec2.CreateFleetInput)) func(*testing.T, *endpoint) {
	return func(t *testing.T, ec *endpoint) {
		t.Helper()
		in := lasting(types.FleetTypeMaintain, *ec.twoInterfaces(t).LaunchTemplateId, 0)
		change(in)
		_, err := ec.CreateFleet(t.Context(), in)
		expectRefusalSomehow(t, err)
	}
}

func TestSpotFleetRequests(t *testing.T) {
	ec := open(t)
	role := os.Getenv("MULTIENI_CONFORMANCE_SPOT_FLEET_ROLE")
	if role == "" && !ec.simulated {
		t.Skip("MULTIENI_CONFORMANCE_SPOT_FLEET_ROLE names no role")
	}
	r := spotFleets{ec, role}
	verify(t, ec, []check{
		{name: "a request without instances names its launch template", run: func(t *testing.T, _ *endpoint) {
			_, _ = r.create(t, 0) // another page
			id, template := r.create(t, 0)
			config := r.awaitRequest(t, id, types.BatchStateActive).SpotFleetRequestConfig.LaunchTemplateConfigs[0]
			if s := config.LaunchTemplateSpecification; aws.ToString(s.LaunchTemplateId) != template || aws.ToString(s.Version) != "1" || string(config.Overrides[0].InstanceType) != ec.instanceType {
				t.Errorf("got %+v", config)
			}
			r.cancel(t, id)
			r.awaitRequest(t, id, types.BatchStateCancelled)
		}},
		{name: "its instances are marked, and end with it", run: func(t *testing.T, ec *endpoint) {
			id, _ := r.create(t, 1)
			var hosts []types.Instance
			ec.await(t, "the instance", func(ctx context.Context) (string, error) {
				out, err := ec.DescribeInstances(ctx, &ec2.DescribeInstancesInput{Filters: []types.Filter{filter("tag:aws:ec2spot:fleet-request-id", id), filter("instance-state-name", "running")}})
				if err != nil || len(out.Reservations) == 0 {
					return "none yet", err
				}
				hosts = out.Reservations[0].Instances
				return "", nil
			})
			if hosts[0].InstanceLifecycle != types.InstanceLifecycleTypeSpot {
				t.Errorf("it is %q", hosts[0].InstanceLifecycle)
			}
			if out := r.cancel(t, id); len(out.SuccessfulFleetRequests) != 1 || out.SuccessfulFleetRequests[0].CurrentSpotFleetRequestState != types.BatchStateCancelledTerminatingInstances {
				t.Errorf("got %+v", out.SuccessfulFleetRequests)
			}
			ec.awaitInstance(t, *hosts[0].InstanceId, types.InstanceStateNameTerminated)
			r.awaitRequest(t, id, types.BatchStateCancelled)
		}},
		{name: "one that does not exist is told of", strict: true, run: func(t *testing.T, _ *endpoint) {
			out := r.cancel(t, "sfr-00000000-0000-0000-0000-000000000000")
			if len(out.UnsuccessfulFleetRequests) != 1 || out.UnsuccessfulFleetRequests[0].Error.Code != types.CancelBatchErrorCodeFleetRequestIdDoesNotExist {
				t.Errorf("got %+v", out.UnsuccessfulFleetRequests)
			}
		}},
	})
}

// spotFleets makes Spot Fleet requests in the name of a role.
type spotFleets struct {
	*endpoint
	role string
}

func (r spotFleets) with(id string, n int32) *ec2.RequestSpotFleetInput {
	return &ec2.RequestSpotFleetInput{SpotFleetRequestConfig: &types.SpotFleetRequestConfigData{
		IamFleetRole: aws.String(cmp.Or(r.role, "arn:aws:iam::123456789012:role/spot")), TargetCapacity: &n, Type: types.FleetTypeMaintain,
		LaunchTemplateConfigs: []types.LaunchTemplateConfig{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecification{LaunchTemplateId: &id, Version: aws.String("1")},
			Overrides:                   []types.LaunchTemplateOverrides{{InstanceType: types.InstanceType(r.instanceType)}},
		}},
	}}
}

func (r spotFleets) create(t *testing.T, n int32) (id, template string) {
	t.Helper()
	template = *r.twoInterfaces(t).LaunchTemplateId
	out, err := r.RequestSpotFleet(t.Context(), r.with(template, n))
	ok(t, err)
	return *out.SpotFleetRequestId, template
}

func (r spotFleets) awaitRequest(t *testing.T, id string, state types.BatchState) (found types.SpotFleetRequestConfig) {
	t.Helper()
	r.await(t, "Spot Fleet request "+id, func(ctx context.Context) (string, error) {
		pages := ec2.NewDescribeSpotFleetRequestsPaginator(r.endpoint, &ec2.DescribeSpotFleetRequestsInput{MaxResults: aws.Int32(1)})
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return "", err
			}
			at := slices.IndexFunc(page.SpotFleetRequestConfigs, func(c types.SpotFleetRequestConfig) bool { return *c.SpotFleetRequestId == id })
			if at >= 0 && page.SpotFleetRequestConfigs[at].SpotFleetRequestState == state {
				found = page.SpotFleetRequestConfigs[at]
				return "", nil
			}
		}
		return "it is not " + string(state), nil
	})
	return found
}

func (r spotFleets) cancel(t *testing.T, id string) *ec2.CancelSpotFleetRequestsOutput {
	t.Helper()
	out, err := r.CancelSpotFleetRequests(t.Context(), &ec2.CancelSpotFleetRequestsInput{SpotFleetRequestIds: []string{id}, TerminateInstances: aws.Bool(true)})
	ok(t, err)
	return out
}
