// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// made is an available image for amd64 that EC2 created on the day.
func made(id, day string, changes ...func(*launchtemplate.MachineImage)) launchtemplate.MachineImage {
	image := launchtemplate.MachineImage{
		ID: id, Architecture: "amd64", State: "available", CreatedAt: "2026-01-" + day + "T00:00:00.000Z",
	}
	for _, change := range changes {
		change(&image)
	}
	return image
}

func in(state string) func(*launchtemplate.MachineImage) {
	return func(i *launchtemplate.MachineImage) { i.State = state }
}

func forMachine(architecture string) func(*launchtemplate.MachineImage) {
	return func(i *launchtemplate.MachineImage) { i.Architecture = architecture }
}

// The newest image is chosen among those from which EC2 launches what is declared.
func TestTheNewestImageThatFitsIsChosen(t *testing.T) {
	kernel := func(i *launchtemplate.MachineImage) { i.Kernel = true }
	old := made("ami-old", "01")
	for name, tc := range map[string]struct {
		newer  launchtemplate.MachineImage
		change func(*launchtemplate.NodeTemplate)
		want   string
	}{
		"the newest":                 {made("ami-new", "02"), nil, "ami-new"},
		"one that is pending":        {made("ami-new", "02", in("pending")), nil, "ami-old"},
		"one that failed":            {made("ami-new", "02", in("failed")), nil, "ami-old"},
		"one that is disabled":       {made("ami-new", "02", in("disabled")), nil, "ami-old"},
		"one in a state to come":     {made("ami-new", "02", in("rehydrating")), nil, "ami-old"},
		"a kernel":                   {made("ami-new", "02", kernel), nil, "ami-old"},
		"any architecture will do":   {made("ami-new", "02", forMachine("arm64")), nil, "ami-new"},
		"one that no node boots":     {made("ami-new", "02", forMachine("arm64_mac")), nil, "ami-old"},
		"of one time, the higher ID": {made("ami-z", "01"), nil, "ami-z"},
		"another architecture than the declared one": {
			made("ami-new", "02", forMachine("arm64")),
			func(n *launchtemplate.NodeTemplate) { n.Image.Architecture = "amd64" }, "ami-old",
		},
		"another architecture than that of the chosen types": {
			made("ami-new", "02", forMachine("arm64")),
			func(n *launchtemplate.NodeTemplate) { n.Types.Include = []string{"m5.*"} }, "ami-old",
		},
		"another architecture than that of the types with as many network cards": {
			made("ami-new", "02", forMachine("arm64")),
			func(n *launchtemplate.NodeTemplate) { n.Interfaces = list(at(0), interfaceIn(3, 1)) }, "ami-old",
		},
		"another architecture than that of the types with EFA": {
			made("ami-new", "02", forMachine("arm64")),
			func(n *launchtemplate.NodeTemplate) { n.Interfaces = list(at(0), interfaceIn(0, 1, ofType(eni.EFA))) },
			"ami-old",
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image = launchtemplate.Image{}
			if tc.change != nil {
				tc.change(&n)
			}
			types := of(t, "m5.large", "m6g.large", "p4d.24xlarge")
			for _, images := range [][]launchtemplate.MachineImage{{old, tc.newer}, {tc.newer, old}} {
				got, problems := n.ChooseImage(images, types)
				if got.ID != tc.want || problems != nil {
					t.Errorf("%s, %v, want %s", got.ID, problems, tc.want)
				}
			}
		})
	}
}

// If no image fits, the message says for each why not. If only the types do not fit, their verdicts say so.
func TestNoImageThatFits(t *testing.T) {
	n := plain()
	n.Image.Architecture = "amd64"
	_, problems := n.ChooseImage([]launchtemplate.MachineImage{
		made("ami-1", "04", in("pending")), made("ami-2", "03", in("failed")), made("ami-3", "02", forMachine("arm64")),
		made("ami-4", "01", in("failed")),
	}, of(t, "m5.large"))
	const want = "EC2 would launch from none of the images that have all the tags: ami-1 is pending; ami-2 is failed; " +
		"ami-3 is for arm64, and spec.architecture is amd64; and 1 more; correct amiSelector or what does not fit, or " +
		"tag another image"
	if len(problems) != 1 || problems[0].Message != want || problems[0].Reason != launchtemplate.ImageRequired {
		t.Errorf("got %v, want %s", problems, want)
	}
	_, problems = n.ChooseImage(nil, nil)
	if len(problems) != 1 || !strings.HasPrefix(problems[0].Message, "no image has all") {
		t.Errorf("without images: %v", problems)
	}
	n.Image.Architecture, n.Types.Include = "", []string{"m5.*"}
	arm := made("ami-3", "02", forMachine("arm64"))
	got, problems := n.ChooseImage([]launchtemplate.MachineImage{arm}, of(t, "m5.large"))
	if got != arm || problems != nil {
		t.Errorf("for other types %+v, %v", got, problems)
	}
}

// An image that a layer names by ID must be one that EC2 can launch, for the declared architecture.
func TestAnImageThatIsNamedByIDMustFit(t *testing.T) {
	const path = "spec.launchTemplateRef"
	for name, tc := range map[string]struct {
		image launchtemplate.MachineImage
		want  string // "" if it fits
	}{
		"available":            {made("ami-1", "01"), ""},
		"not there":            {launchtemplate.MachineImage{}, "EC2 has no image ami-1 in this region"},
		"pending":              {made("ami-1", "01", in("pending")), "image ami-1 is pending; multieni takes it when"},
		"failed":               {made("ami-1", "01", in("failed")), "image ami-1 is failed; name one that fits"},
		"another architecture": {made("ami-1", "01", forMachine("arm64")), "image ami-1 is for arm64, and spec.arch"},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Image.Architecture = "amd64"
			switch problems := n.CheckImage("ami-1", path, tc.image); {
			case tc.want == "":
				if problems != nil {
					t.Error(problems)
				}
			case len(problems) != 1 || !strings.HasPrefix(problems[0].Message, tc.want) || problems[0].Path != path:
				t.Errorf("got %v, want %s", problems, tc.want)
			}
		})
	}
}
