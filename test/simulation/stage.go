// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/podnet"
)

// stage is a run in which nothing happens between the steps of a schedule: processes, agents and pods act one at a
// time, when a step says so. It has two nodes, and a NodeENI with an interface for pods on each. An interface that a
// pod gets as a whole has one.
type stage struct {
	*run
	c      *cluster
	hosts  map[string]*podHost
	leader *process
	// address is the address that the schedule is about, and object the name of its object.
	address netip.Addr
	object  string
	// unanswered is set while the leader's changes in EC2 get no answer. late are such calls, which have no effect
	// yet, and lateWrites the writes of agents that are under way.
	unanswered       bool
	late, lateWrites []func()
	// standby is how many changes of FloatingAddresses the next leader has seen.
	standby int
}

// The cluster of a stage, and its nodes.
const stageCluster, node1, node2 = "red", "node-1", "node-2"

// selectedLabels are the labels of a node that the NodeENI selects.
var selectedLabels = map[string]string{"multus": "yes"}

// settledWithin is how long a settled read and what follows may take: reads show all changes of a minute ago, and the
// controller looks every ten seconds then.
const settledWithin = inventory.StaleReadWindow + 30*time.Second

// furnish adds the only cluster of a stage, with a NodeENI for pods, and runs it until all is as desired.
func (r *run) furnish(pods v1alpha1.NodeENIPods) {
	// Only what the schedule names acts.
	r.foreign.acts, r.followers.acts, r.prefixes.acts, r.agents.acts, r.reserving.acts = false, false, false, false, false
	r.pods.acts = true
	r.faults.end()
	c := r.newCluster(stageCluster)
	r.clusters = []*cluster{c}
	for _, name := range []string{node1, node2} {
		launched, err := r.model.Launch(r.call(),
			ec2.WorldInstance{InstanceType: "m5.large", AvailabilityZone: zones[0], Name: name})
		if err != nil {
			panic(err)
		}
		_, _ = c.api.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: selectedLabels},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zones[0] + "/" + launched[0].InstanceID},
		})
	}
	r.touched()
	_, _ = c.api.create(&v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: v1alpha1.NodeENISpec{
		NodeSelector: map[string]v1alpha1.LabelValue{"multus": "yes"}, SubnetIDs: []string{subnets[0].id},
		SecurityGroupIDs: []string{groups[0]}, DeviceIndex: 1, DeviceIndexPolicy: v1alpha1.DeviceIndexPrefer,
		InterfaceType: v1alpha1.InterfaceTypeInterface, IPv4Allocation: v1alpha1.IPv4AllocationAuto,
		UpdatePolicy: v1alpha1.UpdateInPlace,
		Pods:         &pods,
	}})
	c.processes = []*process{r.newProcess(c, r.now)}
	r.converge()
	for r.now.Sub(beginning) < inventory.VisibilityWindow { // until the leader no longer expects calls of an earlier one
		r.step()
	}
}

// raise begins the steps of a schedule.
func (r *run) raise() *stage {
	c := r.clusters[0]
	s := &stage{run: r, c: c, hosts: map[string]*podHost{}, leader: c.processes[0],
		address: inBlock(netip.MustParsePrefix(subnets[0].cidr), c.firstFloating())}
	s.object = v1alpha1.FloatingAddressName(subnets[0].id, s.address.String())
	for _, instance := range slices.Sorted(maps.Keys(r.pods.hosts)) {
		h := r.pods.hosts[instance]
		s.hosts[h.node] = h
		for at, file := range h.files {
			if file.Attachment == podnet.HostDevice {
				h.add(at)
			}
		}
		h.settle()
	}
	r.stage, r.depth = s, maxDepth // no other actor acts while a call is in flight
	s.leaderSees()
	return s
}

// end ends the steps of a schedule: from now on everything happens by itself.
func (s *stage) end() { s.run.stage, s.depth = nil, 0 }

// comesUp lets a pod of a node bring up the address.
func (s *stage) comesUp(node string) {
	h := s.hosts[node]
	h.bringUpAddress(s.truth().interfaces[s.interfaceOf(node)], s.address)
	h.serve()
}

// goes lets the pod drop the address.
func (s *stage) goes(node string) { s.hosts[node].drop(s.interfaceOf(node), s.address) }

// agentWrites lets the agent of a node decide by the present version of the object, and write that.
func (s *stage) agentWrites(node string) {
	h := s.hosts[node]
	came, before := h.came[s.object], s.holder()
	s.agentHolds(h)
	after := s.holder()
	if before != after && before != "" && before != node && (after != node || !came) {
		s.fail("the agent of node %s makes %q the holder instead of %q, and the address did not come up there", node, after,
			before)
	}
}

