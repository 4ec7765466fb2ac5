// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func start(ids ...string) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.StartInstances(ctx, &ec2.StartInstancesInput{InstanceIds: ids})
		return err
	}
}

func stop(ids ...string) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.StopInstances(ctx, &ec2.StopInstancesInput{InstanceIds: ids})
		return err
	}
}

func terminate(ids ...string) call {
	return func(ctx context.Context, ec *endpoint) error {
		_, err := ec.TerminateInstances(ctx, &ec2.TerminateInstancesInput{InstanceIds: ids})
		return err
	}
}

// TestStopAndStartInstances: StopInstances and StartInstances.
func TestStopAndStartInstances(t *testing.T) {
	ec := open(t)
	host := ec.instance(t)
	id := *host.InstanceId
	eni := *ec.eni(t).NetworkInterfaceId
	ec.attach(t, eni, id, 0, 1)
	verify(t, ec, []check{
		{name: "an unknown instance", run: func(t *testing.T, ec *endpoint) {
			refused("InvalidInstanceID.NotFound", stop(noInstance))(t, ec)
			refused("InvalidInstanceID.NotFound", start(noInstance))(t, ec)
		}},
		{name: "something that is no instance", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("InvalidInstanceID.Malformed", stop("host-one"))(t, ec)
			refused("InvalidInstanceID.Malformed", start("host-one"))(t, ec)
		}},
		{name: "one unknown instance stops none", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("InvalidInstanceID.NotFound", stop(id, noInstance))(t, ec)
			ec.awaitInstance(t, id, types.InstanceStateNameRunning)
		}},
	})
	verify(t, ec, []check{
		{name: "stop: running, stopping, stopped", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
			ok(t, err)
			expectChange(t, out.StoppingInstances, id, types.InstanceStateNameRunning, types.InstanceStateNameStopping)
			ec.awaitInstance(t, id, types.InstanceStateNameStopped)
		}},
		{name: "a stopped instance keeps its interfaces and addresses", run: func(t *testing.T, ec *endpoint) {
			stopped := ec.awaitInstance(t, id, types.InstanceStateNameStopped)
			if len(stopped.NetworkInterfaces) != 2 || *stopped.PrivateIpAddress != *host.PrivateIpAddress {
				t.Errorf("%d interfaces, address %s, want 2 and %s", len(stopped.NetworkInterfaces), *stopped.PrivateIpAddress, *host.PrivateIpAddress)
			}
			ec.awaitENI(t, eni, "attached", isAttached)
		}},
		{name: "stop again changes nothing", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.StopInstances(t.Context(), &ec2.StopInstancesInput{InstanceIds: []string{id}})
			ok(t, err)
			expectChange(t, out.StoppingInstances, id, types.InstanceStateNameStopped, types.InstanceStateNameStopped)
		}},
		{name: "start: stopped, pending, running", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.StartInstances(t.Context(), &ec2.StartInstancesInput{InstanceIds: []string{id}})
			ok(t, err)
			expectChange(t, out.StartingInstances, id, types.InstanceStateNameStopped, types.InstanceStateNamePending)
			started := ec.awaitInstance(t, id, types.InstanceStateNameRunning)
			if len(started.NetworkInterfaces) != 2 {
				t.Errorf("%d interfaces, want 2", len(started.NetworkInterfaces))
			}
		}},
		{name: "a terminated instance does neither", run: func(t *testing.T, ec *endpoint) {
			ec.terminate(t, id)
			refused("IncorrectInstanceState|IncorrectState", start(id))(t, ec)
			refused("IncorrectInstanceState|IncorrectState|UnsupportedOperation", stop(id))(t, ec)
		}},
	})
}

