// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"math/rand/v2"
	"time"
)

// Latency is the duration of a change: uniformly distributed from Min to Max, except for the TailShare of changes,
// which take from Max to Tail. The zero value takes no time.
type Latency struct {
	Min, Max  time.Duration
	Tail      time.Duration
	TailShare float64
}

// Draw returns the duration of one change.
func (l Latency) Draw(random *rand.Rand) time.Duration {
	low, high := l.Min, l.Max
	if l.TailShare > 0 && random.Float64() < l.TailShare {
		low, high = l.Max, l.Tail
	}
	if high <= low {
		return low
	}
	return low + time.Duration(random.Int64N(int64(high-low)))
}

// Behavior has the durations of EC2, and its behavior where AWS documents none.
//
// The zero Behavior takes no time: every change is done, and visible, when the call returns.
//
// Latencies are estimates from observations of clients; each names its source. The other fields are switches for
// undocumented behaviour: the zero value is the simulator's choice, for the given reason.
type Behavior struct {
	// Calls is the duration of the calls of each action, from the request to the answer. EC2 does the work in the middle
	// of that time. Calls of missing actions take no time; with nil no call takes time. See [CallLatencies].
	Calls map[string]Latency
	// Visibility is the time from a change until describe calls show it. EC2 documents eventual consistency without
	// figures. Most reads right after a change are current: "aws ec2 wait network-interface-available" and AWS's VPC
	// resource controller have no retry for an unknown interface. Terraform retries reads of new resources for seconds,
	// and 30 s have been observed.
	Visibility Latency
	// Available is the time from CreateNetworkInterface until the interface is available. It is normally zero: according
	// to EC2 the call is synchronous (aws/aws-sdk#301).
	Available Latency
	// Attach is the time from AttachNetworkInterface until the attachment is attached, on a running instance. The VPC CNI
	// documents "up to 10 seconds" for create and attach.
	Attach Latency
	// Detach is the time from DetachNetworkInterface until the interface is available, on a running instance. Two seconds
	// are often too short (aws/amazon-vpc-cni-k8s#1399); Ansible has observed more than 200.
	Detach Latency
	// Stopped replaces Attach and Detach while the instance is stopped (an estimate).
	Stopped Latency
	// Start is the time from pending to running, Stop from stopping to stopped, Terminate from shutting-down to terminated
	// (estimates).
	Start, Stop, Terminate Latency
	// CNI is the time from an instance's start until its simulated VPC CNI attaches its first interface.
	CNI Latency

	// Metadata is the time from attached, or from a change, until the instance metadata service shows it. Most clients
	// observe an attachment there within 10 s; the ECS agent raised its wait to 30 s after an observation of 18 s.
	Metadata Latency
	// MetadataIndex is the time from then until device-number is correct: before, it is 0 and there is no network-card
	// (amazonlinux/amazon-ec2-net-utils works around that).
	MetadataIndex Latency

	// TerminatedFor is how long a terminated instance is visible; 0 means an hour (EC2 API reference, TerminateInstances).
	TerminatedFor time.Duration
	// TokenMemory is how long EC2 remembers a client token; 0 means 24 hours, the documented minimum.
	TokenMemory time.Duration
	// ForgetTokenOnDelete forgets a token when its interface is deleted, so that the same call creates another interface.
	// By default the token stays used, and the call fails with IdempotentParameterMismatch: a program should rely on
	// neither, and this error shows a program that does.
	ForgetTokenOnDelete bool

	// AttachToPending allows to attach to an instance that is still pending. By default that is IncorrectState,
	// because EC2 documents running and stopped only.
	AttachToPending bool
	// EFAHotAttachCode is the error code for attaching an EFA to a running instance; empty means
	// InvalidParameterCombination. EC2 refuses; its code is not documented.
	EFAHotAttachCode string
	// AttachInUseCode is the error code for attaching an interface that is attached; empty means
	// InvalidNetworkInterface.InUse. EC2 documents InvalidParameterValue too.
	AttachInUseCode string
	// DeleteInUseCode is the error code for deleting one; empty means InvalidParameterValue, which is what clients
	// observe (aws/amazon-vpc-cni-k8s#1399). EC2 documents InvalidNetworkInterface.InUse too.
	DeleteInUseCode string
	// RefuseSecondDetach makes a detach call for a detaching interface fail with IncorrectState. By default it succeeds
	// and changes nothing.
	RefuseSecondDetach bool
	// ShowDetaching gives the interface the status detaching while its attachment is. By default it stays in-use: EC2's
	// API model has the other status, but no published observation does.
	ShowDetaching bool
	// ForceDetachKeepsSlot leaves the slot usable after a forced detach. By default the device index stays taken until
	// the instance was stopped, as EC2's documentation warns.
	ForceDetachKeepsSlot bool
	// PrefixesWithTagsFail makes the creation of an interface with both prefixes and tags fail with InternalError.
	// Terraform works around that; whether EC2 still does it is unknown.
	PrefixesWithTagsFail bool

	// PublicWithSeveralInterfaces gives an instance with several interfaces the public address of a subnet with
	// MapPublicIpOnLaunch. By default it gets none, which is what EC2 documents;
	// zalando-incubator/kubernetes-on-aws#8733 relies on the opposite.
	PublicWithSeveralInterfaces bool
	// RefuseHighDeviceIndex makes AttachNetworkInterface refuse a device index that is not below the number of interfaces
	// of its card, as a launch does. By default only the count matters: for attaching, EC2 documents no upper bound, and
	// no observation is published.
	RefuseHighDeviceIndex bool
	// RefuseInvalidTemplates turns the warnings of CreateLaunchTemplate and CreateLaunchTemplateVersion into errors. By
	// default they warn and succeed; EC2 does not document which of the two it does for which mistake.
	RefuseInvalidTemplates bool

	// UnpagedLimit is the number of interfaces up to which DescribeNetworkInterfaces works without MaxResults, IDs or one
	// of the filters that EC2 lists; 0 means 1,000. EC2 documents that the call fails "if you have a large number" of
	// them.
	UnpagedLimit int
	// ThrottledCallsCost makes a throttled call cost tokens. By default it is free.
	ThrottledCallsCost bool
	// IDsAreFilters bills a describe call with only IDs to the large bucket. By default it is billed to the small one, as
	// EC2's text says literally ("unfiltered and unpaginated").
	IDsAreFilters bool
}

