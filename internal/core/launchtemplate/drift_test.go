// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// launched is what EC2 shows of an instance with a primary interface and one more.
func launched() []eni.Interface {
	one := func(id string, device int) eni.Interface {
		return eni.Interface{
			ID: id, Type: eni.Standard, SubnetID: "subnet-a", Groups: []string{"sg-1"}, Tags: map[string]string{},
			Attachment: &eni.Attachment{InstanceID: "i-1", Slot: eni.Slot{Device: device}, DeleteOnTermination: true},
		}
	}
	return []eni.Interface{one("eni-0", 0), one("eni-1", 1)}
}

func wanted() launchtemplate.Wanted {
	w := launchtemplate.Wanted{Interfaces: []launchtemplate.Interface{at(0), at(1)}, Subnets: map[eni.Slot][]string{}}
	for n := range w.Interfaces {
		w.Interfaces[n].Groups = []string{"sg-1"}
		w.Subnets[w.Interfaces[n].Slot] = []string{"subnet-a", "subnet-b"}
	}
	return w
}

func found(differences []launchtemplate.Difference) []string {
	all := []string{}
	for _, d := range differences {
		all = append(all, d.Field+" "+string(d.Class)+" "+string(d.Action))
	}
	return all
}

// TestEachFieldDriftsAsItsClassSays changes one field after the other, and expects exactly that difference.
func TestEachFieldDriftsAsItsClassSays(t *testing.T) {
	yes, no := true, false
	cases := map[string]struct {
		want func(*launchtemplate.Wanted)
		have func([]eni.Interface) []eni.Interface
		is   string
	}{
		"length": {want: func(w *launchtemplate.Wanted) {
			third := at(2)
			w.Interfaces = append(w.Interfaces, third)
		}, is: "networkInterfaces Static Replace"},
		"deviceIndex":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Slot.Device = 2 }, is: "networkInterfaces[].deviceIndex Static Replace"},
		"networkCardIndex": {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Slot.Card = 1 }, is: "networkInterfaces[].networkCardIndex Static Replace"},
		"interfaceType":    {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Type = eni.EFA }, is: "networkInterfaces[].interfaceType Static Replace"},
		"description":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Description = "n3" }, is: "networkInterfaces[].description Static Repair"},
		"deleteOnTermination": {want: func(w *launchtemplate.Wanted) {
			w.Interfaces[1].DeleteOnTermination = false
		}, is: "networkInterfaces[].deleteOnTermination Behavioral Repair"},
		"associatePublicIPAddress": {want: func(w *launchtemplate.Wanted) { w.Interfaces[0].PublicIP = &yes }, is: "networkInterfaces[].associatePublicIPAddress Static Replace"},
		"a public address that was not wanted": {
			want: func(w *launchtemplate.Wanted) { w.Interfaces[0].PublicIP = &no },
			have: func(i []eni.Interface) []eni.Interface {
				i[0].PublicIP = netip.MustParseAddr("203.0.113.1")
				return i
			}, is: "networkInterfaces[].associatePublicIPAddress Static Replace"},
		"associateCarrierIPAddress":  {want: func(w *launchtemplate.Wanted) { w.Interfaces[0].CarrierIP = &yes }, is: "networkInterfaces[].associateCarrierIPAddress Static Replace"},
		"ipv4PrefixCount":            {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].IPv4Prefixes = 1 }, is: "networkInterfaces[].ipv4PrefixCount Static Repair"},
		"ipv6PrefixCount":            {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].IPv6Prefixes = 1 }, is: "networkInterfaces[].ipv6PrefixCount Static Repair"},
		"subnetSelector":             {want: func(w *launchtemplate.Wanted) { w.Subnets[eni.Slot{Device: 1}] = []string{"subnet-n3"} }, is: "networkInterfaces[].subnetSelector Dynamic Replace"},
		"securityGroupSelector":      {want: func(w *launchtemplate.Wanted) { w.Interfaces[1].Groups = []string{"sg-2"} }, is: "networkInterfaces[].securityGroupSelector Dynamic Repair"},
		"an interface that was lost": {have: func(i []eni.Interface) []eni.Interface { return i[:1] }, is: "networkInterfaces Static Replace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w, have := wanted(), launched()
			if tc.want != nil {
				tc.want(&w)
			}
			if tc.have != nil {
				have = tc.have(have)
			}
			if diff := cmp.Diff([]string{tc.is}, found(launchtemplate.CompareInterfaces(w, have))); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatNeverCountsAsDrift(t *testing.T) {
	more := func(change func(*eni.Interface)) []eni.Interface {
		have := launched()
		i := have[1].Clone()
		i.ID, i.Attachment.Slot.Device = "eni-9", 2
		change(&i)
		return append(have, i)
	}
	cases := map[string][]eni.Interface{
		"as it was launched":  launched(),
		"one more interface":  more(func(*eni.Interface) {}),
		"one more of the CNI": more(func(i *eni.Interface) { i.Tags["node.k8s.amazonaws.com/instance_id"] = "i-1" }),
		"a trunk":             more(func(i *eni.Interface) { i.Type = "trunk" }),
		"prefixes of the CNI's on the primary": func() []eni.Interface {
			have := launched()
			have[0].IPv4Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")}
			return have
		}(),
		"groups in another order": func() []eni.Interface { return launched() }(),
	}
	for name, have := range cases {
		t.Run(name, func(t *testing.T) {
			if got := launchtemplate.CompareInterfaces(wanted(), have); len(got) > 0 {
				t.Errorf("%v", got)
			}
		})
	}
}

func TestAnInterfaceOfTheCNIDoesNotStandInForADeclaredOne(t *testing.T) {
	have := launched()
	have[1].Tags["node.k8s.amazonaws.com/instance_id"] = "i-1"
	if diff := cmp.Diff([]string{"networkInterfaces Static Replace"}, found(launchtemplate.CompareInterfaces(wanted(), have))); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

func TestBehavioralDifferencesAreNoDrift(t *testing.T) {
	w := wanted()
	w.Interfaces[1].DeleteOnTermination = false
	differences := launchtemplate.CompareInterfaces(w, launched())
	if len(differences) != 1 || launchtemplate.Drifted(differences) {
		t.Errorf("%v", differences)
	}
}

func TestOtherFieldsDriftAsTheirClassSays(t *testing.T) {
	yes := true
	render := func(change func(*launchtemplate.NodeTemplate)) launchtemplate.Rendering {
		n := plain()
		change(&n)
		return launchtemplate.Render(n, of(t, "m5.large"), nil)
	}
	then := render(func(*launchtemplate.NodeTemplate) {})
	for name, tc := range map[string]struct {
		change func(*launchtemplate.NodeTemplate)
		is     []string
	}{
		"nothing":       {func(*launchtemplate.NodeTemplate) {}, []string{}},
		"interfaces":    {func(n *launchtemplate.NodeTemplate) { n.Interfaces = []launchtemplate.Interface{at(0), at(1)} }, []string{}},
		"instanceTypes": {func(n *launchtemplate.NodeTemplate) { n.Types.Include = []string{"m5.*"} }, []string{}},
		"amiSelector":   {func(n *launchtemplate.NodeTemplate) { n.Image.ID = "ami-2" }, []string{"amiSelector Dynamic Replace"}},
		"userData":      {func(n *launchtemplate.NodeTemplate) { n.UserData += "x" }, []string{"userData Static Replace"}},
		"tags":          {func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"a": "b"} }, []string{"tags Static Replace"}},
		"monitoring":    {func(n *launchtemplate.NodeTemplate) { n.Monitoring = &yes }, []string{"detailedMonitoring Static Replace"}},
		"profile":       {func(n *launchtemplate.NodeTemplate) { n.InstanceProfile = "p" }, []string{"instanceProfile Static Replace"}},
		"metadata":      {func(n *launchtemplate.NodeTemplate) { n.Metadata = &launchtemplate.MetadataOptions{HopLimit: 2} }, []string{"metadataOptions Static Replace"}},
		"block devices": {func(n *launchtemplate.NodeTemplate) {
			n.BlockDevices = []launchtemplate.BlockDevice{{DeviceName: "/dev/xvda"}}
		}, []string{"blockDeviceMappings Static Replace"}},
		"override": {func(n *launchtemplate.NodeTemplate) { n.Override = launchtemplate.Document{"EbsOptimized": true} }, []string{"launchTemplateOverride Static Replace"}},
		"a moved alias": {func(n *launchtemplate.NodeTemplate) {
			n.Source = &launchtemplate.Source{Autofill: true, Data: launchtemplate.Document{"EbsOptimized": true}}
		}, []string{"launchTemplateRef Dynamic Replace"}},
	} {
		t.Run(name, func(t *testing.T) {
			now := render(tc.change)
			if len(now.Problems) > 0 {
				t.Fatal(now.Problems)
			}
			got := found(launchtemplate.CompareData(now.Templates[0].Data, now.Origins, then.Templates[0].Data))
			if diff := cmp.Diff(tc.is, got); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
