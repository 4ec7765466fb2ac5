// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/multieni/multieni/awssim/fault"
)

// Limits of launch templates. The numbers per region and per template are estimates.
const (
	maxLaunchTemplates      = 5000
	maxTemplateVersions     = 10000
	maxVersionDescription   = 255
	maxVersionsDeletedAtOne = 200
)

// Names of versions in requests, in place of a number.
const (
	VersionLatest  = "$Latest"
	VersionDefault = "$Default"
)

var templateName = regexp.MustCompile(`^[a-zA-Z0-9().\-/_]{3,128}$`)

// LaunchTemplate is a named series of versions.
type LaunchTemplate struct {
	LaunchTemplateID     string    `json:"launchTemplateId"`
	LaunchTemplateName   string    `json:"launchTemplateName"`
	CreateTime           time.Time `json:"createTime"`
	CreatedBy            string    `json:"createdBy"`
	DefaultVersionNumber int       `json:"defaultVersionNumber"`
	LatestVersionNumber  int       `json:"latestVersionNumber"`
	Tags                 Tags      `json:"tags" xml:"tagSet"`
}

// LaunchTemplateVersion is a numbered version of a template. It never changes.
type LaunchTemplateVersion struct {
	LaunchTemplateID   string             `json:"launchTemplateId"`
	LaunchTemplateName string             `json:"launchTemplateName"`
	VersionNumber      int                `json:"versionNumber"`
	VersionDescription string             `json:"versionDescription,omitempty"`
	CreateTime         time.Time          `json:"createTime"`
	CreatedBy          string             `json:"createdBy"`
	DefaultVersion     bool               `json:"defaultVersion"`
	LaunchTemplateData LaunchTemplateData `json:"launchTemplateData"`
}

// versionKey is the ID in the table of versions: in its order, the newest version of a template is first.
func versionKey(templateID string, number int) string {
	return fmt.Sprintf("%s:%010d", templateID, 9_999_999_999-number)
}

// TemplateName is how most requests name a launch template: by ID or by name.
type TemplateName struct {
	LaunchTemplateID   string `query:"LaunchTemplateId" json:"launchTemplateId,omitempty"`
	LaunchTemplateName string `query:"LaunchTemplateName" json:"launchTemplateName,omitempty"`
}

// LaunchTemplateSpecification names a version of a launch template. Without a version it is the default one.
type LaunchTemplateSpecification struct {
	TemplateName
	Version string `query:"Version" json:"version,omitempty"`
}

// ValidationWarning has the problems of a template that EC2 accepts nevertheless.
type ValidationWarning struct {
	Errors []ValidationError `json:"errors" xml:"errorSet"`
}

// ValidationError is one mistake.
type ValidationError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// CreateLaunchTemplateInput is the request of CreateLaunchTemplate.
type CreateLaunchTemplateInput struct {
	LaunchTemplateName string              `query:"LaunchTemplateName"`
	LaunchTemplateData *LaunchTemplateData `query:"LaunchTemplateData"`
	VersionDescription string              `query:"VersionDescription"`
	TagSpecifications  []TagSpecification  `query:"TagSpecification"`
	ClientToken        string              `query:"ClientToken"`
	DryRun             bool                `query:"DryRun"`
}

// CreateLaunchTemplateOutput is its answer.
type CreateLaunchTemplateOutput struct {
	LaunchTemplate *LaunchTemplate    `json:"launchTemplate"`
	Warning        *ValidationWarning `json:"warning,omitempty"`
}

// CreateLaunchTemplate creates a template with version 1. The same token and parameters return the same template.
func (m *Model) CreateLaunchTemplate(c Call, in *CreateLaunchTemplateInput) (*CreateLaunchTemplateOutput, error) {
	m.Advance(c.Now)
	const action = "CreateLaunchTemplate"
	tags, err := tagsFor("launch-template", in.TagSpecifications)
	if err != nil {
		return nil, err
	}
	if in.LaunchTemplateData == nil {
		return nil, missing("LaunchTemplateData")
	}
	request := *in
	request.ClientToken, request.DryRun = "", false
	known, err := m.replayUnlessForgotten(action, in.ClientToken, request, in.LaunchTemplateName)
	if err != nil {
		return nil, err
	}
	warning, err := m.checkTemplate(*in.LaunchTemplateData, in.VersionDescription)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return &CreateLaunchTemplateOutput{m.templates.get(known.IDs[0]), warning}, nil
	}
	if err := m.canCreateTemplate(in); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	template := m.createTemplate(WorldLaunchTemplate{
		LaunchTemplateName: in.LaunchTemplateName, LaunchTemplateData: *in.LaunchTemplateData, Tags: tags,
	}, in.VersionDescription)
	m.remember(action, in.ClientToken, request, []string{template.LaunchTemplateID})
	m.hide(action, template.LaunchTemplateID)
	return &CreateLaunchTemplateOutput{template, warning}, nil
}

