// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/controller/subnetreservation"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/reservation"
)

// The calls for reservations that change something.
const (
	reserveCall   = "CreateSubnetCidrReservation"
	unreserveCall = "DeleteSubnetCidrReservation"
)

const (
	// mostReservations is how many SubnetReservations a cluster has.
	mostReservations = 2
	// manyReserved is the number of reservations in EC2 from which on people make no further ones, and users retain
	// none.
	manyReserved = 12
)

// reserving draws who reserves parts of subnets: users with SubnetReservations, and people with the EC2 console. It has
// a random stream of its own, so that it shifts no draw in runs without it.
type reserving struct {
	random *rand.Rand
	acts   bool
	// origin is the version of a SubnetReservation for which EC2 made a reservation, by the ID of the reservation.
	origin map[string]declaration
	// left are the reservations that a SubnetReservation with the policy Retain left.
	left map[string]bool
	// edited is the version of the API server and the time of the last edit, by cluster and name.
	edited map[string]reason
	// madeAt is when EC2 made a reservation, by its ID.
	madeAt map[string]time.Time
	// deleted are the reservations that processes deleted, and when. A later read can still have them.
	deleted []deletedReservation
}

type deletedReservation struct {
	subnetID string
	cidr     netip.Prefix
	at       time.Time
}

// declaration is one version of what a SubnetReservation declares.
type declaration struct {
	uid        string
	generation int64
}

func newReserving(seed uint64) *reserving {
	v := &reserving{
		random: rand.New(rand.NewPCG(seed, 0x5c)), origin: map[string]declaration{}, madeAt: map[string]time.Time{},
		left: map[string]bool{}, edited: map[string]reason{},
	}
	v.acts = v.random.IntN(3) == 0
	return v
}

// kinds is the number of kinds of objects whose events can be troubled.
func (v *reserving) kinds() kind {
	if v.acts {
		return subnetReservations + 1
	}
	return subnetReservations
}

func (v *reserving) happens(oneIn int) bool { return v.random.IntN(oneIn) == 0 }

// moveReservations at times lets users and other people act.
func (r *run) moveReservations() {
	v := r.reserving
	if !v.acts || r.faults.off || !v.happens(20) {
		return
	}
	c := r.clusters[v.random.IntN(len(r.clusters))]
	name := fmt.Sprintf("reserved%d", v.random.IntN(mostReservations))
	object := c.api.get(subnetReservations, name)
	switch n := v.random.IntN(10); {
	case n < 2:
		r.reserveByHand()
	case n == 2:
		r.unreserveByHand()
	case object == nil:
		r.note(nil, "%s: a user declares SubnetReservation %s", c.name, name)
		_, _ = c.api.create(&v1alpha1.SubnetReservation{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: r.reservationSpec()})
		r.noteReservationEdit(c, name)
	case n < 6:
		r.note(nil, "%s: a user deletes SubnetReservation %s", c.name, name)
		r.leaveRetained(c, object.(*v1alpha1.SubnetReservation))
		_ = c.api.delete(subnetReservations, name, "")
		r.noteReservationEdit(c, name)
	default:
		r.note(nil, "%s: a user edits SubnetReservation %s", c.name, name)
		r.leaveRetained(c, object.(*v1alpha1.SubnetReservation))
		after, _ := c.api.update(subnetReservations, name, "", func(o client.Object) (client.Object, error) {
			o.(*v1alpha1.SubnetReservation).Spec = r.reservationSpec()
			return o, nil
		})
		r.leaveRetained(c, after.(*v1alpha1.SubnetReservation))
		r.noteReservationEdit(c, name)
	}
}

func (r *run) noteReservationEdit(c *cluster, name string) {
	r.reserving.edited[c.name+"/"+name] = reason{version: c.api.version, at: r.now}
}

// leaveRetained records the reservations that a SubnetReservation with the policy Retain need not delete any more.
func (r *run) leaveRetained(c *cluster, object *v1alpha1.SubnetReservation) {
	if object.Spec.DeletionPolicy != v1alpha1.DeletionPolicyRetain {
		return
	}
	for _, reserved := range r.truth().reservations {
		if r.isOwnedBy(reserved, c, object.Name) {
			r.reserving.left[reserved.SubnetCIDRReservationID] = true
		}
	}
}

// reservationSpec draws what a user declares. The smallest subnet stays as it is.
func (r *run) reservationSpec() v1alpha1.SubnetReservationSpec {
	v := r.reserving
	spec := v1alpha1.SubnetReservationSpec{Type: v1alpha1.SubnetReservationPrefix,
		DeletionPolicy: v1alpha1.DeletionPolicyDelete}
	if v.happens(2) {
		spec.Type = v1alpha1.SubnetReservationExplicit
	}
	if v.happens(4) && len(r.truth().reservations) < manyReserved {
		spec.DeletionPolicy = v1alpha1.DeletionPolicyRetain
	}
	selected := r.largeSubnet()
	switch v.random.IntN(4) {
	case 0:
		spec.SubnetNames = []string{selected.name}
	case 1:
		spec.SubnetSelector = map[string]v1alpha1.TagValue{"Name": v1alpha1.TagValue(selected.name)}
	case 2:
		spec.SubnetIDs = []string{selected.id}
	default:
		spec.SubnetIDs = []string{selected.id}
		if other := r.largeSubnet(); other.id != selected.id {
			spec.SubnetIDs = append(spec.SubnetIDs, other.id)
		}
	}
	if v.happens(2) {
		bits := int32(27 + v.random.IntN(2))
		spec.PrefixLength = &bits
		return spec
	}
	spec.CIDRs = []string{r.anyBlock(selected).String()}
	if other := r.anyBlock(selected); v.happens(2) && other.String() != spec.CIDRs[0] {
		spec.CIDRs = append(spec.CIDRs, other.String())
	}
	return spec
}

