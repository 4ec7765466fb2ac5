// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/userdata"
)

// unit is the unit in rendered user data.
func unit(t *testing.T, change func(*userdata.Bootstrap)) string {
	t.Helper()
	text, err := bootstrap(change).Render()
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(text, "cat >/etc/systemd/system/eni-bootstrap.service <<'MULTIENI_END'\n")
	file, _, _ := strings.Cut(rest, "MULTIENI_END\n")
	return file
}

// TestUnitOfEachFamily compares the whole unit: its order among the other units, its arguments, and the effect of a
// failure on the kubelet.
func TestUnitOfEachFamily(t *testing.T) {
	const service = "\n\n[Service]\nType=oneshot\nRemainAfterExit=yes\n"
	const limits = "SuccessExitStatus=10\nTimeoutStartSec=10min\n\n[Install]\n"
	head := func(after, before string) string {
		return "[Unit]\nDescription=Network interfaces of multieni\nWants=network-online.target\n" +
			"After=network-online.target" + after + "\nBefore=" + before + service
	}
	start := func(arguments string) string { return "ExecStart=/usr/local/bin/eni-bootstrap " + arguments + "\n" }
	for name, tc := range map[string]struct {
		change func(*userdata.Bootstrap)
		want   string
	}{
		"Amazon Linux 2023": {
			unchanged, head(" nodeadm-config.service", "nodeadm-run.service") +
				start("--config=/etc/multieni/networks.yaml --on-failure=fail --node-config=/etc/eks/nodeadm.d/40-multieni.yaml") +
				limits + "RequiredBy=nodeadm-run.service\n",
		},
		"Amazon Linux 2, which may join without its networks": {
			func(b *userdata.Bootstrap) { b.Family, b.OnFailure = userdata.AL2, userdata.Continue },
			head("", "kubelet.service") +
				start("--config=/etc/multieni/networks.yaml --on-failure=continue --environment=/etc/multieni/kubelet.env") +
				limits + "WantedBy=kubelet.service\n",
		},
		"a program that is loaded first": {
			func(b *userdata.Bootstrap) {
				b.Networks, b.InstanceTags, b.OnFailure = "", true, userdata.Taint
				b.ProgramURL, b.ProgramSHA256 = "http://10.0.0.1/eni-bootstrap", sum(served)
			},
			head(" nodeadm-config.service", "nodeadm-run.service") + "ExecStartPre=/bin/bash /etc/multieni/load\n" +
				start("--instance-tags --on-failure=taint --node-config=/etc/eks/nodeadm.d/40-multieni.yaml") +
				limits + "RequiredBy=nodeadm-run.service\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, unit(t, tc.change)); diff != "" {
				t.Errorf("unit (-want +got):\n%s", diff)
			}
		})
	}
}

// TestScriptWritesOnlyTheFilesOfItsNode boots a node and checks the files under /etc/multieni, and which of them the
// sources of networks and program need.
func TestScriptWritesOnlyTheFilesOfItsNode(t *testing.T) {
	const networks, load = "etc/multieni/networks.yaml", "etc/multieni/load"
	const kubelet = "etc/systemd/system/kubelet.service.d/40-multieni.conf"
	for name, tc := range map[string]struct {
		change func(*userdata.Bootstrap)
		want   []string
	}{
		"networks in the user data": {unchanged, []string{networks}},
		"networks in a parameter": {
			func(b *userdata.Bootstrap) { b.Networks, b.SSMParameter = "", "/multieni" }, nil,
		},
		"networks in tags": {
			func(b *userdata.Bootstrap) { b.Networks, b.InstanceTags = "", true }, nil,
		},
		"a program to load": {
			func(b *userdata.Bootstrap) { b.ProgramURL, b.ProgramSHA256 = "https://x/y", sum(served) },
			[]string{networks, load},
		},
		"Amazon Linux 2, whose kubelet reads our flags": {
			func(b *userdata.Bootstrap) { b.Family = userdata.AL2 }, []string{networks, kubelet},
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine(t)
			m.boot(bootstrap(tc.change))
			var got []string
			for _, path := range []string{networks, load, kubelet} {
				if !strings.Contains(m.read(path), "no such file") {
					got = append(got, path)
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
		})
	}
}

// TestKubeletOfContainerdTakesOurFlags checks that the script changes both units that Amazon Linux 2 may start the
// kubelet from, and that the file of our flags may be absent.
func TestKubeletOfContainerdTakesOurFlags(t *testing.T) {
	m := newMachine(t)
	const path = "etc/eks/containerd/kubelet-containerd.service"
	m.write(path, "[Service]\nExecStart=/usr/bin/kubelet --config x \\\n    $KUBELET_ARGS \\\n    $KUBELET_EXTRA_ARGS\n")
	m.boot(bootstrap(func(b *userdata.Bootstrap) { b.Family = userdata.AL2 }))
	want := "[Service]\nExecStart=/usr/bin/kubelet --config x \\\n    $KUBELET_ARGS \\\n" +
		"    $KUBELET_EXTRA_ARGS $MULTIENI_KUBELET_ARGS\n"
	if diff := cmp.Diff(want, m.read(path)); diff != "" {
		t.Errorf("unit (-want +got):\n%s", diff)
	}
	flags := strings.ReplaceAll(m.read("etc/systemd/system/kubelet.service.d/40-multieni.conf"), m.root, "")
	if diff := cmp.Diff("[Service]\nEnvironmentFile=-/etc/multieni/kubelet.env\n", flags); diff != "" {
		t.Errorf("drop-in (-want +got):\n%s", diff)
	}
}

// TestAmazonLinux2JoinsItsCluster compares the script that joins a self-managed node, with and without the address of a
// DNS service.
func TestAmazonLinux2JoinsItsCluster(t *testing.T) {
	const join = "#!/bin/bash\nset -euo pipefail\n/etc/eks/bootstrap.sh 'prod' " +
		"--apiserver-endpoint 'https://prod.eks.amazonaws.com' --b64-cluster-ca 'Q0E='"
	for name, tc := range map[string]struct {
		dns, want string
	}{
		"an address of the DNS service": {"10.100.0.10", join + " --dns-cluster-ip '10.100.0.10'"},
		"the address of the image":      {"", join},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := bootstrap(func(b *userdata.Bootstrap) {
				b.Family, b.Cluster = userdata.AL2, cluster
				b.Cluster.ClusterDNS = tc.dns
			}).Render()
			if err != nil {
				t.Fatal(err)
			}
			parts, err := userdata.Split(text)
			if err != nil || len(parts) != 2 {
				t.Fatalf("%d parts, %v; want 2", len(parts), err)
			}
			if diff := cmp.Diff(userdata.Part{Kind: userdata.KindScript, Body: tc.want}, parts[1]); diff != "" {
				t.Errorf("part (-want +got):\n%s", diff)
			}
		})
	}
}
