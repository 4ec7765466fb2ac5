// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"fmt"
	"strings"
)

// Family is the family of a machine image. It determines how the node learns which cluster to join.
type Family string

const (
	// AL2023 is Amazon Linux 2023, configured by nodeadm.
	AL2023 Family = "AL2023"
	// Bottlerocket is configured by TOML settings.
	Bottlerocket Family = "Bottlerocket"
	// Custom images are configured by user data that multieni does not change.
	Custom Family = "Custom"
)

// parameter is the prefix of an image that is named by a Systems Manager parameter. EC2 resolves the parameter to the
// ID of the image (EC2 user guide, "Use a Systems Manager parameter instead of an AMI ID").
const parameter = "resolve:ssm:"

// ImageParameter returns how the template names its image, if that is by a Systems Manager parameter, and else "".
func (t Template) ImageParameter() string {
	if id := text(t.Data[mImageID]); strings.HasPrefix(id, parameter) {
		return id
	}
	return ""
}

// ImageID returns the image that the version names.
func (v Version) ImageID() string { return text(v.Data[mImageID]) }

// Image is the machine image that instances boot.
type Image struct {
	// Family is empty if it was not declared.
	Family Family
	// ID is the chosen image; empty for the family's own.
	ID string
	// Architecture is that of the instance types to choose from, amd64 or arm64; empty for any.
	Architecture string
	// KubernetesVersion is the minor version, such as 1.35, that the family's own image is for.
	KubernetesVersion string
}

// standard is the image of the family itself: EC2 reads the parameter at launch, so that patches are picked up without
// a new version of the template.
func (i Image) standard(family Family) (string, *Problem) {
	if i.KubernetesVersion == "" {
		return "", &Problem{ImageRequired, "spec.amiFamily",
			"the Kubernetes version that the image is for is not known; set spec.amiSelector, or say the version"}
	}
	machine := map[string]string{"arm64": "arm64"}[i.Architecture]
	if machine == "" {
		machine = "x86_64"
	}
	if family == Bottlerocket {
		return fmt.Sprintf(parameter+"/aws/service/bottlerocket/aws-k8s-%s/%s/latest/image_id",
			i.KubernetesVersion, machine), nil
	}
	return fmt.Sprintf(parameter+"/aws/service/eks/optimized-ami/%s/amazon-linux-2023/%s/standard/recommended/image_id",
		i.KubernetesVersion, machine), nil
}
