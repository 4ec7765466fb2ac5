// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"cmp"
	"fmt"
	"slices"
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

// MachineImage is an image as EC2 describes it.
type MachineImage struct {
	ID string
	// Architecture is amd64 or arm64, or EC2's own name of one that no node of Kubernetes has.
	Architecture string
	// State is EC2's, for example pending, available or failed.
	State string
	// Kernel is set for the images of kernels and RAM disks, which no instance boots.
	Kernel bool
	// CreatedAt is EC2's time of creation, whose order is that of its text.
	CreatedAt string
}

// Available reports whether the state of the image allows launches (EC2 API reference, Image).
func (i MachineImage) Available() bool { return i.State == "available" }

// unfit returns why EC2 launches nothing from the image, or nothing that the node template declares, and "" if it does.
func (t NodeTemplate) unfit(image MachineImage) string {
	switch {
	case image.Kernel:
		return "is no machine image"
	case !image.Available():
		return "is " + image.State
	case t.Image.Architecture != "" && image.Architecture != t.Image.Architecture:
		return fmt.Sprintf("is for %s, and spec.architecture is %s", image.Architecture, t.Image.Architecture)
	default:
		return ""
	}
}

// CheckImage returns why EC2 launches nothing from the image that a layer names by ID, if so. The path is that of the
// layer. An image without an ID is one that EC2 does not have.
func (t NodeTemplate) CheckImage(id, path string, image MachineImage) []Problem {
	if image.ID == "" {
		return []Problem{{ImageRequired, path, fmt.Sprintf(
			"EC2 has no image %s in this region that the account may use; correct it, or share the image", id)}}
	}
	why := t.unfit(image)
	switch {
	case why == "":
		return nil
	case image.State == "pending":
		return []Problem{{ImageRequired, path, fmt.Sprintf("image %s %s; multieni takes it when EC2 has made it available",
			id, why)}}
	default:
		return []Problem{{ImageRequired, path, fmt.Sprintf("image %s %s; name one that fits, or correct the declaration",
			id, why)}}
	}
}

// ChooseImage returns the newest of the images from which EC2 launches what the node template declares: of an
// architecture on which one of the chosen types carries the interfaces, if there is such an image.
func (t NodeTemplate) ChooseImage(images []MachineImage, types []InstanceType) (MachineImage, []Problem) {
	const path = "spec.amiSelector"
	if len(images) == 0 {
		return MachineImage{}, []Problem{{ImageRequired, path,
			"no image has all the tags; correct amiSelector, or tag an image"}}
	}
	newest := slices.SortedFunc(slices.Values(images), func(a, b MachineImage) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	carried := map[string]bool{}
	var fit []MachineImage
	var words []string
	for _, image := range newest {
		if why := t.unfit(image); why != "" {
			words = append(words, image.ID+" "+why)
			continue
		}
		if _, known := carried[image.Architecture]; !known {
			carried[image.Architecture] = t.carriedOn(image.Architecture, types)
		}
		if carried[image.Architecture] {
			return image, nil
		}
		fit = append(fit, image)
	}
	if len(fit) > 0 {
		return fit[0], nil // the verdicts on the types say why none of them suits
	}
	const most = 3
	if more := len(words) - most; more > 0 {
		words = append(words[:most], fmt.Sprintf("and %d more", more))
	}
	return MachineImage{}, []Problem{{ImageRequired, path, fmt.Sprintf(
		"EC2 would launch from none of the images that have all the tags: %s; correct amiSelector or what does not fit, "+
			"or tag another image", strings.Join(words, "; "))}}
}

// carriedOn reports whether one of the chosen types of the architecture carries the declared interfaces.
func (t NodeTemplate) carriedOn(architecture string, types []InstanceType) bool {
	t.Image.Architecture = architecture
	return slices.ContainsFunc(types, func(kind InstanceType) bool {
		reason, _ := t.candidate(kind)
		return reason == "" && judge(kind, t.Layout.Interfaces(kind.Name, kind.Limits, t.Interfaces)).Eligible()
	})
}
