// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"encoding/base64"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

var update = flag.Bool("update", false, "write the golden files anew")

// rule is one of EC2's rules for launches.
type rule struct {
	name string
	// reason is our reason for refusing a template that breaks the rule, and path is the wrong field.
	reason launchtemplate.Reason
	path   string
	// on reports which instance types have the rule; nil if all do.
	on func(eni.Limits) bool
	// breaks makes a legal node template break the rule, in its interface at the index, which is not the primary one.
	breaks func(n *launchtemplate.NodeTemplate, at int, limits eni.Limits)
}

var farSubnet = eni.Subnet{ID: "subnet-0bb0000000000000b", Zone: "us-east-1b", VPCID: nodesSubnet.VPCID, FreeIPv4: 4000, HasIPv6: true}

// rules returns all rules of the simulated EC2 for launches that a node template can break.
func rules() []rule {
	hasEFA := func(l eni.Limits) bool { return l.EFAs > 0 }
	with := func(change func(*launchtemplate.Interface)) func(*launchtemplate.NodeTemplate, int, eni.Limits) {
		return func(n *launchtemplate.NodeTemplate, at int, _ eni.Limits) { change(&n.Interfaces[at]) }
	}
	primary := func(change func(*launchtemplate.Interface)) func(*launchtemplate.NodeTemplate, int, eni.Limits) {
		return func(n *launchtemplate.NodeTemplate, _ int, _ eni.Limits) {
			change(&n.Interfaces[slices.IndexFunc(n.Interfaces, func(i launchtemplate.Interface) bool { return i.Slot == eni.Primary })])
		}
	}
	all := func(change func(*launchtemplate.NodeTemplate)) func(*launchtemplate.NodeTemplate, int, eni.Limits) {
		return func(n *launchtemplate.NodeTemplate, _ int, _ eni.Limits) { change(n) }
	}
	const one = `spec\.networkInterfaces\[\d+\]`
	return []rule{
		{"one interface to a slot", launchtemplate.DuplicateSlot, one, nil, func(n *launchtemplate.NodeTemplate, at int, _ eni.Limits) {
			n.Interfaces = append(n.Interfaces, n.Interfaces[at])
		}},
		{"a primary interface", launchtemplate.NoPrimaryInterface, `spec\.networkInterfaces`, nil, primary(func(i *launchtemplate.Interface) { i.Slot.Device = 9 })},
		{"an address for the primary interface", launchtemplate.PrimaryNotPlain, one + `\.interfaceType`, hasEFA, primary(func(i *launchtemplate.Interface) {
			i.Type, i.IPv4Prefixes, i.IPv6Prefixes = eni.EFAOnly, 0, 0
		})},
		{"one EFA to a network card", launchtemplate.SeveralEFAsOnCard, one + `\.interfaceType`, hasEFA, func(n *launchtemplate.NodeTemplate, at int, _ eni.Limits) {
			n.Layout = launchtemplate.NoLayout
			for range 2 {
				n.Interfaces = append(n.Interfaces, launchtemplate.Interface{Slot: eni.Slot{Device: 20 + len(n.Interfaces)}, Type: eni.EFA, DeleteOnTermination: true})
			}
		}},
		{"EFAs on types that take them", launchtemplate.NoEligibleInstanceType, `spec\.networkInterfaces`, func(l eni.Limits) bool { return l.EFAs == 0 }, with(func(i *launchtemplate.Interface) {
			i.Type, i.IPv4Prefixes, i.IPv6Prefixes = eni.EFA, 0, 0
		})},
		{"no prefixes on an EFA-only interface", launchtemplate.EFAOnlyHasNoAddresses, one + `\.interfaceType`, nil, with(func(i *launchtemplate.Interface) {
			i.Type, i.IPv4Prefixes = eni.EFAOnly, 1
		})},
		{"a public address on a single interface", launchtemplate.PublicIPRequiresSingleInterface, one + `\.associatePublicIPAddress`, nil, primary(func(i *launchtemplate.Interface) { i.PublicIP = new(true) })},
		{"a public or a carrier address", launchtemplate.PublicAndCarrierIP, one + `\.associateCarrierIPAddress`, nil, func(n *launchtemplate.NodeTemplate, _ int, _ eni.Limits) {
			n.Layout, n.Interfaces = launchtemplate.NoLayout, []launchtemplate.Interface{{PublicIP: new(true), CarrierIP: new(true), DeleteOnTermination: true}}
		}},
		{"a carrier address on the primary interface", launchtemplate.CarrierIPOnPrimaryOnly, one + `\.associateCarrierIPAddress`, nil, with(func(i *launchtemplate.Interface) { i.CarrierIP = new(true) })},
		{"a carrier address in a Wavelength Zone", launchtemplate.CarrierIPOutsideWavelength, one + `\.associateCarrierIPAddress`, nil, primary(func(i *launchtemplate.Interface) { i.CarrierIP = new(true) })},
		{"device indexes from 0", launchtemplate.InvalidInterface, one + `\.deviceIndex`, nil, with(func(i *launchtemplate.Interface) { i.Slot.Device = -1 })},
		{"network card indexes from 0", launchtemplate.InvalidInterface, one + `\.networkCardIndex`, nil, with(func(i *launchtemplate.Interface) { i.Slot.Card = -1 })},
		{"no negative number of IPv4 prefixes", launchtemplate.InvalidInterface, one + `\.ipv4PrefixCount`, nil, with(func(i *launchtemplate.Interface) { i.IPv4Prefixes = -1 })},
		{"no negative number of IPv6 prefixes", launchtemplate.InvalidInterface, one + `\.ipv6PrefixCount`, nil, with(func(i *launchtemplate.Interface) { i.IPv6Prefixes = -1 })},
		{"a known interface type", launchtemplate.InvalidInterface, one + `\.interfaceType`, nil, with(func(i *launchtemplate.Interface) { i.Type = "fast" })},
		{"a description of 255 characters", launchtemplate.InvalidInterface, one + `\.description`, nil, with(func(i *launchtemplate.Interface) { i.Description = strings.Repeat("d", 256) })},
		{"16 security groups to an interface", launchtemplate.TooManySecurityGroups, one + `\.securityGroupSelector`, nil, with(func(i *launchtemplate.Interface) {
			i.Groups = slices.Repeat([]string{"sg-05da196f3314d4af8"}, 17)
		})},
		{"no more interfaces than the card takes", launchtemplate.NoEligibleInstanceType, `spec\.networkInterfaces`, nil, func(n *launchtemplate.NodeTemplate, _ int, l eni.Limits) {
			for device := range l.MaxOnCard(0) {
				n.Interfaces = append(n.Interfaces, launchtemplate.Interface{Slot: eni.Slot{Device: 40 + device}, DeleteOnTermination: true})
			}
		}},
		{"a network card that there is", launchtemplate.NoEligibleInstanceType, `spec\.networkInterfaces`, nil, with(func(i *launchtemplate.Interface) { i.Slot.Card = 99 })},
		{"a device index that there is", launchtemplate.NoEligibleInstanceType, `spec\.networkInterfaces`, nil, func(n *launchtemplate.NodeTemplate, at int, l eni.Limits) {
			n.Interfaces[at].Slot = eni.Slot{Device: l.MaxOnCard(0)}
		}},
		{"no more prefixes than the interface takes", launchtemplate.NoEligibleInstanceType, `spec\.networkInterfaces`, nil, func(n *launchtemplate.NodeTemplate, at int, l eni.Limits) {
			n.Interfaces[at].Type, n.Interfaces[at].IPv4Prefixes = eni.Standard, l.IPv4
		}},
		{"IPv6 prefixes in a subnet with IPv6", launchtemplate.SubnetsWithoutIPv6, one + `\.ipv6PrefixCount`, nil, with(func(i *launchtemplate.Interface) {
			i.Type, i.Subnets, i.Groups, i.IPv6Prefixes = eni.Standard, nil, nil, 1
		})},
		{"all interfaces in one zone", launchtemplate.NoCommonZone, `spec\.networkInterfaces`, nil, with(func(i *launchtemplate.Interface) { i.Subnets = []eni.Subnet{farSubnet} })},
		{"no tags of AWS's", launchtemplate.InvalidTags, `spec\.tags`, nil, all(func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"Aws:team": "network"} })},
		{"tag keys of 128 characters", launchtemplate.InvalidTags, `spec\.tags`, nil, all(func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{strings.Repeat("k", 129): ""} })},
		{"tag values of 256 characters", launchtemplate.InvalidTags, `spec\.tags`, nil, all(func(n *launchtemplate.NodeTemplate) { n.Tags = map[string]string{"team": strings.Repeat("v", 257)} })},
		{"16 KiB of user data", launchtemplate.UserDataTooLarge, `spec\.userData`, nil, all(func(n *launchtemplate.NodeTemplate) { n.UserData = "#!/bin/sh\n" + strings.Repeat("#", 16<<10) })},
		{"an image", launchtemplate.ImageRequired, `spec\.amiSelector`, nil, all(func(n *launchtemplate.NodeTemplate) { n.Image = launchtemplate.Image{Family: launchtemplate.Custom} })},
		{"a known word for sessions of instance metadata", launchtemplate.InvalidMetadataOptions, `spec\.metadataOptions\.httpTokens`, nil, all(func(n *launchtemplate.NodeTemplate) {
			n.Metadata = &launchtemplate.MetadataOptions{HTTPTokens: "maybe"}
		})},
		{"64 hops to instance metadata", launchtemplate.InvalidMetadataOptions, `spec\.metadataOptions\.httpPutResponseHopLimit`, nil, all(func(n *launchtemplate.NodeTemplate) {
			n.Metadata = &launchtemplate.MetadataOptions{HopLimit: 65}
		})},
	}
}

