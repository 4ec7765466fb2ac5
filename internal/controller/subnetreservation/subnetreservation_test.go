// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package subnetreservation_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/status"
	"github.com/multieni/multieni/internal/controller/subnetreservation"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/reservation"
	"github.com/multieni/multieni/internal/core/selector"
)

// stage is an API server with SubnetReservation n3-pods, EC2 with a subnet in each of two zones, and the reconciler.
type stage struct {
	*testing.T
	client     client.Client
	reconciler *subnetreservation.Reconciler
	// began is when the process got the lease.
	began, now time.Time

	subnets    []eni.Subnet
	made       map[string][]eni.SubnetReservation
	interfaces []eni.Interface
	created    int
	// lost makes EC2 create without an answer, hidden makes it return no reservation; refusal is its answer to changes.
	lost, hidden bool
	refusal      error
	// meanwhile runs while EC2 works on a request for a reservation.
	meanwhile func()
	// recordedBefore are the blocks of the status at each request for a reservation.
	recordedBefore []string
}

func newStage(t *testing.T, spec v1alpha1.SubnetReservationSpec) *stage {
	object := &v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: "n3-pods"}, Spec: spec}
	s := &stage{T: t, now: time.Now(), made: map[string][]eni.SubnetReservation{}, subnets: []eni.Subnet{
		{ID: "subnet-a", Name: "n3", Zone: "a", CIDR: netip.MustParsePrefix("10.0.4.0/24")},
		{ID: "subnet-b", Name: "n3", Zone: "b", CIDR: netip.MustParsePrefix("10.0.6.0/24")},
	}}
	s.client = controllertest.API(t, object)
	s.began = s.now.Add(-time.Hour)
	s.restart()
	return s
}

// restart starts another process.
func (s *stage) restart() {
	s.reconciler = subnetreservation.New(subnetreservation.Options{
		Client: s.client, Reader: s.client, Resolver: resolver.New(s, resolver.Options{Now: func() time.Time { return s.now }}), EC2: s,
		Cluster: "blue", Era: func() era.Era { return era.Era{Since: s.began} },
		Now: func() time.Time { return s.now }, Log: slog.New(slog.DiscardHandler),
	})
}

// sized reserves one block of 128 addresses in each subnet named n3.
func sized() v1alpha1.SubnetReservationSpec {
	return v1alpha1.SubnetReservationSpec{SubnetNames: []string{"n3"}, Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To(int32(25))}
}

func (s *stage) Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error) {
	return s.subnets, nil
}

func (s *stage) SecurityGroups(context.Context, selector.GroupTerms) ([]eni.SecurityGroup, error) {
	return nil, errors.New("not asked for")
}

func (s *stage) SubnetReservations(_ context.Context, subnetID string) ([]eni.SubnetReservation, error) {
	if s.hidden {
		return nil, nil
	}
	return slices.Clone(s.made[subnetID]), nil
}

func (s *stage) SubnetInterfaces(context.Context, string) ([]eni.Interface, error) {
	return s.interfaces, nil
}

func (s *stage) CreateSubnetReservation(
	_ context.Context, subnetID string, cidr netip.Prefix, kind eni.ReservationType, owner reservation.Owner,
) (string, error) {
	for _, b := range s.object().Status.Reservations {
		if b.SubnetID == subnetID {
			s.recordedBefore = append(s.recordedBefore, b.CIDR)
		}
	}
	if s.meanwhile != nil {
		s.meanwhile()
	}
	if s.refusal != nil {
		return "", s.refusal
	}
	if slices.ContainsFunc(s.made[subnetID], func(r eni.SubnetReservation) bool { return r.CIDR.Overlaps(cidr) }) {
		return "", &eni.APIError{Class: eni.AddressTaken, Operation: "CreateSubnetCidrReservation", Code: "InvalidParameterValue"}
	}
	s.created++
	r := owner.Reservation(fmt.Sprintf("scr-%d", s.created), cidr, kind)
	s.made[subnetID] = append(s.made[subnetID], r)
	if s.lost {
		return "", &eni.APIError{Class: eni.Transient, Operation: "CreateSubnetCidrReservation", Err: errors.New("connection reset")}
	}
	return r.ID, nil
}

func (s *stage) DeleteSubnetReservation(_ context.Context, id string) error {
	if s.refusal != nil {
		return s.refusal
	}
	for subnet := range s.made {
		s.made[subnet] = slices.DeleteFunc(s.made[subnet], func(r eni.SubnetReservation) bool { return r.ID == id })
	}
	return nil
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *stage) object() *v1alpha1.SubnetReservation {
	s.Helper()
	var object v1alpha1.SubnetReservation
	s.must(s.client.Get(s.Context(), client.ObjectKey{Name: "n3-pods"}, &object))
	return &object
}