// DefaultBehavior takes the time that EC2 takes.
func DefaultBehavior() Behavior {
	return Behavior{
		Visibility: Latency{Tail: 2 * time.Second, TailShare: 0.01},
		Attach:     Latency{Min: time.Second, Max: 5 * time.Second, Tail: 10 * time.Second, TailShare: 0.02},
		Detach:     Latency{Min: 2 * time.Second, Max: 10 * time.Second, Tail: 60 * time.Second, TailShare: 0.01},
		Stopped:    Latency{Min: 500 * time.Millisecond, Max: 1500 * time.Millisecond},
		Start:      Latency{Min: 5 * time.Second, Max: 20 * time.Second},
		Stop:       Latency{Min: 10 * time.Second, Max: 40 * time.Second},
		Terminate:  Latency{Min: 10 * time.Second, Max: 120 * time.Second},
		CNI:        Latency{Min: 2 * time.Second, Max: 6 * time.Second},

		Metadata:      Latency{Min: time.Second, Max: 10 * time.Second, Tail: 30 * time.Second, TailShare: 0.02},
		MetadataIndex: Latency{Max: 2 * time.Second},
	}
}

// LaggingBehavior is [DefaultBehavior], except that every change is hidden from describe calls for up to two seconds.
// Programs that rely on the first answer after a change fail with it every time, and not once in a hundred times.
func LaggingBehavior() Behavior {
	behavior := DefaultBehavior()
	behavior.Visibility = Latency{Max: 2 * time.Second}
	return behavior
}
