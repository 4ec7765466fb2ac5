// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// TestLaunchTemplateQuotas needs an account that is nearly full.
func TestLaunchTemplateQuotas(t *testing.T) {
	ec := openWith(t, simulator{speed: 300, templates: 2})
	if !ec.simulated {
		t.Skip("only on the simulator: it uses up the quota")
	}
	id := *ec.template(t).LaunchTemplateId
	verify(t, ec, []check{
		{name: "a template has a limited number of versions", run: func(t *testing.T, ec *endpoint) {
			ec.version(t, id, another)
			refused("MaxTemplateVersionLimitExceeded", func(ctx context.Context, ec *endpoint) error {
				_, err := ec.CreateLaunchTemplateVersion(ctx, &versionInput{LaunchTemplateId: &id, LaunchTemplateData: &templateData{KeyName: aws.String("k")}})
				return err
			})(t, ec)
		}},
		{name: "an account has a limited number of templates", run: func(t *testing.T, ec *endpoint) {
			ec.template(t)
			refused("MaxTemplateLimitExceeded", func(ctx context.Context, ec *endpoint) error {
				_, err := ec.CreateLaunchTemplate(ctx, ec.templateRequest())
				return err
			})(t, ec)
		}},
	})
}

// TestElasticFabricAdapterLaunches needs an instance type with two network cards that each support one EFA.
func TestElasticFabricAdapterLaunches(t *testing.T) {
	ec := open(t)
	if ec.multiCardType == "" {
		t.Skip("set MULTIENI_CONFORMANCE_MULTI_CARD_TYPE to spend money on it")
	}
	adapter := func(card, device int32, kind string) types.InstanceNetworkInterfaceSpecification {
		spec := ec.spec(card, device)
		spec.InterfaceType = &kind
		return spec
	}
	primary := ec.spec(0, 0)
	verify(t, ec, []check{
		{name: "one on each card", run: func(t *testing.T, ec *endpoint) {
			host := ec.instance(t, ofType(ec.multiCardType), withInterfaces(adapter(0, 0, "efa"), adapter(1, 1, "efa-only")))
			kinds := map[int32]string{}
			for _, eni := range host.NetworkInterfaces {
				kinds[*eni.Attachment.NetworkCardIndex] = *eni.InterfaceType
			}
			if kinds[0] != "efa" || kinds[1] != "efa-only" {
				t.Errorf("got %v", kinds)
			}
		}},
		{name: "from a launch template", run: func(t *testing.T, ec *endpoint) {
			kind, second := "efa", ec.templateSpec(1, 1)
			second.InterfaceType = &kind
			id := *ec.template(t, templateInterfaces(ec.templateSpec(0, 0), second), saying(func(d *templateData) {
				d.InstanceType = types.InstanceType(ec.multiCardType)
			})).LaunchTemplateId
			host := ec.instance(t, fromTemplate(id, "1"))
			if n := len(host.NetworkInterfaces); n != 2 {
				t.Errorf("%d interfaces, want 2", n)
			}
		}},
		{name: "two on one card", strict: true, run: refusedSomehow(
			launch(ofType(ec.multiCardType), withInterfaces(primary, adapter(1, 1, "efa"), adapter(1, 2, "efa"))))},
		{name: "a primary interface without addresses", strict: true, run: refusedSomehow(
			launch(ofType(ec.multiCardType), withInterfaces(adapter(0, 0, "efa-only"))))},
		{name: "a kind that there is not", strict: true, run: refusedSomehow(
			launch(ofType(ec.multiCardType), withInterfaces(primary, adapter(1, 1, "magic"))))},
	})
}
