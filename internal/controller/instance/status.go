// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// How long the controller defers a status that no program waits for, so that one write covers several changes: EC2
// takes a few seconds to create and attach an interface, and some more to detach and delete it.
const (
	statusDelay  = 10 * time.Second
	removalDelay = 30 * time.Second
)

// maxRequested is the most entries of status.requested (its schema).
const maxRequested = 256

// Status returns the status of an object after a plan: that of the object, with the part that this controller writes.
func Status(o *v1alpha1.NetworkInterface, s plan.State) v1alpha1.NetworkInterfaceStatus {
	st := *o.Status.DeepCopy()
	st.Phase = v1alpha1.Phase(s.Phase)
	if i := s.Interface; i != nil {
		if st.ENIID == "" && s.Evidence != plan.Unknown {
			st.ENIID, st.Evidence = i.ID, evidence(s.Evidence)
		}
		if st.ENIID == i.ID {
			addInterface(&st, i, o.Spec.InstanceID)
			addRecords(&st, s)
		}
	}
	addConditions(o, &st, s)
	return st
}

func evidence(e plan.Evidence) v1alpha1.InterfaceEvidence {
	switch e {
	case plan.Created:
		return v1alpha1.EvidenceCreated
	case plan.Launched:
		return v1alpha1.EvidenceLaunched
	default:
		return v1alpha1.EvidenceTakenOver
	}
}

// addInterface adds what EC2 shows of the interface.
func addInterface(st *v1alpha1.NetworkInterfaceStatus, i *eni.Interface, instanceID string) {
	st.MACAddress, st.SubnetID = i.MAC, i.SubnetID
	st.SecurityGroupIDs = slices.Sorted(slices.Values(i.Groups))
	st.Addresses = v1alpha1.InterfaceAddresses{
		SecondaryPrivateIPs: object.Texts(i.SecondaryIPv4), IPv4Prefixes: object.Texts(i.IPv4Prefixes),
		IPv6Addresses: object.Texts(i.IPv6), IPv6Prefixes: object.Texts(i.IPv6Prefixes),
	}
	if i.PrimaryIPv4.IsValid() {
		st.Addresses.PrivateIP = i.PrimaryIPv4.String()
	}
	st.AttachmentID, st.Slot = "", nil
	if i.AttachedTo(instanceID) && i.Attachment.Status != eni.AttachmentAttaching {
		slot := object.SlotOf(i.Attachment.Slot)
		st.AttachmentID, st.Slot = i.Attachment.ID, &slot
	}
}

// addRecords adds what is known only from EC2's answers. A granted prefix stays: only the agent of the node can say
// that no pod uses it.
func addRecords(st *v1alpha1.NetworkInterfaceStatus, s plan.State) {
	requested := object.AddressTexts(s.Requested)
	st.Requested = requested[:min(len(requested), maxRequested)]
	st.ConnectionTracking = object.ConnectionTrackingOf(s.ENA.ConnectionTracking, s.ENA.TrackAsPrimary)
	st.ENAExpress, st.Unsupported = v1alpha1.ENAExpress(s.ENA.ENAExpress), s.ENA.Unsupported
	granted := object.Texts(s.Granted)
	if len(granted) == 0 {
		return
	}
	if st.Pods == nil {
		st.Pods = &v1alpha1.PodPrefixes{}
	}
	for _, prefix := range granted {
		if !slices.Contains(st.Pods.Prefixes, prefix) && !slices.Contains(st.Pods.Returning, prefix) {
			st.Pods.Prefixes = append(st.Pods.Prefixes, prefix)
		}
	}
}

// addConditions sets the conditions, and the generation that they are for. While a change in place is on its way, or an
// interface in use is paused, an attached interface stays ready for the generation before.
func addConditions(o *v1alpha1.NetworkInterface, st *v1alpha1.NetworkInterfaceStatus, s plan.State) {
	wasReady := meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady)
	reason := s.Problem.Reason
	if wasReady && o.DeletionTimestamp == nil && s.Phase == plan.Attached && isPending(reason) {
		return
	}
	outcome := status.Outcome{State: status.Progressing,
		Reason:  cmp.Or(string(reason), v1alpha1.ReasonProgressing),
		Message: cmp.Or(s.Problem.Message, "the interface is "+string(cmp.Or(s.Phase, plan.Pending)))}
	switch {
	case s.Ready() && !isPending(reason), reason == plan.Retained && s.Phase == plan.Attached:
		outcome = status.Outcome{State: status.Ready, Reason: cmp.Or(string(reason), v1alpha1.ReasonAttached),
			Message: cmp.Or(s.Problem.Message, "the interface is attached as declared")}
	case s.Ready():
	case needsPerson(reason):
		outcome.State = status.Stalled
	}
	st.ObservedGeneration = o.Generation
	st.Conditions = replaced(st.Conditions, status.Summarize(o.Status.Conditions, o.Generation, outcome))
}

// replaced returns conditions with those of this controller replaced by others, in the order that they have.
func replaced(all, own []metav1.Condition) (conditions []metav1.Condition) {
	for _, c := range all {
		if now := meta.FindStatusCondition(own, c.Type); now != nil {
			c = *now
		} else if slices.Contains(object.InstanceConditions(), c.Type) {
			continue
		}
		conditions = append(conditions, c)
	}
	for _, c := range own {
		if meta.FindStatusCondition(all, c.Type) == nil {
			conditions = append(conditions, c)
		}
	}
	return conditions
}

// isPending reports whether an attached interface with this reason will soon be as declared, or is kept as it is.
func isPending(reason plan.Reason) bool {
	switch reason {
	case plan.InProgress, plan.Throttled, plan.Retrying, plan.NotVisible, plan.InstanceNotReady, plan.Orphaned,
		plan.Removing, v1alpha1.ReasonPaused:
		return true
	default:
		return false
	}
}

// needsPerson reports whether a reason does not go away by itself.
func needsPerson(reason plan.Reason) bool { return !reason.Transient() }

// delay returns how long the write of a status can wait; negative if nothing changed.
func delay(o *v1alpha1.NetworkInterface, after v1alpha1.NetworkInterfaceStatus) time.Duration {
	before := o.Status
	ready := func(st v1alpha1.NetworkInterfaceStatus) bool {
		return meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady)
	}
	changed := !equality.Semantic.DeepEqual(before, after)
	recorded := before.ENIID != after.ENIID
	switch {
	case !changed:
		return -1
	case o.DeletionTimestamp != nil && recorded:
		return 0
	case o.DeletionTimestamp != nil:
		return removalDelay
	case recorded && (after.Evidence != v1alpha1.EvidenceCreated || after.AttachmentID != ""),
		ready(before) != ready(after), before.AttachmentID != after.AttachmentID,
		before.ObservedGeneration != after.ObservedGeneration && ready(after),
		!equality.Semantic.DeepEqual(before.Pods, after.Pods), stalledReason(before) != stalledReason(after):
		return 0
	default:
		return statusDelay
	}
}

// stalledReason returns why a person has to act, or "".
func stalledReason(st v1alpha1.NetworkInterfaceStatus) string {
	if stalled := meta.FindStatusCondition(st.Conditions, v1alpha1.ConditionStalled); stalled != nil {
		return stalled.Reason
	}
	return ""
}
