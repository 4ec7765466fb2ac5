// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
)

// Well-formed ids that no account holds.
const (
	noENI        = "eni-0ffffffffffffffff"
	noAttachment = "eni-attach-0ffffffffffffffff"
	noInstance   = "i-0ffffffffffffffff"
	noSubnet     = "subnet-0ffffffffffffffff"
	noGroup      = "sg-0ffffffffffffffff"
	noVPC        = "vpc-0ffffffffffffffff"
)

// managedENI is an interface of the simulated world that an AWS service manages, such as that of a load balancer.
const managedENI = "eni-0ddddddddddddddd1"

type createInput = ec2.CreateNetworkInterfaceInput

// eni creates an interface in the home subnet, with the given changes, and returns it once it is visible.
func (ec *endpoint) eni(t *testing.T, changes ...func(*createInput)) types.NetworkInterface {
	t.Helper()
	in := &createInput{SubnetId: ec.subnet.SubnetId, Groups: []string{ec.group}}
	for _, change := range changes {
		change(in)
	}
	out, err := ec.CreateNetworkInterface(t.Context(), in)
	ok(t, err)
	return ec.awaitENI(t, *out.NetworkInterface.NetworkInterfaceId, "available", isAvailable)
}

// enis creates n interfaces that carry the tag.
func (ec *endpoint) enis(t *testing.T, n int, tag types.Tag) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = *ec.eni(t, tagged(tag)).NetworkInterfaceId
	}
	slices.Sort(ids)
	return ids
}

func in(subnet *types.Subnet) func(*createInput) {
	return func(in *createInput) { in.SubnetId, in.Groups = subnet.SubnetId, nil }
}

func tagged(tags ...types.Tag) func(*createInput) {
	return func(in *createInput) {
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeNetworkInterface, Tags: tags}}
	}
}

func withSecondaries(n int32) func(*createInput) {
	return func(in *createInput) { in.SecondaryPrivateIpAddressCount = &n }
}

// mark returns a unique tag.
func mark() types.Tag { return tag("multieni-conformance", rand.Text()) }

func tag(key, value string) types.Tag { return types.Tag{Key: &key, Value: &value} }

func hasTag(t types.Tag) types.Filter { return filter("tag:"+*t.Key, *t.Value) }

type runInput = ec2.RunInstancesInput

// request returns a RunInstances request for one instance in the home subnet, with the given changes.
func (ec *endpoint) request(changes ...func(*runInput)) *runInput {
	in := &runInput{
		ImageId:      &ec.image,
		InstanceType: types.InstanceType(ec.instanceType),
		MinCount:     aws.Int32(1),
		MaxCount:     aws.Int32(1),
		SubnetId:     ec.subnet.SubnetId,
	}
	for _, change := range changes {
		change(in)
	}
	return in
}

func ofType(name string) func(*runInput) {
	return func(in *runInput) { in.InstanceType = types.InstanceType(name) }
}

func inSubnet(subnet *types.Subnet) func(*runInput) {
	return func(in *runInput) { in.SubnetId = subnet.SubnetId }
}

// withInterfaces names the interfaces one by one, which excludes a subnet for the whole instance.
func withInterfaces(specs ...types.InstanceNetworkInterfaceSpecification) func(*runInput) {
	return func(in *runInput) { in.SubnetId, in.NetworkInterfaces = nil, specs }
}

func (ec *endpoint) spec(card, device int32) types.InstanceNetworkInterfaceSpecification {
	return types.InstanceNetworkInterfaceSpecification{
		NetworkCardIndex: &card, DeviceIndex: &device, SubnetId: ec.subnet.SubnetId,
	}
}

// instance launches one and returns it once it runs.
func (ec *endpoint) instance(t *testing.T, changes ...func(*runInput)) types.Instance {
	t.Helper()
	out, err := ec.RunInstances(t.Context(), ec.request(changes...))
	ok(t, err)
	return ec.awaitInstance(t, *out.Instances[0].InstanceId, types.InstanceStateNameRunning)
}

