// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/userdata"
)

var cluster = userdata.Cluster{
	ClusterName: "prod", Endpoint: "https://prod.eks.amazonaws.com", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16", ClusterDNS: "10.100.0.10",
}

// bootstrap is user data for Amazon Linux 2023, changed as said.
func bootstrap(change func(*userdata.Bootstrap)) userdata.Bootstrap {
	b := userdata.Bootstrap{Family: userdata.AL2023, Networks: "cluster: prod\n", OnFailure: userdata.Fail}
	change(&b)
	return b
}

// bottlerocket is user data for Bottlerocket, changed as said.
func bottlerocket(change func(*userdata.Bootstrap)) userdata.Bootstrap {
	return bootstrap(func(b *userdata.Bootstrap) {
		b.Family, b.Image = userdata.Bottlerocket, "example.com/eni-bootstrap:v1"
		change(b)
	})
}

func unchanged(*userdata.Bootstrap) {}

// A mistake is found before a node boots, and the error names the flag to change.
func TestRenderNamesTheFlagToChange(t *testing.T) {
	for name, tc := range map[string]struct {
		bootstrap userdata.Bootstrap
		names     string
	}{
		"no family":               {bootstrap(func(b *userdata.Bootstrap) { b.Family = "" }), "--family"},
		"an unknown family":       {bootstrap(func(b *userdata.Bootstrap) { b.Family = "Windows" }), "[AL2 AL2023 Bottlerocket]"},
		"no policy":               {bootstrap(func(b *userdata.Bootstrap) { b.OnFailure = "" }), "--on-failure"},
		"no networks":             {bootstrap(func(b *userdata.Bootstrap) { b.Networks = "" }), "0 of --config"},
		"two sources of networks": {bootstrap(func(b *userdata.Bootstrap) { b.InstanceTags = true }), "2 of --config"},
		"three sources of networks": {
			bootstrap(func(b *userdata.Bootstrap) { b.InstanceTags, b.SSMParameter = true, "/multieni" }), "3 of --config",
		},
		"a parameter with a command": {bootstrap(func(b *userdata.Bootstrap) { b.Networks, b.SSMParameter = "", "x; rm -rf /" }), "--ssm-parameter"},
		"a URL with a quote": {
			bootstrap(func(b *userdata.Bootstrap) { b.ProgramURL, b.ProgramSHA256 = "https://x/'; rm -rf /'", sum("x") }), "--program-url",
		},
		"a URL of a file":      {bootstrap(func(b *userdata.Bootstrap) { b.ProgramURL, b.ProgramSHA256 = "file:///etc/passwd", sum("x") }), "--program-url"},
		"a URL without sum":    {bootstrap(func(b *userdata.Bootstrap) { b.ProgramURL = "https://x/y" }), "--program-sha256"},
		"a sum without URL":    {bootstrap(func(b *userdata.Bootstrap) { b.ProgramSHA256 = sum("x") }), "--program-sha256"},
		"a sum in capitals":    {bootstrap(func(b *userdata.Bootstrap) { b.ProgramURL, b.ProgramSHA256 = "https://x/y", strings.ToUpper(sum("x")) }), "--program-sha256"},
		"a part of a cluster":  {bootstrap(func(b *userdata.Bootstrap) { b.Cluster.ClusterName = "prod" }), "--cluster-endpoint"},
		"a cluster with quote": {bootstrap(func(b *userdata.Bootstrap) { b.Cluster = cluster; b.Cluster.ClusterName = "a'b" }), "--cluster-name"},
		"a DNS with a command": {bootstrap(func(b *userdata.Bootstrap) { b.Cluster = cluster; b.Cluster.ClusterDNS = "$(id)" }), "--cluster-dns"},
		"unknown user data":    {bootstrap(func(b *userdata.Bootstrap) { b.User = "echo x" }), "--merge"},
		"networks that end the file": {
			bootstrap(func(b *userdata.Bootstrap) { b.Networks = "x\nMULTIENI_END\nrm -rf /\n" }), "--config has a line MULTIENI_END",
		},
		"a NodeConfig on Amazon Linux 2": {
			bootstrap(func(b *userdata.Bootstrap) {
				b.Family, b.User = userdata.AL2, "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n"
			}), "/etc/eks/bootstrap.sh",
		},
		"more than EC2 takes":     {bootstrap(func(b *userdata.Bootstrap) { b.Networks = strings.Repeat("x", userdata.MaxSize) }), "--ssm-parameter"},
		"Bottlerocket, no image":  {bottlerocket(func(b *userdata.Bootstrap) { b.Image = "" }), "--image"},
		"Bottlerocket, odd image": {bottlerocket(func(b *userdata.Bootstrap) { b.Image = "a b" }), "--image"},
		"Bottlerocket, networks elsewhere": {
			bottlerocket(func(b *userdata.Bootstrap) { b.Networks, b.InstanceTags = "", true }), "--config is needed",
		},
		"Bottlerocket, a program to load": {
			bottlerocket(func(b *userdata.Bootstrap) { b.ProgramURL, b.ProgramSHA256 = "https://x/y", sum("x") }), "--program-url",
		},
		"Bottlerocket, a taint":  {bottlerocket(func(b *userdata.Bootstrap) { b.OnFailure = userdata.Taint }), "--on-failure=taint"},
		"Bottlerocket, a script": {bottlerocket(func(b *userdata.Bootstrap) { b.User = "#!/bin/sh\n" }), "--merge cannot be merged: it is a script"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := tc.bootstrap.Render()
			if err == nil || !strings.Contains(err.Error(), tc.names) {
				t.Errorf("the error does not name %q: %v", tc.names, err)
			}
			if text != "" {
				t.Errorf("user data comes with the error: %q", text)
			}
		})
	}
}

