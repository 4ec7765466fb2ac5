// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// The subnets of zone a. The first has no IPv6.
var (
	nodesSubnet  = eni.Subnet{ID: "subnet-0aa0000000000000a", Zone: "us-east-1a", VPCID: "vpc-0b1f1e5a2c3d4e5f6", FreeIPv4: 4000}
	multusSubnet = eni.Subnet{ID: "subnet-0f59b4f14737be9ad", Zone: "us-east-1a", VPCID: "vpc-0b1f1e5a2c3d4e5f6", FreeIPv4: 4000, HasIPv6: true}
)

// region returns a simulated EC2 without delays, with AWS's client and ours.
func region(t *testing.T) (*awssim.Simulator, *sdk.Client, *awsec2.Client) {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}})
	if err != nil {
		t.Fatal(err)
	}
	cfg := aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.simulated"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: sim.Transport()},
	}
	plenty := map[string]awsec2.Bucket{}
	for action := range awsec2.DocumentedBuckets() {
		plenty[action] = awsec2.Bucket{Capacity: 1e6, Refill: 1e6}
	}
	return sim, sdk.NewFromConfig(cfg), awsec2.New(cfg, awsec2.Options{Cluster: "blue", Buckets: plenty})
}

// declare draws a node template. Each part is legal or, sometimes, not.
func declare(t *rapid.T) launchtemplate.NodeTemplate {
	n := launchtemplate.NodeTemplate{
		Name: "default", UID: "uid-1", Cluster: "blue", Image: launchtemplate.Image{ID: "ami-0123456789abcdef0"}, UserData: "#!/bin/sh\njoin",
		Network: launchtemplate.Network{Subnets: []eni.Subnet{nodesSubnet}, Groups: []string{"sg-0aa00000000000001"}},
		Tags:    map[string]string{"team": "network"},
	}
	for _, slot := range rapid.SliceOfNDistinct(rapid.Custom(drawSlot), 0, 6, rapid.ID[eni.Slot]).Draw(t, "slots") {
		n.Interfaces = append(n.Interfaces, drawInterface(t, slot))
	}
	if rapid.IntRange(0, 19).Draw(t, "primary") > 0 && !slices.ContainsFunc(n.Interfaces, func(i launchtemplate.Interface) bool { return i.Slot == eni.Primary }) {
		n.Interfaces = append(n.Interfaces, drawInterface(t, eni.Primary))
	}
	return n
}

func drawSlot(t *rapid.T) eni.Slot {
	return eni.Slot{Card: rapid.SampledFrom([]int{0, 0, 0, 0, 1, 2}).Draw(t, "card"), Device: rapid.IntRange(0, 4).Draw(t, "device")}
}

func drawInterface(t *rapid.T, slot eni.Slot) launchtemplate.Interface {
	rarely := func(what string) bool { return rapid.IntRange(0, 14).Draw(t, what) == 0 }
	i := launchtemplate.Interface{
		Slot: slot, Type: rapid.SampledFrom([]eni.Type{eni.Standard, eni.Standard, eni.Standard, eni.EFA, eni.EFAOnly}).Draw(t, "type"),
		Description: rapid.StringMatching(`[a-z ]{0,8}`).Draw(t, "description"), DeleteOnTermination: rapid.Bool().Draw(t, "deleteOnTermination"),
		Management: rapid.SampledFrom([]launchtemplate.Management{launchtemplate.Unmanaged, launchtemplate.CNI}).Draw(t, "management"),
	}
	if slot == eni.Primary && i.Type == eni.EFAOnly && !rarely("efa-only primary") {
		i.Type = eni.EFA
	}
	if rapid.Bool().Draw(t, "own network") {
		i.Subnets, i.Groups = []eni.Subnet{multusSubnet}, []string{"sg-05da196f3314d4af8"}
	}
	if i.Type != eni.EFAOnly || rarely("addresses of none") {
		i.IPv4Prefixes = rapid.IntRange(0, 2).Draw(t, "ipv4Prefixes")
		if i.Subnets != nil {
			i.IPv6Prefixes = rapid.IntRange(0, 2).Draw(t, "ipv6Prefixes")
		}
	}
	if rarely("say public") {
		public := rapid.Bool().Draw(t, "public")
		i.PublicIP = &public
	}
	if rarely("say carrier") {
		carrier := rapid.Bool().Draw(t, "carrier")
		i.CarrierIP = &carrier
	}
	return i
}

