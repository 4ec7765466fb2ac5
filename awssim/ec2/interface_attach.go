// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/instancetypes"
)

// AttachNetworkInterfaceInput is the request of AttachNetworkInterface.
type AttachNetworkInterfaceInput struct {
	NetworkInterfaceID string  `query:"NetworkInterfaceId"`
	InstanceID         string  `query:"InstanceId"`
	DeviceIndex        *int    `query:"DeviceIndex"`
	NetworkCardIndex   *int    `query:"NetworkCardIndex"`
	ENASRD             *ENASRD `query:"EnaSrdSpecification"`
	DryRun             bool    `query:"DryRun"`
}

// AttachNetworkInterfaceOutput is its answer.
type AttachNetworkInterfaceOutput struct {
	AttachmentID     string `json:"attachmentId"`
	NetworkCardIndex int    `json:"networkCardIndex"`
}

// AttachNetworkInterface attaches an available interface to an instance. When it returns, the attachment is attaching.
func (m *Model) AttachNetworkInterface(c Call, in *AttachNetworkInterfaceInput) (*AttachNetworkInterfaceOutput, error) {
	m.Advance(c.Now)
	if in.DeviceIndex == nil {
		return nil, missing("deviceIndex")
	}
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	if _, strikes := m.faults.Draw(fault.InstanceDies, m.now(), "AttachNetworkInterface", in.InstanceID,
		in.NetworkInterfaceID); strikes {
		m.terminate(in.InstanceID)
	}
	instance, err := m.instanceOf(in.InstanceID)
	if err != nil {
		return nil, err
	}
	where := slot{device: *in.DeviceIndex}
	if in.NetworkCardIndex != nil {
		where.card = *in.NetworkCardIndex
	}
	if err := m.canAttach(eni, instance, where, in.NetworkCardIndex == nil); err != nil {
		return nil, err
	}
	if err := supportsENASRD(instance.InstanceType, in.ENASRD); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	id := m.attach(eni, where, Attachment{InstanceID: instance.InstanceID, ENASRD: in.ENASRD})
	if _, strikes := m.faults.Draw(fault.StuckAttaching, m.now(), "AttachNetworkInterface", in.InstanceID,
		in.NetworkInterfaceID); !strikes {
		after(m, m.moving(instance, m.behavior.Attach), m.events.attached, attachment{eni.NetworkInterfaceID, id})
	}
	return &AttachNetworkInterfaceOutput{AttachmentID: id, NetworkCardIndex: where.card}, nil
}

// moving returns how long an attachment or a detachment takes.
func (m *Model) moving(instance *Instance, running Latency) Latency {
	if instance.State.Name == Stopped {
		return m.behavior.Stopped
	}
	return running
}

// canAttach returns EC2's error. The order of EC2's checks is not known; ours go from the general to the particular.
// The codes for another VPC and for a pending interface are estimates.
func (m *Model) canAttach(eni *NetworkInterface, instance *Instance, where slot, cardOmitted bool) error {
	if err := m.canTakeInterfaces(instance); err != nil {
		return err
	}
	switch {
	case eni.RequesterManaged:
		return notYours(eni)
	case eni.Attachment != nil:
		return refuse(cmp.Or(m.behavior.AttachInUseCode, "InvalidNetworkInterface.InUse"),
			"Interface: [%s] in use.", eni.NetworkInterfaceID)
	case eni.Status == StatusPending:
		return refuse("IncorrectState", "Network interface '%s' is not 'available'.", eni.NetworkInterfaceID)
	case eni.AvailabilityZone != instance.Placement.AvailabilityZone:
		return invalidCombination("You may not attach a network interface to an instance if they are not in the same " +
			"availability zone")
	case eni.VPCID != instance.VPCID:
		return invalidCombination("You may not attach a network interface to an instance if they are not in the same VPC")
	case isEFA(eni.InterfaceType) && instance.State.Name != Stopped:
		return refuse(cmp.Or(m.behavior.EFAHotAttachCode, "InvalidParameterCombination"),
			"An Elastic Fabric Adapter can be attached to an instance only at launch or while it is stopped")
	}
	limits, _ := instancetypes.Lookup(instance.InstanceType)
	if err := fits(eni, limits); err != nil {
		return err
	}
	if err := m.slotIsFree(instance, where, cardOmitted); err != nil {
		return err
	}
	return m.hasRoom(eni, instance, limits, where)
}

// canTakeInterfaces checks for the states in which EC2 documents attaching. IncorrectState is an estimate: it has been
// observed for volumes.
func (m *Model) canTakeInterfaces(instance *Instance) error {
	switch instance.State.Name {
	case Running, Stopped:
		return nil
	case Pending:
		if m.behavior.AttachToPending {
			return nil
		}
	}
	return refuse("IncorrectState", "Instance '%s' is not 'running'.", instance.InstanceID)
}

func isEFA(interfaceType string) bool {
	return interfaceType == interfaceTypeEFA || interfaceType == interfaceTypeEFAOnly
}

