// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/core/text"
	"github.com/multieni/multieni/internal/host/podlease"
)

const (
	// mostCounted bounds the number of free addresses in a report: an IPv6 prefix has more addresses than an int32 can
	// count.
	mostCounted = 1 << 16
	// maxPods is the largest number of pods in a report, as in its schema.
	maxPods = 16

	// reasonNetworkFile is the reason of a network whose files the agent cannot read or write, and reasonLocked that of a
	// network whose files another process has locked. reasonCNIProgram is the reason of all networks of a node without the
	// CNI program, reasonRangeUnknown that of a network whose subnet has no known range of a declared family, and
	// reasonLeasesLost that of a network whose leases are gone while pods may run.
	reasonNetworkFile  = "NetworkFileNotWritten"
	reasonLocked       = "LeasesLocked"
	reasonCNIProgram   = "CNIProgramMissing"
	reasonRangeUnknown = "SubnetRangeUnknown"
	reasonLeasesLost   = "LeasesLost"
	reasonNotObserved  = v1alpha1.ReasonAddressesNotObserved
)

// howToObserve is the next step for an agent without an observer.
const howToObserve = "set pods.observeAddresses=true in the values of the chart"

// podsReport returns the report about the pod network of an object; nil if it has none.
func (a *Agent) podsReport(s *snapshot, one *served) *v1alpha1.PodsReport {
	n := one.object
	if n.Spec.Pods == nil {
		return nil
	}
	network := one.desired
	network.Phase = podnet.Closed
	if one.opens() && one.err == nil {
		network.Phase = podnet.Open
	}
	report := &v1alpha1.PodsReport{}
	if one.err != nil {
		explainFailure(report, one.err)
		if last := n.Status.Node; last != nil && last.Pods != nil { // nothing newer is known of the pods
			report.Used, report.Free, report.Wanted = last.Pods.Used, last.Pods.Free, last.Pods.Wanted
			report.Capacity = last.Pods.Capacity
		}
		return report
	}
	usage := network.Usage(one.leases, one.readAt)
	a.count(report, one, usage)
	a.explain(report, s, one)
	if report.Ready && !isObserved(n) {
		a.limit(report)
	}
	explainUnreadable(report, one, usage)
	return report
}

// count fills in the numbers, and names the pods while the interface is closed: the controller evicts them.
func (a *Agent) count(report *v1alpha1.PodsReport, one *served, usage podnet.Usage) {
	n := one.object
	report.Used, report.Capacity = count(usage.IPv4.Used+usage.IPv6.Used), count(usage.Capacity)
	if report.Free = count(usage.IPv4.Free); one.desired.IPv4 == nil {
		report.Free = count(usage.IPv6.Free)
	}
	if isObserved(n) {
		report.Used, report.Free, report.Capacity = int32(one.brought), 0, 0
	}
	if n.Spec.Pods.Closed || !n.DeletionTimestamp.IsZero() {
		for _, pod := range usage.Pods[:min(len(usage.Pods), maxPods)] {
			namespace, name, named := strings.Cut(pod.Name, "/")
			if !named {
				namespace, name = "", pod.Name
			}
			report.Pods = append(report.Pods, v1alpha1.PodReference{Namespace: text.Clip(namespace, 63),
				Name: text.Clip(name, 253), UID: text.Clip(pod.UID, 63)})
		}
		return
	}
	report.Wanted = int32(one.desired.Wanted(one.leases, demandOf(n), one.readAt))
}

func count(n int64) int32 { return int32(min(n, mostCounted)) }

