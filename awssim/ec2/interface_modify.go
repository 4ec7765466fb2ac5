// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "github.com/multieni/multieni/awssim/fault"

// ModifyNetworkInterfaceAttributeInput is the request of ModifyNetworkInterfaceAttribute: one attribute, never two.
type ModifyNetworkInterfaceAttributeInput struct {
	NetworkInterfaceID string              `query:"NetworkInterfaceId"`
	Attachment         *AttachmentChanges  `query:"Attachment"`
	Description        *StringValue        `query:"Description"`
	Groups             []string            `query:"SecurityGroupId"`
	SourceDestCheck    *BoolValue          `query:"SourceDestCheck"`
	ENASRD             *ENASRD             `query:"EnaSrdSpecification"`
	ConnectionTracking *ConnectionTracking `query:"ConnectionTrackingSpecification"`
	DryRun             bool                `query:"DryRun"`
}

// AttachmentChanges changes an attachment.
type AttachmentChanges struct {
	AttachmentID        string `query:"AttachmentId"`
	DeleteOnTermination *bool  `query:"DeleteOnTermination"`
}

// StringValue is a text attribute.
type StringValue struct {
	Value string `query:"Value"`
}

// BoolValue is a switch.
type BoolValue struct {
	Value bool `query:"Value"`
}

// ModifyNetworkInterfaceAttribute changes one attribute of an interface.
func (m *Model) ModifyNetworkInterfaceAttribute(c Call, in *ModifyNetworkInterfaceAttributeInput) (*Return, error) {
	m.Advance(c.Now)
	eni, err := m.interfaceOf(in.NetworkInterfaceID)
	if err != nil {
		return nil, err
	}
	if eni.RequesterManaged {
		return nil, notYours(eni)
	}
	change, err := m.attributeChange(eni, in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	if _, strikes := m.faults.Draw(fault.NoEffect, m.now(), "ModifyNetworkInterfaceAttribute",
		eni.NetworkInterfaceID); !strikes {
		m.changeInterface(eni.NetworkInterfaceID, change)
	}
	return &Return{true}, nil
}

// attributeChange returns the change of the request, if it is allowed.
func (m *Model) attributeChange(
	eni *NetworkInterface, in *ModifyNetworkInterfaceAttributeInput,
) (func(*NetworkInterface), error) {
	attributes := 0
	for _, isSet := range []bool{
		in.Attachment != nil, in.Description != nil, len(in.Groups) > 0, in.SourceDestCheck != nil, in.ENASRD != nil,
		in.ConnectionTracking != nil,
	} {
		if isSet {
			attributes++
		}
	}
	switch {
	case attributes == 0:
		return nil, invalidCombination("No attributes specified.")
	case attributes > 1:
		return nil, invalidCombination("Fields for multiple attribute types specified; only one attribute can be " +
			"modified per request")
	case in.Attachment != nil:
		return attachmentChange(eni, *in.Attachment)
	case in.ConnectionTracking != nil:
		return m.trackingChange(eni, in.ConnectionTracking)
	case in.ENASRD != nil:
		return m.expressChange(eni, in.ENASRD)
	case in.Description != nil:
		if len(in.Description.Value) > 255 {
			return nil, invalidValue("The description has %d characters, the maximum is 255.", len(in.Description.Value))
		}
		return func(e *NetworkInterface) { e.Description = in.Description.Value }, nil
	case in.SourceDestCheck != nil:
		return func(e *NetworkInterface) { e.SourceDestCheck = in.SourceDestCheck.Value }, nil
	}
	groups, err := m.groupsFor(eni.VPCID, in.Groups, groupNotFound)
	if err != nil {
		return nil, err
	}
	return func(e *NetworkInterface) { e.Groups = groups }, nil
}

func attachmentChange(eni *NetworkInterface, change AttachmentChanges) (func(*NetworkInterface), error) {
	switch {
	case change.AttachmentID == "":
		return nil, missing("attachmentId")
	case change.DeleteOnTermination == nil:
		return nil, missing("deleteOnTermination")
	case eni.Attachment == nil || eni.Attachment.AttachmentID != change.AttachmentID:
		return nil, attachmentNotFound(change.AttachmentID)
	}
	return func(e *NetworkInterface) {
		attachment := *e.Attachment
		attachment.DeleteOnTermination = *change.DeleteOnTermination
		e.Attachment = &attachment
	}, nil
}

// expressChange sets ENA Express, which belongs to the attachment and is lost with it.
func (m *Model) expressChange(eni *NetworkInterface, wanted *ENASRD) (func(*NetworkInterface), error) {
	if eni.Attachment == nil {
		return nil, refuse("IncorrectState", "Network interface '%s' is not attached.", eni.NetworkInterfaceID)
	}
	instance := m.instances.get(eni.Attachment.InstanceID)
	if err := supportsENASRD(instance.InstanceType, wanted); err != nil {
		return nil, err
	}
	return func(e *NetworkInterface) {
		attachment := *e.Attachment
		attachment.ENASRD = wanted
		e.Attachment = &attachment
	}, nil
}
