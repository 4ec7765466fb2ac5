// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package floatingaddress_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/floatingaddress"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

const (
	cluster = "cluster-1"
	subnet  = "subnet-00000000000000001"
	vip     = "10.0.4.200"
	eniA    = "eni-0000000000000000a"
	eniB    = "eni-0000000000000000b"
)

// world is an API server, and an EC2 with the interfaces of two nodes.
type world struct {
	*testing.T
	executor.Cloud
	observer.Reader
	api        client.WithWatch
	reader     client.Reader
	reconciler *floatingaddress.Reconciler
	now        time.Time
	interfaces map[string]*eni.Interface
	calls      []string
	// fails is the error of each call, and refuses is an address with which no call is possible; calling runs before each
	// call.
	fails   error
	refuses netip.Addr
	calling func()
	limits  eni.Limits
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), interfaces: map[string]*eni.Interface{}, calling: func() {}}
	var objects []client.Object
	for _, one := range []struct{ node, instance, eni string }{{"node-a", "i-0000000000000000a", eniA}, {"node-b", "i-0000000000000000b", eniB}} {
		key := identity.Interface{Cluster: cluster, UID: identity.UID("uid-" + one.eni), Name: identity.ObjectName("n3", one.instance, 0),
			NodeENI: "n3", Node: one.node, InstanceID: one.instance}
		w.interfaces[one.eni] = &eni.Interface{
			ID: one.eni, SubnetID: subnet, Status: eni.InUse, Tags: key.Tags(w.now, nil),
			Attachment: &eni.Attachment{ID: "at-" + one.eni, InstanceID: one.instance, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached},
		}
		objects = append(objects, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: one.node, Labels: map[string]string{corev1.LabelInstanceTypeStable: "t3.medium"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + one.instance},
		}, &v1alpha1.NetworkInterface{
			ObjectMeta: metav1.ObjectMeta{Name: key.Name, UID: types.UID(key.UID)},
			Spec: v1alpha1.NetworkInterfaceSpec{
				InstanceID: one.instance, NodeName: one.node, NodeENI: v1alpha1.NodeENIReference{Name: "n3"},
				Subnets: []v1alpha1.InterfaceSubnet{{ID: subnet, CIDR: "10.0.4.0/24"}},
				Pods:    &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentObserved, Floating: []string{"10.0.4.192/26"}},
			},
			Status: v1alpha1.NetworkInterfaceStatus{ENIID: one.eni, SubnetID: subnet, AttachmentID: "at-" + one.eni, Phase: v1alpha1.PhaseAttached},
		})
	}
	w.api = controllertest.API(t, objects...)
	w.reader = w.api
	w.restart()
	return w
}

// restart starts a new process.
func (w *world) restart() {
	w.Helper()
	log := slog.New(slog.DiscardHandler)
	seen := observer.New(w, observer.Options{Cluster: cluster, Resync: time.Hour, Poll: time.Hour, Now: func() time.Time { return w.now }, Log: log})
	w.must(seen.ResyncOnce(w.Context()))
	began := era.Era{Since: w.now}
	w.reconciler = floatingaddress.New(floatingaddress.Options{
		Client: w.api, Reader: w.reader, Observer: seen, EC2: w, Limiter: w, Era: func() era.Era { return began },
		Now: func() time.Time { return w.now }, Log: log,
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *world) Limits(context.Context, string) (eni.Limits, error) { return w.limits, nil }

func (w *world) ListOwned(context.Context) (all []eni.Interface, begun time.Time, err error) {
	for _, id := range []string{eniA, eniB} {
		if i := w.interfaces[id]; i != nil {
			all = append(all, i.Clone())
		}
	}
	return all, w.now, nil
}

func (w *world) DescribeInstance(_ context.Context, id string) (eni.InstanceSnapshot, error) {
	w.calls = append(w.calls, "read "+id[len(id)-1:])
	look := eni.InstanceSnapshot{At: w.now, Instance: eni.Instance{ID: id, State: eni.InstanceRunning}}
	for _, i := range w.interfaces {
		if i.AttachedTo(id) {
			look.Interfaces = append(look.Interfaces, i.Clone())
		}
	}
	return look, nil
}

func (w *world) ReassignIPv4(ctx context.Context, id string, addresses []netip.Addr) error {
	w.calling()
	if class := ratelimit.FromContext(ctx).Class; class != ratelimit.Move {
		w.Errorf("a pod waits for its address, and the call has the class %s", class)
	}
	w.calls = append(w.calls, fmt.Sprintf("assign %s %v", id[len(id)-1:], addresses))
	if w.fails != nil {
		return w.fails
	}
	if slices.Contains(addresses, w.refuses) {
		return &eni.APIError{Class: eni.Invalid, Operation: "AssignPrivateIpAddresses", Message: "move is not allowed"}
	}
	for _, i := range w.interfaces {
		i.SecondaryIPv4 = i.Without(eni.Addresses{SecondaryIPv4: addresses}).SecondaryIPv4
	}
	w.interfaces[id].SecondaryIPv4 = append(w.interfaces[id].SecondaryIPv4, addresses...)
	return nil
}

func (w *world) UnassignIPv4(_ context.Context, id string, surplus eni.Addresses) error {
	w.calls = append(w.calls, fmt.Sprintf("unassign %s %v", id[len(id)-1:], surplus.SecondaryIPv4))
	if w.fails != nil {
		return w.fails
	}
	w.interfaces[id].SecondaryIPv4 = w.interfaces[id].Without(surplus).SecondaryIPv4
	return nil
}

// name is the name of the object of an address.
func name(address string) string { return v1alpha1.FloatingAddressName(subnet, address) }

// hold has the agent of a node write that one of its pods has an address.
func (w *world) hold(address, node, eniID string) {
	w.Helper()
	object := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name(address), Finalizers: []string{v1alpha1.Finalizer}, UID: types.UID(address)},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: subnet, Address: address},
	}
	if err := w.api.Create(w.Context(), object); !apierrors.IsAlreadyExists(err) {
		w.must(err)
	}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name(address)}, object))
	object.Status.Sequence++
	object.Status.Holder = nil
	if node != "" {
		object.Status.Holder = &v1alpha1.AddressHolder{NodeName: node, ENIID: eniID, PodIP: "10.1.0.1", Since: metav1.NewTime(w.now)}
	}
	w.must(w.api.Status().Update(w.Context(), object))
}

