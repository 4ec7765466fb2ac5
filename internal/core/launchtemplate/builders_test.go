// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// wavelength is the name of a Wavelength Zone, in which interfaces can have carrier addresses.
const wavelength = "us-east-1-wl1-bos-wlz-1"

// setting sets fields of a declared interface.
type setting = func(*launchtemplate.Interface)

// interfaceIn is a declared interface of default settings in the slot, with the settings.
func interfaceIn(card, device int, settings ...setting) launchtemplate.Interface {
	i := at(device)
	i.Slot.Card = card
	for _, apply := range settings {
		apply(&i)
	}
	return i
}

func ofType(kind eni.Type) setting { return func(i *launchtemplate.Interface) { i.Type = kind } }

func named(name string) setting { return func(i *launchtemplate.Interface) { i.Name = name } }

func prefixed(v4, v6 int) setting {
	return func(i *launchtemplate.Interface) { i.IPv4Prefixes, i.IPv6Prefixes = v4, v6 }
}

func public(is bool) setting { return func(i *launchtemplate.Interface) { i.PublicIP = &is } }

func carrier(is bool) setting { return func(i *launchtemplate.Interface) { i.CarrierIP = &is } }

func inSubnets(subnets ...eni.Subnet) setting {
	return func(i *launchtemplate.Interface) { i.Subnets = subnets }
}

func forCNI(i *launchtemplate.Interface) { i.Management = launchtemplate.CNI }

// list is a list of declared interfaces.
func list(interfaces ...launchtemplate.Interface) []launchtemplate.Interface { return interfaces }

// declaring returns the plain node template with the interfaces.
func declaring(interfaces ...launchtemplate.Interface) launchtemplate.NodeTemplate {
	n := plain()
	n.Interfaces = interfaces
	return n
}

// sized is an instance type of the name with one network card for each number of interfaces that the card takes.
func sized(name string, cards ...int) launchtemplate.InstanceType {
	kind := launchtemplate.InstanceType{Name: name, Limits: eni.Limits{Cards: cards, IPv4: 10, IPv6: 10}}
	for _, most := range cards {
		kind.Limits.Interfaces += most
	}
	return kind
}

// textOf returns the problems as reasons with the text that a user sees.
func textOf(problems []launchtemplate.Problem) []string {
	all := []string{}
	for _, p := range problems {
		all = append(all, string(p.Reason)+" "+p.Error())
	}
	return all
}

// byValue makes go-cmp compare addresses and prefixes.
var byValue = cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})

// same compares two values as a whole.
func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, byValue); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// arranged returns slot and type of each interface, for example "1/0 efa-only".
func arranged(interfaces []launchtemplate.Interface) []string {
	all := []string{}
	for _, i := range interfaces {
		all = append(all, fmt.Sprintf("%d/%d %s", i.Slot.Card, i.Slot.Device, i.Type))
	}
	return all
}
