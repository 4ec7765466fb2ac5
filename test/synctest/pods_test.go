// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/podhost"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

const (
	// network is the name of the pod network, after its NodeENI.
	network = "pods"
	// floatingRange is a range in the data subnet of the first zone.
	floatingRange = "10.0.95.128/28"
	mostPodsOfOne = 40
)

// covered are the calls that a day must have.
var covered = []string{
	"AssignPrivateIpAddresses", "UnassignPrivateIpAddresses", "CreateSubnetCidrReservation", "DeleteSubnetCidrReservation",
	"DetachNetworkInterface", "DeleteNetworkInterface",
}

// mostPrefixes is the largest number of prefixes of a node, which keeps those of its peak.
const mostPrefixes = 4

// TestADayOfPods lets pods come and go on the nodes of a network, lets an address move between them, and lets people
// drain nodes and change reservations, while calls fail, agents restart and leaders are killed. No pod may ever lack
// its address in EC2 or share it. Then the cluster is left alone: EC2 has what is declared, and no call follows.
func TestADayOfPods(t *testing.T) {
	hours := size.Of(2, 6, 24)
	for seed := range uint64(size.Of(1, 1, 10)) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := beginDay(t, seed)
				begun, acts := time.Now(), 0
				for ; time.Since(begun) < time.Duration(hours)*time.Hour; acts++ {
					d.pass(time.Duration(20+d.IntN(100)) * time.Second)
					d.act()
				}
				faults := d.EC2.Faults()
				d.EC2.ClearFaults()
				d.leader.Kubernetes.Lose(0)
				strikes := 0
				for _, f := range faults {
					strikes += f.Strikes
				}

				d.pass(30 * time.Minute)
				d.settled()
				d.note(d.leader)
				changes := 0
				for _, count := range d.calls {
					changes += count
				}
				for _, action := range covered {
					if d.calls[action] == 0 {
						t.Errorf("no call of %s: this day tests less than it says", action)
					}
				}
				limit := 2*acts + 2*strikes
				t.Logf("%d acts in %d hours, %d pods: %d calls of at most %d: %v; %s", acts, hours, d.started, changes, limit, d.calls, struck(faults))
				if changes > limit {
					t.Errorf("%d calls, want at most %d", changes, limit)
				}
				quiet := time.Now()
				d.pass(time.Hour)
				if late := d.leader.Changes(quiet); len(late) > 0 {
					t.Errorf("changes after all was well: %v", late)
				}
				d.settled()
			})
		})
	}
}

// day is a cluster with pods, and the people who use it.
type day struct {
	*bubble.Cluster
	*rand.Rand
	leader *bubble.Replica
	hosts  []*podhost.Host
	// started counts pods, and calls the changes of all leaders by action.
	started int
	calls   map[string]int
	// floating is the address that moves between nodes of the first zone, and holder the index of its node; -1 for none.
	floating  netip.Addr
	holder    int
	holderPod string
}

func beginDay(t *testing.T, seed uint64) *day {
	t.Helper()
	d := &day{Cluster: bubble.New(t, bubble.World()), Rand: rand.New(rand.NewPCG(seed, 7)),
		floating: netip.MustParseAddr("10.0.95.130"), holder: -1, calls: map[string]int{}}
	n := bubble.NodeENI(network, "a", "data")
	n.Spec.Pods = &v1alpha1.NodeENIPods{
		Attachment: v1alpha1.PodAttachmentIPVLAN, Floating: []string{floatingRange},
		IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1, Max: mostPrefixes}, Spare: ptr.To[int32](8)},
	}
	d.Must(d.User.Create(t.Context(), n))
	d.lead()
	d.reserve("virtual") // first, so that the block for prefixes is another one
	d.Eventually(5*time.Minute, "the range is reserved", func() string { return cmp.Diff(d.declared(), reserved(d.EC2.State())) })
	d.reserve("prefixes")
	for _, node := range d.Join(4, "a") {
		d.hosts = append(d.hosts, podhost.Start(t, podhost.Options{
			Node: node, InstanceID: d.InstanceID(node), API: kubeapi.Config(d.API), EC2: d.EC2.State,
		}))
	}
	d.Converge(10 * time.Minute)
	beHostile(d.Cluster, d.leader)
	return d
}

// lead starts a controller, which becomes the leader once the one before is lost.
func (d *day) lead() {
	d.Helper()
	o := d.Defaults()
	o.LeaseDuration = time.Minute
	d.leader = d.Start(o)
}

// pass lets time pass, during which no pod may be harmed.
func (d *day) pass(during time.Duration) {
	d.Helper()
	for begun := time.Now(); time.Since(begun) < during; time.Sleep(5 * time.Second) {
		if harm := podhost.Harm(d.EC2.State(), d.hosts...); harm != "" {
			d.Fatal(harm)
		}
	}
}

func (d *day) act() {
	d.Helper()
	at := d.IntN(len(d.hosts))
	switch act := d.IntN(20); {
	case act < 8:
		d.startPods(at, 1+d.IntN(8))
	case act < 13:
		d.endPods(at, 1+d.IntN(10))
	case act < 16:
		d.moveAddress()
	case act < 17:
		d.drain(at)
	case act < 18:
		d.hosts[at].StopAgent()
		d.pass(time.Duration(d.IntN(60)) * time.Second)
		d.hosts[at].StartAgent()
	case act < 19:
		d.changeReservation()
	default:
		d.killLeader()
	}
}