// TestWhatIsIllegalIsRefusedByUs makes each legal node template break one of EC2's rules. The controller refuses it
// without a call, for the rule's reason, with the field, the cause and the next step. EC2 refuses the same launch, so
// the controller refuses no launch that EC2 allows.
func TestWhatIsIllegalIsRefusedByUs(t *testing.T) {
	_, api, _ := region(t)
	kinds := []string{"m5.xlarge", "c6in.32xlarge", "p4d.24xlarge", "c5n.18xlarge", "p5.48xlarge"}
	broken := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom(kinds).Draw(t, "instance type")
		limits, _ := instancetype.Offline(kind)
		n := declare(t)
		n.Interfaces = append(n.Interfaces, drawInterface(t, eni.Slot{Device: 5}))
		if len(render(n, kind, limits).Problems) > 0 {
			n = example() // the drawn template is already illegal
		}
		rule := rapid.SampledFrom(rules()).Draw(t, "rule")
		if rule.on != nil && !rule.on(limits) {
			return
		}
		broken[rule.name]++
		secondary := slices.Collect(func(yield func(int) bool) {
			for at, i := range n.Interfaces {
				if i.Slot != eni.Primary && !yield(at) {
					return
				}
			}
		})
		rule.breaks(&n, rapid.SampledFrom(secondary).Draw(t, "interface"), limits)
		problems := render(n, kind, limits).Problems
		if fault := rule.refusedIn(problems); fault != "" {
			t.Fatalf("%s on %s: %s\n%v\n%+v", rule.name, kind, fault, problems, n.Interfaces)
		}
		if err := ask(t.Context(), api, n, kind); err == nil {
			t.Fatalf("%s on %s: EC2 would have launched what we refuse: %v\n%+v", rule.name, kind, problems, n.Interfaces)
		}
	})
	t.Logf("%d of %d rules were broken: %v", len(broken), len(rules()), broken)
}

