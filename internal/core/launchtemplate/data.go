// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
)

// Document is launch template data in JSON, with the member names of EC2's RequestLaunchTemplateData, as
// `aws ec2 create-launch-template --launch-template-data` takes it. Values are those of encoding/json.
type Document map[string]any

// Members of a document that the package uses by name.
const (
	mImageID      = "ImageId"
	mUserData     = "UserData"
	mProfile      = "IamInstanceProfile"
	mMonitoring   = "Monitoring"
	mMetadata     = "MetadataOptions"
	mDevices      = "BlockDeviceMappings"
	mInterfaces   = "NetworkInterfaces"
	mGroupIDs     = "SecurityGroupIds"
	mGroupNames   = "SecurityGroups"
	mTags         = "TagSpecifications"
	mType         = "InstanceType"
	mRequirements = "InstanceRequirements"
	mPublicIP     = "AssociatePublicIpAddress" // of an interface
	mTracking     = "ConnectionTrackingSpecification"
	mExpress      = "EnaSrdSpecification"
)

// Origin is the layer that a member of a document comes from.
type Origin string

// The layers, in the order of their precedence: a later one overrides an earlier one.
const (
	FromDefault  Origin = "Default"
	FromInline   Origin = "Inline"
	FromTemplate Origin = "Template"
	FromOverride Origin = "Override"
)

// words returns the name of the layer in sentences.
func (o Origin) words() string {
	switch o {
	case FromTemplate:
		return "referenced launch template"
	case FromOverride:
		return "launchTemplateOverride"
	default:
		return "spec"
	}
}

// Shadow is a member that one layer sets and a later one hides.
type Shadow struct {
	// Path is the member, for example "NetworkInterfaces[card 0 device 1].Description".
	Path string
	// By is the layer that sets the member, Of the one that is hidden.
	By, Of Origin
}

// String implements [fmt.Stringer].
func (s Shadow) String() string {
	return fmt.Sprintf("%s: the %s hides the %s", s.Path, s.By.words(), s.Of.words())
}

// layer is a document with its origin.
type layer struct {
	origin Origin
	data   Document
}

// merged is the result of a merge of layers.
type merged struct {
	data Document
	// origins has the origin of each member, by its path.
	origins map[string]Origin
	shadows []Shadow
}

// merge lays the layers over each other, the last one on top. A member is taken whole, except that lists whose elements
// have an identity are merged element by element and member by member: interfaces by slot, block devices by name, tag
// specifications by resource type. Null removes a member; a member that is present but empty counts as present.
func merge(layers ...layer) merged {
	m := merged{data: Document{}, origins: map[string]Origin{}}
	for _, l := range layers {
		for _, member := range slices.Sorted(maps.Keys(l.data)) {
			m.member(member, l.data[member], l.origin)
		}
	}
	slices.SortFunc(m.shadows, func(a, b Shadow) int { return strings.Compare(a.Path, b.Path) })
	return m
}

func (m *merged) member(name string, value any, by Origin) {
	identify, has := identities[name]
	list, isList := value.([]any)
	if !has || !isList {
		set(m, spot{m.data, name, name}, value, by)
		return
	}
	was, _ := m.data[name].([]any)
	if _, present := m.data[name]; !present {
		m.origins[name] = by
	}
	m.data[name] = m.elements(name, was, list, identify, by)
}

// elements merges the elements of a list by identity. It appends those without one; they are refused later.
func (m *merged) elements(name string, was, list []any, identify func(map[string]any) string, by Origin) []any {
	result := slices.Clone(was)
	for _, element := range list {
		members, isObject := element.(map[string]any)
		if !isObject {
			result = append(result, element)
			continue
		}
		id := identify(members)
		at := slices.IndexFunc(result, func(e any) bool {
			other, is := e.(map[string]any)
			return is && id != "" && identify(other) == id
		})
		if at < 0 {
			result = append(result, map[string]any{})
			at = len(result) - 1
		}
		target := maps.Clone(result[at].(map[string]any))
		for _, key := range slices.Sorted(maps.Keys(members)) {
			path := fmt.Sprintf("%s[%s].%s", name, id, key)
			if name == mTags && key == "Tags" {
				target[key] = m.tags(path, target[key], members[key], by)
				continue
			}
			set(m, spot{target, key, path}, members[key], by)
		}
		result[at] = target
	}
	return result
}

// tags merges tag lists by key.
func (m *merged) tags(path string, was, now any, by Origin) any {
	result, before := tagsOf(was), tagsOf(was)
	for key, value := range tagsOf(now) {
		tag := path + "[" + key + "]"
		if old, present := before[key]; present && old != value {
			m.shadows = append(m.shadows, Shadow{Path: tag, By: by, Of: m.origins[tag]})
		}
		result[key], m.origins[tag] = value, by
	}
	return tagList(result)
}

// spot is the location of a member: its object, its key, and its path from the top.
type spot struct {
	in        map[string]any
	key, path string
}

