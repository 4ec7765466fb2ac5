// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"slices"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// What EC2 does with an instance that shuts itself down.
const (
	shutdownStop      = "stop"
	shutdownTerminate = "terminate"
)

// DescribeInstanceAttributeInput is the request of DescribeInstanceAttribute.
type DescribeInstanceAttributeInput struct {
	InstanceID string `query:"InstanceId"`
	Attribute  string `query:"Attribute"`
	DryRun     bool   `query:"DryRun"`
}

// DescribeInstanceAttributeOutput is its answer: the ID, and the one attribute.
type DescribeInstanceAttributeOutput struct {
	InstanceID                        string             `json:"instanceId"`
	InstanceType                      *TextAttribute     `json:"instanceType,omitempty"`
	UserData                          *OptionalText      `json:"userData,omitempty"`
	DisableAPITermination             *TruthAttribute    `json:"disableApiTermination,omitempty"`
	DisableAPIStop                    *TruthAttribute    `json:"disableApiStop,omitempty"`
	InstanceInitiatedShutdownBehavior *TextAttribute     `json:"instanceInitiatedShutdownBehavior,omitempty"`
	RootDeviceName                    *TextAttribute     `json:"rootDeviceName,omitempty"`
	SourceDestCheck                   *TruthAttribute    `json:"sourceDestCheck,omitempty"`
	Groups                            *[]GroupIdentifier `json:"groups,omitempty" xml:"groupSet"`
	EBSOptimized                      *TruthAttribute    `json:"ebsOptimized,omitempty"`
	ENASupport                        *TruthAttribute    `json:"enaSupport,omitempty"`
	BlockDeviceMappings               *[]struct{}        `json:"blockDeviceMappings,omitempty" xml:"blockDeviceMapping"`
}

// OptionalText is an attribute that is a text or absent.
type OptionalText struct {
	Value string `json:"value,omitempty"`
}

// DescribeInstanceAttribute returns one attribute of an instance.
func (m *Model) DescribeInstanceAttribute(
	c Call, in *DescribeInstanceAttributeInput,
) (*DescribeInstanceAttributeOutput, error) {
	if in.InstanceID == "" {
		return nil, missing("instanceId")
	}
	found, _, err := describe(m, c, m.instances, []string{in.InstanceID}, Page{DryRun: in.DryRun})
	if err != nil {
		return nil, err
	}
	i, out := found[0], &DescribeInstanceAttributeOutput{InstanceID: in.InstanceID}
	switch in.Attribute {
	case "instanceType":
		out.InstanceType = &TextAttribute{i.InstanceType}
	case "userData":
		out.UserData = &OptionalText{i.UserData}
	case "disableApiTermination":
		out.DisableAPITermination = &TruthAttribute{i.internal.Protected}
	case "disableApiStop":
		out.DisableAPIStop = &TruthAttribute{i.internal.StopProtected}
	case "instanceInitiatedShutdownBehavior":
		out.InstanceInitiatedShutdownBehavior = &TextAttribute{cmp.Or(i.internal.Shutdown, shutdownStop)}
	case "rootDeviceName":
		out.RootDeviceName = &TextAttribute{i.RootDeviceName}
	case "sourceDestCheck":
		out.SourceDestCheck = &TruthAttribute{i.SourceDestCheck}
	case "groupSet":
		out.Groups = &i.Groups
	case "ebsOptimized":
		out.EBSOptimized = &TruthAttribute{i.EBSOptimized}
	case "enaSupport":
		out.ENASupport = &TruthAttribute{i.ENASupport}
	case "blockDeviceMapping":
		out.BlockDeviceMappings = &[]struct{}{}
	case "":
		return nil, missing("attribute")
	default:
		return nil, unknownAttribute(in.Attribute)
	}
	return out, nil
}

// ModifyInstanceAttributeInput is the request of ModifyInstanceAttribute: one attribute per call.
type ModifyInstanceAttributeInput struct {
	InstanceID                        string       `query:"InstanceId"`
	InstanceType                      *StringValue `query:"InstanceType"`
	UserData                          *StringValue `query:"UserData"` // in base64
	DisableAPITermination             *BoolValue   `query:"DisableApiTermination"`
	DisableAPIStop                    *BoolValue   `query:"DisableApiStop"`
	InstanceInitiatedShutdownBehavior *StringValue `query:"InstanceInitiatedShutdownBehavior"`
	SourceDestCheck                   *BoolValue   `query:"SourceDestCheck"`
	Groups                            []string     `query:"GroupId"`
	DryRun                            bool         `query:"DryRun"`
}

