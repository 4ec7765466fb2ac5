// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"fmt"
	"regexp"
	"strings"
)

// NetworkdFiles matches the names of our files for systemd-networkd, and no others.
const NetworkdFiles = "00-multieni-*.network"

var macAddress = regexp.MustCompile(`^([0-9a-f]{2}:){5}[0-9a-f]{2}$`)

// Networkd returns the name and the text of a file for /etc/systemd/network or /run/systemd/network that makes
// systemd-networkd leave the link with the MAC address alone (systemd.network(5)). The address of an interface is known
// before it is attached, so the file can be there before the link is. networkd uses the first file that matches, by
// name in all its folders. This file's name sorts before those of other programs: 10-cloud-init-*.network and
// 10-netplan-*.network of cloud-init, 10-eni-secondary.network of kOps, 70-*.network of nodeadm and
// amazon-ec2-net-utils.
//
// The file matches the permanent address, which ipvlan and macvlan links on top of the interface do not have. Networkd
// refuses everything except a MAC address of six bytes, because it becomes a file name.
func Networkd(mac string) (name, text string, err error) {
	mac = strings.ToLower(mac)
	if !macAddress.MatchString(mac) {
		return "", "", fmt.Errorf("%q is not a MAC address: no file for systemd-networkd is written for it", mac)
	}
	name = fmt.Sprintf("00-multieni-%s.network", strings.ReplaceAll(mac, ":", ""))
	text = fmt.Sprintf(`# Written by multieni: the interface is for pods, or has its own route table.
[Match]
PermanentMACAddress=%s

[Link]
Unmanaged=yes
`, mac)
	return name, text, nil
}