// The user's parts follow ours unchanged; a self-managed node receives its cluster.
func TestPartsAreInOrder(t *testing.T) {
	const mine = "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=B\n\n--B\nContent-Type: text/cloud-config\n\n#cloud-config\n--B\n" +
		"Content-Type: application/node.eks.aws\n\napiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\n--B--\n"
	for name, tc := range map[string]struct {
		bootstrap userdata.Bootstrap
		kinds     []string
		last      string
	}{
		"nothing of the user": {bootstrap(unchanged), []string{userdata.KindScript}, "#!/bin/bash"},
		"a script": {
			bootstrap(func(b *userdata.Bootstrap) { b.User = "#!/bin/sh\necho mine" }), []string{userdata.KindScript, userdata.KindScript}, "echo mine",
		},
		"a cloud-config": {
			bootstrap(func(b *userdata.Bootstrap) { b.User = "#cloud-config\npackages: [jq]" }), []string{userdata.KindScript, userdata.KindCloudConfig}, "packages: [jq]",
		},
		"parts, and a cluster": {
			bootstrap(func(b *userdata.Bootstrap) { b.User, b.Cluster = mine, cluster }),
			[]string{userdata.KindScript, userdata.KindNodeConfig, userdata.KindCloudConfig, userdata.KindNodeConfig}, "apiVersion: node.eks.aws/v1alpha1",
		},
		"Amazon Linux 2 joins after the user's script": {
			bootstrap(func(b *userdata.Bootstrap) {
				b.Family, b.User, b.Cluster = userdata.AL2, "#!/bin/sh\necho mine", cluster
			}),
			[]string{userdata.KindScript, userdata.KindScript, userdata.KindScript},
			"/etc/eks/bootstrap.sh 'prod' --apiserver-endpoint 'https://prod.eks.amazonaws.com' --b64-cluster-ca 'Q0E=' --dns-cluster-ip '10.100.0.10'",
		},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := tc.bootstrap.Render()
			if err != nil {
				t.Fatal(err)
			}
			parts, err := userdata.Split(text)
			if err != nil {
				t.Fatal(err)
			}
			var kinds []string
			for _, p := range parts {
				kinds = append(kinds, p.Kind)
			}
			if diff := cmp.Diff(tc.kinds, kinds); diff != "" {
				t.Errorf("kinds (-want +got):\n%s", diff)
			}
			if last := parts[len(parts)-1].Body; !strings.Contains(last, tc.last) {
				t.Errorf("the last part has no %q:\n%s", tc.last, last)
			}
		})
	}
}

