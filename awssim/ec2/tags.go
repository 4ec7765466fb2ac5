// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"maps"
	"strings"
	"unicode/utf8"
)

// Limits of tags (EC2 user guide, "Tag restrictions").
const (
	maxTags           = 50
	maxTagKeyLength   = 128
	maxTagValueLength = 256
	maxTaggedAtOnce   = 1000
)

// Tag is a tag in a request.
type Tag struct {
	Key   string  `query:"Key" json:"key"`
	Value *string `query:"Value" json:"value"`
}

// TagSpecification has the tags of the resources that a call creates.
type TagSpecification struct {
	ResourceType string `query:"ResourceType" json:"resourceType"`
	Tags         []Tag  `query:"Tag" json:"tags,omitempty" xml:"tagSet"`
}

// TagsInput is the request of CreateTags and DeleteTags.
type TagsInput struct {
	ResourceIDs []string `query:"ResourceId"`
	Tags        []Tag    `query:"Tag"`
	DryRun      bool     `query:"DryRun"`
}

// CreateTags adds or replaces tags of resources.
func (m *Model) CreateTags(c Call, in *TagsInput) (*Return, error) {
	if len(in.Tags) == 0 {
		return nil, missing("Tag")
	}
	added, err := readTags(in.Tags)
	if err != nil {
		return nil, err
	}
	return m.changeTags(c, in, func(have Tags) Tags { return have.with(added) })
}

// DeleteTags removes tags of resources: by key, or by key and value if the request has a value. Without tags it removes
// all.
func (m *Model) DeleteTags(c Call, in *TagsInput) (*Return, error) {
	return m.changeTags(c, in, func(have Tags) Tags {
		if len(in.Tags) == 0 {
			return nil
		}
		kept := maps.Clone(have)
		for _, tag := range in.Tags {
			if tag.Value == nil || kept[tag.Key] == *tag.Value {
				delete(kept, tag.Key)
			}
		}
		return kept
	})
}

// changeTags checks all resources before it changes one.
func (m *Model) changeTags(c Call, in *TagsInput, change func(Tags) Tags) (*Return, error) {
	m.Advance(c.Now)
	switch {
	case len(in.ResourceIDs) == 0:
		return nil, missing("resourceIdSet")
	case len(in.ResourceIDs) > maxTaggedAtOnce:
		return nil, invalidValue("The request names %d resources, the maximum is %d", len(in.ResourceIDs), maxTaggedAtOnce)
	}
	for _, id := range in.ResourceIDs {
		have, err := m.tagsOf(id)
		if err != nil {
			return nil, err
		}
		if len(change(have)) > maxTags {
			return nil, tooManyTags()
		}
	}
	if in.DryRun {
		return nil, dryRun()
	}
	for _, id := range in.ResourceIDs {
		m.setTags(id, change)
	}
	return &Return{true}, nil
}

func tooManyTags() *Error {
	return refuse("TagLimitExceeded", "The maximum number of tags per resource (%d) has been reached.", maxTags)
}

// tagsOf returns the tags of a resource of any kind.
func (m *Model) tagsOf(id string) (Tags, error) {
	kind, _, _ := strings.Cut(id, "-")
	switch kind {
	case "eni":
		eni, err := m.interfaceOf(id)
		if err != nil {
			return nil, err
		}
		return eni.Tags, nil
	case "i":
		instance, err := m.instanceOf(id)
		if err != nil {
			return nil, err
		}
		return instance.Tags, nil
	}
	if subnet := m.subnets.get(id); subnet != nil {
		return subnet.Tags, nil
	}
	if group := m.groups.get(id); group != nil {
		return group.Tags, nil
	}
	if vpc := m.vpcs.get(id); vpc != nil {
		return vpc.Tags, nil
	}
	if template := m.templates.get(id); template != nil {
		return template.Tags, nil
	}
	if reservation := m.reservations.get(id); reservation != nil {
		return reservation.Tags, nil
	}
	return nil, unknownTagged(kind, id)
}

func unknownTagged(kind, id string) *Error {
	switch kind {
	case "subnet":
		return subnetNotFound(id)
	case "sg":
		return groupNotFound(id)
	case "vpc":
		return vpcNotFound(id)
	case "lt":
		return templateNotFound(id)
	case "scr":
		return reservationNotFound(id)
	default:
		return refuse("InvalidID", "The ID '%s' is not valid, or awssim does not model resources of its kind", id)
	}
}

func (m *Model) setTags(id string, change func(Tags) Tags) {
	if m.interfaces.get(id) != nil {
		m.changeInterface(id, func(e *NetworkInterface) { e.Tags = change(e.Tags) })
		return
	}
	if m.instances.get(id) != nil {
		m.changeInstance(id, func(i *Instance) { i.Tags = change(i.Tags) })
		return
	}
	if subnet := m.subnets.get(id); subnet != nil {
		changed := *subnet
		changed.Tags = change(changed.Tags)
		put(m, m.subnets, id, &changed)
		return
	}
	if group := m.groups.get(id); group != nil {
		changed := *group
		changed.Tags = change(changed.Tags)
		put(m, m.groups, id, &changed)
		return
	}
	if template := m.templates.get(id); template != nil {
		changed := *template
		changed.Tags = change(changed.Tags)
		put(m, m.templates, id, &changed)
		return
	}
	if reservation := m.reservations.get(id); reservation != nil {
		changed := *reservation
		changed.Tags = change(changed.Tags)
		put(m, m.reservations, id, &changed)
		return
	}
	changed := *m.vpcs.get(id)
	changed.Tags = change(changed.Tags)
	put(m, m.vpcs, id, &changed)
}

// with returns a new map with the tags and the added ones.
func (t Tags) with(added Tags) Tags {
	all := maps.Clone(t)
	if all == nil {
		all = Tags{}
	}
	maps.Copy(all, added)
	return all
}

// readTags checks the tags of a request.
func readTags(list []Tag) (Tags, error) {
	tags := Tags{}
	for _, tag := range list {
		value := ""
		if tag.Value != nil {
			value = *tag.Value
		}
		switch {
		case tag.Key == "" || utf8.RuneCountInString(tag.Key) > maxTagKeyLength:
			return nil, refuse("InvalidTagKey.Malformed", "A tag key has 1 to %d characters.", maxTagKeyLength)
		case strings.HasPrefix(strings.ToLower(tag.Key), "aws:"):
			return nil, invalidValue("Tag keys starting with 'aws:' are reserved for internal use")
		case utf8.RuneCountInString(value) > maxTagValueLength:
			return nil, invalidValue("Tag value exceeds the maximum length of %d characters", maxTagValueLength)
		}
		if _, twice := tags[tag.Key]; twice {
			return nil, invalidValue("Duplicate tag key '%s' specified.", tag.Key)
		}
		tags[tag.Key] = value
	}
	if len(tags) > maxTags {
		return nil, tooManyTags()
	}
	return tags, nil
}

// tagsFor returns the tags for the only resource type that the call can tag.
func tagsFor(resourceType string, specs []TagSpecification) (Tags, error) {
	tags := Tags{}
	for _, spec := range specs {
		if spec.ResourceType != resourceType {
			return nil, invalidValue("'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
		more, err := readTags(spec.Tags)
		if err != nil {
			return nil, err
		}
		maps.Copy(tags, more)
	}
	return tags, nil
}
