// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/join/bootstrap"
	"github.com/multieni/multieni/internal/join/join"
)

const (
	id         = "i-1234567890abcdef0"
	primaryMAC = "02:00:00:00:00:01"
	mac        = "02:00:00:00:00:02"
)

// instance is a booting instance, with a host that only records changes of its links.
type instance struct {
	metadata eni.Metadata
	result   join.Result
	err      error
	asked    []bool
	kernel   *hostnettest.Kernel
	applied  []string
	left     [][]string // ignored by the network manager, before anything was applied
	linkAt   time.Time
}

func (i *instance) Facts([]string) (hostnet.Facts, error) {
	facts := i.kernel.Facts()
	if time.Now().Before(i.linkAt) {
		facts.Links = facts.Links[:1]
	}
	return facts, nil
}

func (i *instance) Apply(op hostnet.Operation) error {
	i.applied = append(i.applied, op.String())
	return i.kernel.Apply(op)
}

// links are those of an instance that has just booted.
func links() *hostnettest.Kernel {
	return hostnettest.New(hostnet.Facts{PrimaryLink: 2, Links: []hostnet.LinkFacts{
		{Index: 2, Name: "ens5", MAC: primaryMAC, Device: "0000:00:05.0", Up: true, Carrier: true, MTU: 9001, MaxMTU: 9216},
		{Index: 3, Name: "ens6", MAC: mac, Device: "0000:00:06.0", MTU: 1500, Carrier: true, MaxMTU: 9216},
	}})
}

func newInstance() *instance {
	attached := eni.Interface{ID: "eni-1", MAC: mac, SubnetID: "subnet-1", Attachment: &eni.Attachment{InstanceID: id, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached}}
	return &instance{
		kernel: links(), linkAt: time.Now().Add(5 * time.Second),
		metadata: eni.Metadata{InstanceID: id, PrimaryMAC: primaryMAC},
		result: join.Result{Result: lifecycle.Result{Outcome: lifecycle.Ready}, Interfaces: []plan.State{
			{Key: identity.Interface{NodeENI: "multus"}, Goal: plan.Serve, Phase: plan.Attached, Interface: &attached},
		}},
	}
}

func (i *instance) boot(t *testing.T, dir string) bootstrap.Report {
	t.Helper()
	report, err := bootstrap.Run(t.Context(), bootstrap.Options{
		Metadata: func(context.Context) (eni.Metadata, error) { return i.metadata, nil },
		Ensure: func(_ context.Context, _ string, unused bool) (join.Result, error) {
			i.asked = append(i.asked, unused)
			return i.result, i.err
		},
		LeaveOnly: func(_ context.Context, macs []string) {
			if len(i.applied) == 0 {
				i.left = append(i.left, macs)
			}
		},
		Host: i, Dir: dir, LinkTimeout: time.Minute, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// Each boot makes the network manager ignore the links before it configures them.
func TestTheNetworkManagerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		i := newInstance()
		for range 2 {
			i.kernel, i.left, i.applied = links(), nil, nil
			if report := i.boot(t, dir); report.Failed != "" || !slices.EqualFunc(i.left, [][]string{{mac}}, slices.Equal) {
				t.Errorf("failed %q, left alone %q", report.Failed, i.left)
			}
			i.metadata.Interfaces = []eni.Interface{{ID: "eni-1", MAC: mac}}
		}
	})
}

// The second boot sends no request to EC2. A boot of another instance ignores a checkpoint on a copy of the disk.
func TestBootsOfADisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		i := newInstance()
		if report := i.boot(t, dir); len(i.asked) != 1 || !i.asked[0] || report.Failed != "" {
			t.Errorf("the first boot asked EC2 as %v, failed %q", i.asked, report.Failed)
		}
		i.kernel = links()
		i.metadata.Interfaces = []eni.Interface{{ID: "eni-1", MAC: mac}}
		i.asked, i.applied, i.err = nil, nil, errors.New("throttled")
		if report := i.boot(t, dir); len(i.asked) != 0 || len(i.applied) == 0 || report.Failed != "" {
			t.Errorf("the second boot asked EC2 as %v, did %q, failed %q", i.asked, i.applied, report.Failed)
		}
		i.metadata.Interfaces = nil
		if report := i.boot(t, dir); len(i.asked) != 1 || i.asked[0] || report.Failed == "" {
			t.Errorf("an interface was taken away: asked as %v, failed %q", i.asked, report.Failed)
		}
		i.asked, i.metadata.InstanceID = nil, "i-00000000000000000"
		if i.boot(t, dir); len(i.asked) != 1 || !i.asked[0] {
			t.Errorf("another instance asked as %v", i.asked)
		}
	})
}

