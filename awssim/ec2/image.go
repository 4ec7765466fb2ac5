// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// Image is a machine image.
type Image struct {
	ImageID             string               `json:"imageId"`
	Name                string               `json:"name"`
	Description         string               `json:"description,omitempty"`
	ImageState          string               `json:"imageState"`
	OwnerID             string               `json:"imageOwnerId"`
	OwnerAlias          string               `json:"imageOwnerAlias,omitempty"`
	IsPublic            bool                 `json:"isPublic"`
	ImageType           string               `json:"imageType"`
	Architecture        string               `json:"architecture"`
	CreationDate        time.Time            `json:"creationDate"`
	DeprecationTime     time.Time            `json:"deprecationTime,omitzero"`
	RootDeviceName      string               `json:"rootDeviceName"`
	RootDeviceType      string               `json:"rootDeviceType"`
	VirtualizationType  string               `json:"virtualizationType"`
	Hypervisor          string               `json:"hypervisor"`
	ENASupport          bool                 `json:"enaSupport"`
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty" xml:"blockDeviceMapping" wire:"always"`
	// ImageLocation, PlatformDetails and UsageOperation of a Linux image without a licence.
	ImageLocation   string `json:"imageLocation,omitempty"`
	PlatformDetails string `json:"platformDetails,omitempty"`
	UsageOperation  string `json:"usageOperation,omitempty"`
	Tags            Tags   `json:"tags,omitempty" xml:"tagSet"`
}

// DescribeImagesInput is the request of DescribeImages.
type DescribeImagesInput struct {
	Page
	ImageIDs          []string `query:"ImageId"`
	Owners            []string `query:"Owner"`
	IncludeDeprecated bool     `query:"IncludeDeprecated"`
}

// DescribeImagesOutput is its answer.
type DescribeImagesOutput struct {
	Images    []*Image `json:"images" xml:"imagesSet"`
	NextToken string   `json:"nextToken,omitempty"`
}

// DescribeImages lists the images of the world file. A deprecated one is visible to its owner, by its ID, or on
// request.
func (m *Model) DescribeImages(c Call, in *DescribeImagesInput) (*DescribeImagesOutput, error) {
	page := in.Page
	if len(in.Owners) > 0 {
		// Owners narrow like a filter, and a page must count the remaining images.
		page.Filters = append(slices.Clone(page.Filters), Filter{Name: filterOwner, Values: in.Owners})
	}
	if !in.IncludeDeprecated && len(in.ImageIDs) == 0 {
		page.Filters = append(slices.Clone(page.Filters), Filter{Name: filterCurrent, Values: one("true")})
	}
	found, next, err := describe(m, c, m.images, in.ImageIDs, page)
	if err != nil {
		return nil, err
	}
	return &DescribeImagesOutput{found, next}, nil
}

// Filters that a request sets by other parameters; EC2's names have no such characters.
const (
	filterOwner   = "(owner)"
	filterCurrent = "(current)"
)

func (m *Model) imageKind() kind[Image] {
	return kind[Image]{
		action:     "DescribeImages",
		id:         func(i *Image) string { return i.ImageID },
		tags:       func(i *Image) Tags { return i.Tags },
		retag:      func(i *Image, tags Tags) { i.Tags = tags },
		notFound:   imageNotFound,
		minResults: 1,
		maxResults: 1000,
		filters: map[string]func(*Image) []string{
			"architecture":        func(i *Image) []string { return one(i.Architecture) },
			"creation-date":       func(i *Image) []string { return one(i.CreationDate.UTC().Format(filterTime)) },
			"description":         func(i *Image) []string { return one(i.Description) },
			"ena-support":         func(i *Image) []string { return truth(i.ENASupport) },
			"hypervisor":          func(i *Image) []string { return one(i.Hypervisor) },
			"image-id":            func(i *Image) []string { return one(i.ImageID) },
			"image-type":          func(i *Image) []string { return one(i.ImageType) },
			"is-public":           func(i *Image) []string { return truth(i.IsPublic) },
			"name":                func(i *Image) []string { return one(i.Name) },
			"owner-alias":         func(i *Image) []string { return one(i.OwnerAlias) },
			"owner-id":            func(i *Image) []string { return one(i.OwnerID) },
			"root-device-name":    func(i *Image) []string { return one(i.RootDeviceName) },
			"root-device-type":    func(i *Image) []string { return one(i.RootDeviceType) },
			"state":               func(i *Image) []string { return one(i.ImageState) },
			"virtualization-type": func(i *Image) []string { return one(i.VirtualizationType) },
			filterOwner: func(i *Image) []string {
				owners := []string{i.OwnerID, i.OwnerAlias}
				if i.OwnerID == m.account {
					owners = append(owners, "self")
				}
				return owners
			},
			filterCurrent: func(i *Image) []string {
				return truth(i.OwnerID == m.account || i.DeprecationTime.IsZero() || i.DeprecationTime.After(m.now()))
			},
		},
	}
}

