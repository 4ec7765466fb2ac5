// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
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
