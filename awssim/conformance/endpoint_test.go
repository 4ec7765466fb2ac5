// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go/middleware"
)

// endpoint is the EC2 under test, with the part of the account that a row may use.
type endpoint struct {
	*ec2.Client
	url         string
	region      string
	credentials aws.CredentialsProvider
	client      *http.Client

	subnet    types.Subnet  // where rows work
	sameZone  *types.Subnet // another of its zone and VPC
	otherZone *types.Subnet // another of its VPC
	otherVPC  *types.Subnet // of its zone
	dualStack *types.Subnet // with an IPv6 CIDR, in its zone and VPC
	tiny      *types.Subnet // a /28 in its zone and VPC that rows may fill; only on the simulator

	defaultGroup string   // the security group that every VPC has
	group        string   // another one of the VPC
	groups       []string // all of the VPC

	image, instanceType, multiCardType string

	simulated bool
	poll      time.Duration // between two reads of a changing resource
	backoff   time.Duration // the longest wait of the SDK before it tries a throttled call again
	patience  time.Duration // before a row gives up
	attempts  int           // of the SDK, at one call

	made madeIDs
}

// madeIDs is what the client created, in order.
type madeIDs struct {
	sync.Mutex
	instances, interfaces, reservations, templates, fleets, spotFleets []string
}

// open connects to the endpoint of the environment, or to a simulator of this test alone, and removes at the end
// everything that the test created.
func open(t *testing.T) *endpoint {
	t.Helper()
	return openWith(t, simulator{speed: 300})
}

// openWith is open, with another simulator; any other endpoint is as it is.
func openWith(t *testing.T, s simulator) *endpoint {
	t.Helper()
	t.Parallel()
	ec := &endpoint{
		url:           os.Getenv("MULTIENI_CONFORMANCE_ENDPOINT"),
		image:         cmp.Or(os.Getenv("MULTIENI_CONFORMANCE_IMAGE"), "ami-0abcdef1234567890"),
		instanceType:  cmp.Or(os.Getenv("MULTIENI_CONFORMANCE_INSTANCE_TYPE"), "t3.medium"),
		multiCardType: os.Getenv("MULTIENI_CONFORMANCE_MULTI_CARD_TYPE"),
		poll:          3 * time.Second,
		backoff:       20 * time.Second,
		patience:      10 * time.Minute,
		attempts:      10,
	}
	if ec.url == "" {
		s.start(t, ec)
	} else {
		ec.useEnvironment(t)
	}
	ec.client = &http.Client{Transport: awshttp.NewBuildableClient().GetTransport()} // the SDK's default, but closable
	t.Cleanup(ec.client.CloseIdleConnections)
	ec.Client = ec2.New(ec2.Options{
		Region:       ec.region,
		BaseEndpoint: &ec.url,
		Credentials:  ec.credentials,
		HTTPClient:   ec.client,
		Retryer:      ec.retryer(),
		APIOptions:   []func(*middleware.Stack) error{ec.made.remember},
	})
	ec.explore(t)
	t.Cleanup(func() { ec.removeMade(t) })
	return ec
}

func (ec *endpoint) retryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = ec.attempts, ec.backoff
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(final)}, o.Retryables...)
	})
}

// final reports a 500 without a code of EC2 as a permanent failure: an emulator with a bug answers like that.
func final(err error) aws.Ternary {
	answer, answered := errors.AsType[*awshttp.ResponseError](err)
	if answered && answer.HTTPStatusCode() == http.StatusInternalServerError && slices.Contains([]string{"", "UnknownError"}, codeOf(err)) {
		return aws.FalseTernary
	}
	return aws.UnknownTernary
}

func (ec *endpoint) useEnvironment(t *testing.T) {
	t.Helper()
	shared, err := config.LoadDefaultConfig(t.Context())
	ok(t, err)
	ec.credentials = shared.Credentials
	ec.region = cmp.Or(os.Getenv("MULTIENI_CONFORMANCE_REGION"), shared.Region, "us-west-2")
	if patience := os.Getenv("MULTIENI_CONFORMANCE_PATIENCE"); patience != "" {
		ec.patience, err = time.ParseDuration(patience)
		ok(t, err)
	}
	if attempts := os.Getenv("MULTIENI_CONFORMANCE_ATTEMPTS"); attempts != "" {
		ec.attempts, err = strconv.Atoi(attempts)
		ok(t, err)
	}
}

// remember is an SDK middleware: it records what a call creates before the row gets the answer.
func (m *madeIDs) remember(stack *middleware.Stack) error {
	return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("remember",
		func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
			middleware.InitializeOutput, middleware.Metadata, error,
		) {
			out, metadata, err := next.HandleInitialize(ctx, in)
			m.note(out.Result)
			return out, metadata, err
		}), middleware.Before)
}