// set sets a member and reports the value that it hides. A layer hides nothing if it repeats the value, or if only a
// default set the member before.
func set(m *merged, at spot, value any, by Origin) {
	in, key, path := at.in, at.key, at.path
	was, present := in[key]
	of := m.origins[path]
	if present && of != FromDefault && of != "" && !equal(was, value) && !isIdentity(key, path) {
		m.shadows = append(m.shadows, Shadow{Path: path, By: by, Of: of})
	}
	if value == nil {
		delete(in, key)
		delete(m.origins, path)
		return
	}
	in[key], m.origins[path] = value, by
}

// identities are the members that identify the elements of a list.
var identities = map[string]func(map[string]any) string{
	mInterfaces: func(e map[string]any) string { return slotOf(e).String() },
	mDevices:    func(e map[string]any) string { return text(e["DeviceName"]) },
	mTags:       func(e map[string]any) string { return text(e["ResourceType"]) },
}

// isIdentity reports whether a member only identifies an element: an index of 0 can be left out or written.
func isIdentity(key, path string) bool {
	return strings.HasPrefix(path, mInterfaces+"[") && (key == "DeviceIndex" || key == "NetworkCardIndex")
}

func slotOf(e map[string]any) eni.Slot {
	return eni.Slot{Card: number(e["NetworkCardIndex"]), Device: number(e["DeviceIndex"])}
}

// equal compares two values in the form in which EC2 receives them.
func equal(a, b any) bool { return bytes.Equal(encode(a), encode(b)) }

// encode is canonical: encoding/json sorts the members of maps. What a document holds can always be encoded.
func encode(value any) []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return nil
	}
	return bytes.TrimSpace(text.Bytes())
}

// renderer is the version of the rules that make documents. Every hash includes it: the hash changes when another
// version of the program renders the same declaration differently.
const renderer = "v1"

// Hash returns the identity of the document: 32 hexadecimal digits of SHA-256 over its canonical form.
func (d Document) Hash() string {
	sum := sha256.Sum256(append([]byte(renderer+"\n"), encode(d)...))
	return hex.EncodeToString(sum[:16])
}

// JSON returns the document in readable form.
func (d Document) JSON() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(d); err != nil {
		return nil
	}
	return text.Bytes()
}

// Clone returns a copy that shares nothing with d.
func (d Document) Clone() Document {
	var c Document
	decoder := json.NewDecoder(bytes.NewReader(encode(d)))
	if err := decoder.Decode(&c); err != nil || c == nil {
		return Document{}
	}
	return c
}

// objects returns the elements of a list that are objects.
func (d Document) objects(member string) []map[string]any {
	list, _ := d[member].([]any)
	var objects []map[string]any
	for _, e := range list {
		if object, is := e.(map[string]any); is {
			objects = append(objects, object)
		}
	}
	return objects
}

// SubnetIDs returns the subnets that the interfaces of the documents name, sorted.
func SubnetIDs(documents ...Document) []string {
	var ids []string
	for _, d := range documents {
		for _, i := range d.objects(mInterfaces) {
			if id := text(i["SubnetId"]); id != "" {
				ids = append(ids, id)
			}
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// GroupIDs returns the security groups that a document names by ID, sorted.
func (d Document) GroupIDs() []string {
	ids := slices.Clone(textList(d[mGroupIDs]))
	for _, i := range d.objects(mInterfaces) {
		ids = append(ids, textList(i["Groups"])...)
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Zone returns the Availability Zone in which the document places instances, or "".
func (d Document) Zone() string {
	placement, _ := d["Placement"].(map[string]any)
	return text(placement["AvailabilityZone"])
}

// InstanceType returns the instance type that the document names, or "".
func (d Document) InstanceType() string { return text(d[mType]) }

func text(value any) string {
	s, _ := value.(string)
	return s
}

// number returns a number that encoding/json or this package stored.
func number(value any) int {
	switch n := value.(type) {
	case float64:
		return int(n)
	case int:
		return n
	case int64:
		return int(n)
	default:
		return 0
	}
}

func boolean(value any) *bool {
	if b, is := value.(bool); is {
		return &b
	}
	return nil
}

func textList(value any) []string {
	switch list := value.(type) {
	case []string:
		return list
	case []any:
		var texts []string
		for _, e := range list {
			texts = append(texts, text(e))
		}
		return texts
	default:
		return nil
	}
}

func tagsOf(value any) map[string]string {
	tags := map[string]string{}
	list, _ := value.([]any)
	for _, e := range list {
		if tag, is := e.(map[string]any); is {
			tags[text(tag["Key"])] = text(tag["Value"])
		}
	}
	return tags
}

// tagList is sorted, so that the same tags always make the same document.
func tagList(tags map[string]string) []any {
	list := []any{}
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, map[string]any{"Key": key, "Value": tags[key]})
	}
	return list
}
