// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetemplate_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/nodetemplate"
)

// seed is the example of the design document with its blanks filled in.
const seed = `
apiVersion: karpenter.k8s.aws/v1alpha1
kind: AWSNodeTemplate
metadata:
  name: default
spec:
  subnetSelector: {network: nodes}
  securityGroupSelector: {aws-ids: "sg-1, sg-2"}
  instanceProfile: "nodes"
  amiFamily: "Custom"
  amiSelector: {aws-ids: ami-0123456789abcdef0}
  userData: "#!/bin/sh"
  tags: {team: net}
  metadataOptions: {httpTokens: required}
  blockDeviceMappings: [{deviceName: /dev/xvda, ebs: {volumeSize: 1Ti, volumeType: gp3}}]
  detailedMonitoring: true
  networkInterfaces:
    - associateCarrierIPAddress: false
      associatePublicIPAddress: false
      deleteOnTermination: false
      description: "first"
      deviceIndex: 0
      interfaceType: "interface"
      networkCardIndex: 0
      ipv4PrefixCount: 1
      ipv6PrefixCount: 1
    - {deviceIndex: 1}
`

func TestTheSeedsExampleIsUnderstood(t *testing.T) {
	object, notes, err := nodetemplate.Read(strings.NewReader(seed))
	if err != nil {
		t.Fatal(err)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "networking.k8s.aws/v1alpha1") {
		t.Errorf("notes %q", notes)
	}
	got, err := nodetemplate.Convert(object, "blue")
	if err != nil {
		t.Fatal(err)
	}
	yes, no := true, false
	want := launchtemplate.NodeTemplate{
		Name: "default", Cluster: "blue", InstanceProfile: "nodes", UserData: "#!/bin/sh", Tags: map[string]string{"team": "net"},
		Image:    launchtemplate.Image{Family: launchtemplate.Custom, ID: "ami-0123456789abcdef0"},
		Metadata: &launchtemplate.MetadataOptions{HTTPTokens: "required"}, Monitoring: &yes,
		BlockDevices: []launchtemplate.BlockDevice{{DeviceName: "/dev/xvda", EBS: &launchtemplate.EBS{SizeGiB: 1024, VolumeType: "gp3"}}},
		Interfaces: []launchtemplate.Interface{
			{Type: eni.Standard, Description: "first", PublicIP: &no, CarrierIP: &no, IPv4Prefixes: 1, IPv6Prefixes: 1},
			{Slot: eni.Slot{Device: 1}, DeleteOnTermination: true},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(selector.GroupTerms{IDs: []string{"sg-1", "sg-2"}}, nodetemplate.GroupTerms(object.Spec.SecurityGroupSelector)); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
}

func TestManifestsThatAreRefused(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"nothing":         {"", "no object of kind"},
		"another kind":    {"kind: NodeENI\n", "no object of kind"},
		"another group":   {"apiVersion: v1\nkind: AWSNodeTemplate\n", "must have networking.k8s.aws/v1alpha1"},
		"two":             {seed + "---" + seed, "several"},
		"a field unknown": {strings.Replace(seed, "instanceProfile", "instanceProfil", 1), `unknown field "instanceProfil"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := nodetemplate.Read(strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want something about %q", err, tc.says)
			}
		})
	}
}

func TestWordsThatDoNotExistAreRefused(t *testing.T) {
	for _, spec := range []v1alpha1.AWSNodeTemplateSpec{
		{AMIFamily: "AL2"}, {Layout: "Wide"}, {Architecture: "x86_64"},
		{NetworkInterfaces: []v1alpha1.LaunchInterface{{Management: "Kubelet"}}},
	} {
		if _, err := nodetemplate.Convert(&v1alpha1.AWSNodeTemplate{Spec: spec}, ""); err == nil {
			t.Errorf("%+v passes", spec)
		}
	}
}
