// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

// DescribeNetworkInterfaceAttributeInput is the request of DescribeNetworkInterfaceAttribute.
type DescribeNetworkInterfaceAttributeInput struct {
	NetworkInterfaceID string `query:"NetworkInterfaceId"`
	Attribute          string `query:"Attribute"`
	DryRun             bool   `query:"DryRun"`
}

// DescribeNetworkInterfaceAttributeOutput is its answer: the ID, and the one attribute.
type DescribeNetworkInterfaceAttributeOutput struct {
	NetworkInterfaceID string             `json:"networkInterfaceId"`
	Attachment         *Attachment        `json:"attachment,omitempty"`
	Description        *TextAttribute     `json:"description,omitempty"`
	Groups             *[]GroupIdentifier `json:"groups,omitempty" xml:"groupSet"`
	SourceDestCheck    *TruthAttribute    `json:"sourceDestCheck,omitempty"`
}

// TextAttribute is an attribute that is a text.
type TextAttribute struct {
	Value string `json:"value"`
}

// TruthAttribute is an attribute that is true or false.
type TruthAttribute struct {
	Value bool `json:"value"`
}

// DescribeNetworkInterfaceAttribute returns one attribute of an interface.
func (m *Model) DescribeNetworkInterfaceAttribute(
	c Call, in *DescribeNetworkInterfaceAttributeInput,
) (*DescribeNetworkInterfaceAttributeOutput, error) {
	found, _, err := describe(m, c, m.interfaces, []string{in.NetworkInterfaceID}, Page{DryRun: in.DryRun})
	if err != nil {
		return nil, err
	}
	eni, out := found[0], &DescribeNetworkInterfaceAttributeOutput{NetworkInterfaceID: in.NetworkInterfaceID}
	switch in.Attribute {
	case "attachment":
		out.Attachment = eni.Attachment
	case "description":
		out.Description = &TextAttribute{eni.Description}
	case "groupSet":
		out.Groups = &eni.Groups
	case "sourceDestCheck":
		out.SourceDestCheck = &TruthAttribute{eni.SourceDestCheck}
	case "":
		return nil, missing("attribute")
	default:
		return nil, unknownAttribute(in.Attribute)
	}
	return out, nil
}
