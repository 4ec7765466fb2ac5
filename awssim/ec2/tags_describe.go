// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"slices"
)

// DescribeTagsInput is the request of DescribeTags.
type DescribeTagsInput struct{ Page }

// DescribeTagsOutput is its answer.
type DescribeTagsOutput struct {
	Tags      []*TagDescription `json:"tags" xml:"tagSet"`
	NextToken string            `json:"nextToken,omitempty"`
}

// TagDescription is one tag of one resource.
type TagDescription struct {
	ResourceID   string `json:"resourceId"`
	ResourceType string `json:"resourceType"`
	Key          string `json:"key"`
	Value        string `json:"value"`
}

// id orders tags by resource and key. Neither contains a zero byte.
func (t *TagDescription) id() string { return t.ResourceID + "\x00" + t.Key }

// DescribeTags lists tags of all resources that can be tagged.
func (m *Model) DescribeTags(c Call, in *DescribeTagsInput) (*DescribeTagsOutput, error) {
	m.Advance(c.Now)
	k := tagKind()
	if err := validate(k, nil, in.Page); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	start, err := m.pageStart(k.action, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &DescribeTagsOutput{}
	for _, tag := range m.tagDescriptions() {
		if tag.id() <= start || !matchesAll(k, tag, in.Filters) {
			continue
		}
		if in.MaxResults != nil && len(out.Tags) == *in.MaxResults {
			out.NextToken = m.pageToken(k.action, out.Tags[len(out.Tags)-1].id())
			break
		}
		out.Tags = append(out.Tags, tag)
	}
	return out, nil
}

func tagKind() kind[TagDescription] {
	return kind[TagDescription]{
		action: "DescribeTags", minResults: 5, maxResults: 1000,
		// With it "tag:KEY" is a filter.
		tags: func(t *TagDescription) Tags { return Tags{t.Key: t.Value} },
		filters: map[string]func(*TagDescription) []string{
			"key":           func(t *TagDescription) []string { return one(t.Key) },
			"resource-id":   func(t *TagDescription) []string { return one(t.ResourceID) },
			"resource-type": func(t *TagDescription) []string { return one(t.ResourceType) },
			"value":         func(t *TagDescription) []string { return one(t.Value) },
		},
	}
}

// tagDescriptions returns the tags of all resources, by resource and key.
func (m *Model) tagDescriptions() []*TagDescription {
	all := append(m.interfaces.tagDescriptions(), m.instances.tagDescriptions()...)
	for _, t := range m.taggedTables() {
		all = append(all, t.tagDescriptions()...)
	}
	slices.SortFunc(all, func(a, b *TagDescription) int { return cmp.Compare(a.id(), b.id()) })
	return all
}

func (t *table[T]) tagDescriptions() []*TagDescription {
	var all []*TagDescription
	for _, resource := range t.all() {
		id := t.kind.id(resource)
		for key, value := range t.kind.tags(resource) {
			all = append(all, &TagDescription{ResourceID: id, ResourceType: kindOf(id), Key: key, Value: value})
		}
	}
	return all
}