// startPods starts pods of a node while it has free addresses.
func (d *day) startPods(at, count int) {
	for range min(count, mostPodsOfOne-len(d.hosts[at].Pods())) {
		name := fmt.Sprintf("pod-%d", d.started+1)
		if d.hosts[at].StartPod(network, name) != nil {
			return // no address is free, or the network drains
		}
		d.started++
	}
}

// endPods ends the oldest pods of a node.
func (d *day) endPods(at, count int) {
	d.Helper()
	for _, p := range d.hosts[at].Pods()[:min(count, len(d.hosts[at].Pods()))] {
		d.hosts[at].EndPod(p.Name)
		if p.Name == d.holderPod {
			d.holder, d.holderPod = -1, ""
		}
	}
}

// moveAddress lets a pod of another node bring up the address, and then the former holder drop it. Every second node is
// in the first zone.
func (d *day) moveAddress() {
	d.Helper()
	to := 2 * d.IntN(2)
	if to == d.holder {
		return
	}
	pods := d.hosts[to].Pods()
	if len(pods) == 0 {
		return
	}
	before, beforePod := d.holder, d.holderPod
	d.holder, d.holderPod = to, pods[len(pods)-1].Name
	d.hosts[to].BringUp(d.holderPod, d.floating)
	d.pass(time.Duration(5+d.IntN(30)) * time.Second)
	if before >= 0 {
		d.hosts[before].Drop(beforePod, d.floating)
	}
}

// drain takes a node out of the NodeENI, ends its pods one after the other, and returns the node.
func (d *day) drain(at int) {
	d.Helper()
	node := d.hosts[at].Node
	d.ChangeNode(node, func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "none" })
	for len(d.hosts[at].Pods()) > 0 {
		d.pass(time.Duration(d.IntN(30)) * time.Second)
		d.endPods(at, 3)
	}
	d.pass(time.Duration(d.IntN(180)) * time.Second)
	d.ChangeNode(node, func(n *corev1.Node) { n.Labels[bubble.PoolLabel] = "a" })
}

// reserve declares a reservation: a block of each data subnet for prefixes, the range of the address, or a block of the
// spare subnets.
func (d *day) reserve(name string) {
	d.Helper()
	spec := map[string]v1alpha1.SubnetReservationSpec{
		"prefixes": {SubnetIDs: bubble.SubnetIDs("data"), Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To[int32](24)},
		"virtual":  {SubnetIDs: bubble.SubnetIDs("data")[:1], Type: v1alpha1.SubnetReservationExplicit, CIDRs: []string{floatingRange}},
		"spare":    {SubnetIDs: bubble.SubnetIDs("spare"), Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To[int32](26)},
	}[name]
	spec.DeletionPolicy = v1alpha1.DeletionPolicyDelete
	d.Must(d.User.Create(d.Context(), &v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}))
}

// changeReservation declares the spare block, or deletes its declaration.
func (d *day) changeReservation() {
	d.Helper()
	object := &v1alpha1.SubnetReservation{}
	err := d.User.Get(d.Context(), client.ObjectKey{Name: "spare"}, object)
	switch {
	case apierrors.IsNotFound(err):
		d.reserve("spare")
	case err == nil && object.DeletionTimestamp == nil:
		d.Must(d.User.Delete(d.Context(), object))
	default:
		d.Must(client.IgnoreNotFound(err))
	}
}

// killLeader kills the controller in the midst of its work, and starts another one.
func (d *day) killLeader() {
	d.Helper()
	d.leader.EC2.Cut()
	d.leader.Kubernetes.Cut()
	d.leader.Stop()
	d.note(d.leader)
	d.lead()
	d.leader.Kubernetes.Lose(0.03)
}

// note counts the changes that a leader made.
func (d *day) note(leader *bubble.Replica) {
	for _, change := range leader.Changes(time.Time{}) {
		d.calls[change.Action]++
	}
}

// settled asserts that EC2 has what is declared, and each thing once.
func (d *day) settled() {
	d.Helper()
	if difference := d.Difference(); difference != "" {
		d.Error(difference)
	}
	state := d.EC2.State()
	if diff := cmp.Diff(d.declared(), reserved(state)); diff != "" {
		d.Errorf("reservations (-declared +there):\n%s", diff)
	}
	var holder []string
	for _, i := range state.NetworkInterfaces {
		node := i.Tags[identity.TagNode]
		at := slices.IndexFunc(d.hosts, func(h *podhost.Host) bool { return h.Node == node })
		if at < 0 {
			continue
		}
		if at == d.holder {
			holder = []string{i.NetworkInterfaceID}
		}
		if n := len(i.IPv4Prefixes); n > mostPrefixes {
			d.Errorf("%s has %d prefixes, want at most %d", node, n, mostPrefixes)
		}
	}
	if diff := cmp.Diff(holder, podhost.HoldersOf(state, d.floating)); diff != "" {
		d.Errorf("interfaces with %v (-want +have):\n%s", d.floating, diff)
	}
}

// declared lists the blocks of the SubnetReservations by type.
func (d *day) declared() []string {
	d.Helper()
	var all v1alpha1.SubnetReservationList
	d.Must(d.User.List(d.Context(), &all))
	var lines []string
	for _, o := range all.Items {
		for _, id := range o.Spec.SubnetIDs {
			lines = append(lines, id+" for "+o.Name)
		}
	}
	slices.Sort(lines)
	return lines
}

func reserved(state ec2.State) []string {
	var lines []string
	for _, r := range state.SubnetCIDRReservations {
		lines = append(lines, r.SubnetID+" for "+r.Tags[identity.TagSubnetReservation])
	}
	slices.Sort(lines)
	return lines
}
