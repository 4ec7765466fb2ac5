// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes

import "regexp"

// nitroV6 matches the families of Nitro v6, whose announcements name "sixth-generation Nitro Cards". P6e-GB200 is not
// among them for connection tracking (EC2 API reference, ConnectionTrackingConfiguration).
var nitroV6 = regexp.MustCompile(`^((c|m|r|x|hpc)8(a|i|gb|gn)|p6-b)`)

// TCPEstablishedTimeout returns the default time in seconds after which security groups forget an idle TCP connection
// of an interface; 0 for a type that supports no such setting.
func (t Type) TCPEstablishedTimeout() int {
	switch {
	case t.Hypervisor == "xen":
		return 0
	case nitroV6.MatchString(t.Name):
		return 350
	default:
		return 432000
	}
}
