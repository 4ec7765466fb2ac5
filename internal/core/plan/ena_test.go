// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/inventory"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestENASettingsFollowTheNodeENI edits the ENA settings of an attached interface: each edit costs one call, and the
// removal of a field writes the default once. A node at rest is not read.
func TestENASettingsFollowTheNodeENI(t *testing.T) {
	t.Parallel()
	nitro := limits(8)
	nitro.ENAExpress, nitro.Tracking = true, eni.ConnectionTracking{TCPEstablished: 350, UDPStream: 180, UDP: 30}
	xen := limits(8)
	xen.XenHypervisor = true
	hour := eni.ConnectionTracking{TCPEstablished: 3600}
	type edit struct {
		spec   eni.Spec
		calls  []string
		reason plan.Reason
	}
	for name, tc := range map[string]struct {
		limits  eni.Limits
		primary eni.ConnectionTracking
		edits   []edit
	}{
		"timeouts": {nitro, eni.ConnectionTracking{}, []edit{
			{spec: eni.Spec{ConnectionTracking: hour}, calls: []string{"connection tracking tcpEstablishedTimeout 3600 s"}},
			{spec: eni.Spec{ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 3600, UDP: 45}},
				calls: []string{"connection tracking tcpEstablishedTimeout 3600 s, udpTimeout 45 s"}},
			{spec: eni.Spec{ConnectionTracking: hour}, calls: []string{"connection tracking tcpEstablishedTimeout 3600 s, udpTimeout 30 s"}},
			{calls: []string{"connection tracking tcpEstablishedTimeout 350 s"}},
		}},
		"a default needs no call": {nitro, eni.ConnectionTracking{}, []edit{{spec: eni.Spec{ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 350}}}}},
		"those of the primary": {nitro, hour, []edit{
			{spec: eni.Spec{TrackAsPrimary: true}, calls: []string{"connection tracking tcpEstablishedTimeout 3600 s"}},
		}},
		"no timeouts on a type without": {xen, eni.ConnectionTracking{}, []edit{{spec: eni.Spec{ConnectionTracking: hour}, reason: plan.UnsupportedByType}, {}}},
		"ENA Express": {nitro, eni.ConnectionTracking{}, []edit{
			{spec: eni.Spec{ENAExpress: eni.ENAExpressTCP}, calls: []string{"ENA Express TCP"}},
			{calls: []string{"ENA Express None"}},
		}},
		"no ENA Express on a type without": {xen, eni.ConnectionTracking{}, []edit{{spec: eni.Spec{ENAExpress: eni.ENAExpressTCP}, reason: plan.UnsupportedByType}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i, r := attached()
			primary := eni.Interface{ID: "eni-0", ConnectionTracking: tc.primary,
				Attachment: &eni.Attachment{InstanceID: instance, Status: eni.AttachmentAttached}}
			for n, e := range tc.edits {
				i.Settings.ConnectionTracking, i.Settings.TrackAsPrimary, i.Settings.ENAExpress = e.spec.ConnectionTracking, e.spec.TrackAsPrimary, e.spec.ENAExpress
				var calls []string
				for range 3 {
					f := facts(r)
					f.Limits, f.Snapshot.Interfaces = tc.limits, append(f.Snapshot.Interfaces, primary)
					p := plan.Compute([]plan.Interface{i}, f, start)
					calls = append(calls, texts(p)...)
					i.ENA = p.Interfaces[0].ENA
					for _, call := range p.Calls {
						r.Interface = call.(plan.Change).To.Apply(r.Interface)
					}
				}
				if diff := cmp.Diff(e.calls, calls); diff != "" {
					t.Errorf("edit %d (-want +got):\n%s", n, diff)
				}
				f := plan.Facts{Interfaces: []inventory.Record{r}, Era: facts().Era}
				if p := plan.Compute([]plan.Interface{i}, f, start); p.NeedsRead || p.Interfaces[0].Problem.Reason != e.reason || !p.Interfaces[0].Ready() {
					t.Errorf("edit %d: a node at rest is read %t, or says %v", n, p.NeedsRead, p.Interfaces[0].Problem)
				}
			}
		})
	}
}

// TestENASettingsOfOthersStay, as long as the NodeENI declares none.
func TestENASettingsOfOthersStay(t *testing.T) {
	t.Parallel()
	i, r := attached()
	r.ConnectionTracking.TCPEstablished, r.Attachment.ENAExpress = 60, eni.ENAExpressTCP
	if p := plan.Compute([]plan.Interface{i}, facts(r), start); len(p.Calls) > 0 {
		t.Errorf("%v", p.Calls)
	}
}

// TestAnInterfaceIsAttachedWithoutENAExpressIfEC2RefusesIt: EC2 can refuse it for a reason that no read shows.
func TestAnInterfaceIsAttachedWithoutENAExpressIfEC2RefusesIt(t *testing.T) {
	t.Parallel()
	i := object(plan.Serve, 0, 1, "eni-1")
	i.Settings.ENAExpress = eni.ENAExpressTCP
	f := facts(unattached("eni-1", i))
	f.Limits.ENAExpress = true
	first, _ := plan.Compute([]plan.Interface{i}, f, start).Calls[0].(plan.Attach)
	f.Attempts = refusals(first, eni.Invalid, 1, start)
	again, _ := plan.Compute([]plan.Interface{i}, f, start).Calls[0].(plan.Attach)
	if first.ENAExpress != eni.ENAExpressTCP || again.InterfaceID != "eni-1" || again.ENAExpress != "" {
		t.Errorf("%s, then %s", first, again)
	}
}
