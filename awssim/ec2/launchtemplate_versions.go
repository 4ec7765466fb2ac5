// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// DeleteLaunchTemplateVersionsInput is the request of DeleteLaunchTemplateVersions.
type DeleteLaunchTemplateVersionsInput struct {
	TemplateName
	Versions []string `query:"LaunchTemplateVersion"`
	DryRun   bool     `query:"DryRun"`
}

// DeleteLaunchTemplateVersionsOutput lists the versions that were deleted, and those that were not.
type DeleteLaunchTemplateVersionsOutput struct {
	Deleted    []DeletedVersion    `json:"successfullyDeletedLaunchTemplateVersions" xml:"successfullyDeletedLaunchTemplateVersionSet"`
	NotDeleted []NotDeletedVersion `json:"unsuccessfullyDeletedLaunchTemplateVersions" xml:"unsuccessfullyDeletedLaunchTemplateVersionSet"`
}

// DeletedVersion is a version that was deleted.
type DeletedVersion struct {
	LaunchTemplateID   string `json:"launchTemplateId"`
	LaunchTemplateName string `json:"launchTemplateName"`
	VersionNumber      int    `json:"versionNumber"`
}

// NotDeletedVersion is a version that was not deleted, with the reason.
type NotDeletedVersion struct {
	DeletedVersion
	ResponseError ValidationError `json:"responseError"`
}

