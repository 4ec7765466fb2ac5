// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/iam"
)

// Requests returns the authorization requests of a call: the resources that it concerns, with their tags and those that
// it adds (Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2"). Actions on
// network interfaces, on CIDR reservations, on launch templates and tags are modelled by resource, and so are launches;
// all others concern "*".
func (m *Model) Requests(action string, input any) []iam.Request {
	switch in := input.(type) {
	case *CreateNetworkInterfaceInput:
		return m.requestsOfCreate(action, in)
	case *AttachNetworkInterfaceInput:
		return m.requestsFor(action, in.NetworkInterfaceID, in.InstanceID)
	case *DetachNetworkInterfaceInput:
		return m.requestsForAttachment(action, in.AttachmentID)
	case *DeleteNetworkInterfaceInput:
		return m.requestsFor(action, in.NetworkInterfaceID)
	case *ModifyNetworkInterfaceAttributeInput:
		return m.requestsFor(action, append([]string{in.NetworkInterfaceID}, in.Groups...)...)
	case *AssignPrivateIPAddressesInput:
		return m.requestsFor(action, in.NetworkInterfaceID)
	case *UnassignPrivateIPAddressesInput:
		return m.requestsFor(action, in.NetworkInterfaceID)
	case *AssignIPv6AddressesInput:
		return m.requestsFor(action, in.NetworkInterfaceID)
	case *UnassignIPv6AddressesInput:
		return m.requestsFor(action, in.NetworkInterfaceID)
	case *CreateSubnetCIDRReservationInput:
		return append(m.requestsFor(action, in.SubnetID),
			m.requestsOfBirth(action, "subnet-cidr-reservation", in.TagSpecifications)...)
	case *DeleteSubnetCIDRReservationInput:
		return m.requestsFor(action, in.SubnetCIDRReservationID)
	case *TagsInput:
		requests := m.requestsFor(action, in.ResourceIDs...)
		for _, r := range requests {
			addRequestTags(r.Context, in.Tags)
		}
		return requests
	}
	if requests := m.requestsForLaunch(action, input); requests != nil {
		return requests
	}
	return []iam.Request{{Action: "ec2:" + action, Resource: "*", Context: map[string][]string{}}}
}

// requestsForLaunch returns the requests of actions on launch templates, and of launches; nil for any other.
func (m *Model) requestsForLaunch(action string, input any) []iam.Request {
	switch in := input.(type) {
	case *CreateLaunchTemplateInput:
		return m.requestsOfBirth(action, "launch-template", in.TagSpecifications)
	case *CreateLaunchTemplateVersionInput:
		return m.requestsFor(action, m.templateID(in.TemplateName))
	case *DeleteLaunchTemplateInput:
		return m.requestsFor(action, m.templateID(in.TemplateName))
	case *DeleteLaunchTemplateVersionsInput:
		return m.requestsFor(action, m.templateID(in.TemplateName))
	case *RunInstancesInput:
		return m.requestsOfLaunch(action, in)
	}
	return nil
}

// requestsOfLaunch returns a request for the launch template, for each resource that a launch uses or creates, and for
// the tags of created resources.
func (m *Model) requestsOfLaunch(action string, in *RunInstancesInput) []iam.Request {
	data, _, err := m.launchData(in)
	if err != nil {
		data = in.LaunchTemplateData // EC2 returns its error to authorized callers
	}
	ids := slices.Concat([]string{data.ImageID, in.SubnetID}, data.SecurityGroupIDs)
	for _, i := range data.NetworkInterfaces {
		ids = append(append(ids, i.SubnetID), i.Groups...)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool { return kindOf(id) == kindUnknown })
	requests := m.requestsFor(action, ids...)
	for _, kind := range []string{"instance", "volume", "network-interface"} {
		at := slices.IndexFunc(data.TagSpecifications, func(s TagSpecification) bool { return s.ResourceType == kind })
		if at < 0 {
			requests = append(requests, m.requestsOfBirth(action, kind, nil)...)
		} else {
			requests = append(requests, m.requestsOfBirth(action, kind, data.TagSpecifications[at:at+1])...)
		}
	}
	if in.LaunchTemplate != nil {
		id := m.templateID(in.LaunchTemplate.TemplateName)
		for _, r := range requests {
			r.Context["ec2:LaunchTemplate"] = []string{m.ARN("launch-template", id)}
		}
		requests = append(requests, m.requestsFor(action, id)...)
	}
	return requests
}