// awaitInstance uses the SDK's own waiters.
func (ec *endpoint) awaitInstance(t *testing.T, id string, state types.InstanceStateName) types.Instance {
	t.Helper()
	in := &ec2.DescribeInstancesInput{InstanceIds: []string{id}}
	var out *ec2.DescribeInstancesOutput
	var err error
	switch state {
	case types.InstanceStateNameStopped:
		out, err = ec2.NewInstanceStoppedWaiter(ec, func(o *ec2.InstanceStoppedWaiterOptions) {
			o.MinDelay, o.MaxDelay = ec.poll, ec.poll
		}).WaitForOutput(t.Context(), in, ec.patience)
	case types.InstanceStateNameTerminated:
		out, err = ec2.NewInstanceTerminatedWaiter(ec, func(o *ec2.InstanceTerminatedWaiterOptions) {
			o.MinDelay, o.MaxDelay = ec.poll, ec.poll
		}).WaitForOutput(t.Context(), in, ec.patience)
	default:
		out, err = ec2.NewInstanceRunningWaiter(ec, func(o *ec2.InstanceRunningWaiterOptions) {
			o.MinDelay, o.MaxDelay = ec.poll, ec.poll
		}).WaitForOutput(t.Context(), in, ec.patience)
	}
	if err != nil {
		t.Fatalf("waiting for %s to be %s: %v", id, state, err)
	}
	return out.Reservations[0].Instances[0]
}

func (ec *endpoint) stop(t *testing.T, id string) {
	t.Helper()
	_, err := ec.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
	ok(t, err)
	ec.awaitInstance(t, id, types.InstanceStateNameStopped)
}

func (ec *endpoint) terminate(t *testing.T, id string) {
	t.Helper()
	_, err := ec.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
	ok(t, err)
	ec.awaitInstance(t, id, types.InstanceStateNameTerminated)
}

func attachInput(eni, instance string, card, device int32) *ec2.AttachNetworkInterfaceInput {
	return &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId: &eni, InstanceId: &instance, NetworkCardIndex: &card, DeviceIndex: &device,
	}
}

// attach returns the attachment's ID once its status is attached.
func (ec *endpoint) attach(t *testing.T, eni, instance string, card, device int32) string {
	t.Helper()
	out, err := ec.AttachNetworkInterface(t.Context(), attachInput(eni, instance, card, device))
	ok(t, err)
	ec.awaitENI(t, eni, "attached", isAttached)
	return *out.AttachmentId
}

// detach waits with the SDK's own waiter until the interface is available again.
func (ec *endpoint) detach(t *testing.T, eni, attachment string) {
	t.Helper()
	_, err := ec.DetachNetworkInterface(t.Context(), &ec2.DetachNetworkInterfaceInput{AttachmentId: &attachment})
	ok(t, err)
	waiter := ec2.NewNetworkInterfaceAvailableWaiter(ec, func(o *ec2.NetworkInterfaceAvailableWaiterOptions) {
		o.MinDelay, o.MaxDelay = ec.poll, ec.poll
	})
	ok(t, waiter.Wait(t.Context(), byID(eni), ec.patience))
}

func (ec *endpoint) deleteENI(ctx context.Context, id string) error {
	_, err := ec.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
	return err
}

func byID(ids ...string) *ec2.DescribeNetworkInterfacesInput {
	return &ec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: ids}
}

// awaitENI polls the interface until it is as expected. EC2 is eventually consistent, so rows poll even for a change
// that a call has just confirmed, and a NotFound before the first answer with the interface only means "not yet".
func (ec *endpoint) awaitENI(t *testing.T, id, what string, wanted func(types.NetworkInterface) bool) types.NetworkInterface {
	t.Helper()
	var last types.NetworkInterface
	ec.await(t, id+" to be "+what, func(ctx context.Context) (string, error) {
		out, err := ec.DescribeNetworkInterfaces(ctx, byID(id))
		if last.NetworkInterfaceId == nil && codeOf(err) == "InvalidNetworkInterfaceID.NotFound" {
			return "NotFound", nil
		}
		if err != nil {
			return "", err
		}
		last = out.NetworkInterfaces[0]
		if wanted(last) {
			return "", nil
		}
		return fmt.Sprintf("status %s, attachment %+v", last.Status, last.Attachment), nil
	})
	return last
}