// DeleteLaunchTemplateVersions deletes versions by number, but never the default one.
func (m *Model) DeleteLaunchTemplateVersions(
	c Call, in *DeleteLaunchTemplateVersionsInput,
) (*DeleteLaunchTemplateVersionsOutput, error) {
	m.Advance(c.Now)
	template, err := m.templateOf(in.TemplateName)
	switch {
	case err != nil:
		return nil, err
	case len(in.Versions) == 0:
		return nil, missing("LaunchTemplateVersion")
	case len(in.Versions) > maxVersionsDeletedAtOne:
		return nil, invalidValue("The request names %d versions, the maximum is %d", len(in.Versions),
			maxVersionsDeletedAtOne)
	}
	var numbers []int
	for _, name := range in.Versions {
		number, err := strconv.Atoi(name)
		if err != nil {
			return nil, invalidValue("The launch template version '%s' is not a number.", name)
		}
		numbers = append(numbers, number)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	out := &DeleteLaunchTemplateVersionsOutput{}
	for _, number := range numbers {
		m.deleteVersionNumber(template, number, out)
	}
	m.updateLatest(template.LaunchTemplateID)
	return out, nil
}

// deleteVersionNumber deletes a version. The code for the default version is an estimate: EC2 documents that it stays,
// but not the error.
func (m *Model) deleteVersionNumber(template *LaunchTemplate, number int, out *DeleteLaunchTemplateVersionsOutput) {
	named := DeletedVersion{template.LaunchTemplateID, template.LaunchTemplateName, number}
	version := m.versions.get(versionKey(template.LaunchTemplateID, number))
	switch {
	case version == nil:
		out.NotDeleted = append(out.NotDeleted, NotDeletedVersion{named, ValidationError{
			"launchTemplateVersionDoesNotExist", versionNotFound(template.LaunchTemplateID, strconv.Itoa(number)).Message,
		}})
	case number == template.DefaultVersionNumber:
		out.NotDeleted = append(out.NotDeleted, NotDeletedVersion{named, ValidationError{
			"unexpectedError", "The default version of a launch template cannot be deleted.",
		}})
	default:
		m.deleteVersion(version)
		out.Deleted = append(out.Deleted, named)
	}
}

// updateLatest sets $Latest to the highest remaining version.
func (m *Model) updateLatest(templateID string) {
	template := *m.templates.get(templateID)
	if latest := m.versionsOf(templateID)[0].VersionNumber; latest != template.LatestVersionNumber {
		template.LatestVersionNumber = latest
		put(m, m.templates, templateID, &template)
	}
}

// DescribeLaunchTemplatesInput is the request of DescribeLaunchTemplates.
type DescribeLaunchTemplatesInput struct {
	Page
	LaunchTemplateIDs   []string `query:"LaunchTemplateId"`
	LaunchTemplateNames []string `query:"LaunchTemplateName"`
}

// DescribeLaunchTemplatesOutput is its answer.
type DescribeLaunchTemplatesOutput struct {
	LaunchTemplates []*LaunchTemplate `json:"launchTemplates"`
	NextToken       string            `json:"nextToken,omitempty"`
}

// DescribeLaunchTemplates lists templates. Names that do not exist fail the call, like IDs.
func (m *Model) DescribeLaunchTemplates(
	c Call, in *DescribeLaunchTemplatesInput,
) (*DescribeLaunchTemplatesOutput, error) {
	m.Advance(c.Now)
	page := in.Page
	if len(in.LaunchTemplateNames) > 0 {
		page.Filters = append(slices.Clone(page.Filters), Filter{Name: filterTemplateName, Values: in.LaunchTemplateNames})
	}
	found, next, err := describe(m, c, m.templates, in.LaunchTemplateIDs, page)
	if err != nil {
		return nil, err
	}
	for _, name := range in.LaunchTemplateNames {
		if next == "" && in.NextToken == "" && !slices.ContainsFunc(found, func(t *LaunchTemplate) bool {
			return t.LaunchTemplateName == name
		}) {
			return nil, templateNameNotFound(name)
		}
	}
	return &DescribeLaunchTemplatesOutput{found, next}, nil
}

// Filters for the tables of templates. The second is not EC2's.
const (
	filterTemplateName = "launch-template-name"
	filterTemplate     = "(launch-template-id)"
)

func templateKind() kind[LaunchTemplate] {
	return kind[LaunchTemplate]{
		action:     "DescribeLaunchTemplates",
		id:         func(t *LaunchTemplate) string { return t.LaunchTemplateID },
		tags:       func(t *LaunchTemplate) Tags { return t.Tags },
		retag:      func(t *LaunchTemplate, tags Tags) { t.Tags = tags },
		notFound:   templateNotFound,
		minResults: 1,
		maxResults: 200,
		filters: map[string]func(*LaunchTemplate) []string{
			"create-time":      func(t *LaunchTemplate) []string { return one(t.CreateTime.UTC().Format(filterTime)) },
			filterTemplateName: func(t *LaunchTemplate) []string { return one(t.LaunchTemplateName) },
		},
		keys:      func(t *LaunchTemplate) []string { return one(indexKey(filterTemplateName, t.LaunchTemplateName)) },
		isIndexed: func(filter string) bool { return filter == filterTemplateName },
	}
}

// DescribeLaunchTemplateVersionsInput is the request of DescribeLaunchTemplateVersions.
type DescribeLaunchTemplateVersionsInput struct {
	Page
	TemplateName
	Versions     []string `query:"LaunchTemplateVersion"`
	MinVersion   string   `query:"MinVersion"`
	MaxVersion   string   `query:"MaxVersion"`
	ResolveAlias bool     `query:"ResolveAlias"`
}

// DescribeLaunchTemplateVersionsOutput is its answer.
type DescribeLaunchTemplateVersionsOutput struct {
	LaunchTemplateVersions []*LaunchTemplateVersion `json:"launchTemplateVersions" xml:"launchTemplateVersionSet"`
	NextToken              string                   `json:"nextToken,omitempty"`
}

// DescribeLaunchTemplateVersions lists versions of one template, the newest first; or without a template the latest or
// default versions of all.
func (m *Model) DescribeLaunchTemplateVersions(
	c Call, in *DescribeLaunchTemplateVersionsInput,
) (*DescribeLaunchTemplateVersionsOutput, error) {
	m.Advance(c.Now)
	keys, narrowed, err := m.chosenVersions(in)
	if err != nil {
		return nil, err
	}
	page := in.Page
	switch {
	case narrowed && len(keys) == 0:
		return &DescribeLaunchTemplateVersionsOutput{}, nil
	case !narrowed:
		template, err := m.templateOf(in.TemplateName)
		if err != nil {
			return nil, err
		}
		page.Filters = append(slices.Clone(page.Filters),
			Filter{Name: filterTemplate, Values: one(template.LaunchTemplateID)})
	}
	found, next, err := describe(m, c, m.versions, keys, page)
	if err != nil {
		return nil, err
	}
	for i := range found {
		if found[i], err = m.resolved(found[i], in.ResolveAlias); err != nil {
			return nil, err
		}
	}
	return &DescribeLaunchTemplateVersionsOutput{found, next}, nil
}

// chosenVersions returns the keys of the versions that a request names, if it names any.
func (m *Model) chosenVersions(in *DescribeLaunchTemplateVersionsInput) (keys []string, narrowed bool, err error) {
	ranged := in.MinVersion != "" || in.MaxVersion != ""
	if ranged && len(in.Versions) > 0 {
		return nil, false, invalidCombination("Versions and a range of versions cannot be specified in the same request")
	}
	if in.TemplateName == (TemplateName{}) {
		keys, err = m.versionsOfAll(in.Versions)
		return keys, true, err
	}
	template, err := m.templateOf(in.TemplateName)
	if err != nil {
		return nil, false, err
	}
	if template = m.templates.view(template.LaunchTemplateID, m.now()); template == nil {
		return nil, false, m.notYet(in.TemplateName)
	}
	for _, name := range in.Versions {
		version, err := m.versionNamed(template, name)
		if err != nil {
			return nil, false, err
		}
		keys = append(keys, versionKey(version.LaunchTemplateID, version.VersionNumber))
	}
	if ranged {
		keys, err = m.versionsBetween(template.LaunchTemplateID, in.MinVersion, in.MaxVersion)
	}
	return keys, ranged || len(in.Versions) > 0, err
}

// notYet is the error for a template that is not visible yet.
func (m *Model) notYet(name TemplateName) *Error {
	if name.LaunchTemplateID != "" {
		return templateNotFound(name.LaunchTemplateID)
	}
	return templateNameNotFound(name.LaunchTemplateName)
}

func (m *Model) versionsOfAll(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, missing("LaunchTemplateId")
	}
	var keys []string
	for _, template := range m.templates.all() {
		for _, name := range names {
			if name != VersionLatest && name != VersionDefault {
				return nil, invalidValue(
					"Without a launch template only the versions $Latest and $Default can be described, not '%s'", name)
			}
			version, err := m.versionNamed(template, name)
			if err != nil {
				continue
			}
			if key := versionKey(version.LaunchTemplateID, version.VersionNumber); m.versions.view(key, m.now()) != nil {
				keys = append(keys, key)
			}
		}
	}
	return keys, nil
}