// templateID returns the ID of the launch template with the name, or an unused ID if there is none.
func (m *Model) templateID(name TemplateName) string {
	if template, err := m.templateOf(name); err == nil {
		return template.LaunchTemplateID
	}
	return cmp.Or(name.LaunchTemplateID, "lt-")
}

// requestsOfCreate returns the requests for a new interface, and for its subnet and security groups.
func (m *Model) requestsOfCreate(action string, in *CreateNetworkInterfaceInput) []iam.Request {
	return append(m.requestsFor(action, append([]string{in.SubnetID}, in.Groups...)...),
		m.requestsOfBirth(action, "network-interface", in.TagSpecifications)...)
}

// requestsOfBirth returns a request for a new resource, and one for its tags.
func (m *Model) requestsOfBirth(action, kind string, specs []TagSpecification) []iam.Request {
	var tags []Tag
	for _, s := range specs {
		tags = append(tags, s.Tags...)
	}
	born := func(action string) iam.Request {
		r := iam.Request{Action: "ec2:" + action, Resource: m.ARN(kind, "*"), Context: map[string][]string{}}
		addRequestTags(r.Context, tags)
		return r
	}
	requests := []iam.Request{born(action)}
	if len(tags) > 0 {
		tagging := born("CreateTags")
		tagging.Context["ec2:CreateAction"] = []string{action}
		requests = append(requests, tagging)
	}
	return requests
}

func (m *Model) requestsForAttachment(action, attachmentID string) []iam.Request {
	eni := m.interfaces.get(m.attachments[attachmentID])
	if eni == nil || eni.Attachment == nil {
		return m.requestsFor(action, "eni-", "i-") // some of these kinds that do not exist
	}
	return m.requestsFor(action, eni.NetworkInterfaceID, eni.Attachment.InstanceID)
}

// requestsFor returns a request for each resource. A resource that does not exist is marked as missing.
func (m *Model) requestsFor(action string, ids ...string) []iam.Request {
	var requests []iam.Request
	for _, id := range ids {
		r := iam.Request{Action: "ec2:" + action, Resource: m.ARN(kindOf(id), id), Context: map[string][]string{}}
		tags, err := m.tagsOf(id)
		r.Missing = err != nil
		for key, value := range tags {
			r.Context["aws:ResourceTag/"+key] = []string{value}
		}
		if key := keyOfID[kindOf(id)]; key != "" {
			r.Context[key] = []string{id}
		}
		requests = append(requests, r)
	}
	return requests
}

// keyOfID is the condition key that holds the ID of a resource, by kind (Service Authorization Reference, Amazon EC2).
var keyOfID = map[string]string{"instance": "ec2:InstanceID", "subnet": "ec2:SubnetID",
	"security-group": "ec2:SecurityGroupID"}

// kindOf is the kind of a resource in ARNs.
func kindOf(id string) string {
	if prefix, _, ok := strings.Cut(id, "-"); ok {
		return cmp.Or(kindOfPrefix[prefix], kindUnknown)
	}
	return kindUnknown
}

// kindOfPrefix has the kinds of resources by the prefix of their IDs.
var kindOfPrefix = map[string]string{
	"acl": "network-acl", "ami": "image", "eni": "network-interface", "i": "instance", "igw": "internet-gateway",
	"lt": "launch-template", "rtb": "route-table", "scr": "subnet-cidr-reservation", "sg": "security-group",
	"sgr": "security-group-rule", "subnet": "subnet", "vpc": "vpc",
}

// kindUnknown is the kind of resources with other IDs.
const kindUnknown = "unknown"

func addRequestTags(context map[string][]string, tags []Tag) {
	keys := map[string]bool{}
	for _, tag := range tags {
		value := ""
		if tag.Value != nil {
			value = *tag.Value
		}
		context["aws:RequestTag/"+tag.Key] = []string{value}
		keys[tag.Key] = true
	}
	if len(keys) > 0 {
		context["aws:TagKeys"] = slices.Sorted(maps.Keys(keys))
	}
}