// fits returns an error for an interface that the instance type does not support (the code is an estimate).
func fits(eni *NetworkInterface, limits instancetypes.Type) error {
	if isEFA(eni.InterfaceType) && !limits.EFASupported {
		return refuse("UnsupportedOperation", "Elastic Fabric Adapter is not supported on the instance type '%s'.",
			limits.Name)
	}
	if err := tracks(limits.Name, eni.ConnectionTracking); err != nil {
		return err
	}
	return fitsAddresses(eni, limits)
}

// fitsAddresses returns an error for more addresses than the type supports per interface. A prefix counts as one.
func fitsAddresses(eni *NetworkInterface, limits instancetypes.Type) error {
	if limits.Hypervisor == "xen" && len(eni.IPv4Prefixes)+len(eni.IPv6Prefixes) > 0 {
		return refuse("UnsupportedOperation", "Prefixes are not supported on the instance type '%s'.", limits.Name)
	}
	if n := len(eni.PrivateIPAddresses) + len(eni.IPv4Prefixes); n > limits.IPv4PerInterface {
		return tooManyAddresses()
	}
	if n := len(eni.IPv6Addresses) + len(eni.IPv6Prefixes); n > limits.IPv6PerInterface {
		return tooManyAddresses()
	}
	return nil
}

// supportsENASRD returns an error for ENA Express if the instance type does not support it (the code is an estimate).
func supportsENASRD(instanceType string, wanted *ENASRD) error {
	limits, _ := instancetypes.Lookup(instanceType)
	if wanted != nil && wanted.ENASRDEnabled && !limits.ENASRDSupported {
		return refuse("UnsupportedOperation", "ENA Express is not supported on the instance type '%s'.", instanceType)
	}
	return nil
}

func tooManyAddresses() *Error {
	return refuse("PrivateIpAddressLimitExceeded", "Number of private addresses will exceed limit.")
}

func (m *Model) slotIsFree(instance *Instance, where slot, cardOmitted bool) error {
	if where.device < 0 {
		return invalidValue("Value (%d) for parameter deviceIndex is invalid. It cannot be negative.", where.device)
	}
	isTaken := slices.Contains(instance.internal.Poisoned, where)
	_, bug := m.faults.Draw(fault.CardIndexBug, m.now(), "AttachNetworkInterface", instance.InstanceID)
	for _, other := range m.interfacesOf(instance.InstanceID) {
		isTaken = isTaken || other.Attachment.slot() == where ||
			bug && cardOmitted && other.Attachment.DeviceIndex == where.device
	}
	if isTaken {
		return invalidValue("Instance '%s' already has an interface attached at device index '%d'.",
			instance.InstanceID, where.device)
	}
	return nil
}

// hasRoom checks the limits of the type, for all cards and for the one card.
func (m *Model) hasRoom(eni *NetworkInterface, instance *Instance, limits instancetypes.Type, where slot) error {
	card := slices.IndexFunc(limits.Cards, func(c instancetypes.Card) bool { return c.Index == where.card })
	if card < 0 {
		return noSuchCard(limits, where.card)
	}
	if err := m.indexFits(where, limits.Cards[card]); err != nil {
		return err
	}
	limit := limits.MaxInterfaces
	if f, strikes := m.faults.Draw(fault.LowerLimit, m.now(), "AttachNetworkInterface", instance.InstanceID); strikes {
		limit = min(limit, f.Limit)
	}
	all := m.interfacesOf(instance.InstanceID)
	if len(all) >= limit {
		return refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", len(all)+1, limits.Name)
	}
	onCard, efas := 0, 0
	for _, other := range all {
		if other.Attachment.NetworkCardIndex == where.card {
			onCard++
		}
		if isEFA(other.InterfaceType) {
			efas++
		}
	}
	if isEFA(eni.InterfaceType) && efas >= limits.MaxEFAInterfaces {
		return tooManyEFAs(limits)
	}
	if onCard >= limits.Cards[card].MaxInterfaces {
		return cardFull(limits, where.card, onCard+1)
	}
	return nil
}

// indexFits checks the upper bound of the device index for attaching, if there is one.
func (m *Model) indexFits(where slot, card instancetypes.Card) error {
	if m.behavior.RefuseHighDeviceIndex && where.device >= card.MaxInterfaces {
		return invalidValue("The device index '%d' is not below %d, the number of interfaces that network "+
			"card %d takes.", where.device, card.MaxInterfaces, where.card)
	}
	return nil
}

// attach begins an attachment and returns its ID. The caller sets the instance and the optional fields.
func (m *Model) attach(eni *NetworkInterface, where slot, a Attachment) string {
	a.AttachmentID = m.id("eni-attach")
	a.InstanceOwnerID = m.account
	a.NetworkCardIndex, a.DeviceIndex = where.card, where.device
	a.Status, a.AttachTime = Attaching, m.now()
	m.attachments[a.AttachmentID] = eni.NetworkInterfaceID
	m.changeInterface(eni.NetworkInterfaceID, func(e *NetworkInterface) { e.Status, e.Attachment = StatusInUse, &a })
	return a.AttachmentID
}

