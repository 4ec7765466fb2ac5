// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// config is the CNI configuration of the plugin that calls the IPAM plugin.
type config struct {
	types.PluginConf
	IPAM struct {
		Network string `json:"network"`
	} `json:"ipam"`
	// RuntimeConfig has the addresses of "ips" in the annotation of the pod, by the capability of that name.
	RuntimeConfig struct {
		IPs []string `json:"ips"`
	} `json:"runtimeConfig"`
	// Args has "cni-args" of the annotation. Its ips are the older convention for addresses (CNI project,
	// CONVENTIONS.md, "ips").
	Args struct {
		CNI struct {
			IPs    []string `json:"ips"`
			Fixed  []string `json:"fixed"`
			Routes []string `json:"routes"`
		} `json:"cni"`
	} `json:"args"`
}

// request returns what the pod asks for.
func (c config) request() (podnet.Request, error) {
	ips := c.RuntimeConfig.IPs
	if len(ips) == 0 {
		ips = c.Args.CNI.IPs
	}
	return podnet.ParseRequest(ips, c.Args.CNI.Fixed, c.Args.CNI.Routes)
}

func configure(text []byte) (config, error) {
	var c config
	if err := json.Unmarshal(text, &c); err != nil {
		return config{}, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read the CNI configuration, with ips and "+
			"cni-args of the pod's annotation k8s.v1.cni.cncf.io/networks, which must be lists: %v", err), "")
	}
	if err := podnet.ValidateName(c.IPAM.Network); err != nil {
		return config{}, types.NewError(types.ErrInvalidNetworkConfig,
			fmt.Sprintf("ipam.network of CNI configuration %q is the name of a pod network: %v", c.Name, err), "")
	}
	return c, nil
}

// podArgs are the arguments about a pod that Kubernetes' runtimes pass.
type podArgs struct {
	types.CommonArgs
	//nolint:revive,staticcheck // the names of CNI_ARGS
	K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID types.UnmarshallableString
}

func newHolder(c config, args *skel.CmdArgs) (podnet.Holder, error) {
	pod := podArgs{CommonArgs: types.CommonArgs{IgnoreUnknown: true}}
	if err := types.LoadArgs(args.Args, &pod); err != nil {
		return podnet.Holder{}, types.NewError(types.ErrInvalidEnvironmentVariables,
			fmt.Sprintf("read CNI_ARGS: %v", err), "")
	}
	holder := podnet.Holder{
		ContainerID: args.ContainerID, Interface: args.IfName, Config: c.Name, PodNamespace: string(pod.K8S_POD_NAMESPACE),
		Pod: string(pod.K8S_POD_NAME), PodUID: string(pod.K8S_POD_UID),
	}
	if err := podlease.RecordNetns(&holder, args.Netns); err != nil {
		return podnet.Holder{}, types.NewError(types.ErrInvalidNetNS, err.Error(), "")
	}
	return holder, nil
}

func ipNet(p netip.Prefix) net.IPNet {
	return net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

func prefixOf(n net.IPNet) (netip.Prefix, bool) {
	address, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits), ok
}
