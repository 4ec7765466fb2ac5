// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "github.com/multieni/multieni/awssim/instancetypes"

// ConnectionTracking are idle timeouts of an interface in seconds, in requests and in answers.
type ConnectionTracking struct {
	TCPEstablishedTimeout *int `query:"TcpEstablishedTimeout" json:"tcpEstablishedTimeout,omitempty"`
	UDPStreamTimeout      *int `query:"UdpStreamTimeout" json:"udpStreamTimeout,omitempty"`
	UDPTimeout            *int `query:"UdpTimeout" json:"udpTimeout,omitempty"`
}

// DefaultConnectionTracking are the defaults of an instance type.
type DefaultConnectionTracking struct {
	TCPEstablishedTimeout int `json:"defaultTcpEstablishedTimeout"`
	UDPStreamTimeout      int `json:"defaultUdpStreamTimeout"`
	UDPTimeout            int `json:"defaultUdpTimeout"`
}

// defaultTracking returns the defaults of a type; nil for one whose interfaces take no timeouts.
func defaultTracking(t instancetypes.Type) *DefaultConnectionTracking {
	if t.TCPEstablishedTimeout() == 0 {
		return nil
	}
	return &DefaultConnectionTracking{t.TCPEstablishedTimeout(), 180, 30}
}

// validate returns an error for a timeout out of range (EC2 API reference, ConnectionTrackingSpecificationRequest).
func (c *ConnectionTracking) validate() error {
	if c == nil {
		return nil
	}
	for _, timeout := range []struct {
		name       string
		value      *int
		least, max int
	}{
		{"tcpEstablishedTimeout", c.TCPEstablishedTimeout, 60, 432000},
		{"udpStreamTimeout", c.UDPStreamTimeout, 60, 180},
		{"udpTimeout", c.UDPTimeout, 30, 60},
	} {
		if v := timeout.value; v != nil && (*v < timeout.least || *v > timeout.max) {
			return invalidValue("Value (%d) for parameter %s is invalid. It must be between %d and %d seconds.", *v,
				timeout.name, timeout.least, timeout.max)
		}
	}
	return nil
}

// over returns the timeouts of c, and those of another where c has none.
func (c *ConnectionTracking) over(other *ConnectionTracking) *ConnectionTracking {
	if other == nil {
		return c
	}
	merged := *other
	for _, timeout := range []struct{ from, to **int }{
		{&c.TCPEstablishedTimeout, &merged.TCPEstablishedTimeout}, {&c.UDPStreamTimeout, &merged.UDPStreamTimeout},
		{&c.UDPTimeout, &merged.UDPTimeout},
	} {
		if *timeout.from != nil {
			*timeout.to = *timeout.from
		}
	}
	return &merged
}

// tracks returns an error for timeouts if the instance type takes none. The code and the text are EC2's for a launch
// (aws/karpenter-provider-aws#9152), and estimates for other calls.
func tracks(instanceType string, wanted *ConnectionTracking) error {
	if limits, _ := instancetypes.Lookup(instanceType); wanted != nil && limits.TCPEstablishedTimeout() == 0 {
		return invalidValue("The instance type '%s' does not support configurable connection tracking.", instanceType)
	}
	return nil
}

// trackingChange sets timeouts of an interface.
func (m *Model) trackingChange(eni *NetworkInterface, wanted *ConnectionTracking) (func(*NetworkInterface), error) {
	if err := wanted.validate(); err != nil {
		return nil, err
	}
	if a := eni.Attachment; a != nil && a.InstanceID != "" {
		if err := tracks(m.instances.get(a.InstanceID).InstanceType, wanted); err != nil {
			return nil, err
		}
	}
	return func(e *NetworkInterface) { e.ConnectionTracking = wanted.over(e.ConnectionTracking) }, nil
}
