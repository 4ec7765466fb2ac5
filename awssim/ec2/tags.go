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
	for _, t := range m.taggedTables() {
		if tags, ok := t.tagsOf(id); ok {
			return tags, nil
		}
	}
	return nil, unknownTagged(kind, id)
}

// taggedTable is a table of resources that have tags.
type taggedTable interface {
	tagsOf(id string) (Tags, bool)
	setTags(m *Model, id string, change func(Tags) Tags) bool
	tagDescriptions() []*TagDescription
}

// taggedTables are the tables of all resources that can be tagged, but interfaces and instances, which have their own
// errors and are the most.
func (m *Model) taggedTables() []taggedTable {
	return []taggedTable{
		m.subnets, m.groups, m.vpcs, m.templates, m.reservations, m.images, m.groupRules, m.routeTables,
		m.internetGateways, m.networkACLs,
	}
}

func (t *table[T]) tagsOf(id string) (Tags, bool) {
	resource := t.get(id)
	if resource == nil {
		return nil, false
	}
	return t.kind.tags(resource), true
}

// setTags replaces the resource by one with other tags, and reports whether it exists.
func (t *table[T]) setTags(m *Model, id string, change func(Tags) Tags) bool {
	resource := t.get(id)
	if resource == nil {
		return false
	}
	changed := *resource
	t.kind.retag(&changed, change(t.kind.tags(resource)))
	put(m, t, id, &changed)
	return true
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
	case "ami":
		return imageNotFound(id)
	case "sgr":
		return groupRuleNotFound(id)
	case "rtb":
		return routeTableNotFound(id)
	case "igw":
		return internetGatewayNotFound(id)
	case "acl":
		return networkACLNotFound(id)
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
	for _, t := range m.taggedTables() {
		if t.setTags(m, id, change) {
			return
		}
	}
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