func (m *madeIDs) note(result any) {
	m.Lock()
	defer m.Unlock()
	switch made := result.(type) {
	case *ec2.CreateNetworkInterfaceOutput:
		m.interfaces = append(m.interfaces, aws.ToString(made.NetworkInterface.NetworkInterfaceId))
	case *ec2.CreateSubnetCidrReservationOutput:
		m.reservations = append(m.reservations, aws.ToString(made.SubnetCidrReservation.SubnetCidrReservationId))
	case *ec2.CreateLaunchTemplateOutput:
		m.templates = append(m.templates, aws.ToString(made.LaunchTemplate.LaunchTemplateId))
	case *ec2.RequestSpotFleetOutput:
		m.spotFleets = append(m.spotFleets, aws.ToString(made.SpotFleetRequestId))
	case *ec2.CreateFleetOutput:
		m.fleets = append(m.fleets, aws.ToString(made.FleetId))
		for _, launched := range made.Instances {
			m.instances = append(m.instances, launched.InstanceIds...)
		}
	case *ec2.RunInstancesOutput:
		for _, instance := range made.Instances {
			m.instances = append(m.instances, aws.ToString(instance.InstanceId))
			for _, eni := range instance.NetworkInterfaces {
				m.interfaces = append(m.interfaces, aws.ToString(eni.NetworkInterfaceId))
			}
		}
	}
}

// explore chooses the resources of the account that the rows use.
func (ec *endpoint) explore(t *testing.T) {
	t.Helper()
	all, err := ec.DescribeSubnets(t.Context(), &ec2.DescribeSubnetsInput{})
	ok(t, err)
	ec.subnet = *ec.choose(t, all.Subnets, "MULTIENI_CONFORMANCE_SUBNET", isRoomy)
	home := ec.subnet
	inVPC := func(s types.Subnet) bool { return *s.VpcId == *home.VpcId && *s.SubnetId != *home.SubnetId }
	inZone := func(s types.Subnet) bool { return *s.AvailabilityZone == *home.AvailabilityZone }

	ec.otherZone = ec.choose(t, all.Subnets, "MULTIENI_CONFORMANCE_SUBNET_OTHER_ZONE",
		func(s types.Subnet) bool { return inVPC(s) && !inZone(s) && isRoomy(s) })
	ec.sameZone = find(all.Subnets, func(s types.Subnet) bool { return inVPC(s) && inZone(s) && isRoomy(s) })
	ec.dualStack = find(all.Subnets, func(s types.Subnet) bool {
		return *s.VpcId == *home.VpcId && inZone(s) && len(s.Ipv6CidrBlockAssociationSet) > 0
	})
	ec.otherVPC = find(all.Subnets, func(s types.Subnet) bool { return *s.VpcId != *home.VpcId && inZone(s) })
	if ec.simulated {
		ec.tiny = find(all.Subnets, func(s types.Subnet) bool {
			return inVPC(s) && inZone(s) && cidrOf(s).Bits() == 28
		})
	}
	ec.exploreGroups(t)
}

func (ec *endpoint) exploreGroups(t *testing.T) {
	t.Helper()
	found, err := ec.DescribeSecurityGroups(t.Context(), &ec2.DescribeSecurityGroupsInput{
		Filters: []types.Filter{filter("vpc-id", *ec.subnet.VpcId)},
	})
	ok(t, err)
	ec.group = os.Getenv("MULTIENI_CONFORMANCE_SECURITY_GROUP")
	for _, group := range found.SecurityGroups {
		ec.groups = append(ec.groups, *group.GroupId)
		switch {
		case *group.GroupName == "default":
			ec.defaultGroup = *group.GroupId
		case ec.group == "":
			ec.group = *group.GroupId
		}
	}
	if ec.group == "" {
		t.Fatalf("VPC %s has no security group but its default: create one", *ec.subnet.VpcId)
	}
}

// choose returns the subnet that the variable names, or the roomiest that is suitable.
func (ec *endpoint) choose(t *testing.T, subnets []types.Subnet, variable string, suitable func(types.Subnet) bool) *types.Subnet {
	t.Helper()
	named := os.Getenv(variable)
	if ec.simulated || named == "" {
		byRoom := slices.SortedStableFunc(slices.Values(subnets), func(a, b types.Subnet) int {
			return cmp.Compare(*b.AvailableIpAddressCount, *a.AvailableIpAddressCount)
		})
		if chosen := find(byRoom, suitable); chosen != nil {
			return chosen
		}
		t.Fatalf("no suitable subnet: name one in %s", variable)
	}
	chosen := find(subnets, func(s types.Subnet) bool { return *s.SubnetId == named })
	if chosen == nil {
		t.Fatalf("%s: no subnet %s in %s", variable, named, ec.region)
	}
	return chosen
}