// reconcile reconciles an address, and again after the time in which others can join its call. It returns when to do so
// once more.
func (w *world) reconcile(address string) time.Duration {
	w.Helper()
	after := w.reconcileOnce(address)
	if after == floating.Gathering {
		w.now = w.now.Add(after)
		after = w.reconcileOnce(address)
	}
	return after
}

func (w *world) reconcileOnce(address string) time.Duration {
	w.Helper()
	result, err := w.reconciler.Reconcile(w.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: name(address)}})
	w.must(err)
	return result.RequeueAfter
}

// made asserts the calls since the last time.
func (w *world) made(want ...string) {
	w.Helper()
	if !slices.Equal(w.calls, want) {
		w.Errorf("the calls are %q, want %q", w.calls, want)
	}
	w.calls = nil
}

// says asserts the reason of Ready, and a part of its message.
func (w *world) says(address, reason, message string) *v1alpha1.FloatingAddress {
	w.Helper()
	object := &v1alpha1.FloatingAddress{}
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: name(address)}, object))
	ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Reason != reason || !strings.Contains(ready.Message, message) {
		w.Errorf("the address says %+v, want %s: %s", ready, reason, message)
	}
	return object
}

func (w *world) gone(address string) bool {
	w.Helper()
	return apierrors.IsNotFound(w.api.Get(w.Context(), client.ObjectKey{Name: name(address)}, &v1alpha1.FloatingAddress{}))
}

// TestTheLifeOfAnAddress lets pods of two nodes bring up an address one after the other, and drop it.
func TestTheLifeOfAnAddress(t *testing.T) {
	w := newWorld(t)
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	w.made("assign a [10.0.4.200]")
	if got := w.says(vip, "Assigned", "to "+eniA).Status.Assignment; got == nil || got.ENIID != eniA || got.Sequence != 1 || got.Found {
		t.Errorf("the assignment is %+v", got)
	}
	w.reconcile(vip)
	w.made()

	w.hold(vip, "node-b", eniB)
	if again := w.reconcile(vip); again != 2*time.Second {
		t.Errorf("the address moves again after %s, want 2s", again)
	}
	w.made()
	w.now = w.now.Add(2 * time.Second)
	w.reconcile(vip)
	w.made("assign b [10.0.4.200]")
	w.says(vip, "Assigned", "to "+eniB)

	w.hold(vip, "", "")
	if again := w.reconcile(vip); again != time.Minute {
		t.Errorf("it is deleted after %s, want 1m", again)
	}
	w.made()
	w.says(vip, "Released", "no pod has the address")
	w.now = w.now.Add(time.Minute)
	w.reconcile(vip)
	w.reconcile(vip)
	w.made("unassign b [10.0.4.200]", "read b")
	if !w.gone(vip) {
		t.Error("the object is left")
	}
}