// TestWhatIsRenderedLaunchesExactlyTheDeclaredInterfaces checks every node template against the simulated rules of EC2.
// EC2 accepts a rendered template without a warning, tries it, launches it, and the instance has the declared
// interfaces. We refuse other templates, with a reason, before any call to EC2.
func TestWhatIsRenderedLaunchesExactlyTheDeclaredInterfaces(t *testing.T) {
	sim, api, client := region(t)
	launched := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"m5.xlarge", "c6in.32xlarge", "p4d.24xlarge", "c5n.18xlarge", "p5.48xlarge"}).Draw(t, "instance type")
		limits, _ := instancetype.Offline(kind)
		n := declare(t)
		if limits.EFAs > 0 {
			n.Layout = rapid.SampledFrom([]launchtemplate.Layout{launchtemplate.NoLayout, launchtemplate.NoLayout, launchtemplate.IPOptimized, launchtemplate.BandwidthOptimized}).Draw(t, "layout")
		}
		r := launchtemplate.Render(n, []launchtemplate.InstanceType{{Name: kind, Limits: limits}}, nil)
		if len(r.Templates) == 0 {
			if len(r.Problems) == 0 {
				t.Fatal("nothing is rendered, and nothing is wrong")
			}
			return
		}
		launched++
		n.Name = fmt.Sprintf("default-%d", launched)
		r = launchtemplate.Render(n, []launchtemplate.InstanceType{{Name: kind, Limits: limits}}, nil)
		if err := (parties{sim, api, client}).launchAs(t.Context(), n, r.Templates[0], kind); err != nil {
			t.Fatalf("%v on %s: %v\n%s", n.Interfaces, kind, err, r.Templates[0].Data.JSON())
		}
	})
	if launched == 0 {
		t.Error("no legal node template was drawn")
	}
}

// parties are the views of an AWS account: its owner's, the operator's of the groups, and the controller's.
type parties struct {
	sim    *awssim.Simulator
	api    *sdk.Client
	client *awsec2.Client
}

// launchAs publishes a template as the controller does, launches from it as a group does, and compares.
func (a parties) launchAs(ctx context.Context, n launchtemplate.NodeTemplate, template launchtemplate.Template, kind string) error {
	id, warnings, err := a.client.CreateLaunchTemplate(ctx, launchtemplate.NewTemplate{Name: n.TemplateName(template), Hash: template.Hash, Data: template.Data, Tags: n.Identity()})
	if err != nil || len(warnings) > 0 {
		return fmt.Errorf("create: %w, warnings %q", err, warnings)
	}
	subnet := ""
	if template.Zone == "" {
		subnet = nodesSubnet.ID
	}
	if err := a.client.DryRunLaunch(ctx, launchtemplate.DryRun{TemplateID: id, Version: 1, Data: template.Data, InstanceType: kind, SubnetID: subnet}); err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	override := types.FleetLaunchTemplateOverridesRequest{InstanceType: types.InstanceType(kind)}
	if subnet != "" {
		override.SubnetId = aws.String(subnet)
	}
	out, err := a.api.CreateFleet(ctx, &sdk.CreateFleetInput{
		Type:                        types.FleetTypeInstant,
		TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(id), Version: aws.String("1")},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{override},
		}},
	})
	if err != nil || len(out.Instances) == 0 {
		return fmt.Errorf("fleet: %w, %v", err, out)
	}
	instanceID := out.Instances[0].InstanceIds[0]
	have, err := a.client.AttachedTo(ctx, instanceID)
	if err != nil {
		return err
	}
	if diff := gocmp.Diff(described(wanted(template, subnet)), described(have)); diff != "" {
		return fmt.Errorf("interfaces (-declared +launched):\n%s", diff)
	}
	if differences := launchtemplate.CompareInterfaces(launchtemplate.Wanted{Interfaces: template.Interfaces, Subnets: template.Subnets}, have); launchtemplate.Drifted(differences) {
		return fmt.Errorf("it has drifted at once: %v", differences)
	}
	return a.cleanUp(ctx, id, instanceID, have)
}

// wanted returns the interfaces that EC2 should return.
func wanted(template launchtemplate.Template, subnet string) []eni.Interface {
	chosen := launchtemplate.ChosenSubnets(template.Data)
	var all []eni.Interface
	for _, i := range template.Interfaces {
		all = append(all, i.AsLaunched(cmp.Or(chosen[i.Slot], subnet)))
	}
	return all
}

// described returns the declared properties of interfaces, one line for each.
func described(all []eni.Interface) []string {
	var lines []string
	for _, i := range all {
		lines = append(lines, fmt.Sprintf("%s: %s in %s, groups %v, %q, %d and %d prefixes, deleted with it: %t, public %t",
			i.Attachment.Slot, i.Type, i.SubnetID, i.Groups, i.Description, len(i.IPv4Prefixes), len(i.IPv6Prefixes), i.Attachment.DeleteOnTermination, i.PublicIP.IsValid()))
	}
	slices.Sort(lines)
	return lines
}

// cleanUp makes room for the next launch.
func (a parties) cleanUp(ctx context.Context, id, instanceID string, have []eni.Interface) error {
	for _, i := range have {
		if _, verdict := identity.Read("blue", i.Tags); verdict != identity.Launched {
			return fmt.Errorf("%s has verdict %d by its tags %v", i.ID, verdict, i.Tags)
		}
	}
	if err := a.sim.Terminate(instanceID); err != nil {
		return err
	}
	for _, i := range have {
		if !i.Attachment.DeleteOnTermination {
			if _, err := a.api.DeleteNetworkInterface(ctx, &sdk.DeleteNetworkInterfaceInput{NetworkInterfaceId: aws.String(i.ID)}); err != nil {
				return err
			}
		}
	}
	return a.client.DeleteLaunchTemplate(ctx, id)
}