// need skips the row when the account lacks something; our own simulator must lack nothing.
func need[T any](t *testing.T, ec *endpoint, have *T, what string) *T {
	t.Helper()
	if have == nil && ec.simulated {
		t.Fatalf("the simulated world has no %s", what)
	}
	if have == nil {
		t.Skipf("the account has no %s", what)
	}
	return have
}

// await polls until nothing is missing, and fails the test if that takes too long.
func (ec *endpoint) await(t *testing.T, what string, look func(context.Context) (missing string, err error)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), ec.patience)
	defer cancel()
	tick := time.NewTicker(ec.poll)
	defer tick.Stop()
	for seen := "nothing yet"; ; <-tick.C {
		missing, err := look(ctx)
		switch {
		case missing == "" && err == nil:
			return
		case ctx.Err() != nil:
			t.Fatalf("gave up on %s after %s; last seen: %s", what, ec.patience, seen)
		case err != nil:
			t.Fatalf("waiting for %s: %v", what, err)
		}
		seen = missing
	}
}

// removeMade removes all resources of the test. This also proves that everything can be terminated, detached and
// deleted.
func (ec *endpoint) removeMade(t *testing.T) {
	t.Helper()
	if len(ec.made.spotFleets) > 0 { // first, so that they do not launch again
		_, err := ec.CancelSpotFleetRequests(context.WithoutCancel(t.Context()),
			&ec2.CancelSpotFleetRequestsInput{SpotFleetRequestIds: ec.made.spotFleets, TerminateInstances: aws.Bool(true)})
		if err != nil {
			t.Errorf("clean up Spot Fleet requests: %v", err)
		}
	}
	if len(ec.made.fleets) > 0 {
		_, err := ec.DeleteFleets(context.WithoutCancel(t.Context()),
			&ec2.DeleteFleetsInput{FleetIds: ec.made.fleets, TerminateInstances: aws.Bool(true)})
		if err != nil {
			t.Errorf("clean up fleets: %v", err)
		}
	}
	if len(ec.made.instances) > 0 {
		_, err := ec.TerminateInstances(context.WithoutCancel(t.Context()),
			&ec2.TerminateInstancesInput{InstanceIds: ec.made.instances})
		if err != nil {
			t.Errorf("clean up instances: %v", err)
		}
	}
	for _, id := range ec.made.templates {
		_, err := ec.DeleteLaunchTemplate(context.WithoutCancel(t.Context()), &ec2.DeleteLaunchTemplateInput{LaunchTemplateId: &id})
		if err != nil && codeOf(err) != "InvalidLaunchTemplateId.NotFound" {
			t.Errorf("clean up launch template %s: %v", id, err)
		}
	}
	for _, id := range ec.made.reservations {
		_, err := ec.DeleteSubnetCidrReservation(context.WithoutCancel(t.Context()), &ec2.DeleteSubnetCidrReservationInput{SubnetCidrReservationId: &id})
		if err != nil && codeOf(err) != "InvalidSubnetCidrReservationID.NotFound" {
			t.Errorf("clean up reservation %s: %v", id, err)
		}
	}
	for _, id := range ec.made.interfaces {
		ec.await(t, "the removal of "+id, func(ctx context.Context) (string, error) { return ec.remove(ctx, id) })
	}
}

// remove makes the next call towards the deletion of an interface, and returns its status, or "" once it is deleted. It
// ignores refusals: the next read shows whether they mattered.
func (ec *endpoint) remove(ctx context.Context, id string) (status string, err error) {
	found, err := ec.DescribeNetworkInterfaces(ctx, byID(id))
	if codeOf(err) == "InvalidNetworkInterfaceID.NotFound" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	eni := found.NetworkInterfaces[0]
	switch {
	case eni.Attachment == nil:
		_ = ec.deleteENI(ctx, id)
	case isAttached(eni) && aws.ToInt32(eni.Attachment.DeviceIndex) > 0:
		_, _ = ec.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: eni.Attachment.AttachmentId})
	}
	return string(eni.Status), nil
}

func filter(name string, values ...string) types.Filter {
	return types.Filter{Name: &name, Values: values}
}

func find[T any](list []T, suitable func(T) bool) *T {
	if i := slices.IndexFunc(list, suitable); i >= 0 {
		return &list[i]
	}
	return nil
}

func cidrOf(s types.Subnet) netip.Prefix { return netip.MustParsePrefix(*s.CidrBlock) }

func ipv6Of(s *types.Subnet) netip.Prefix {
	return netip.MustParsePrefix(*s.Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock)
}

// ipv6Block is the n-th /80 of a subnet, in EC2's spelling.
func ipv6Block(s *types.Subnet, n uint16) string {
	bytes := ipv6Of(s).Addr().As16()
	binary.BigEndian.PutUint16(bytes[8:], n)
	return netip.PrefixFrom(netip.AddrFrom16(bytes), 80).String()
}

func isRoomy(s types.Subnet) bool { return aws.ToInt32(s.AvailableIpAddressCount) >= 64 }