func TestTerminateInstances(t *testing.T) {
	ec := open(t)
	kept, keptToo := ec.spec(0, 0), ec.spec(0, 1)
	keptToo.DeleteOnTermination = aws.Bool(false)
	host := ec.instance(t, withInterfaces(kept, keptToo))
	id := *host.InstanceId
	var primary, survivor string
	for _, eni := range host.NetworkInterfaces {
		if *eni.Attachment.DeviceIndex == 0 {
			primary = *eni.NetworkInterfaceId
		} else {
			survivor = *eni.NetworkInterfaceId
		}
	}
	marked := *ec.eni(t).NetworkInterfaceId
	ok(t, modify(marked, setDeleteOnTermination(ec.attach(t, marked, id, 0, 2), true))(t.Context(), ec))

	verify(t, ec, []check{
		{name: "an unknown instance", run: refused("InvalidInstanceID.NotFound", terminate(noInstance))},
		{name: "something that is no instance", strict: true, run: refused("InvalidInstanceID.Malformed", terminate("host-one"))},
		{name: "one unknown instance terminates none", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("InvalidInstanceID.NotFound", terminate(id, noInstance))(t, ec)
			ec.awaitInstance(t, id, types.InstanceStateNameRunning)
		}},
	})
	verify(t, ec, []check{
		{name: "running, shutting-down, terminated", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			ok(t, err)
			expectChange(t, out.TerminatingInstances, id, types.InstanceStateNameRunning, types.InstanceStateNameShuttingDown)
			ec.awaitInstance(t, id, types.InstanceStateNameTerminated)
		}},
		{name: "what deletes on termination is gone, whoever set it", run: func(t *testing.T, ec *endpoint) {
			ec.awaitGone(t, primary)
			ec.awaitGone(t, marked)
		}},
		{name: "the rest is available again", run: func(t *testing.T, ec *endpoint) {
			left := ec.awaitENI(t, survivor, "available", isAvailable)
			if left.Attachment != nil {
				t.Errorf("attachment %+v", left.Attachment)
			}
			ok(t, remove(survivor)(t.Context(), ec))
		}},
		{name: "the instance stays visible, without interfaces", run: func(t *testing.T, ec *endpoint) {
			gone := ec.awaitInstance(t, id, types.InstanceStateNameTerminated)
			if len(gone.NetworkInterfaces) != 0 || aws.ToInt32(gone.State.Code) != 48 {
				t.Errorf("state %d with interfaces %v", *gone.State.Code, gone.NetworkInterfaces)
			}
		}},
		{name: "again changes nothing", run: func(t *testing.T, ec *endpoint) {
			out, err := ec.TerminateInstances(t.Context(), &ec2.TerminateInstancesInput{InstanceIds: []string{id}})
			ok(t, err)
			expectChange(t, out.TerminatingInstances, id, types.InstanceStateNameTerminated, types.InstanceStateNameTerminated)
		}},
	})
}

// TestTerminateInstancesSpecially: every row launches its own instances.
func TestTerminateInstancesSpecially(t *testing.T) {
	ec := open(t)
	verify(t, ec, []check{
		{name: "the primary interface stays when asked to", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t)
			primary := host.NetworkInterfaces[0]
			ok(t, modify(*primary.NetworkInterfaceId, setDeleteOnTermination(*primary.Attachment.AttachmentId, false))(t.Context(), ec))
			ec.terminate(t, *host.InstanceId)
			ec.awaitENI(t, *primary.NetworkInterfaceId, "available", isAvailable)
		}},
		{name: "with an interface that is being attached, and one being detached", strict: true, run: func(t *testing.T, ec *endpoint) {
			host := *ec.instance(t).InstanceId
			coming, going := *ec.eni(t).NetworkInterfaceId, *ec.eni(t).NetworkInterfaceId
			attachment := ec.attach(t, going, host, 0, 1)
			ok(t, modify(going, setDeleteOnTermination(attachment, true))(t.Context(), ec))
			ok(t, attach(coming, host, 0, 2)(t.Context(), ec))
			ok(t, detach(attachment)(t.Context(), ec))
			ok(t, terminate(host)(t.Context(), ec))
			ec.awaitInstance(t, host, types.InstanceStateNameTerminated)
			ec.awaitENI(t, coming, "available", isAvailable)
		}},
		{name: "a stopped instance too", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t)
			ec.stop(t, *host.InstanceId)
			ec.terminate(t, *host.InstanceId)
			ec.awaitGone(t, *host.NetworkInterfaces[0].NetworkInterfaceId)
		}},
	})
}

// TestShuttingDownInstance runs slower, so that it observes the intermediate state.
func TestShuttingDownInstance(t *testing.T) {
	ec := openWith(t, simulator{speed: 30})
	dying, other := *ec.instance(t).InstanceId, *ec.instance(t).InstanceId
	eni := *ec.eni(t).NetworkInterfaceId
	ec.attach(t, eni, dying, 0, 1)
	ok(t, terminate(dying)(t.Context(), ec))
	verify(t, ec, []check{
		{name: "its interfaces cannot be attached elsewhere", strict: true, run: refused(inUse, attach(eni, other, 0, 1))},
		{name: "nor deleted", strict: true, run: refused(inUse, remove(eni))},
		{name: "it takes no more of them", strict: true, run: func(t *testing.T, ec *endpoint) {
			refused("IncorrectState|IncorrectInstanceState", attach(*ec.eni(t).NetworkInterfaceId, dying, 0, 2))(t, ec)
		}},
		{name: "it cannot be started", strict: true, run: refused("IncorrectState|IncorrectInstanceState", start(dying))},
	})
}

func expectChange(t *testing.T, changes []types.InstanceStateChange, id string, from, to types.InstanceStateName) {
	t.Helper()
	if len(changes) != 1 || *changes[0].InstanceId != id {
		t.Fatalf("changes %v, want one of %s", changes, id)
	}
	if got := changes[0]; got.PreviousState.Name != from || got.CurrentState.Name != to {
		t.Errorf("%s to %s, want %s to %s", got.PreviousState.Name, got.CurrentState.Name, from, to)
	}
}