func (s *stage) change(change func(*v1alpha1.SubnetReservation)) {
	s.Helper()
	object := s.object()
	change(object)
	s.must(s.client.Update(s.Context(), object))
}

// reconcile reconciles n3-pods once, and returns the reason of Ready, or "gone" if it does not exist any more.
func (s *stage) reconcile() string {
	s.Helper()
	if _, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "n3-pods"}}); err != nil {
		s.Log(err)
	}
	var object v1alpha1.SubnetReservation
	if err := s.client.Get(s.Context(), client.ObjectKey{Name: "n3-pods"}, &object); apierrors.IsNotFound(err) {
		return "gone"
	}
	for _, fault := range status.Lint(object.Status.Conditions, object.Generation) {
		s.Error(fault)
	}
	ready := meta.FindStatusCondition(object.Status.Conditions, v1alpha1.ConditionReady)
	s.Log(ready.Reason, ready.Message)
	return ready.Reason
}

func (s *stage) expect(want string) {
	s.Helper()
	if got := s.reconcile(); got != want {
		s.Errorf("reason %s, want %s", got, want)
	}
}

// holds compares EC2's reservations, as subnet and block.
func (s *stage) holds(want ...string) {
	s.Helper()
	var got []string
	for _, subnet := range s.subnets {
		for _, r := range s.made[subnet.ID] {
			got = append(got, subnet.ID+" "+r.CIDR.String())
		}
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		s.Errorf("EC2 has (-want +got):\n%s", diff)
	}
}

func TestEverySubnetGetsItsBlock(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
	want := []v1alpha1.ReservedBlock{
		{SubnetID: "subnet-a", Zone: "a", CIDR: "10.0.4.128/25", ID: "scr-1", Owned: true},
		{SubnetID: "subnet-b", Zone: "b", CIDR: "10.0.6.128/25", ID: "scr-2", Owned: true},
	}
	if diff := cmp.Diff(want, s.object().Status.Reservations); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"10.0.4.128/25", "10.0.6.128/25"}, s.recordedBefore); diff != "" {
		t.Errorf("blocks recorded before their request (-want +got):\n%s", diff)
	}
	version := s.object().ResourceVersion
	s.expect(v1alpha1.ReasonReserved)
	if s.created != 2 || s.object().ResourceVersion != version {
		t.Errorf("%d requests, and the object changed: %t", s.created, s.object().ResourceVersion != version)
	}
}

func TestANewReservationIsExpectedUntilEC2ReturnsIt(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	s.hidden = true
	s.expect(v1alpha1.ReasonReserved)
	s.now = s.now.Add(3 * time.Minute)
	s.made = map[string][]eni.SubnetReservation{}
	s.expect(v1alpha1.ReasonReserved)
	s.hidden = false
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
}

// EC2 creates the reservation, and its answer is lost; what EC2 returns next may be old.
func TestALostAnswerLeadsToNoSecondReservation(t *testing.T) {
	s := newStage(t, sized())
	s.lost = true
	s.expect(v1alpha1.ReasonReserving)
	s.lost, s.hidden = false, true
	s.interfaces = []eni.Interface{{ID: "eni-1", Addresses: eni.Addresses{IPv4Prefixes: []netip.Prefix{netip.MustParsePrefix("10.0.4.128/28")}}}}
	s.expect(v1alpha1.ReasonReserving)
	s.hidden = false
	s.expect(v1alpha1.ReasonReserved)
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
}

func TestADeletionLeavesWhatWasThereBefore(t *testing.T) {
	s := newStage(t, v1alpha1.SubnetReservationSpec{
		SubnetNames: []string{"n3"}, Type: v1alpha1.SubnetReservationExplicit, CIDRs: []string{"10.0.4.128/25", "10.0.6.128/25"},
	})
	s.made["subnet-a"] = []eni.SubnetReservation{{ID: "scr-theirs", CIDR: netip.MustParsePrefix("10.0.4.128/25"), Type: eni.ReservationExplicit}}
	s.expect(v1alpha1.ReasonReserved)
	if b := s.object().Status.Reservations[0]; b.Owned || b.ID != "scr-theirs" {
		t.Errorf("the block that was there is %+v", b)
	}
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect("gone")
	s.holds("subnet-a 10.0.4.128/25")
}

func TestARetainedReservationIsOwnedByItsSuccessor(t *testing.T) {
	spec := sized()
	spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	s := newStage(t, spec)
	s.expect(v1alpha1.ReasonReserved)
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect("gone")
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
	s.must(s.client.Create(t.Context(), &v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: "n3-pods"}, Spec: sized()}))
	s.expect(v1alpha1.ReasonReserved)
	if s.created != 2 || !s.object().Status.Reservations[0].Owned {
		t.Errorf("%d requests, status %+v", s.created, s.object().Status.Reservations)
	}
}

