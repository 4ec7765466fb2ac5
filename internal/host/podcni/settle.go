// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"errors"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
)

// settle makes the settings of the link before it is up, so that no advertisement of a router arrives before them. The
// plugin that creates the link has already created it, and adds the addresses later. IPv6 addresses are usable at once:
// EC2 assigns no address twice, so duplicate address detection is not necessary.
func settle(args *skel.CmdArgs, c podnet.Configuration) error {
	pod, err := openPod(args)
	if errors.Is(err, errNoLink) {
		return nil // a plugin may create its link after it has the addresses
	}
	if err != nil {
		return err
	}
	defer pod.close()
	operations := pod.settings(0) // multieni-routes knows the version of IGMP
	if slices.ContainsFunc(c.Addresses, func(a podnet.Assignment) bool { return a.Address.Addr().Is6() }) {
		operations = append(operations, hostnet.Set{Link: pod.link.Index, Setting: hostnet.AcceptDAD})
	}
	return pod.apply(operations)
}