// ModifyInstanceAttribute sets an attribute of an instance, or of its only interface.
func (m *Model) ModifyInstanceAttribute(c Call, in *ModifyInstanceAttributeInput) (*Return, error) {
	m.Advance(c.Now)
	instance, err := m.instanceOf(in.InstanceID)
	if err != nil {
		return nil, err
	}
	if err := in.hasOne(); err != nil {
		return nil, err
	}
	if in.SourceDestCheck != nil || len(in.Groups) > 0 {
		return m.modifyOnlyInterface(instance, in)
	}
	change, err := m.instanceChange(instance, in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	m.changeInstance(in.InstanceID, change)
	return &Return{true}, nil
}

func (in *ModifyInstanceAttributeInput) hasOne() error {
	attributes := 0
	for _, isSet := range []bool{
		in.InstanceType != nil, in.UserData != nil, in.DisableAPITermination != nil, in.DisableAPIStop != nil,
		in.InstanceInitiatedShutdownBehavior != nil, in.SourceDestCheck != nil, len(in.Groups) > 0,
	} {
		if isSet {
			attributes++
		}
	}
	switch attributes {
	case 0:
		return invalidCombination("No attributes specified.")
	case 1:
		return nil
	default:
		return invalidCombination("Fields for multiple attribute types specified: one can be modified at a time")
	}
}

// modifyOnlyInterface changes the interface of an instance that has one. With more EC2 wants to know which.
func (m *Model) modifyOnlyInterface(instance *Instance, in *ModifyInstanceAttributeInput) (*Return, error) {
	enis := m.interfacesOf(instance.InstanceID)
	if len(enis) != 1 {
		return nil, refuse("InvalidInstanceID", "There are multiple interfaces attached to instance '%s'. Please specify an "+
			"interface ID for the operation instead.", instance.InstanceID)
	}
	change, err := m.attributeChange(enis[0], &ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceID: enis[0].NetworkInterfaceID, SourceDestCheck: in.SourceDestCheck, Groups: in.Groups,
	})
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	m.changeInterface(enis[0].NetworkInterfaceID, change)
	return &Return{true}, nil
}

// instanceChange returns the change of an attribute that belongs to the instance itself.
func (m *Model) instanceChange(instance *Instance, in *ModifyInstanceAttributeInput) (func(*Instance), error) {
	switch {
	case in.DisableAPITermination != nil:
		return func(i *Instance) { i.internal.Protected = in.DisableAPITermination.Value }, nil
	case in.DisableAPIStop != nil:
		return func(i *Instance) { i.internal.StopProtected = in.DisableAPIStop.Value }, nil
	case in.InstanceInitiatedShutdownBehavior != nil:
		behavior := in.InstanceInitiatedShutdownBehavior.Value
		if behavior != shutdownStop && behavior != shutdownTerminate {
			return nil, invalidValue("Value (%s) for parameter instanceInitiatedShutdownBehavior is invalid.", behavior)
		}
		return func(i *Instance) { i.internal.Shutdown = behavior }, nil
	case instance.State.Name != Stopped:
		return nil, refuse("IncorrectInstanceState", "The instance '%s' is not in the 'stopped' state.",
			instance.InstanceID)
	case in.UserData != nil:
		if err := validateUserData(in.UserData.Value); err != nil {
			return nil, err
		}
		return func(i *Instance) { i.UserData = in.UserData.Value }, nil
	}
	limits, err := m.canBecome(instance, in.InstanceType.Value)
	if err != nil {
		return nil, err
	}
	return func(i *Instance) { i.InstanceType, i.CPUOptions = limits.Name, cpuOptions(limits) }, nil
}

// canBecome returns another type, or EC2's error for an instance that does not fit it.
func (m *Model) canBecome(instance *Instance, instanceType string) (instancetypes.Type, error) {
	limits, ok := instancetypes.Lookup(instanceType)
	if !ok {
		return limits, invalidValue("Invalid value '%s' for InstanceType.", instanceType)
	}
	if !slices.Contains(limits.Architectures, instance.Architecture) {
		return limits, invalidValue("The architecture '%s' of the instance is not one of the instance type '%s'",
			instance.Architecture, instanceType)
	}
	if attached := len(m.interfacesOf(instance.InstanceID)); attached > limits.MaxInterfaces {
		return limits, refuse("AttachmentLimitExceeded", "Interface count %d exceeds the limit for %s", attached,
			instanceType)
	}
	return limits, nil
}