// A process that was suspended for a while is no longer the leader. Its status would drop the blocks that the new
// leader recorded.
func TestAFormerLeaderReplacesNoRecord(t *testing.T) {
	s := newStage(t, sized())
	s.meanwhile = func() {
		s.meanwhile = nil
		object := s.object()
		object.Status.Reservations = append(object.Status.Reservations, v1alpha1.ReservedBlock{SubnetID: "subnet-c", ID: "scr-new", CIDR: "10.0.8.0/25", Owned: true})
		s.must(s.client.Status().Update(s.Context(), object))
	}
	s.reconcile()
	recorded := s.object().Status.Reservations
	if !slices.ContainsFunc(recorded, func(b v1alpha1.ReservedBlock) bool { return b.ID == "scr-new" }) {
		t.Errorf("the status has %+v, not what the new leader recorded", recorded)
	}
}

// The object is deleted before EC2 returns the reservation whose request was not answered. The controller's clock is ahead
// of the API server's.
func TestADeletionWaitsForWhatEC2DoesNotReturnYet(t *testing.T) {
	s := newStage(t, sized())
	s.now = s.now.Add(10 * time.Minute)
	s.lost, s.hidden = true, true
	s.expect(v1alpha1.ReasonReserving)
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect(v1alpha1.ReasonDeleting)
	s.hidden = false
	s.now = s.now.Add(3 * time.Minute)
	s.expect("gone")
	s.holds()
}

// TestADeletionWaitsForRequestsOfAnEarlierLeader deletes an object whose block is reserved and recorded. An earlier leader
// began to request the block, too, and EC2 executes that after the deletion.
func TestADeletionWaitsForRequestsOfAnEarlierLeader(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	late := s.made["subnet-a"][0]
	late.ID = "scr-late"
	s.began = s.now
	s.restart()
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect(v1alpha1.ReasonDeleting)
	s.holds()
	s.made["subnet-a"] = append(s.made["subnet-a"], late)
	s.now = s.now.Add(inventory.VisibilityWindow)
	s.expect("gone")
	s.holds()
}

// TestADeletionOfANewObjectWaitsForNothing: no earlier leader knows an object that got its finalizer from this process.
func TestADeletionOfANewObjectWaitsForNothing(t *testing.T) {
	s := newStage(t, sized())
	s.began = s.now
	s.expect(v1alpha1.ReasonReserved)
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect("gone")
	s.holds()
}

func TestASubnetThatIsNotSelectedAnyMore(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	s.subnets[1].Name = "n6"
	s.expect(v1alpha1.ReasonReserved)
	s.holds("subnet-a 10.0.4.128/25")
}

// Only the record names a subnet that is not selected any more.
func TestASubnetIsRecordedUntilItsReservationIsDeleted(t *testing.T) {
	for name, afterwards := range map[string]func(*stage){
		"while it exists": func(s *stage) { s.expect(v1alpha1.ReasonReserved) },
		"when it is deleted": func(s *stage) {
			s.must(s.client.Delete(s.Context(), s.object()))
			s.expect(v1alpha1.ReasonDeleting)
			s.now = s.now.Add(3 * time.Minute)
			s.expect("gone")
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := sized()
			spec.SubnetNames, spec.CIDRs, spec.PrefixLength = []string{"n3"}, []string{"10.0.4.0/26"}, nil
			s := newStage(t, spec)
			s.expect(v1alpha1.ReasonReserved)
			s.change(func(o *v1alpha1.SubnetReservation) { o.Spec.CIDRs = []string{"10.0.6.0/26"} })
			s.subnets[0].Name = "n6"
			s.now = s.now.Add(time.Hour)
			s.refusal = &eni.APIError{Class: eni.Transient, Operation: "DeleteSubnetCidrReservation", Err: errors.New("connection reset")}
			s.expect(v1alpha1.ReasonDeleting)
			s.refusal = nil
			afterwards(s)
			if slices.ContainsFunc(s.made["subnet-a"], func(eni.SubnetReservation) bool { return true }) {
				t.Errorf("EC2 still has %v", s.made["subnet-a"])
			}
		})
	}
}

// A request without an answer may have created a reservation that EC2 returns only after the subnet is not selected any
// more.
func TestAnUnconfirmedBlockOfASubnetThatIsNotSelectedAnyMore(t *testing.T) {
	s := newStage(t, sized())
	s.lost, s.hidden = true, true
	s.expect(v1alpha1.ReasonReserving)
	s.lost = false
	s.subnets[1].Name = "n6"
	s.now = s.now.Add(time.Minute)
	s.reconcile()
	s.hidden = false
	s.now = s.now.Add(time.Minute)
	s.reconcile()
	s.now = s.now.Add(3 * time.Minute)
	s.expect(v1alpha1.ReasonReserved)
	s.holds("subnet-a 10.0.4.128/25")
}

