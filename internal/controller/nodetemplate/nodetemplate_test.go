// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetemplate_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/nodetemplate"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/selector"
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
	object := &v1alpha1.AWSNodeTemplate{}
	if err := yaml.UnmarshalStrict([]byte(seed), object); err != nil {
		t.Fatal(err)
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