// TestANewObjectIsLeftToItsAgent reconciles an object that an agent has made, before the agent writes its holder.
func TestANewObjectIsLeftToItsAgent(t *testing.T) {
	w := newWorld(t)
	object := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: name(vip), Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: subnet, Address: vip},
	}
	w.must(w.api.Create(t.Context(), object))
	if again := w.reconcile(vip); again != floating.Retention {
		t.Errorf("it is reconciled again after %s, want %s", again, floating.Retention)
	}
	object.Status.Sequence = 1
	object.Status.Holder = &v1alpha1.AddressHolder{NodeName: "node-a", ENIID: eniA, Since: metav1.NewTime(w.now)}
	if err := w.api.Status().Update(t.Context(), object); err != nil {
		t.Errorf("the write of the agent: %v", err)
	}
}

// stale is a cache that has an earlier version of an object.
type stale struct {
	client.WithWatch
	object *v1alpha1.FloatingAddress
}

func (s *stale) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if address, is := into.(*v1alpha1.FloatingAddress); is && key.Name == s.object.Name {
		*address = *s.object.DeepCopy()
		return nil
	}
	return s.WithWatch.Get(ctx, key, into, opts...)
}

// TestAnOldCacheMovesNothing reconciles with the version before the present holder: before the first assignment, after
// one that is recorded, and after the end of a holder.
func TestAnOldCacheMovesNothing(t *testing.T) {
	for name, tc := range map[string]struct {
		recorded bool
		idle     time.Duration
	}{
		"nothing is recorded":          {false, 0},
		"the assignment is recorded":   {true, 0},
		"no pod had it, to this cache": {false, time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold(vip, "node-a", eniA)
			before := &v1alpha1.FloatingAddress{}
			if tc.recorded {
				w.fails = &eni.APIError{Class: eni.Throttled, Operation: "assign"}
				w.reconcile(vip)
				w.fails, w.calls, w.now = nil, nil, w.now.Add(time.Minute)
			}
			if tc.idle > 0 {
				w.hold(vip, "", "")
				w.reconcile(vip)
				w.now = w.now.Add(tc.idle)
			}
			w.must(w.api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.FloatingAddressName(subnet, vip)}, before))
			w.hold(vip, "node-b", eniB)
			w.reconciler.Client = &stale{w.api, before}
			if again := w.reconcile(vip); again == 0 || again > time.Second {
				t.Errorf("it is reconciled again after %s", again)
			}
			w.made()
			if w.gone(vip) {
				t.Error("the object of a held address is gone")
			}
		})
	}
}

// TestWhatIsNotOursStays finds the address where another program assigned it.
func TestWhatIsNotOursStays(t *testing.T) {
	w := newWorld(t)
	w.interfaces[eniA].SecondaryIPv4 = []netip.Addr{netip.MustParseAddr(vip)}
	w.restart()
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	w.says(vip, "Assigned", "another program assigned it")
	w.hold(vip, "", "")
	w.reconcile(vip)
	w.now = w.now.Add(time.Minute)
	w.reconcile(vip)
	w.reconcile(vip)
	w.made()
	if !w.gone(vip) {
		t.Error("the object is left")
	}
}

// TestACrashLosesNoAssignment ends a process in the middle of its call. The next one knows that the address is ours.
func TestACrashLosesNoAssignment(t *testing.T) {
	w := newWorld(t)
	w.hold(vip, "node-a", eniA)
	w.fails = &eni.APIError{Class: eni.Transient, Operation: "assign"}
	w.calling = func() { w.interfaces[eniA].SecondaryIPv4 = []netip.Addr{netip.MustParseAddr(vip)} }
	w.reconcile(vip)
	w.fails, w.calls = nil, nil
	w.restart()
	w.reconcile(vip)
	w.made()
	if got := w.says(vip, "Assigned", eniA).Status.Assignment; got.Found {
		t.Errorf("the assignment is %+v", got)
	}
}

// TestAHolderThatIsNotThereGetsNothing has agents name interfaces that their nodes do not have.
func TestAHolderThatIsNotThereGetsNothing(t *testing.T) {
	for name, tc := range map[string]struct{ node, eni string }{
		"the interface of another node": {"node-a", eniB},
		"no interface of the cluster":   {"node-a", "eni-0000000000000000f"},
		"no node of the cluster":        {"node-z", eniA},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.hold(vip, tc.node, tc.eni)
			w.reconcile(vip)
			w.made()
			w.now = w.now.Add(time.Minute)
			w.reconcile(vip)
			w.reconcile(vip)
			w.made()
			if !w.gone(vip) {
				t.Error("the object is left")
			}
		})
	}
}