// agentBeginsWrite lets the agent decide. Its write is under way.
func (s *stage) agentBeginsWrite(node string) {
	h := s.hosts[node]
	h.book.late = &s.lateWrites
	s.agentHolds(h)
	h.book.late = nil
}

// agentHolds lets an agent write which addresses its pods have.
func (s *stage) agentHolds(h *podHost) {
	h.serve()
	_ = h.pass.Hold(context.Background())
}

// lateWriteIsRefused lets the oldest write that is under way arrive. The API server refuses it.
func (s *stage) lateWriteIsRefused() {
	before, write := s.c.api.get(floatingAddresses, s.object), s.lateWrites[0]
	s.lateWrites = s.lateWrites[1:]
	write()
	if s.c.api.get(floatingAddresses, s.object) != before {
		s.fail("the API server accepts a write over an older version: %s", holdingDigest(s.read()))
	}
}

// leaderSees lets the leader's cache catch up.
func (s *stage) leaderSees() {
	for k := range kinds {
		for s.leader.informers.behind(k) > 0 {
			s.leader.deliver(k)
		}
	}
}

// leaderActs lets the leader do what it does about the address, once it may move again and no other address can join
// the call.
func (s *stage) leaderActs() {
	s.passes(floating.MoveInterval)
	at, holder := s.at(), s.holder()
	for range 2 {
		if slices.Contains(s.leader.queues[addressQueue].ready(s.now), s.object) {
			s.leader.reconcile(addressQueue, s.object)
		}
		s.passes(floating.Gathering)
	}
	if after := s.at(); at != after && holder != "" && at == s.interfaceOf(holder) {
		s.fail("the leader takes the address from its holder, node %s: it is on %q now", holder, after)
	}
}

// leaderAssigns lets the leader assign the address to the interface of a node.
func (s *stage) leaderAssigns(node string) {
	s.leaderActs()
	if s.at() != s.interfaceOf(node) {
		s.fail("the leader did not assign the address to the interface of node %s: it is on %q", node, s.at())
	}
}

// leaderCallsWithoutAnswer lets the leader change EC2. The call gets no answer, and has no effect yet.
func (s *stage) leaderCallsWithoutAnswer() {
	s.leaderMayCallWithoutAnswer()
	s.isLate()
}

// leaderMayCallWithoutAnswer lets the leader act. Its changes in EC2 get no answer, and have no effect yet.
func (s *stage) leaderMayCallWithoutAnswer() {
	s.unanswered = true
	s.leaderActs()
	s.unanswered = false
}

// isLate says that a call is without an answer.
func (s *stage) isLate() {
	if len(s.late) == 0 {
		s.fail("the leader makes no call")
	}
}

// lateCallArrives lets the oldest call without an answer take effect.
func (s *stage) lateCallArrives() {
	before, holder, call := s.at(), s.holder(), s.late[0]
	s.late = s.late[1:]
	call()
	s.touched()
	s.note(nil, "a late call arrives")
	if holder != "" && before == s.interfaceOf(holder) && s.at() == "" {
		s.fail("a late call takes the address from its holder, node %s", holder)
	}
	s.podsAreServed()
}

// podsAreServed says that no late call took an interface or a prefix from a pod.
func (s *stage) podsAreServed() {
	for _, h := range s.hosts {
		for at, leases := range h.leases {
			i := s.truth().interfaces[h.files[at].ENI]
			isDetached := !i.AttachedTo(h.instance) || i.Attachment.Status == eni.AttachmentDetaching
			for _, lease := range leases {
				if lease.InUse() && isDetached {
					s.fail("a late call detaches %s, whose address %s a pod of node %s has", i.ID, lease.Address, h.node)
				}
				if lease.InUse() && lease.Address != i.PrimaryIPv4 && !inPrefix([]eni.Interface{i}, lease.Address) {
					s.fail("a late call takes the prefix of %s, which a pod of node %s has", lease.Address, h.node)
				}
			}
		}
	}
}

// lateCallsArrive lets all calls without an answer take effect.
func (s *stage) lateCallsArrive() {
	for len(s.late) > 0 {
		s.lateCallArrives()
	}
}

// withholds reports whether a call gets no answer now, and keeps it for later.
func (s *stage) withholds(call func()) bool {
	if s == nil || !s.unanswered {
		return false
	}
	s.late = append(s.late, call)
	return true
}

// standbySees lets the cache of the next leader catch up. Replicas have caches before they lead.
func (s *stage) standbySees() { s.standby = len(s.c.api.log[floatingAddresses]) }

// anotherLeaderTakesOver ends the leader. The next one has the cache of the standby.
func (s *stage) anotherLeaderTakesOver() {
	s.leader.dead = true
	s.c.processes = nil
	s.nextLeads(fastHandover)
}