// The unit starts the program with the source of the networks, after the unit that writes the node's configuration.
func TestUnitStartsTheProgram(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*userdata.Bootstrap)
		want   string
	}{
		"a file":         {unchanged, "--config=/etc/multieni/networks.yaml --on-failure=fail --node-config=/etc/eks/nodeadm.d/40-multieni.yaml"},
		"a parameter":    {func(b *userdata.Bootstrap) { b.Networks, b.SSMParameter = "", "/multieni/networks" }, "--ssm-parameter=/multieni/networks --on-failure=fail"},
		"tags":           {func(b *userdata.Bootstrap) { b.Networks, b.InstanceTags = "", true }, "--instance-tags --on-failure=fail"},
		"a taint":        {func(b *userdata.Bootstrap) { b.OnFailure = userdata.Taint }, "--on-failure=taint"},
		"Amazon Linux 2": {func(b *userdata.Bootstrap) { b.Family = userdata.AL2 }, "--on-failure=fail --environment=/etc/multieni/kubelet.env"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := bootstrap(tc.change).Render()
			if err != nil {
				t.Fatal(err)
			}
			if want := "ExecStart=/usr/local/bin/eni-bootstrap "; !strings.Contains(text, want) || !strings.Contains(text, tc.want) {
				t.Errorf("the unit has no %s… %s:\n%s", want, tc.want, text)
			}
		})
	}
}