// TestAnInterfaceThatLeavesItsNodeGetsNothing has an agent hold an address on an interface that is detached, or that EC2 has
// on another instance.
func TestAnInterfaceThatLeavesItsNodeGetsNothing(t *testing.T) {
	for name, leave := range map[string]func(*world){
		"it is being detached": func(w *world) {
			var o v1alpha1.NetworkInterface
			w.must(w.api.Get(w.Context(), client.ObjectKey{Name: identity.ObjectName("n3", "i-0000000000000000a", 0)}, &o))
			o.Status.Phase = v1alpha1.PhaseDetaching
			w.must(w.api.Status().Update(w.Context(), &o))
		},
		"it is on another instance": func(w *world) { w.interfaces[eniA].Attachment.InstanceID = "i-0000000000000000b" },
		"EC2 detaches it":           func(w *world) { w.interfaces[eniA].Attachment.Status = eni.AttachmentDetaching },
		"it is unattached": func(w *world) {
			w.interfaces[eniA].Attachment, w.interfaces[eniA].Status = nil, eni.Available
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			leave(w)
			w.restart()
			w.hold(vip, "node-a", eniA)
			w.reconcile(vip)
			w.made()
			w.says(vip, "Released", eniA+" is not attached there")
		})
	}
}

// TestAnInterfaceThatEC2DoesNotFinishAttachingGetsAddresses has pods on a link whose attachment stays unfinished.
func TestAnInterfaceThatEC2DoesNotFinishAttachingGetsAddresses(t *testing.T) {
	w := newWorld(t)
	var o v1alpha1.NetworkInterface
	w.must(w.api.Get(w.Context(), client.ObjectKey{Name: identity.ObjectName("n3", "i-0000000000000000a", 0)}, &o))
	o.Status.Phase, o.Status.AttachmentID = v1alpha1.PhaseBlocked, ""
	w.must(w.api.Status().Update(w.Context(), &o))
	w.interfaces[eniA].Attachment.Status = eni.AttachmentAttaching
	w.restart()
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	w.made("assign a [10.0.4.200]")
}

// TestAnAddressOutsideTheRangesIsNotMoved has an agent hold an address that no range contains.
func TestAnAddressOutsideTheRangesIsNotMoved(t *testing.T) {
	w := newWorld(t)
	w.hold("10.0.4.20", "node-a", eniA)
	w.reconcile("10.0.4.20")
	w.reconcile("10.0.4.20")
	w.made()
	object := &v1alpha1.FloatingAddress{}
	if err := w.api.Get(t.Context(), client.ObjectKey{Name: v1alpha1.FloatingAddressName(subnet, "10.0.4.20")}, object); !apierrors.IsNotFound(err) {
		t.Errorf("the object is there: %v", err)
	}
}

// TestAnObjectDeletedUnderAPodComesBack deletes the object while a pod has the address: EC2 keeps it, and the controller
// still unassigns it once no pod has it.
func TestAnObjectDeletedUnderAPodComesBack(t *testing.T) {
	w := newWorld(t)
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	w.made("assign a [10.0.4.200]")
	w.must(w.api.Delete(t.Context(), &v1alpha1.FloatingAddress{ObjectMeta: metav1.ObjectMeta{Name: name(vip)}}))
	w.reconcile(vip)
	w.made()
	w.hold(vip, "node-a", eniA)
	w.reconcile(vip)
	if got := w.says(vip, "Assigned", "to "+eniA).Status.Assignment; got == nil || got.ENIID != eniA || got.Found {
		t.Fatalf("the object that came back has the assignment %+v", got)
	}
	w.hold(vip, "", "")
	w.reconcile(vip)
	w.now = w.now.Add(time.Minute)
	w.reconcile(vip)
	w.reconcile(vip)
	w.made("unassign a [10.0.4.200]", "read a")
}

// TestAFullInterfaceGetsTheOldest has more addresses than the instance type allows.
func TestAFullInterfaceGetsTheOldest(t *testing.T) {
	w := newWorld(t)
	w.limits = eni.Limits{IPv4: 2} // with the primary address
	w.hold("10.0.4.201", "node-a", eniA)
	w.now = w.now.Add(time.Second)
	w.hold("10.0.4.200", "node-a", eniA)
	w.reconcile("10.0.4.200")
	w.made()
	w.says("10.0.4.200", "AddressesLimited", "t3.medium")
	w.reconcile("10.0.4.201")
	w.made("assign a [10.0.4.201]")
}