// A boot finds the link by its MAC address, regardless of its name, and even if it appears seconds after the
// attachment. The link becomes usable: up, with the MTU of a VPC, and without the address that the system assigned by
// DHCP.
func TestLinks(t *testing.T) {
	for _, name := range []string{"eth1", "ens6", "enp40s0"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := newInstance()
				address := netip.MustParseAddr("10.0.4.4")
				i.kernel.Change(3, func(l *hostnet.LinkFacts) {
					l.Name, l.Addresses = name, []netip.Prefix{netip.PrefixFrom(address, 24)}
				})
				i.result.Interfaces[0].Interface.PrimaryIPv4 = address
				if report := i.boot(t, t.TempDir()); report.Failed != "" {
					t.Error(report.Failed)
				}
				if time.Now().Before(i.linkAt) {
					t.Error("it did not wait for the link")
				}
				if l := i.kernel.Facts().Links[1]; !l.Up || l.MTU != 9001 || len(l.Addresses) > 0 || !slices.Contains(l.AltNames, "net-multus") {
					t.Errorf("the link is %+v", l)
				}
			})
		})
	}
}

func TestFailuresAreReported(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*instance)
		failed string
	}{
		"EC2 does not answer": {func(i *instance) { i.err = errors.New("throttled") }, "throttled"},
		"a required network": {func(i *instance) {
			i.result.Result = lifecycle.Result{Outcome: lifecycle.Failed, Why: "the subnet is full"}
		}, "the subnet is full"},
		"a link that does not come":  {func(i *instance) { i.linkAt = time.Now().Add(time.Hour) }, mac},
		"a record that is not to be": {func(i *instance) {}, "keep the record"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				i := newInstance()
				if tc.change(i); tc.failed == "keep the record" {
					dir += "/file"
					if err := os.WriteFile(dir, nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if report := i.boot(t, dir); !strings.Contains(report.Failed, tc.failed) {
					t.Errorf("it failed by %q", report.Failed)
				}
			})
		})
	}
}

func TestWhatTheKubeletIsTold(t *testing.T) {
	r := bootstrap.Report{Checkpoint: bootstrap.Checkpoint{Interfaces: []bootstrap.Interface{{Network: "n3"}, {Network: "multus"}, {Network: "n3", NetworkCardIndex: 1}}}}
	want := `apiVersion: node.eks.aws/v1alpha1
kind: NodeConfig
spec:
  kubelet:
    maxPodsExpression: "((default_enis - 2) * (ips_per_eni - 1)) + 2"
    flags:
    - "--node-labels=networking.k8s.aws/network.multus=true,networking.k8s.aws/network.n3=true"
    - "--register-with-taints=networking.k8s.aws/networks=missing:NoSchedule"
`
	if got := r.NodeConfig(true); got != want {
		t.Error(got)
	}
	if got := r.Environment(false, 4); got != "MULTIENI_KUBELET_ARGS=\"--node-labels=networking.k8s.aws/network.multus=true,networking.k8s.aws/network.n3=true\"\n" {
		t.Error(got)
	}
}

// Without nodeadm, which accepts an expression, the number of pods is computed: the VPC CNI has fewer interfaces for
// addresses of pods.
func TestTheNumberOfPods(t *testing.T) {
	two := []bootstrap.Interface{{Network: "n3"}, {Network: "n6", NetworkCardIndex: 1}}
	for name, tc := range map[string]struct {
		interfaces []bootstrap.Interface
		limits     eni.Limits
		processors int
		want       string
	}{
		"one slot of four less":               {two, eni.Limits{Cards: []int{4}, IPv4: 15}, 4, "--max-pods=44"},
		"no more than EKS has on small nodes": {two, eni.Limits{Cards: []int{8}, IPv4: 30}, 16, "--max-pods=110"},
		"nor on large ones":                   {two, eni.Limits{Cards: []int{15}, IPv4: 50}, 96, "--max-pods=250"},
		"no slot less":                        {two[1:], eni.Limits{Cards: []int{4, 4}, IPv4: 15}, 4, ""},
		"a type that nobody knows":            {two, eni.Limits{}, 4, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := bootstrap.Report{Checkpoint: bootstrap.Checkpoint{Interfaces: tc.interfaces, Limits: tc.limits}}
			_, got, _ := strings.Cut(r.Environment(false, tc.processors), " --max")
			if got = strings.TrimSuffix(got, "\"\n"); got != strings.TrimPrefix(tc.want, "--max") {
				t.Errorf("the kubelet is told %q", got)
			}
		})
	}
}
