// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/plan"
)

// ConnectionTracking converts timeouts of connection tracking, which may be nil, and reports whether they are those of
// the primary interface.
func ConnectionTracking(t *v1alpha1.ConnectionTracking) (timeouts eni.ConnectionTracking, asPrimary bool) {
	if t == nil {
		return eni.ConnectionTracking{}, false
	}
	return eni.ConnectionTracking{
		TCPEstablished: int(t.TCPEstablishedTimeout), UDPStream: int(t.UDPStreamTimeout), UDP: int(t.UDPTimeout),
	}, t.As == v1alpha1.ConnectionTrackingPrimary
}

// AddENA writes the record of an interface's ENA settings into its state.
func AddENA(state *v1alpha1.InterfaceState, ena plan.ENA) {
	state.ENAExpress, state.Unsupported = v1alpha1.ENAExpress(ena.ENAExpress), ena.Unsupported
	if ena.ConnectionTracking.IsZero() && !ena.TrackAsPrimary {
		return
	}
	state.ConnectionTracking = &v1alpha1.ConnectionTracking{
		TCPEstablishedTimeout: int32(ena.ConnectionTracking.TCPEstablished),
		UDPStreamTimeout:      int32(ena.ConnectionTracking.UDPStream),
		UDPTimeout:            int32(ena.ConnectionTracking.UDP),
	}
	if ena.TrackAsPrimary {
		state.ConnectionTracking.As = v1alpha1.ConnectionTrackingPrimary
	}
}

// RecordsOfENA returns the records that [AddENA] wrote into states, by interface ID. The last state that lists an
// interface counts.
func RecordsOfENA(states ...v1alpha1.NodeENIState) map[string]plan.ENA {
	records := map[string]plan.ENA{}
	for n := range states {
		for _, i := range states[n].Status.Interfaces {
			if i.ENIID == "" {
				continue
			}
			tracking, asPrimary := ConnectionTracking(i.ConnectionTracking)
			records[i.ENIID] = plan.ENA{ConnectionTracking: tracking, TrackAsPrimary: asPrimary,
				ENAExpress: eni.ENAExpress(i.ENAExpress), Unsupported: i.Unsupported}
		}
	}
	return records
}