// replayUnlessForgotten is replay, unless a fault makes EC2 forget the token.
func (m *Model) replayUnlessForgotten(action, token string, request any, resources ...string) (*tokenRecord, error) {
	if _, strikes := m.faults.Draw(fault.ForgetToken, m.now(), action, resources...); strikes {
		return nil, nil
	}
	return m.replay(action, token, request)
}

func (m *Model) canCreateTemplate(in *CreateLaunchTemplateInput) error {
	taken := func(t *LaunchTemplate) bool { return t.LaunchTemplateName == in.LaunchTemplateName }
	all := m.templates.all()
	switch {
	case !templateName.MatchString(in.LaunchTemplateName):
		return refuse("InvalidLaunchTemplateName.MalformedException",
			"Launch template names must be between 3 and 128 characters long, and may contain letters, numbers, and "+
				"the following characters: - ( ) . / _")
	case slices.ContainsFunc(all, taken):
		return refuse("InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	case len(all) >= cmp.Or(m.world.Quotas.LaunchTemplates, maxLaunchTemplates):
		return refuse("MaxTemplateLimitExceeded", "The maximum number of launch templates has been reached.")
	}
	return nil
}

func (m *Model) createTemplate(spec WorldLaunchTemplate, description string) *LaunchTemplate {
	id := cmp.Or(spec.LaunchTemplateID, m.id("lt"))
	put(m, m.templates, id, &LaunchTemplate{
		LaunchTemplateID: id, LaunchTemplateName: spec.LaunchTemplateName, CreateTime: m.now(), CreatedBy: m.caller(),
		DefaultVersionNumber: 1, Tags: spec.Tags,
	})
	m.createVersion(id, spec.LaunchTemplateData, description)
	return m.templates.get(id)
}

func (m *Model) buildLaunchTemplate(spec WorldLaunchTemplate) error {
	if err := spec.LaunchTemplateData.validate(); err != nil {
		return fmt.Errorf("launch template %s: %w", spec.LaunchTemplateName, err)
	}
	m.createTemplate(spec, "")
	return nil
}

// createVersion adds a version to a template. Numbers are never reused.
func (m *Model) createVersion(templateID string, data LaunchTemplateData, description string) *LaunchTemplateVersion {
	m.lastVersion[templateID]++
	number := m.lastVersion[templateID]
	template := *m.templates.get(templateID)
	template.LatestVersionNumber = number
	put(m, m.templates, templateID, &template)
	put(m, m.versions, versionKey(templateID, number), &LaunchTemplateVersion{
		LaunchTemplateID: templateID, LaunchTemplateName: template.LaunchTemplateName, VersionNumber: number,
		VersionDescription: description, CreateTime: m.now(), CreatedBy: m.caller(), LaunchTemplateData: data,
	})
	return m.versions.get(versionKey(templateID, number))
}

// caller is the identity of every caller in the simulator.
func (m *Model) caller() string { return fmt.Sprintf("arn:aws:iam::%s:user/awssim", m.account) }

// CreateLaunchTemplateVersionInput is the request of CreateLaunchTemplateVersion.
type CreateLaunchTemplateVersionInput struct {
	TemplateName
	SourceVersion      string              `query:"SourceVersion"`
	LaunchTemplateData *LaunchTemplateData `query:"LaunchTemplateData"`
	VersionDescription string              `query:"VersionDescription"`
	ResolveAlias       bool                `query:"ResolveAlias"`
	ClientToken        string              `query:"ClientToken"`
	DryRun             bool                `query:"DryRun"`
}

// CreateLaunchTemplateVersionOutput is its answer.
type CreateLaunchTemplateVersionOutput struct {
	LaunchTemplateVersion *LaunchTemplateVersion `json:"launchTemplateVersion"`
	Warning               *ValidationWarning     `json:"warning,omitempty"`
}

// CreateLaunchTemplateVersion adds a version. It takes members that the request does not set from the source version.
func (m *Model) CreateLaunchTemplateVersion(
	c Call, in *CreateLaunchTemplateVersionInput,
) (*CreateLaunchTemplateVersionOutput, error) {
	m.Advance(c.Now)
	const action = "CreateLaunchTemplateVersion"
	template, err := m.templateOf(in.TemplateName)
	if err != nil {
		return nil, err
	}
	if in.LaunchTemplateData == nil {
		return nil, missing("LaunchTemplateData")
	}
	data := *in.LaunchTemplateData
	if in.SourceVersion != "" {
		source, err := m.versionNamed(template, in.SourceVersion)
		if err != nil {
			return nil, err
		}
		data = data.over(source.LaunchTemplateData)
	}
	warning, err := m.checkTemplate(data, in.VersionDescription)
	if err != nil {
		return nil, err
	}
	request := *in
	request.ClientToken, request.DryRun = "", false
	known, err := m.replayUnlessForgotten(action, in.ClientToken, request, template.LaunchTemplateID)
	if err != nil {
		return nil, err
	}
	if known != nil {
		return m.versionAnswer(m.versions.get(known.IDs[0]), in.ResolveAlias, warning)
	}
	if m.countVersions(template.LaunchTemplateID) >= cmp.Or(m.world.Quotas.LaunchTemplateVersions, maxTemplateVersions) {
		return nil, refuse("MaxTemplateVersionLimitExceeded",
			"The maximum number of versions of launch template %s has been reached.", template.LaunchTemplateID)
	}
	if in.DryRun {
		return nil, dryRun()
	}
	version := m.createVersion(template.LaunchTemplateID, data, in.VersionDescription)
	key := versionKey(version.LaunchTemplateID, version.VersionNumber)
	m.remember(action, in.ClientToken, request, []string{key})
	m.hide(action, key)
	return m.versionAnswer(version, in.ResolveAlias, warning)
}

func (m *Model) versionAnswer(
	version *LaunchTemplateVersion, resolve bool, warning *ValidationWarning,
) (*CreateLaunchTemplateVersionOutput, error) {
	shown, err := m.resolved(m.presentVersion(version, look{now: m.now()}), resolve)
	if err != nil {
		return nil, err
	}
	return &CreateLaunchTemplateVersionOutput{shown, warning}, nil
}

// checkTemplate returns an error for an invalid template, and warnings for one from which no launch can succeed.
func (m *Model) checkTemplate(data LaunchTemplateData, description string) (*ValidationWarning, error) {
	if len(description) > maxVersionDescription {
		return nil, invalidValue("The version description has %d characters, the maximum is %d.", len(description),
			maxVersionDescription)
	}
	if err := data.validate(); err != nil {
		return nil, err
	}
	found := m.doubts(data)
	switch {
	case len(found) == 0:
		return nil, nil
	case m.behavior.RefuseInvalidTemplates:
		return nil, refuse(found[0].Code, "%s", found[0].Message)
	}
	return &ValidationWarning{found}, nil
}

// ModifyLaunchTemplateInput is the request of ModifyLaunchTemplate.
type ModifyLaunchTemplateInput struct {
	TemplateName
	DefaultVersion string `query:"SetDefaultVersion"`
	ClientToken    string `query:"ClientToken"`
	DryRun         bool   `query:"DryRun"`
}

// LaunchTemplateOutput is the answer of ModifyLaunchTemplate and DeleteLaunchTemplate.
type LaunchTemplateOutput struct {
	LaunchTemplate *LaunchTemplate `json:"launchTemplate"`
}

// ModifyLaunchTemplate chooses the default version.
func (m *Model) ModifyLaunchTemplate(c Call, in *ModifyLaunchTemplateInput) (*LaunchTemplateOutput, error) {
	m.Advance(c.Now)
	template, err := m.templateOf(in.TemplateName)
	if err != nil {
		return nil, err
	}
	if in.DefaultVersion == "" {
		return nil, missing("DefaultVersion")
	}
	version, err := m.versionNamed(template, in.DefaultVersion)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	changed := *template
	changed.DefaultVersionNumber = version.VersionNumber
	put(m, m.templates, template.LaunchTemplateID, &changed)
	return &LaunchTemplateOutput{&changed}, nil
}

// DeleteLaunchTemplateInput is the request of DeleteLaunchTemplate.
type DeleteLaunchTemplateInput struct {
	TemplateName
	DryRun bool `query:"DryRun"`
}

// DeleteLaunchTemplate deletes a template with all its versions.
func (m *Model) DeleteLaunchTemplate(c Call, in *DeleteLaunchTemplateInput) (*LaunchTemplateOutput, error) {
	m.Advance(c.Now)
	template, err := m.templateOf(in.TemplateName)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	for _, version := range m.versionsOf(template.LaunchTemplateID) {
		m.deleteVersion(version)
	}
	m.burn(template.LaunchTemplateID)
	put(m, m.templates, template.LaunchTemplateID, nil)
	return &LaunchTemplateOutput{template}, nil
}

func (m *Model) deleteVersion(version *LaunchTemplateVersion) {
	key := versionKey(version.LaunchTemplateID, version.VersionNumber)
	m.burn(key)
	put(m, m.versions, key, nil)
}

// versionsOf returns the versions of a template, the newest first.
func (m *Model) versionsOf(templateID string) []*LaunchTemplateVersion {
	return m.versions.indexed(indexKey(filterTemplate, templateID))
}

func (m *Model) countVersions(templateID string) int { return len(m.versionsOf(templateID)) }

// templateOf returns the template that a request names.
func (m *Model) templateOf(name TemplateName) (*LaunchTemplate, error) {
	switch {
	case name.LaunchTemplateID != "" && name.LaunchTemplateName != "":
		return nil, invalidCombination("Specify either the launch template ID or the launch template name, not both")
	case name.LaunchTemplateID != "":
		template := m.templates.get(name.LaunchTemplateID)
		if template == nil || m.templates.entries[name.LaunchTemplateID].hiddenUntil.After(m.now()) {
			return nil, templateNotFound(name.LaunchTemplateID)
		}
		return template, nil
	case name.LaunchTemplateName == "":
		return nil, missing("LaunchTemplateId")
	}
	for _, template := range m.templates.all() {
		if template.LaunchTemplateName == name.LaunchTemplateName &&
			!m.templates.entries[template.LaunchTemplateID].hiddenUntil.After(m.now()) {
			return template, nil
		}
	}
	return nil, templateNameNotFound(name.LaunchTemplateName)
}

// versionOf returns the version that a launch names.
func (m *Model) versionOf(spec LaunchTemplateSpecification) (*LaunchTemplateVersion, error) {
	template, err := m.templateOf(spec.TemplateName)
	if err != nil {
		return nil, err
	}
	return m.versionNamed(template, cmp.Or(spec.Version, VersionDefault))
}

func (m *Model) versionNamed(template *LaunchTemplate, name string) (*LaunchTemplateVersion, error) {
	var number int
	switch name {
	case VersionLatest:
		number = template.LatestVersionNumber
	case VersionDefault:
		number = template.DefaultVersionNumber
	default:
		parsed, err := strconv.Atoi(name)
		if err != nil {
			return nil, refuse("InvalidLaunchTemplateId.VersionMalformed",
				"The launch template version '%s' is not valid: give a number, $Latest or $Default.", name)
		}
		number = parsed
	}
	version := m.versions.get(versionKey(template.LaunchTemplateID, number))
	if version == nil || m.versions.entries[versionKey(template.LaunchTemplateID, number)].hiddenUntil.After(m.now()) {
		return nil, versionNotFound(template.LaunchTemplateID, name)
	}
	return version, nil
}

func templateNotFound(id string) *Error {
	if !isWellFormed(id, "lt") {
		return refuse("InvalidLaunchTemplateId.Malformed", "Invalid id: %q (expecting \"lt-...\")", id)
	}
	return refuse("InvalidLaunchTemplateId.NotFound",
		"The specified launch template, with template ID %s, does not exist.", id)
}

func templateNameNotFound(name string) *Error {
	return refuse("InvalidLaunchTemplateName.NotFoundException",
		"The specified launch template, with template name %s, does not exist.", name)
}

func versionNotFound(templateID, version string) *Error {
	return refuse("InvalidLaunchTemplateId.VersionNotFound",
		"Could not find launch template version %s for template %s", version, templateID)
}