// awaitGone polls until EC2 no longer returns the interface.
func (ec *endpoint) awaitGone(t *testing.T, id string) {
	t.Helper()
	ec.await(t, id+" to be gone", func(ctx context.Context) (string, error) {
		out, err := ec.DescribeNetworkInterfaces(ctx, byID(id))
		if codeOf(err) == "InvalidNetworkInterfaceID.NotFound" {
			return "", nil
		}
		if err != nil {
			return "", err
		}
		return string(out.NetworkInterfaces[0].Status), nil
	})
}

// awaitFound polls until the filters find exactly these interfaces, given in sorted order.
func (ec *endpoint) awaitFound(t *testing.T, want []string, filters ...types.Filter) {
	t.Helper()
	ec.await(t, "the search", func(ctx context.Context) (string, error) {
		got, err := ec.search(ctx, filters...)
		return cmp.Diff(want, got), err
	})
}

// search returns the ids that the filters find, sorted, page by page.
func (ec *endpoint) search(ctx context.Context, filters ...types.Filter) ([]string, error) {
	ids := []string{}
	pages := ec2.NewDescribeNetworkInterfacesPaginator(ec, &ec2.DescribeNetworkInterfacesInput{
		Filters: filters, MaxResults: aws.Int32(100),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, eni := range page.NetworkInterfaces {
			ids = append(ids, *eni.NetworkInterfaceId)
		}
	}
	slices.Sort(ids)
	return ids, nil
}

func isAvailable(eni types.NetworkInterface) bool {
	return eni.Status == types.NetworkInterfaceStatusAvailable
}

func isAttached(eni types.NetworkInterface) bool {
	return eni.Attachment != nil && eni.Attachment.Status == types.AttachmentStatusAttached
}

// addresses returns all IPv4 addresses, the primary first.
func addresses(eni types.NetworkInterface) []string {
	var all []string
	for _, a := range eni.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			all = append([]string{*a.PrivateIpAddress}, all...)
		} else {
			all = append(all, *a.PrivateIpAddress)
		}
	}
	return all
}

// freeAddresses returns n consecutive free addresses near the end of the home subnet; the first is a multiple of 16.
func (ec *endpoint) freeAddresses(t *testing.T, n int) []string {
	t.Helper()
	held := map[netip.Addr]bool{}
	pages := ec2.NewDescribeNetworkInterfacesPaginator(ec, &ec2.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{filter("subnet-id", *ec.subnet.SubnetId)}, MaxResults: aws.Int32(1000),
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		ok(t, err)
		for _, eni := range page.NetworkInterfaces {
			for _, address := range addresses(eni) {
				held[netip.MustParseAddr(address)] = true
			}
			for _, prefix := range eni.Ipv4Prefixes {
				held[netip.MustParsePrefix(*prefix.Ipv4Prefix).Addr()] = true
			}
		}
	}
	for block := lastBlock(cidrOf(ec.subnet)); cidrOf(ec.subnet).Contains(block); block = before(block, 16) {
		run := make([]string, n)
		isFree := true
		for i, address := 0, block; i < n; i, address = i+1, address.Next() {
			run[i] = address.String()
			isFree = isFree && !held[address]
		}
		if isFree && !held[block] {
			return run
		}
	}
	t.Fatalf("subnet %s has no %d free neighbours", *ec.subnet.SubnetId, n)
	return nil
}

// lastBlock is the second-last /28 boundary: the last block has the broadcast address.
func lastBlock(cidr netip.Prefix) netip.Addr {
	last := cidr.Masked().Addr()
	for block := last; cidr.Contains(block); block = after(block, 16) {
		last = block
	}
	return before(last, 16)
}

func after(address netip.Addr, n int) netip.Addr {
	for range n {
		address = address.Next()
	}
	return address
}

func before(address netip.Addr, n int) netip.Addr {
	for range n {
		address = address.Prev()
	}
	return address
}