// TestABlockThatIsRequestedAgain changes the type of a reservation, which EC2 does not return until the subnet is not
// selected any more, and the controller ends before it records the new ID: the recorded ID is that of the former
// reservation.
func TestABlockThatIsRequestedAgain(t *testing.T) {
	for name, tc := range map[string]struct {
		afterwards func(*stage)
		want       []string
	}{
		"a subnet that is not selected any more": {want: []string{"subnet-a 10.0.4.128/25"}, afterwards: func(s *stage) {
			s.subnets[1].Name = "n6"
			s.now = s.now.Add(time.Minute)
			s.reconcile()
			s.hidden = false
			s.refusal = &eni.APIError{Class: eni.Unauthorized, Operation: "DeleteSubnetCidrReservation", Code: "UnauthorizedOperation"}
			s.now = s.now.Add(3 * time.Minute)
			s.reconcile()
			s.refusal = nil
			s.reconcile()
		}},
		"a deleted SubnetReservation": {afterwards: func(s *stage) {
			s.must(s.client.Delete(s.Context(), s.object()))
			s.reconcile()
			s.hidden = false
			s.now = s.now.Add(3 * time.Minute)
			s.expect("gone")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, sized())
			s.expect(v1alpha1.ReasonReserved)
			s.now = s.now.Add(time.Hour)
			s.change(func(o *v1alpha1.SubnetReservation) { o.Spec.Type = v1alpha1.SubnetReservationExplicit })
			s.lost = true
			s.expect(v1alpha1.ReasonReserving)
			s.lost, s.hidden = false, true
			tc.afterwards(s)
			s.holds(tc.want...)
		})
	}
}

// A name without a match may be a mistake, so nothing is deleted.
func TestNothingIsDeletedWhileATermMatchesNothing(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	s.change(func(o *v1alpha1.SubnetReservation) { o.Spec.SubnetNames = []string{"n4"} })
	s.expect("SubnetNotFound")
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
	s.change(func(o *v1alpha1.SubnetReservation) { o.Spec.SubnetNames = []string{"n3"} })
	s.expect(v1alpha1.ReasonReserved)
	if s.created != 2 {
		t.Errorf("%d requests", s.created)
	}
}

func TestReasonsOfEC2(t *testing.T) {
	for class, want := range map[eni.Class]string{
		eni.Unauthorized: string(reservation.Unauthorized), eni.Invalid: string(reservation.RefusedByEC2), eni.Throttled: v1alpha1.ReasonReserving,
	} {
		t.Run(string(class), func(t *testing.T) {
			s := newStage(t, sized())
			s.refusal = &eni.APIError{Class: class, Operation: "CreateSubnetCidrReservation", Code: "Code", Message: "no"}
			s.expect(want)
			s.refusal = nil
			s.expect(v1alpha1.ReasonReserved)
		})
	}
}

func TestARefusedDeletionKeepsTheObject(t *testing.T) {
	s := newStage(t, sized())
	s.expect(v1alpha1.ReasonReserved)
	s.must(s.client.Delete(t.Context(), s.object()))
	s.refusal = &eni.APIError{Class: eni.Unauthorized, Operation: "DeleteSubnetCidrReservation", Code: "UnauthorizedOperation"}
	s.expect(string(reservation.Unauthorized))
	s.refusal = nil
	s.expect("gone")
	s.holds()
}

func TestNothingChangesWhilePaused(t *testing.T) {
	s := newStage(t, sized())
	s.change(func(o *v1alpha1.SubnetReservation) { o.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	s.expect(v1alpha1.ReasonPaused)
	s.holds()
	s.change(func(o *v1alpha1.SubnetReservation) { o.Annotations = nil })
	s.expect(v1alpha1.ReasonReserved)
	s.change(func(o *v1alpha1.SubnetReservation) { o.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""} })
	s.must(s.client.Delete(t.Context(), s.object()))
	s.expect(v1alpha1.ReasonPaused)
	s.holds("subnet-a 10.0.4.128/25", "subnet-b 10.0.6.128/25")
}

func TestTooManySubnets(t *testing.T) {
	s := newStage(t, sized())
	for n := range reservation.MaxSubnets {
		s.subnets = append(s.subnets, eni.Subnet{ID: fmt.Sprintf("subnet-%d", n), Name: "n3"})
	}
	s.expect(string(reservation.TooManySubnets))
	if s.created > 0 {
		t.Errorf("%d requests", s.created)
	}
}