// TestRefusalsSayMoreThanEC2 compares both messages of every rule.
func TestRefusalsSayMoreThanEC2(t *testing.T) {
	_, api, _ := region(t)
	var table strings.Builder
	for _, rule := range rules() {
		kind := "p4d.24xlarge"
		limits, _ := instancetype.Offline(kind)
		if rule.on != nil && !rule.on(limits) {
			kind = "m5.xlarge"
			limits, _ = instancetype.Offline(kind)
		}
		n := example()
		rule.breaks(&n, 1, limits)
		problems := render(n, kind, limits).Problems
		if fault := rule.refusedIn(problems); fault != "" {
			t.Errorf("%s: %s: %v", rule.name, fault, problems)
			continue
		}
		err := ask(t.Context(), api, n, kind)
		refused := smithy.APIError(nil)
		if !errors.As(err, &refused) {
			t.Errorf("%s: EC2 says %v", rule.name, err)
			continue
		}
		ours := problems[slices.IndexFunc(problems, func(p launchtemplate.Problem) bool { return p.Reason == rule.reason })]
		fmt.Fprintf(&table, "%s\n  multieni: %s: %s\n  EC2:      %s: %s\n\n", rule.name, ours.Reason, shortened(ours.Error()), refused.ErrorCode(), shortened(refused.ErrorMessage()))
	}
	const golden = "testdata/refusals.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(table.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(want), table.String()); diff != "" {
		t.Errorf("(-want +got), run with -update to take it over:\n%s", diff)
	}
}