// attached sets an attachment to attached, unless its state has changed meanwhile.
func (m *Model) attached(eniID, attachmentID string) {
	eni := m.interfaces.get(eniID)
	if eni == nil || eni.Attachment == nil || eni.Attachment.AttachmentID != attachmentID ||
		eni.Attachment.Status != Attaching {
		return
	}
	m.changeAttachment(eniID, func(a *Attachment) { a.Status = Attached })
}

// DetachNetworkInterfaceInput is the request of DetachNetworkInterface.
type DetachNetworkInterfaceInput struct {
	AttachmentID string `query:"AttachmentId"`
	Force        bool   `query:"Force"`
	DryRun       bool   `query:"DryRun"`
}

// DetachNetworkInterface begins to detach an interface; it is available some time later.
func (m *Model) DetachNetworkInterface(c Call, in *DetachNetworkInterfaceInput) (*Return, error) {
	m.Advance(c.Now)
	eni, err := m.attachmentOf(in.AttachmentID)
	if err != nil {
		return nil, err
	}
	if err := m.canDetach(eni, in); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	if eni.Attachment.Status == Detaching && !in.Force {
		return &Return{true}, nil
	}
	m.detach(eni, in.Force)
	return &Return{true}, nil
}

func (m *Model) canDetach(eni *NetworkInterface, in *DetachNetworkInterfaceInput) error {
	attachment := eni.Attachment
	switch {
	case eni.RequesterManaged:
		return refuse("OperationNotPermitted", "You are not allowed to manage 'ela-attach' attachments.")
	case attachment.slot() == slot{}:
		return refuse("OperationNotPermitted",
			"The network interface at device index 0 and networkCard index 0 cannot be detached.")
	case attachment.Status == Detaching && !in.Force && m.behavior.RefuseSecondDetach:
		return refuse("IncorrectState", "The attachment '%s' is detaching.", attachment.AttachmentID)
	}
	return nil
}

// detach begins to detach. By force it also ends a stuck detachment, and makes the slot of a running instance unusable.
func (m *Model) detach(eni *NetworkInterface, force bool) {
	id, attachment := eni.NetworkInterfaceID, eni.Attachment
	instance := m.instances.get(attachment.InstanceID)
	m.changeInterface(id, func(e *NetworkInterface) {
		changed := *attachment
		changed.Status = Detaching
		e.Attachment = &changed
		if m.behavior.ShowDetaching {
			e.Status = StatusDetaching
		}
	})
	_, stuck := m.faults.Draw(fault.StuckDetaching, m.now(), "DetachNetworkInterface", id, attachment.AttachmentID,
		attachment.InstanceID)
	if stuck && !force {
		return
	}
	after(m, m.moving(instance, m.behavior.Detach), m.events.left, leaving{id, *attachment, force})
}

// left completes a detachment. One by force makes the slot unusable.
func (m *Model) left(l leaving) {
	if l.Force {
		m.poison(&l.Attachment)
	}
	m.leave(l.NetworkInterfaceID, l.Attachment.AttachmentID, l.Force)
}

// poison makes a slot unusable until the instance is stopped.
func (m *Model) poison(a *Attachment) {
	instance := m.instances.get(a.InstanceID)
	if m.behavior.ForceDetachKeepsSlot || instance == nil || instance.State.Name != Running {
		return
	}
	m.changeInstance(a.InstanceID, func(i *Instance) {
		i.internal.Poisoned = append(slices.Clone(i.internal.Poisoned), a.slot())
	})
}

// detached completes a detachment, unless its state has changed meanwhile.
func (m *Model) detached(eniID, attachmentID string) { m.leave(eniID, attachmentID, false) }

// leave is detached, which may have been by force.
func (m *Model) leave(eniID, attachmentID string, forced bool) {
	eni := m.interfaces.get(eniID)
	if eni == nil || eni.Attachment == nil || eni.Attachment.AttachmentID != attachmentID {
		return
	}
	m.depart(eni, forced)
	delete(m.attachments, attachmentID)
	m.changeInterface(eniID, func(e *NetworkInterface) { e.Status, e.Attachment = StatusAvailable, nil })
}

// attachmentOf returns the interface of the attachment that a call names.
func (m *Model) attachmentOf(id string) (*NetworkInterface, error) {
	if id == "" {
		return nil, missing("attachmentId")
	}
	eniID, ok := m.attachments[id]
	if ok {
		return m.interfaces.get(eniID), nil
	}
	if !isWellFormed(id, "eni-attach") && !strings.HasPrefix(id, "ela-attach-") {
		return nil, refuse("InvalidNetworkInterfaceAttachmentId.Malformed",
			"Invalid id: %q (expecting \"eni-attach-...\")", id)
	}
	return nil, attachmentNotFound(id)
}

func attachmentNotFound(id string) *Error {
	return refuse("InvalidAttachmentID.NotFound", "The attachment '%s' does not exist.", id)
}