// largeSubnet draws a subnet that stays large enough for interfaces.
func (r *run) largeSubnet() place {
	large := slices.DeleteFunc(slices.Clone(subnets), func(s place) bool {
		return netip.MustParsePrefix(s.cidr).Bits() > 24
	})
	return large[r.reserving.random.IntN(len(large))]
}

// anyBlock draws a block of a subnet, in the half that EC2 does not use first.
func (r *run) anyBlock(s place) netip.Prefix {
	first := netip.MustParsePrefix(s.cidr).Addr().As4()
	first[3] = byte(128 + 16*r.reserving.random.IntN(8))
	return netip.PrefixFrom(netip.AddrFrom4(first), 27+r.reserving.random.IntN(2)).Masked()
}

// reserveByHand reserves a block as a person with the EC2 console does.
func (r *run) reserveByHand() {
	if len(r.truth().reservations) >= manyReserved {
		return
	}
	s := r.largeSubnet()
	in := &ec2.CreateSubnetCIDRReservationInput{
		SubnetID: s.id, CIDR: r.anyBlock(s).String(),
		ReservationType: []string{"prefix", "explicit"}[r.reserving.random.IntN(2)],
	}
	_, err := r.model.CreateSubnetCIDRReservation(r.call(), in)
	r.note(nil, "a person reserves %s in %s (%s): %v", in.CIDR, in.SubnetID, in.ReservationType, err)
	r.touched()
}

// unreserveByHand deletes any reservation, as a person does.
func (r *run) unreserveByHand() {
	all := r.truth().reservations
	if len(all) == 0 {
		return
	}
	reserved := all[r.reserving.random.IntN(len(all))]
	r.note(nil, "a person deletes the reservation %s of %s", reserved.SubnetCIDRReservationID, reserved.CIDR)
	_, _ = r.model.DeleteSubnetCIDRReservation(r.call(), &ec2.DeleteSubnetCIDRReservationInput{
		SubnetCIDRReservationID: reserved.SubnetCIDRReservationID,
	})
	r.touched()
}

// reservingCloud is the EC2 of the reconciler of SubnetReservations. Anything can happen at its calls.
type reservingCloud struct{ cloud }

var _ subnetreservation.EC2 = reservingCloud{}

// SubnetReservations implements [subnetreservation.EC2].
func (c reservingCloud) SubnetReservations(_ context.Context,
	subnetID string) (all []eni.SubnetReservation, err error) {
	err = c.p.call(request{action: "GetSubnetCidrReservations"}, func(at ec2.Call) (err error) {
		all, err = c.p.reservations(at, subnetID)
		return err
	})
	return all, err
}

// SubnetInterfaces implements [subnetreservation.EC2].
func (c reservingCloud) SubnetInterfaces(_ context.Context, subnetID string) ([]eni.Interface, error) {
	return c.interfaces("in subnet", ec2.Filter{Name: "subnet-id", Values: []string{subnetID}})
}

// CreateSubnetReservation implements [subnetreservation.EC2].
func (c reservingCloud) CreateSubnetReservation(
	_ context.Context, subnetID string, cidr netip.Prefix, kind eni.ReservationType, owner reservation.Owner,
) (id string, err error) {
	target := fmt.Sprintf("%s in %s for %s", cidr, subnetID, owner.Name)
	err = c.p.call(request{action: reserveCall, target: target, mutates: true}, func(at ec2.Call) error {
		out, err := c.p.run.model.CreateSubnetCIDRReservation(at, &ec2.CreateSubnetCIDRReservationInput{
			SubnetID: subnetID, CIDR: cidr.String(), ReservationType: string(kind), Description: owner.Description(),
			TagSpecifications: []ec2.TagSpecification{{ResourceType: "subnet-cidr-reservation", Tags: tagList(owner.Tags())}},
		})
		if err == nil {
			id = out.SubnetCIDRReservation.SubnetCIDRReservationID
			c.p.run.touched()
			c.p.run.reserved(c.p, owner.Name, out.SubnetCIDRReservation)
		}
		return err
	})
	return id, err
}

// DeleteSubnetReservation implements [subnetreservation.EC2].
func (c reservingCloud) DeleteSubnetReservation(_ context.Context, id string) error {
	return gone(c.p.call(request{action: unreserveCall, target: id, mutates: true}, func(at ec2.Call) error {
		c.p.run.unreserving(c.p, id)
		_, err := c.p.run.model.DeleteSubnetCIDRReservation(at,
			&ec2.DeleteSubnetCIDRReservationInput{SubnetCIDRReservationID: id})
		return err
	}))
}

// reservations reads the reservations of a subnet, as stale as EC2 returns them.
func (p *process) reservations(at ec2.Call, subnetID string) ([]eni.SubnetReservation, error) {
	out, err := p.run.model.GetSubnetCIDRReservations(at, &ec2.GetSubnetCIDRReservationsInput{SubnetID: subnetID})
	if err != nil {
		return nil, err
	}
	var all []eni.SubnetReservation
	for _, r := range slices.Concat(out.IPv4, out.IPv6) {
		all = append(all, eni.SubnetReservation{
			ID: r.SubnetCIDRReservationID, CIDR: r.CIDR, Type: eni.ReservationType(r.ReservationType),
			Description: r.Description, Tags: r.Tags,
		})
	}
	return all, nil
}
