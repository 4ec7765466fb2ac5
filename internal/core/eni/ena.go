// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package eni

import (
	"fmt"
	"strings"
)

// ConnectionTracking are the times in seconds after which security groups forget idle connections of an interface; 0
// for one that is not set, so that EC2 uses the default of the instance type (EC2 user guide, "Connection tracking
// timeouts").
type ConnectionTracking struct {
	TCPEstablished, UDPStream, UDP int
}

// The bounds of the timeouts (EC2 API reference, ConnectionTrackingSpecificationRequest).
const (
	MinTCPEstablishedTimeout = 60
	MaxTCPEstablishedTimeout = 432000
)

// documentedTracking are the defaults of all instance types, except for TCP on Nitro v6 types (EC2 API reference,
// ConnectionTrackingSpecificationRequest).
var documentedTracking = ConnectionTracking{TCPEstablished: MaxTCPEstablishedTimeout, UDPStream: 180, UDP: 30}

// IsZero reports whether no timeout is set.
func (c ConnectionTracking) IsZero() bool { return c == ConnectionTracking{} }

// Or returns the timeouts of c, and those of other where c has none.
func (c ConnectionTracking) Or(other ConnectionTracking) ConnectionTracking {
	return c.zip(other, func(own, others int) int {
		if own != 0 {
			return own
		}
		return others
	})
}

// Differing returns the timeouts of c that are not those of an interface. One that the interface does not set is the
// default.
func (c ConnectionTracking) Differing(have, defaults ConnectionTracking) ConnectionTracking {
	return c.zip(have.Or(defaults), func(want, have int) int {
		if want == have {
			return 0
		}
		return want
	})
}

// Agreed returns the timeouts of c that are those of other.
func (c ConnectionTracking) Agreed(other ConnectionTracking) ConnectionTracking {
	return c.Without(c.Differing(other, ConnectionTracking{}))
}

// SetIn returns the timeouts of c that other sets as well.
func (c ConnectionTracking) SetIn(other ConnectionTracking) ConnectionTracking {
	return c.zip(other, func(own, others int) int { return own * min(others, 1) })
}

// Without returns the timeouts of c that other does not set.
func (c ConnectionTracking) Without(other ConnectionTracking) ConnectionTracking {
	return c.zip(other, func(own, others int) int { return own * (1 - min(others, 1)) })
}

func (c ConnectionTracking) zip(other ConnectionTracking, f func(own, others int) int) ConnectionTracking {
	return ConnectionTracking{
		TCPEstablished: f(c.TCPEstablished, other.TCPEstablished), UDPStream: f(c.UDPStream, other.UDPStream),
		UDP: f(c.UDP, other.UDP),
	}
}

// String returns the timeouts that are set as text, for example "tcpEstablishedTimeout 350 s".
func (c ConnectionTracking) String() string {
	var words []string
	for _, one := range []struct {
		name    string
		seconds int
	}{
		{"tcpEstablishedTimeout", c.TCPEstablished}, {"udpStreamTimeout", c.UDPStream}, {"udpTimeout", c.UDP},
	} {
		if one.seconds != 0 {
			words = append(words, fmt.Sprintf("%s %d s", one.name, one.seconds))
		}
	}
	if len(words) == 0 {
		return "the defaults"
	}
	return strings.Join(words, ", ")
}

// ENAExpress says for which packets an attachment uses ENA Express. Its zero value declares nothing.
type ENAExpress string

// The settings of ENA Express (EC2 user guide, "ENA Express").
const (
	ENAExpressNone      ENAExpress = "None"
	ENAExpressTCP       ENAExpress = "TCP"
	ENAExpressTCPAndUDP ENAExpress = "TCPAndUDP"
)

// IsOn reports whether the setting uses ENA Express for any packets.
func (e ENAExpress) IsOn() bool { return e == ENAExpressTCP || e == ENAExpressTCPAndUDP }

// TracksConnections reports whether interfaces of the type take timeouts of connection tracking. Types of the Xen
// hypervisor do not: EC2 answers "does not support configurable connection tracking".
func (l Limits) TracksConnections() bool { return !l.XenHypervisor }

// DefaultTracking returns the default timeouts of the type: those from EC2 or, where EC2 was not asked, the documented
// ones of most types.
func (l Limits) DefaultTracking() ConnectionTracking { return l.Tracking.Or(documentedTracking) }
