// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TestTheImageOfAFamily has the parameters of Systems Manager under which AWS publishes the images of the families.
func TestTheImageOfAFamily(t *testing.T) {
	const al2023 = "resolve:ssm:/aws/service/eks/optimized-ami/1.35/amazon-linux-2023/"
	cases := map[string]struct {
		image launchtemplate.Image
		kind  string
		want  string
	}{
		"no family, which is Amazon Linux 2023": {
			launchtemplate.Image{}, "m5.xlarge", al2023 + "x86_64/standard/recommended/image_id",
		},
		"Amazon Linux 2023 for Intel and AMD": {
			launchtemplate.Image{Family: launchtemplate.AL2023, Architecture: "amd64"}, "m5.xlarge",
			al2023 + "x86_64/standard/recommended/image_id",
		},
		"Amazon Linux 2023 for Graviton": {
			launchtemplate.Image{Family: launchtemplate.AL2023, Architecture: "arm64"}, "m6g.xlarge",
			al2023 + "arm64/standard/recommended/image_id",
		},
		"Bottlerocket for Intel and AMD": {
			launchtemplate.Image{Family: launchtemplate.Bottlerocket}, "m5.xlarge",
			"resolve:ssm:/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id",
		},
		"Bottlerocket for Graviton": {
			launchtemplate.Image{Family: launchtemplate.Bottlerocket, Architecture: "arm64"}, "m6g.xlarge",
			"resolve:ssm:/aws/service/bottlerocket/aws-k8s-1.35/arm64/latest/image_id",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image, n.Bootstrap, n.UserData = tc.image, blueCluster(), ""
			n.Image.KubernetesVersion = "1.35"
			template := only(t, n, tc.kind)
			if got := template.Data["ImageId"]; got != tc.want {
				t.Errorf("the image is %v, want %s", got, tc.want)
			}
			if got := template.ImageParameter(); got != tc.want {
				t.Errorf("the parameter to resolve is %q, want %s", got, tc.want)
			}
		})
	}
}

// The family's image is a default: it is used only if no layer names an image, and hides nothing.
func TestTheImageComesFromTheLastLayerThatNamesOne(t *testing.T) {
	family := launchtemplate.Image{Family: launchtemplate.Bottlerocket, KubernetesVersion: "1.35"}
	const standard = "resolve:ssm:/aws/service/bottlerocket/aws-k8s-1.35/x86_64/latest/image_id"
	chosen := family
	chosen.ID = "ami-inline"
	cases := map[string]struct {
		image            launchtemplate.Image
		source, override string
		want             string
		origin           launchtemplate.Origin
		shadows          []launchtemplate.Shadow
	}{
		"no layer":      {family, `{}`, `{}`, standard, launchtemplate.FromDefault, nil},
		"the spec":      {chosen, `{}`, `{}`, "ami-inline", launchtemplate.FromInline, nil},
		"a source":      {family, `{"ImageId": "ami-source"}`, `{}`, "ami-source", launchtemplate.FromTemplate, nil},
		"override":      {family, `{}`, `{"ImageId": "ami-over"}`, "ami-over", launchtemplate.FromOverride, nil},
		"an empty name": {family, `{"ImageId": ""}`, `{}`, standard, launchtemplate.FromDefault, nil},
		"all three": {
			chosen, `{"ImageId": "ami-source"}`, `{"ImageId": "ami-over"}`, "ami-over", launchtemplate.FromOverride,
			[]launchtemplate.Shadow{
				{Path: "ImageId", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
				{Path: "ImageId", By: launchtemplate.FromOverride, Of: launchtemplate.FromTemplate},
			},
		},
		"an override that removes the image of the spec": {
			chosen, `{}`, `{"ImageId": null}`, standard, launchtemplate.FromDefault,
			[]launchtemplate.Shadow{{Path: "ImageId", By: launchtemplate.FromOverride, Of: launchtemplate.FromInline}},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image, n.UserData, n.Bootstrap = tc.image, "", blueCluster()
			n.Source, n.Override = autofilled(t, tc.source), document(t, tc.override)
			r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
			if len(r.Problems) > 0 {
				t.Fatal(r.Problems)
			}
			if got := r.Templates[0].Data["ImageId"]; got != tc.want {
				t.Errorf("the image is %v, want %s", got, tc.want)
			}
			if got := r.Origins["ImageId"]; got != tc.origin {
				t.Errorf("its origin is %s, want %s", got, tc.origin)
			}
			if diff := cmp.Diff(tc.shadows, r.Shadows); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
		})
	}
}