// explain says whether pods can attach, or why not.
func (a *Agent) explain(report *v1alpha1.PodsReport, s *snapshot, one *served) {
	family, state := one.unknown, one.step.State
	if one.opens() {
		state = podnet.Serving
	}
	switch state {
	case podnet.Serving:
		report.Ready, report.Reason, report.Message = true, v1alpha1.ReasonNetworkReady, "pods can attach"
		a.explainServing(report, s, one)
		if one.link != nil && !slices.ContainsFunc(one.leases, podnet.Lease.InUse) {
			report.Ready, report.Reason, report.Message = false, one.link.Reason, text.Clip(one.link.Message, maxMessage)
		}
	case podnet.Opening:
		report.Reason = v1alpha1.ReasonNetworkPending
		report.Message = "pods can attach once the API server has recorded this report"
	case podnet.Shared:
		report.Reason = v1alpha1.ReasonNetworkPending
		report.Message = "pods that another CNI plugin attached have links on the interface, and a pod with attachment " +
			"HostDevice would take it from them: pods can attach once those have ended"
	case podnet.Closing, podnet.Idle:
		report.Reason = v1alpha1.ReasonNetworkDraining
		report.Message = "no further pod gets an address of the interface, because it will be removed or its NodeENI no " +
			"longer has pods"
	case podnet.Disabled:
		report.Reason = v1alpha1.ReasonPodNetworksDisabled
		report.Message = "the agent runs without pod networks, so no further pod gets an address of the interface; set " +
			"pods.enabled=true in the values of the chart"
	case podnet.WithoutLink:
		if one.link != nil {
			report.Reason, report.Message = one.link.Reason, text.Clip(one.link.Message, maxMessage)
		}
	case podnet.Incomplete:
		report.Reason = reasonRangeUnknown
		report.Message = fmt.Sprintf("the interface has no %s range of its subnet, and no pod starts without an address of "+
			"it: if the subnet has no %s range, associate one with it and replace the interface, or take %s out of the "+
			"NodeENI", family, family, family)
	case podnet.LeasesLost:
		report.Reason = reasonLeasesLost
		report.Message = fmt.Sprintf("the leases of running pods are gone from %s, so an address could be given to a second "+
			"pod; no pod attaches, and the interface is not removed, until the node boots: drain the node and reboot it",
			podlease.Dir)
	}
}

// explainServing qualifies that pods can attach.
func (a *Agent) explainServing(report *v1alpha1.PodsReport, s *snapshot, one *served) {
	observes := a.PodAddresses != nil
	var lost []string
	for _, l := range one.leases {
		if l.HasLostLink(s.linkOf(one.object), s.readAt) && !slices.Contains(lost, l.PodName()) {
			lost = append(lost, l.PodName())
		}
	}
	slices.Sort(lost)
	switch {
	case isObserved(one.object) && !observes:
		report.Ready, report.Reason = false, reasonNotObserved
		report.Message = "the agent may not observe the network namespaces of pods; " + howToObserve
	case isObserved(one.object):
		report.Message = "addresses within pods.floating follow the pods that bring them up"
	case len(lost) > 0:
		report.Reason = v1alpha1.ReasonPodsWithoutLink
		report.Message = text.Clip(fmt.Sprintf("the interface was detached while pods ran, and they have lost their link: "+
			"delete these pods, so that they start again: %s", strings.Join(lost, ", ")), maxMessage)
	case len(floating(one.object)) > 0 && !observes:
		report.Reason = reasonNotObserved
		report.Message = "pods can attach, and addresses that they ask for follow them; addresses within pods.floating " +
			"that they bring up themselves do not: the agent may not observe the network namespaces of pods; " + howToObserve
	}
}

// explainFailure reports why the agent could not serve a network.
func explainFailure(report *v1alpha1.PodsReport, err error) {
	report.Reason, report.Message = reasonNetworkFile, text.Clip(err.Error(), maxMessage)
	if errors.Is(err, podlease.ErrLocked) {
		report.Reason = reasonLocked
	}
}

// explainUnreadable names the damaged leases, which keep addresses in use without a pod.
func explainUnreadable(report *v1alpha1.PodsReport, one *served, usage podnet.Usage) {
	if len(usage.Unreadable) == 0 {
		return
	}
	address := usage.Unreadable[0]
	report.Message = text.Clip(fmt.Sprintf("%s; the lease of %v is damaged, so its address stays in use: "+
		"once no pod of the node has the address, delete %s",
		report.Message, address, podlease.Path(one.network, one.eni, address)), maxMessage)
}