// shortened shortens long repetitions of a character.
func shortened(text string) string {
	return regexp.MustCompile(`k{9,}`).ReplaceAllString(text, "kkk…")
}

// refusedIn returns the mistake in our refusal, or "".
func (r rule) refusedIn(problems []launchtemplate.Problem) string {
	at := slices.IndexFunc(problems, func(p launchtemplate.Problem) bool {
		return p.Reason == r.reason && regexp.MustCompile("^"+r.path+"$").MatchString(p.Path)
	})
	switch {
	case at < 0:
		return fmt.Sprintf("it is not refused as %s of %s", r.reason, r.path)
	case !strings.Contains(problems[at].Message, "; "):
		return "no next step: " + problems[at].Message
	default:
		return ""
	}
}

// example returns a legal node template.
func example() launchtemplate.NodeTemplate {
	return launchtemplate.NodeTemplate{
		Name: "default", UID: "uid-1", Cluster: "blue", Image: launchtemplate.Image{ID: "ami-0123456789abcdef0"}, UserData: "#!/bin/sh\njoin",
		Network:    launchtemplate.Network{Subnets: []eni.Subnet{nodesSubnet}, Groups: []string{"sg-0aa00000000000001"}},
		Interfaces: []launchtemplate.Interface{{DeleteOnTermination: true}, {Name: "n3", Slot: eni.Slot{Device: 1}, DeleteOnTermination: true}},
	}
}

func render(n launchtemplate.NodeTemplate, kind string, limits eni.Limits) launchtemplate.Rendering {
	return launchtemplate.Render(n, []launchtemplate.InstanceType{{Name: kind, Limits: limits}}, nil)
}

// ask makes EC2 launch the node template without the controller's checks.
func ask(ctx context.Context, api *sdk.Client, n launchtemplate.NodeTemplate, kind string) error {
	in := &sdk.RunInstancesInput{
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1), InstanceType: types.InstanceType(kind), UserData: aws.String(base64.StdEncoding.EncodeToString([]byte(n.UserData))),
	}
	if n.Image.ID != "" {
		in.ImageId = &n.Image.ID
	}
	if m := n.Metadata; m != nil {
		in.MetadataOptions = &types.InstanceMetadataOptionsRequest{HttpTokens: types.HttpTokensState(m.HTTPTokens)}
		if m.HopLimit != 0 {
			in.MetadataOptions.HttpPutResponseHopLimit = aws.Int32(int32(m.HopLimit))
		}
	}
	tags := types.TagSpecification{ResourceType: types.ResourceTypeInstance}
	for _, key := range slices.Sorted(maps.Keys(n.Tags)) {
		tags.Tags = append(tags.Tags, types.Tag{Key: aws.String(key), Value: aws.String(n.Tags[key])})
	}
	in.TagSpecifications = []types.TagSpecification{tags}
	for _, i := range n.Interfaces {
		spec := types.InstanceNetworkInterfaceSpecification{
			NetworkCardIndex: aws.Int32(int32(i.Slot.Card)), DeviceIndex: aws.Int32(int32(i.Slot.Device)), Groups: i.Groups, SubnetId: &nodesSubnet.ID,
			DeleteOnTermination: aws.Bool(true), AssociatePublicIpAddress: i.PublicIP, AssociateCarrierIpAddress: i.CarrierIP,
		}
		if i.Type != "" {
			spec.InterfaceType = aws.String(string(i.Type))
		}
		if i.Description != "" {
			spec.Description = &i.Description
		}
		if i.IPv4Prefixes != 0 {
			spec.Ipv4PrefixCount = aws.Int32(int32(i.IPv4Prefixes))
		}
		if i.IPv6Prefixes != 0 {
			spec.Ipv6PrefixCount = aws.Int32(int32(i.IPv6Prefixes))
		}
		if len(i.Subnets) > 0 {
			spec.SubnetId = &i.Subnets[0].ID
		}
		if len(i.Groups) == 0 {
			spec.Groups = n.Network.Groups
		}
		in.NetworkInterfaces = append(in.NetworkInterfaces, spec)
	}
	_, err := api.RunInstances(ctx, in)
	return err
}
