// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// ConnectionTracking are the times after which security groups forget idle
// connections of an interface. EC2 uses the default of the instance type for
// one that is not set (EC2 user guide, "Connection tracking timeouts").
type ConnectionTracking struct {
	// as is Primary for the timeouts of the instance's primary interface.
	// +optional
	As ConnectionTrackingSource `json:"as,omitempty"`

	// tcpEstablishedTimeout is the timeout of established TCP connections in
	// seconds. EC2's default is 350 on instance types of Nitro v6, and 432000 on
	// others.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=432000
	TCPEstablishedTimeout int32 `json:"tcpEstablishedTimeout,omitempty"`

	// udpStreamTimeout is the timeout of UDP flows with more than one request and
	// response, in seconds. EC2's default is 180.
	// +optional
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=180
	UDPStreamTimeout int32 `json:"udpStreamTimeout,omitempty"`

	// udpTimeout is the timeout of UDP flows in one direction, or with a single
	// request and response, in seconds. EC2's default is 30.
	// +optional
	// +kubebuilder:validation:Minimum=30
	// +kubebuilder:validation:Maximum=60
	UDPTimeout int32 `json:"udpTimeout,omitempty"`
}

// ConnectionTrackingSource is an interface whose timeouts another one copies.
//
// +kubebuilder:validation:Enum=Primary
type ConnectionTrackingSource string

// ConnectionTrackingPrimary is the primary interface of the instance.
const ConnectionTrackingPrimary ConnectionTrackingSource = "Primary"

// ENAExpress says for which packets an interface uses ENA Express.
//
// +kubebuilder:validation:Enum=None;TCP;TCPAndUDP
type ENAExpress string

const (
	// ENAExpressNone uses it for none.
	ENAExpressNone ENAExpress = "None"
	// ENAExpressTCP uses it for TCP.
	ENAExpressTCP ENAExpress = "TCP"
	// ENAExpressTCPAndUDP uses it for TCP and UDP.
	ENAExpressTCPAndUDP ENAExpress = "TCPAndUDP"
)