func imageNotFound(id string) *Error {
	if !isWellFormed(id, "ami") {
		return refuse("InvalidAMIID.Malformed", "Invalid id: %q (expecting \"ami-...\")", id)
	}
	return refuse("InvalidAMIID.NotFound", "The image id '[%s]' does not exist", id)
}

// buildImage completes an image of the world file with the attributes of most images.
func (m *Model) buildImage(spec Image) {
	spec.ImageState = cmp.Or(spec.ImageState, StatusAvailable)
	spec.OwnerID = cmp.Or(spec.OwnerID, m.account)
	spec.ImageType = cmp.Or(spec.ImageType, "machine")
	spec.Architecture = cmp.Or(spec.Architecture, "x86_64")
	spec.RootDeviceName = cmp.Or(spec.RootDeviceName, "/dev/xvda")
	spec.RootDeviceType = cmp.Or(spec.RootDeviceType, "ebs")
	spec.VirtualizationType = cmp.Or(spec.VirtualizationType, "hvm")
	spec.Hypervisor = cmp.Or(spec.Hypervisor, "xen")
	spec.ENASupport = true
	spec.ImageLocation = cmp.Or(spec.OwnerAlias, spec.OwnerID) + "/" + spec.Name
	spec.PlatformDetails, spec.UsageOperation = platformLinux, operationRun
	m.images.put(spec.ImageID, &spec, m.now(), m.now())
}

// parameterPrefix is the prefix of an image that is named by a Systems Manager parameter: EC2 uses the image ID that
// the parameter holds.
const parameterPrefix = "resolve:ssm:"

// Parameter reads a parameter of Systems Manager.
func (m *Model) Parameter(name string) (string, bool) {
	value, ok := m.parameters[name]
	return value, ok
}

// SetParameter writes one.
func (m *Model) SetParameter(name, value string) {
	if m.parameters == nil {
		m.parameters = map[string]string{}
	}
	m.parameters[name] = value
}

// ParameterARN is the Amazon resource name of one.
func (m *Model) ParameterARN(name string) string {
	return fmt.Sprintf("arn:aws:ssm:%s:%s:parameter/%s", m.region, m.account, strings.TrimPrefix(name, "/"))
}

// resolveImage returns the image ID of a launch template.
func (m *Model) resolveImage(id string) (string, error) {
	name, isParameter := strings.CutPrefix(id, parameterPrefix)
	if !isParameter {
		return id, nil
	}
	value, ok := m.parameters[name]
	if !ok {
		return "", invalidValue("The Systems Manager parameter '%s' could not be resolved.", name)
	}
	return value, nil
}

// imageOf returns the image ID for a launch. In a world without images it may be any ID.
func (m *Model) imageOf(id string, limits instancetypes.Type) (string, error) {
	if id == "" {
		return "", missing("ImageId")
	}
	id, err := m.resolveImage(id)
	if err != nil || len(m.images.order) == 0 {
		return id, err
	}
	image := m.images.get(id)
	switch {
	case image == nil:
		return "", imageNotFound(id)
	case image.ImageState != StatusAvailable:
		return "", refuse("InvalidAMIID.Unavailable", "The image ID '%s' is not available", id)
	case len(limits.Architectures) > 0 && !slices.Contains(limits.Architectures, image.Architecture):
		return "", invalidValue("The architecture '%s' of the specified instance type does not match the "+
			"architecture '%s' of the specified AMI.",
			strings.Join(limits.Architectures, ","), image.Architecture)
	}
	return id, nil
}