// versionsBetween are the keys from the lowest to the highest number, both included; either may be left open.
func (m *Model) versionsBetween(templateID, lowest, highest string) ([]string, error) {
	low, high := 0, math.MaxInt
	for _, bound := range []struct {
		text string
		into *int
	}{{lowest, &low}, {highest, &high}} {
		if bound.text == "" {
			continue
		}
		parsed, err := strconv.Atoi(bound.text)
		if err != nil {
			return nil, invalidValue("The launch template version '%s' is not a number.", bound.text)
		}
		*bound.into = parsed
	}
	var keys []string
	for _, version := range m.versionsOf(templateID) {
		key := versionKey(templateID, version.VersionNumber)
		if version.VersionNumber >= low && version.VersionNumber <= high && m.versions.view(key, m.now()) != nil {
			keys = append(keys, key)
		}
	}
	return keys, nil
}

func (m *Model) versionKind() kind[LaunchTemplateVersion] {
	text := func(get func(LaunchTemplateData) string) func(*LaunchTemplateVersion) []string {
		return func(v *LaunchTemplateVersion) []string { return one(get(v.LaunchTemplateData)) }
	}
	metadata := func(get func(MetadataOptions) string) func(*LaunchTemplateVersion) []string {
		return func(v *LaunchTemplateVersion) []string {
			if v.LaunchTemplateData.MetadataOptions == nil {
				return nil
			}
			return one(get(*v.LaunchTemplateData.MetadataOptions))
		}
	}
	return kind[LaunchTemplateVersion]{
		action: "DescribeLaunchTemplateVersions",
		id: func(v *LaunchTemplateVersion) string {
			return versionKey(v.LaunchTemplateID, v.VersionNumber)
		},
		notFound:   func(key string) *Error { return versionNotFound(templateOfKey(key)) },
		minResults: 1,
		maxResults: 200,
		present:    m.presentVersion,
		filters: map[string]func(*LaunchTemplateVersion) []string{
			"create-time":        func(v *LaunchTemplateVersion) []string { return one(v.CreateTime.UTC().Format(filterTime)) },
			"http-endpoint":      metadata(func(o MetadataOptions) string { return o.HTTPEndpoint }),
			"http-tokens":        metadata(func(o MetadataOptions) string { return o.HTTPTokens }),
			"image-id":           text(func(d LaunchTemplateData) string { return d.ImageID }),
			"instance-type":      text(func(d LaunchTemplateData) string { return d.InstanceType }),
			"is-default-version": func(v *LaunchTemplateVersion) []string { return truth(v.DefaultVersion) },
			"network-card-index": func(v *LaunchTemplateVersion) []string {
				return each(v.LaunchTemplateData.NetworkInterfaces, func(s InterfaceSpecification) string {
					return strconv.Itoa(s.slot().card)
				})
			},
			filterTemplate: func(v *LaunchTemplateVersion) []string { return one(v.LaunchTemplateID) },
		},
		keys:      func(v *LaunchTemplateVersion) []string { return one(indexKey(filterTemplate, v.LaunchTemplateID)) },
		isIndexed: func(filter string) bool { return filter == filterTemplate },
	}
}

// templateOfKey splits a key into the template's ID and the version's number.
func templateOfKey(key string) (id, version string) {
	id, digits, _ := strings.Cut(key, ":")
	inverted, err := strconv.Atoi(digits)
	if err != nil {
		return key, ""
	}
	return id, strconv.Itoa(9_999_999_999 - inverted)
}

// presentVersion returns a version with DefaultVersion according to the template that the reader sees.
func (m *Model) presentVersion(version *LaunchTemplateVersion, l look) *LaunchTemplateVersion {
	template := m.templates.view(version.LaunchTemplateID, l.at(version.LaunchTemplateID))
	shown := *version
	shown.DefaultVersion = template != nil && template.DefaultVersionNumber == version.VersionNumber
	return &shown
}

// resolved replaces a parameter with the image ID that it holds, if the request asks for it.
func (m *Model) resolved(version *LaunchTemplateVersion, resolve bool) (*LaunchTemplateVersion, error) {
	if !resolve {
		return version, nil
	}
	image, err := m.resolveImage(version.LaunchTemplateData.ImageID)
	if err != nil {
		return nil, err
	}
	shown := *version
	shown.LaunchTemplateData.ImageID = image
	return &shown, nil
}
