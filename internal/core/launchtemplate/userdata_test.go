// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/userdata"
)

// familyTemplate declares a primary interface, one for the VPC CNI and one that it leaves alone, on an image of the
// family.
func familyTemplate(family launchtemplate.Family) launchtemplate.NodeTemplate {
	n := plain()
	n.Image = launchtemplate.Image{Family: family, KubernetesVersion: "1.35"}
	n.Bootstrap, n.UserData = blueCluster(), ""
	n.Interfaces = []launchtemplate.Interface{at(0), at(1), at(2)}
	n.Interfaces[1].Management = launchtemplate.CNI
	n.Interfaces[2].Name = "n3"
	return n
}

const nodeConfig = `MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="multieni-part"

--multieni-part
Content-Type: application/node.eks.aws

apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  cluster:
    name: "blue"
    apiServerEndpoint: "https://blue.example"
    certificateAuthority: "Q0E="
    cidr: "172.20.0.0/16"
  kubelet:
    maxPodsExpression: "((default_enis - 1) * (ips_per_eni - 1)) + 2"
    flags:
    - "--node-labels=network.networking.k8s.aws/n3=true,networking.k8s.aws/interfaces=3,` +
	`networking.k8s.aws/nodetemplate=default"
`

const nodeSettings = `[settings]
[settings.kubernetes]
api-server = 'https://blue.example'
cluster-certificate = 'Q0E='
cluster-name = 'blue'

[settings.kubernetes.node-labels]
'network.networking.k8s.aws/n3' = 'true'
'networking.k8s.aws/interfaces' = '3'
'networking.k8s.aws/nodetemplate' = 'default'
`

// TestUserDataAsTheInstanceReadsIt has the whole text. The part of the user is last, since the last part wins.
func TestUserDataAsTheInstanceReadsIt(t *testing.T) {
	cases := map[string]struct {
		family launchtemplate.Family
		user   string
		want   string
	}{
		"Amazon Linux 2023 alone": {launchtemplate.AL2023, "", nodeConfig + "--multieni-part--\n"},
		"Amazon Linux 2023 with a script of the user": {
			launchtemplate.AL2023, "#!/bin/sh\necho hello\n", nodeConfig +
				"--multieni-part\nContent-Type: text/x-shellscript\n\n#!/bin/sh\necho hello\n--multieni-part--\n",
		},
		"Bottlerocket alone": {launchtemplate.Bottlerocket, "", nodeSettings},
		"Bottlerocket with settings of the user": {
			launchtemplate.Bottlerocket, "\n\n[settings.ntp]\ntime-servers = []\n\n",
			nodeSettings + "\n[settings.ntp]\ntime-servers = []\n",
		},
		"Bottlerocket with a setting and a label of the user": {
			launchtemplate.Bottlerocket, "settings.kubernetes.max-pods = 58\nsettings.kubernetes.node-labels.role = \"upf\"\n",
			strings.Replace(nodeSettings, "'blue'\n", "'blue'\nmax-pods = 58\n", 1) + "role = 'upf'\n",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := familyTemplate(tc.family)
			n.UserData = tc.user
			if diff := cmp.Diff(tc.want, userDataOf(t, only(t, n))); diff != "" {
				t.Errorf("user data (-want +got):\n%s", diff)
			}
		})
	}
}

// The user data of a Custom image reaches the instance to the byte.
func TestUserDataOfACustomImageIsNotChanged(t *testing.T) {
	n := familyTemplate(launchtemplate.Custom)
	n.Image.ID, n.UserData = "ami-1", " \n[settings.kubernetes]\n\tanything <&>\n\n"
	if diff := cmp.Diff(n.UserData, userDataOf(t, only(t, n))); diff != "" {
		t.Errorf("user data (-want +got):\n%s", diff)
	}
}

// With user data of its own, a node can join without the fields of the cluster: the user data has them.
func TestUserDataMayNameTheClusterItself(t *testing.T) {
	const own = "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n  cluster:\n    name: green\n"
	n := familyTemplate(launchtemplate.AL2023)
	n.Bootstrap, n.UserData = userdata.Cluster{}, own
	got := userDataOf(t, only(t, n))
	if strings.Count(got, "  cluster:\n") != 1 || !strings.Contains(got, "\n\n"+own+"--multieni-part--\n") {
		t.Errorf("the user's cluster is not the only one:\n%s", got)
	}
}