// Bottlerocket runs a container with the networks before its kubelet starts.
func TestBottlerocketSettings(t *testing.T) {
	container := func(essential string) string {
		return "[settings]\n[settings.bootstrap-containers]\n[settings.bootstrap-containers.multieni]\nessential = " + essential +
			"\nmode = 'always'\nsource = 'example.com/eni-bootstrap:v1'\nuser-data = '" +
			base64.StdEncoding.EncodeToString([]byte("cluster: prod\n")) + "'\n"
	}
	const kubernetes = `
[settings.kubernetes]
api-server = 'https://prod.eks.amazonaws.com'
cluster-certificate = 'Q0E='
cluster-dns-ip = '10.100.0.10'
cluster-name = 'prod'
`
	for name, tc := range map[string]struct {
		change func(*userdata.Bootstrap)
		want   string
	}{
		"the node must not join without networks": {unchanged, container("true")},
		"the node may join without networks":      {func(b *userdata.Bootstrap) { b.OnFailure = userdata.Continue }, container("false")},
		"self-managed":                            {func(b *userdata.Bootstrap) { b.Cluster = cluster }, container("true") + kubernetes},
		"settings of the user": {
			func(b *userdata.Bootstrap) { b.User = "\n[settings.kernel]\nlockdown = \"none\"\n\n" },
			container("true") + "\n[settings.kernel]\nlockdown = 'none'\n",
		},
		"the user's cluster": {
			func(b *userdata.Bootstrap) { b.User = "[settings.kubernetes]\ncluster-name = \"prod\"" },
			container("true") + "\n[settings.kubernetes]\ncluster-name = 'prod'\n",
		},
		"a cluster with a setting of the user": {
			func(b *userdata.Bootstrap) { b.Cluster, b.User = cluster, "settings.kubernetes.max-pods = 58" },
			container("true") + kubernetes + "max-pods = 58\n",
		},
		"our container with a setting of the user": {
			func(b *userdata.Bootstrap) {
				b.User = "[settings.bootstrap-containers.multieni]\nessential = false\n"
			}, container("false"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := bottlerocket(tc.change).Render()
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What nodeadm and Bottlerocket read about the node itself.
func TestNodeSettings(t *testing.T) {
	labels := map[string]string{"role": "upf", "example.com/zone": "edge"}
	for name, tc := range map[string]struct {
		cluster    userdata.Cluster
		node       userdata.Node
		nodeConfig string
		settings   userdata.Table
	}{
		"nothing": {settings: userdata.Table{}},
		"an incomplete cluster": {
			cluster: userdata.Cluster{ClusterName: "prod"}, settings: userdata.Table{},
		},
		"a cluster without a DNS address": {
			cluster: userdata.Cluster{ClusterName: "prod", Endpoint: "https://e", CA: "Q0E=", ServiceCIDR: "10.100.0.0/16"},
			nodeConfig: "  cluster:\n    name: \"prod\"\n    apiServerEndpoint: \"https://e\"\n    certificateAuthority: \"Q0E=\"\n" +
				"    cidr: \"10.100.0.0/16\"\n",
			settings: userdata.Table{"cluster-name": "prod", "api-server": "https://e", "cluster-certificate": "Q0E="},
		},
		"a DNS address": {
			cluster:    userdata.Cluster{ClusterDNS: "10.100.0.10"},
			nodeConfig: "  kubelet:\n    config:\n      clusterDNS:\n      - \"10.100.0.10\"\n",
			settings:   userdata.Table{"cluster-dns-ip": "10.100.0.10"},
		},
		"labels, sorted": {
			node:       userdata.Node{Labels: labels},
			nodeConfig: "  kubelet:\n    flags:\n    - \"--node-labels=example.com/zone=edge,role=upf\"\n",
			settings:   userdata.Table{"node-labels": userdata.Table{"example.com/zone": "edge", "role": "upf"}},
		},
		"one label": {
			node:       userdata.Node{Labels: map[string]string{"role": "upf"}},
			nodeConfig: "  kubelet:\n    flags:\n    - \"--node-labels=role=upf\"\n",
			settings:   userdata.Table{"node-labels": userdata.Table{"role": "upf"}},
		},
		"one interface that pods do not use": {
			node:       userdata.Node{LeftAlone: 1},
			nodeConfig: "  kubelet:\n    maxPodsExpression: \"((default_enis - 1) * (ips_per_eni - 1)) + 2\"\n",
			settings:   userdata.Table{},
		},
		"all of it": {
			cluster: cluster, node: userdata.Node{Labels: map[string]string{"role": "upf"}, LeftAlone: 3},
			nodeConfig: "  cluster:\n    name: \"prod\"\n    apiServerEndpoint: \"https://prod.eks.amazonaws.com\"\n" +
				"    certificateAuthority: \"Q0E=\"\n    cidr: \"10.100.0.0/16\"\n" +
				"  kubelet:\n    maxPodsExpression: \"((default_enis - 3) * (ips_per_eni - 1)) + 2\"\n" +
				"    config:\n      clusterDNS:\n      - \"10.100.0.10\"\n    flags:\n    - \"--node-labels=role=upf\"\n",
			settings: userdata.Table{
				"cluster-name": "prod", "api-server": "https://prod.eks.amazonaws.com", "cluster-certificate": "Q0E=",
				"cluster-dns-ip": "10.100.0.10", "node-labels": userdata.Table{"role": "upf"},
			},
		},
		"interfaces that pods do not use": {
			node:       userdata.Node{LeftAlone: 2},
			nodeConfig: "  kubelet:\n    maxPodsExpression: \"((default_enis - 2) * (ips_per_eni - 1)) + 2\"\n",
			settings:   userdata.Table{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want := "apiVersion: node.eks.aws/v1alpha1\nkind: NodeConfig\nspec:\n" + tc.nodeConfig
			if diff := cmp.Diff(want, userdata.NodeConfig(tc.cluster, tc.node)); diff != "" {
				t.Errorf("NodeConfig (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.settings, userdata.Kubernetes(tc.cluster, tc.node)); diff != "" {
				t.Errorf("settings (-want +got):\n%s", diff)
			}
		})
	}
}

// The kind of user data follows from its beginning, and the error says what was expected.
func TestSplit(t *testing.T) {
	mime := func(header, part string) string {
		return "MIME-Version: 1.0\nContent-Type: " + header + "\n\n--B\n" + part + "\n--B--\n"
	}
	for name, tc := range map[string]struct {
		user  string
		want  []userdata.Part
		error string
	}{
		"nothing":             {user: ""},
		"spaces":              {user: " \n\t"},
		"a script":            {user: "\n#!/bin/sh\n", want: []userdata.Part{{Kind: userdata.KindScript, Body: "\n#!/bin/sh\n"}}},
		"a cloud-config":      {user: "#cloud-config\n", want: []userdata.Part{{Kind: userdata.KindCloudConfig, Body: "#cloud-config\n"}}},
		"a NodeConfig":        {user: aNodeConfig, want: []userdata.Part{{Kind: userdata.KindNodeConfig, Body: aNodeConfig}}},
		"parts":               {user: mime("multipart/mixed; boundary=B", "Content-Type: text/x-shellscript\n\n#!/bin/sh"), want: []userdata.Part{{Kind: userdata.KindScript, Body: "#!/bin/sh"}}},
		"words":               {user: "echo x", error: "neither a MIME message, a script"},
		"no boundary":         {user: mime("multipart/mixed", "\nx"), error: "no boundary"},
		"a header of no form": {user: "MIME-Version: 1.0\nbroken\n\n", error: "MIME header cannot be read"},
		"no part":             {user: mime("multipart/mixed; boundary=C", "\nx"), error: "no line is --C"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Split(tc.user)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if (err == nil) != (tc.error == "") || err != nil && !strings.Contains(err.Error(), tc.error) {
				t.Errorf("the error is %v, want one with %q", err, tc.error)
			}
		})
	}
}

// The same input gives the same user data, so that a launch template gets no version without a change. The user data
// never exceeds EC2's limit.
func TestRenderIsDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := userdata.Bootstrap{
			Family:    rapid.SampledFrom(userdata.Families()).Draw(t, "family"),
			Networks:  rapid.StringMatching(`[a-z: \n-]{1,200}`).Draw(t, "networks"),
			OnFailure: rapid.SampledFrom([]string{userdata.Fail, userdata.Continue}).Draw(t, "policy"),
			Image:     "example.com/eni-bootstrap:v1",
		}
		if rapid.Bool().Draw(t, "self-managed") {
			b.Cluster = cluster
		}
		if rapid.Bool().Draw(t, "long") {
			b.Networks += strings.Repeat("x", rapid.IntRange(8000, userdata.MaxSize).Draw(t, "length"))
		}
		first, err := b.Render()
		second, again := b.Render()
		if first != second || (err == nil) != (again == nil) {
			t.Fatalf("%q, %v and %q, %v", first, err, second, again)
		}
		if len(first) > userdata.MaxSize || (err == nil) != (first != "") {
			t.Fatalf("%d bytes, %v", len(first), err)
		}
	})
}

// A second merge does not change the parts of merged user data.
func TestMergedUserDataMergesAgain(t *testing.T) {
	line := rapid.SampledFrom([]string{"", "echo x", "--multieni-part", "--multieni-part-1", "--multieni-part--", "Content-Type: text/x-shellscript"})
	rapid.Check(t, func(t *rapid.T) {
		var parts []userdata.Part
		for range rapid.IntRange(1, 4).Draw(t, "parts") {
			parts = append(parts, userdata.Part{
				Kind: rapid.SampledFrom([]string{userdata.KindScript, userdata.KindCloudConfig, "text/cloud-boothook"}).Draw(t, "kind"),
				Body: "#!/bin/sh\n" + strings.Join(rapid.SliceOfN(line, 0, 5).Draw(t, "lines"), "\n") + "\ntrue",
			})
		}
		merged := userdata.MIME(parts)
		got, err := userdata.Split(merged)
		if diff := cmp.Diff(parts, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
		if diff := cmp.Diff(merged, userdata.MIME(got)); diff != "" {
			t.Fatalf("merged again (-first +second):\n%s", diff)
		}
	})
}
