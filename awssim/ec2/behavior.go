// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"math/rand/v2"
	"time"
)

// Latency is how long a change takes: evenly spread from Min to Max, but for the TailShare of changes from Max to Tail.
// The zero value is no time at all.
type Latency struct {
	Min, Max  time.Duration
	Tail      time.Duration
	TailShare float64
}

// Draw returns how long one change takes.
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

// Behavior is how long EC2 takes, and what it does where AWS documents nothing.
//
// The zero Behavior takes no time: every change is done, and visible, when the call returns.
//
// Latencies are estimates from what clients have observed; each names its source. The other fields are switches for
// behaviour that is not documented: the zero value is the choice of the simulator, for the reason given.
type Behavior struct {
	// Calls is how long the calls of each action take, from the request to the answer. EC2 does the work in the middle
	// of that time. Actions that are missing take no time; nil means that no call does. See [CallLatencies].
	Calls map[string]Latency
	// Visibility is from a change until describe calls show it. EC2 documents eventual consistency without figures.
	// Most reads right after a change are current: "aws ec2 wait network-interface-available" and AWS's VPC resource
	// controller have no retry for an unknown interface. Terraform retries reads of new resources for seconds, and 30 s
	// have been seen.
	Visibility Latency
	// Available is from CreateNetworkInterface until the interface is available. Normally at once: EC2 says that the
	// call is synchronous (aws/aws-sdk#301).
	Available Latency
	// Attach is from AttachNetworkInterface until the attachment is attached, on a running instance. The VPC CNI
	// documents "up to 10 seconds" for create and attach.
	Attach Latency
	// Detach is from DetachNetworkInterface until the interface is available, from a running instance. Two seconds are
	// often too short (aws/amazon-vpc-cni-k8s#1399); Ansible has seen more than 200.
	Detach Latency
	// Stopped replaces Attach and Detach while the instance is stopped (an estimate).
	Stopped Latency
	// Start is from pending to running, Stop from stopping to stopped, Terminate from shutting-down to terminated
	// (estimates).
	Start, Stop, Terminate Latency
	// CNI is from an instance's start until its simulated VPC CNI takes its first interface.
	CNI Latency

	// Metadata is from attached, or from a change, until the instance metadata service tells of it. Most clients see an
	// attachment there within 10 s; the ECS agent raised its wait to 30 s after it had seen 18.
	Metadata Latency
	// MetadataIndex is from then until device-number is right: before, it reads 0 and there is no network-card
	// (amazonlinux/amazon-ec2-net-utils works around that).
	MetadataIndex Latency

	// TerminatedFor is how long a terminated instance can be seen; 0 means an hour (EC2 API reference,
	// TerminateInstances).
	TerminatedFor time.Duration
	// TokenMemory is how long a client token is remembered; 0 means 24 hours, the least that EC2 promises.
	TokenMemory time.Duration
	// ForgetTokenOnDelete forgets a token when its interface is deleted, so that the same call makes another one.
	// By default the token is burnt and answers IdempotentParameterMismatch: a program should not count on either,
	// and this is the answer that tells it so.
	ForgetTokenOnDelete bool

	// AttachToPending allows to attach to an instance that is still pending. By default that is IncorrectState,
	// because EC2 documents running and stopped only.
	AttachToPending bool
	// EFAHotAttachCode is the error code for an EFA and a running instance; empty means InvalidParameterCombination.
	// EC2 refuses; its code is not documented.
	EFAHotAttachCode string
	// AttachInUseCode is the error code for attaching an interface that is attached; empty means
	// InvalidNetworkInterface.InUse. EC2 documents InvalidParameterValue too.
	AttachInUseCode string
	// DeleteInUseCode is the error code for deleting one; empty means InvalidParameterValue, which is what clients
	// observe (aws/amazon-vpc-cni-k8s#1399). EC2 documents InvalidNetworkInterface.InUse too.
	DeleteInUseCode string
	// RefuseSecondDetach makes detaching what is detaching IncorrectState. By default it succeeds and changes nothing.
	RefuseSecondDetach bool
	// ShowDetaching gives the interface the status detaching while its attachment is. By default it stays in-use: EC2's
	// API model has the other status, but no published observation does.
	ShowDetaching bool
	// ForceDetachKeepsSlot leaves the slot usable after a forced detach. By default the device index stays taken until
	// the instance was stopped, as EC2's documentation warns.
	ForceDetachKeepsSlot bool
	// PrefixesWithTagsFail makes creating an interface with both prefixes and tags an InternalError. Terraform works
	// around that; whether EC2 still does it is unknown.
	PrefixesWithTagsFail bool

	// PublicWithSeveralInterfaces gives an instance with several interfaces the public address of a subnet with
	// MapPublicIpOnLaunch. By default it gets none, which is what EC2 documents;
	// zalando-incubator/kubernetes-on-aws#8733 relies on the opposite.
	PublicWithSeveralInterfaces bool
	// RefuseHighDeviceIndex refuses a device index that is not below the number of interfaces of its card. By default
	// only the count matters: EC2 documents no upper bound of the index, and Karpenter assumes this one.
	RefuseHighDeviceIndex bool
	// RefuseInvalidTemplates makes an error of what CreateLaunchTemplate and CreateLaunchTemplateVersion warn of. By
	// default they warn and succeed; EC2 does not document which of the two it does for which mistake.
	RefuseInvalidTemplates bool

	// UnpagedLimit is for how many interfaces DescribeNetworkInterfaces works without MaxResults, IDs or one of the
	// filters that EC2 names; 0 means 1,000. EC2 documents that the call fails "if you have a large number" of them.
	UnpagedLimit int
	// ThrottledCallsCost makes a throttled call cost tokens. By default it is free.
	ThrottledCallsCost bool
	// IDsAreFilters bills a describe call with IDs alone to the large bucket. By default it is billed to the small one,
	// which is what EC2's text says literally ("unfiltered and unpaginated").
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

// LaggingBehavior is [DefaultBehavior] but that every change is hidden from describe calls for up to two seconds.
// Programs that believe the first answer after a change fail against it at once, and not once in a hundred times.
func LaggingBehavior() Behavior {
	behavior := DefaultBehavior()
	behavior.Visibility = Latency{Max: 2 * time.Second}
	return behavior
}