// TestUserDataThatCannotBeWritten has the whole problem: the field, the cause and the next step.
func TestUserDataThatCannotBeWritten(t *testing.T) {
	const merge = "userData cannot be merged with what the cluster needs: "
	const instead = "; correct it, or set amiFamily: Custom and provide all of it"
	cases := map[string]struct {
		family launchtemplate.Family
		change func(*launchtemplate.NodeTemplate)
		want   launchtemplate.Problem
	}{
		"a Custom image that nothing configures": {
			launchtemplate.Custom, func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-1" },
			launchtemplate.Problem{
				Reason: launchtemplate.UserDataRequired, Path: "spec.userData", Message: "nothing says how instances of " +
					"this image join the cluster: set userData, or set amiFamily to AL2023 or Bottlerocket if the " +
					"image is derived from one of these",
			},
		},
		"a Custom image and a DNS service": {
			launchtemplate.Custom, func(n *launchtemplate.NodeTemplate) {
				n.Image.ID, n.UserData, n.Bootstrap.ClusterDNS = "ami-1", "#!/bin/sh", "172.20.0.10"
			},
			launchtemplate.Problem{
				Reason: launchtemplate.ClusterDNSConflict, Path: "spec.cluster.dns", Message: "cluster.dns cannot be " +
					"honoured, since user data of a Custom image is taken as it is: configure the kubelet's " +
					"clusterDNS in userData and leave cluster.dns out",
			},
		},
		"an incomplete cluster and no user data": {
			launchtemplate.Bottlerocket, func(n *launchtemplate.NodeTemplate) { n.Bootstrap.CA = "" },
			launchtemplate.Problem{
				Reason: launchtemplate.BootstrapIncomplete, Path: "spec.cluster", Message: "name, endpoint, " +
					"certificateAuthority and serviceCIDR of the cluster are needed to write user data; set them in " +
					"spec.cluster, or once for all node templates in nodeCluster of the chart, or give userData that " +
					"has them",
			},
		},
		"a form that Amazon Linux 2023 does not read": {
			launchtemplate.AL2023, func(n *launchtemplate.NodeTemplate) { n.UserData = "echo hello" },
			launchtemplate.Problem{
				Reason: launchtemplate.UserDataConflict, Path: "spec.userData", Message: merge + "it is neither a MIME " +
					"message, a script that begins with #!, #cloud-config or another form of cloud-init, nor a NodeConfig " +
					"of node.eks.aws" + instead,
			},
		},
		"text for Bottlerocket that is not TOML": {
			launchtemplate.Bottlerocket, func(n *launchtemplate.NodeTemplate) {
				n.UserData = "[settings.kubernetes.node-taints]\n'dedicated': 'x:NoSchedule'\n"
			},
			launchtemplate.Problem{
				Reason: launchtemplate.UserDataConflict, Path: "spec.userData", Message: merge + "it is not TOML: line 2, " +
					"column 12: expected '=' after key" + instead,
			},
		},
		"a label for Bottlerocket that is a number": {
			launchtemplate.Bottlerocket, func(n *launchtemplate.NodeTemplate) {
				n.UserData = "[settings.kubernetes.node-labels]\ngeneration = 5"
			},
			launchtemplate.Problem{
				Reason: launchtemplate.UserDataConflict, Path: "spec.userData", Message: merge + "the label generation in " +
					"settings.kubernetes.node-labels is not a string: write its value in quotes, and its key too if it " +
					"has dots" + instead,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			n := familyTemplate(tc.family)
			tc.change(&n)
			refusedFor(t, n, tc.want)
		})
	}
}