// An image that a user chose could be of any family. multieni does not guess: the image is Custom unless the spec
// names its family, and the user data of a Custom image stays as it is.
func TestTheFamilyOfAChosenImageIsNotGuessed(t *testing.T) {
	const user = "#!/bin/sh\njoin"
	cases := map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		merged bool
	}{
		"an image of the spec": {func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-1" }, false},
		"an image of the spec, with its family": {
			func(n *launchtemplate.NodeTemplate) { n.Image.ID, n.Image.Family = "ami-1", launchtemplate.AL2023 }, true,
		},
		"an image of an override": {
			func(n *launchtemplate.NodeTemplate) { n.Override = launchtemplate.Document{"ImageId": "ami-1"} }, false,
		},
		"no image, and no family": {func(*launchtemplate.NodeTemplate) {}, true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image, n.UserData = launchtemplate.Image{KubernetesVersion: "1.35"}, user
			n.Bootstrap = blueCluster()
			tc.change(&n)
			if got := userDataOf(t, only(t, n)); (got != user) != tc.merged {
				t.Errorf("merged is %t, want %t; the user data is:\n%s", got != user, tc.merged, got)
			}
		})
	}
}

// Without an image no template is rendered, and the message says which field provides one.
func TestAnImageIsRequired(t *testing.T) {
	custom := launchtemplate.Problem{
		Reason: launchtemplate.ImageRequired, Path: "spec.amiSelector", Message: "the AMI family Custom has no default " +
			"image; set amiSelector, for example to aws-ids: ami-0123456789abcdef0",
	}
	version := launchtemplate.Problem{
		Reason: launchtemplate.ImageRequired, Path: "spec.amiFamily", Message: "the Kubernetes version that the image " +
			"is for is not known; set spec.amiSelector, or say the version",
	}
	for name, tc := range map[string]struct {
		image launchtemplate.Image
		want  launchtemplate.Problem
	}{
		"a custom one": {launchtemplate.Image{Family: launchtemplate.Custom, KubernetesVersion: "1.35"}, custom},
		"Amazon Linux 2023 for an unknown version": {launchtemplate.Image{Family: launchtemplate.AL2023}, version},
		"Bottlerocket for an unknown version":      {launchtemplate.Image{Family: launchtemplate.Bottlerocket}, version},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image = tc.image
			if tc.image.Family == launchtemplate.Bottlerocket {
				n.UserData = ""
			}
			n.Bootstrap = blueCluster()
			refusedFor(t, n, tc.want)
		})
	}
}

// EC2 resolves only what begins with resolve:ssm:. An image ID, and data without an image, name no parameter.
func TestImageParameterIsThePrefixedNameAlone(t *testing.T) {
	for id, want := range map[any]string{
		"resolve:ssm:/images/upf": "resolve:ssm:/images/upf",
		"ami-1":                   "", "": "", "xresolve:ssm:/images/upf": "", 7.0: "",
	} {
		template := launchtemplate.Template{Data: launchtemplate.Document{"ImageId": id}}
		if got := template.ImageParameter(); got != want {
			t.Errorf("the parameter of %v is %q, want %q", id, got, want)
		}
	}
	if got := (launchtemplate.Template{}).ImageParameter(); got != "" {
		t.Errorf("the parameter of no data is %q", got)
	}
}