// nextLeads lets the next leader, which has the cache of the standby, get the lease after a while.
func (s *stage) nextLeads(after time.Duration) {
	s.leader = s.newProcess(s.c, s.now.Add(after))
	s.c.processes = append(s.c.processes, s.leader)
	s.leader.informers.list(floatingAddresses, len(s.c.api.log[floatingAddresses])-s.standby)
	s.passes(after)
	s.leader.lead()
	s.leader.resync()
}

// passes lets time go by.
func (s *stage) passes(d time.Duration) {
	s.pass(max(0, d))
	s.model.Advance(s.now)
	s.touched()
}

// returnsTo lets everything run until the address is on the interface of a node, and says that this needs a settled
// read, but no resync.
func (s *stage) returnsTo(node string) {
	s.end()
	s.leader.resyncAt = s.now.Add(resyncPeriod)
	for until := s.now.Add(settledWithin); s.at() != s.interfaceOf(node); s.step() {
		if s.now.After(until) {
			s.fail("%s later the address is on %q, and not on the interface of its holder, node %s",
				seconds(settledWithin), s.at(), node)
		}
	}
}

// isKept says that no process has deleted the object.
func (s *stage) isKept() {
	if object := s.read(); object == nil || !object.DeletionTimestamp.IsZero() {
		s.fail("the leader deleted the object of the holder, node %s", s.holder())
	}
}

// fail ends the run.
func (s *stage) fail(format string, args ...any) { s.violate("schedule", format, args...) }

// read returns the object of the address; nil for none.
func (s *stage) read() *v1alpha1.FloatingAddress {
	object, _ := s.c.api.get(floatingAddresses, s.object).(*v1alpha1.FloatingAddress)
	return object
}

// holder returns the node of the holder; "" for none.
func (s *stage) holder() string {
	if object := s.read(); object != nil && object.Status.Holder != nil {
		return object.Status.Holder.NodeName
	}
	return ""
}

// at returns the interface that has the address in EC2; "" for none.
func (s *stage) at() string {
	for _, i := range s.truth().ordered {
		if slices.Contains(i.SecondaryIPv4, s.address) {
			return i.ID
		}
	}
	return ""
}

// interfaceOf returns the interface for pods on a node.
func (s *stage) interfaceOf(node string) string {
	for _, file := range s.hosts[node].files {
		return file.ENI
	}
	panic("node " + node + " has no network for pods")
}

// network returns the folder of the network for pods on a node.
func (s *stage) network(node string) string {
	for at := range s.hosts[node].files {
		return at
	}
	return ""
}

// podsStart starts pods on a node until there is no address for a further one.
func (s *stage) podsStart(node string) {
	at := s.network(node)
	for at != "" && s.hosts[node].hasLink(s.hosts[node].files[at].ENI) && s.hosts[node].add(at) {
	}
}

// podsEnd ends the pods of a node. Their addresses are free again after a while.
func (s *stage) podsEnd(node string) {
	s.hosts[node].removeAll(s.network(node))
	s.passes(podnet.RestTime / hostSpeed)
}

// userDeletes lets a user delete the NetworkInterface of a node.
func (s *stage) userDeletes(node string) {
	_ = s.c.api.delete(netInterfaces, s.objectOn(node).Name, "")
}

// userStrips lets a user strip the NetworkInterface of a node of its finalizer.
func (s *stage) userStrips(node string) {
	_, _ = s.c.api.update(netInterfaces, s.objectOn(node).Name, "", func(o client.Object) (client.Object, error) {
		o.SetFinalizers(nil)
		return o, nil
	})
}

// objectOn returns the NetworkInterface of a node.
func (s *stage) objectOn(node string) *v1alpha1.NetworkInterface {
	for _, n := range s.c.api.interfaces() {
		if n.Spec.NodeName == node {
			return n
		}
	}
	panic("node " + node + " has no NetworkInterface")
}

// reportInterval is the least time between two reports that differ only in the use of addresses (internal/host/agent).
const reportInterval = time.Minute / hostSpeed

// agentActs lets the agent of the first node read the objects of its interfaces, write the files for pods and its
// checkpoint, and report, once a report is due, until it has nothing more to do.
func (s *stage) agentActs() {
	s.passes(reportInterval)
	h := s.hosts[node1]
	for range agentRounds {
		h.api.catchUp()
		h.serve()
		h.write()
	}
}

// agentRounds is how often an agent decides until it has done what a change of its objects leads to.
const agentRounds = 4

// hasPrefixes says how many prefixes EC2 has on the interface of a node.
func (s *stage) hasPrefixes(node string, count int) {
	if i := s.truth().interfaces[s.interfaceOf(node)]; len(i.IPv4Prefixes) != count {
		s.fail("the interface of node %s has not %d prefixes: %s", node, count, s.describe(i))
	}
}