// EC2 takes 16384 bytes of user data before they are encoded. The limit is of the merged text, of each layer.
func TestTheSizeOfUserDataIsBounded(t *testing.T) {
	tooLarge := func(size int) []launchtemplate.Problem {
		return []launchtemplate.Problem{{
			Reason: launchtemplate.UserDataTooLarge, Path: "spec.userData", Message: fmt.Sprintf("the user data has %d "+
				"bytes with what the cluster needs, and EC2 takes 16384; fetch the rest from S3 at boot", size),
		}}
	}
	custom := func(size int) launchtemplate.NodeTemplate {
		n := plain()
		n.UserData = strings.Repeat("x", size)
		return n
	}
	overridden := func(size int) launchtemplate.NodeTemplate {
		n := plain()
		n.Override = launchtemplate.Document{"UserData": strings.Repeat("x", size)}
		return n
	}
	merged := func(size int) launchtemplate.NodeTemplate {
		n := familyTemplate(launchtemplate.AL2023)
		n.UserData = "#!/bin/sh\n"
		n.UserData += strings.Repeat("x", size-len(userDataOf(t, only(t, n)))-1)
		return n
	}
	for name, tc := range map[string]struct {
		template launchtemplate.NodeTemplate
		want     []launchtemplate.Problem
	}{
		"of a Custom image, as much as EC2 takes": {custom(16384), nil},
		"of a Custom image, one byte more":        {custom(16385), tooLarge(16385)},
		"of an override, as much as EC2 takes":    {overridden(16384), nil},
		"of an override, one byte more":           {overridden(16385), tooLarge(16385)},
		"of two parts, as much as EC2 takes":      {merged(16384), nil},
		"of two parts, one byte more":             {merged(16385), tooLarge(16385)},
	} {
		t.Run(name, func(t *testing.T) {
			r := launchtemplate.Render(tc.template, of(t, "m5.xlarge"), nil)
			if diff := cmp.Diff(tc.want, r.Problems); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// User data of a later layer is used unchanged: multieni adds nothing, and reports what the layer hides.
func TestUserDataOfALaterLayerIsNotChanged(t *testing.T) {
	const theirs = "#!/bin/sh\ntheir own way to join"
	for name, tc := range map[string]struct {
		inline string
		source bool
		want   []launchtemplate.Shadow
	}{
		"a source, with user data of the spec": {
			"#!/bin/sh", true,
			[]launchtemplate.Shadow{
				{Path: "IamInstanceProfile", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
				{Path: "UserData", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
			},
		},
		"an override, with user data of the spec": {
			"#!/bin/sh", false,
			[]launchtemplate.Shadow{
				{Path: "IamInstanceProfile", By: launchtemplate.FromOverride, Of: launchtemplate.FromInline},
				{Path: "UserData", By: launchtemplate.FromOverride, Of: launchtemplate.FromInline},
			},
		},
		"a source alone": {
			"", true, []launchtemplate.Shadow{
				{Path: "IamInstanceProfile", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline},
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := familyTemplate(launchtemplate.AL2023)
			n.UserData, n.InstanceProfile = tc.inline, "nodes"
			origin, data := launchtemplate.FromOverride, launchtemplate.Document{
				"UserData": theirs, "IamInstanceProfile": map[string]any{"Name": "theirs"},
			}
			if tc.source {
				origin = launchtemplate.FromTemplate
				n.Source = &launchtemplate.Source{ID: "lt-1", Autofill: true, Data: data}
			} else {
				n.Override = data
			}
			r := launchtemplate.Render(n, of(t, "m5.xlarge"), nil)
			if len(r.Problems) > 0 {
				t.Fatal(r.Problems)
			}
			if got := userDataOf(t, r.Templates[0]); got != theirs {
				t.Errorf("the user data is %q, want %q", got, theirs)
			}
			if diff := cmp.Diff(tc.want, r.Shadows); diff != "" {
				t.Errorf("shadows (-want +got):\n%s", diff)
			}
			if got := r.Origins["UserData"]; got != origin {
				t.Errorf("the origin is %s, want %s", got, origin)
			}
		})
	}
}

// The message about the DNS service names the layer whose user data has to configure it.
func TestTheDNSServiceConflictsWithUserDataOfALaterLayer(t *testing.T) {
	for layer, change := range map[string]func(*launchtemplate.NodeTemplate){
		"template": func(n *launchtemplate.NodeTemplate) { n.Source = autofilled(t, `{"UserData": "#!/bin/sh"}`) },
		"override": func(n *launchtemplate.NodeTemplate) { n.Override = document(t, `{"UserData": "#!/bin/sh"}`) },
	} {
		t.Run(layer, func(t *testing.T) {
			n := familyTemplate(launchtemplate.AL2023)
			n.Bootstrap.ClusterDNS = "172.20.0.10"
			change(&n)
			refusedFor(t, n, launchtemplate.Problem{
				Reason: launchtemplate.ClusterDNSConflict, Path: "spec.cluster.dns", Message: "cluster.dns cannot be " +
					"honoured, since the user data of the " + layer + " is taken as it is; configure it there",
			})
		})
	}
}

// Only interfaces on card 0 reduce the slots of the VPC CNI, which has its interfaces there. With none, nodeadm's own
// number of pods holds.
func TestTheNumberOfPodsCountsTheInterfacesOfCard0(t *testing.T) {
	onCard1 := at(1)
	onCard1.Slot = eni.Slot{Card: 1, Device: 1}
	for name, tc := range map[string]struct {
		more []launchtemplate.Interface
		want string
	}{
		"the primary alone":   {nil, ""},
		"one on another card": {[]launchtemplate.Interface{onCard1}, ""},
		"one more":            {[]launchtemplate.Interface{at(1), onCard1}, "(default_enis - 1)"},
		"two more":            {[]launchtemplate.Interface{at(1), at(2)}, "(default_enis - 2)"},
	} {
		t.Run(name, func(t *testing.T) {
			n := familyTemplate(launchtemplate.AL2023)
			n.Interfaces = append([]launchtemplate.Interface{at(0)}, tc.more...)
			text := userDataOf(t, only(t, n, "c6in.32xlarge"))
			if tc.want == "" && strings.Contains(text, "maxPods") || !strings.Contains(text, tc.want) {
				t.Errorf("want the number of pods with %q in:\n%s", tc.want, text)
			}
		})
	}
}
