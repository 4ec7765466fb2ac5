// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"maps"
	"slices"

	"github.com/multieni/multieni/awssim/iam"
)

// Requests returns what IAM is asked before a call is carried out: the resources it concerns, with their tags and those it
// gives (Service Authorization Reference, "Actions, resources, and condition keys for Amazon EC2"). Actions on network
// interfaces and their tags are modelled by resource; all others concern "*".
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
	case *TagsInput:
		requests := m.requestsFor(action, in.ResourceIDs...)
		for _, r := range requests {
			addRequestTags(r.Context, in.Tags)
		}
		return requests
	}
	return []iam.Request{{Action: "ec2:" + action, Resource: "*", Context: map[string][]string{}}}
}

// requestsOfCreate has a request for the interface to come, and one for tagging it.
func (m *Model) requestsOfCreate(action string, in *CreateNetworkInterfaceInput) []iam.Request {
	var tags []Tag
	for _, s := range in.TagSpecifications {
		tags = append(tags, s.Tags...)
	}
	born := func(action string) iam.Request {
		r := iam.Request{Action: "ec2:" + action, Resource: m.ARN("network-interface", "*"), Context: map[string][]string{}}
		addRequestTags(r.Context, tags)
		return r
	}
	requests := append(m.requestsFor(action, append([]string{in.SubnetID}, in.Groups...)...), born(action))
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

// requestsFor has a request for each resource. One that does not exist is marked as missing.
func (m *Model) requestsFor(action string, ids ...string) []iam.Request {
	var requests []iam.Request
	for _, id := range ids {
		r := iam.Request{Action: "ec2:" + action, Resource: m.ARN(kindOf(id), id), Context: map[string][]string{}}
		tags, err := m.tagsOf(id)
		r.Missing = err != nil
		for key, value := range tags {
			r.Context["aws:ResourceTag/"+key] = []string{value}
		}
		if kindOf(id) == "instance" {
			r.Context["ec2:InstanceID"] = []string{id}
		}
		requests = append(requests, r)
	}
	return requests
}

// kindOf is the kind of a resource in ARNs.
func kindOf(id string) string {
	for prefix, kind := range map[string]string{
		"eni-": "network-interface", "i-": "instance", "subnet-": "subnet", "sg-": "security-group", "vpc-": "vpc", "lt-": "launch-template", "ami-": "image",
	} {
		if len(id) >= len(prefix) && id[:len(prefix)] == prefix {
			return kind
		}
	}
	return "unknown"
}

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
