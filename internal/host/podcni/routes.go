// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/netlink"
)

// routes adds a rule and a route table for each address of a pod's link, and for those that the pod may bring up later.
type routes struct{ files }

// routesConfig is the CNI configuration of the plugin.
type routesConfig struct {
	types.PluginConf
	// Network is the pod network of the link; empty if only the addresses of the previous result count.
	Network string `json:"network"`
	// IGMPVersion is the version of IGMP on the link; 0 leaves it to the kernel.
	IGMPVersion int `json:"igmpVersion"`
}

func (r routes) functions() skel.CNIFuncs {
	done := func(*skel.CmdArgs) error { return nil } // no state of its own
	return skel.CNIFuncs{Add: r.add, Del: r.del, Check: r.check, GC: done, Status: done}
}

// add adds settings, rules and routes, and passes the previous result on.
func (r routes) add(args *skel.CmdArgs) error {
	result, config, err := previous(args)
	if err != nil {
		return err
	}
	network, err := r.networkOf(config, args)
	if err != nil {
		return err
	}
	pod, err := openPod(args)
	if err != nil {
		return err
	}
	defer pod.close()
	rules, routes := network.Routing(pod.link.Index, assignments(result, args.IfName))
	operations := pod.settings(config.IGMPVersion)
	for _, route := range routes {
		operations = append(operations, hostnet.AddRoute{Route: route})
	}
	for _, rule := range rules {
		operations = append(operations, hostnet.AddRule{Rule: rule})
	}
	if err := pod.apply(operations); err != nil {
		return err
	}
	return types.PrintResult(result, config.CNIVersion)
}

// networkOf returns the network that the configuration names; the zero value for none.
func (r routes) networkOf(config routesConfig, args *skel.CmdArgs) (podnet.Network, error) {
	if config.Network == "" {
		return podnet.Network{}, nil
	}
	if err := podnet.ValidateName(config.Network); err != nil {
		return podnet.Network{}, types.NewError(types.ErrInvalidNetworkConfig,
			fmt.Sprintf("network of plugin %s in CNI configuration %q is the name of a pod network: %v", RoutesName,
				config.Name, err), "")
	}
	return r.network(config.Network, podnet.Holder{ContainerID: args.ContainerID, Interface: args.IfName})
}

// del removes the rules and routes of a link. A link or a network namespace that does not exist has none.
func (routes) del(args *skel.CmdArgs) error {
	pod, err := openPod(args)
	switch {
	case errors.Is(err, errNoLink):
		standIn(args)
		return nil
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, netlink.ErrNoNamespace), args.Netns == "":
		return nil
	case err != nil:
		return err
	}
	defer pod.close()
	var operations []hostnet.Operation
	table := podnet.Table(pod.link.Index)
	for _, rule := range pod.facts.Rules {
		if rule.Table == table {
			operations = append(operations, hostnet.RemoveRule{Rule: rule})
		}
	}
	for _, route := range pod.facts.Routes {
		if route.Table == table {
			operations = append(operations, hostnet.RemoveRoute{Route: route})
		}
	}
	return pod.apply(operations)
}

// check fails unless the rules of the link's addresses, the routes and the settings exist. The ranges of the network
// can have changed since the pod started.
func (routes) check(args *skel.CmdArgs) error {
	result, config, err := previous(args)
	if err != nil {
		return err
	}
	pod, err := openPod(args)
	if err != nil {
		return err
	}
	defer pod.close()
	var missing []string
	rules, routes := podnet.Routing(pod.link.Index, assignments(result, args.IfName))
	for _, rule := range rules {
		if !slices.Contains(pod.facts.Rules, rule) {
			missing = append(missing, "rule "+rule.String())
		}
	}
	for _, route := range routes {
		if !slices.ContainsFunc(pod.facts.Routes, route.SamePath) {
			missing = append(missing, hostnet.AddRoute{Route: route}.String())
		}
	}
	for _, setting := range pod.settings(config.IGMPVersion) {
		missing = append(missing, setting.String())
	}
	if len(missing) > 0 {
		return types.NewError(types.ErrInternal,
			fmt.Sprintf("link %s of the pod is not as %s left it, start the pod again: %v",
				args.IfName, RoutesName, missing), "")
	}
	return nil
}

// previous returns the result of the plugins before this one.
func previous(args *skel.CmdArgs) (*current.Result, routesConfig, error) {
	var config routesConfig
	if err := json.Unmarshal(args.StdinData, &config); err != nil {
		return nil, config, types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read the CNI configuration: %v", err), "")
	}
	if err := version.ParsePrevResult(&config.PluginConf); err != nil {
		return nil, config, types.NewError(types.ErrDecodingFailure,
			fmt.Sprintf("read the result of the plugin before: %v", err), "")
	}
	if config.PrevResult == nil {
		return nil, config, types.NewError(types.ErrInvalidNetworkConfig,
			RoutesName+" is not the first plugin of a CNI configuration: put it after the one that makes the link", "")
	}
	result, err := current.NewResultFromResult(config.PrevResult)
	if err != nil {
		return nil, config, types.NewError(types.ErrDecodingFailure,
			fmt.Sprintf("read the result of the plugin before: %v", err), "")
	}
	return result, config, nil
}

// assignments are the addresses that earlier plugins assigned to the link.
func assignments(result *current.Result, link string) []podnet.Assignment {
	var all []podnet.Assignment
	for _, ip := range result.IPs {
		if n := ip.Interface; n != nil && (*n < 0 || *n >= len(result.Interfaces) || result.Interfaces[*n].Name != link) {
			continue
		}
		address, ok := prefixOf(ip.Address)
		if !ok {
			continue
		}
		gateway, _ := netip.AddrFromSlice(ip.Gateway)
		all = append(all, podnet.Assignment{Address: address, Gateway: gateway.Unmap()})
	}
	return all
}

// standIn puts a link in the place of one that EC2 has detached, or that the pod never got. The CNI project's
// host-device, whose DEL comes next, fails without a link, and the runtime could never end the pod. It moves the
// stand-in to the node, where it vanishes together with the network namespace of the pod. ipvlan deletes the stand-in.
// A failure changes nothing for the pod.
func standIn(args *skel.CmdArgs) {
	host, err := netlink.OpenAt(args.Netns)
	if err != nil {
		return
	}
	defer host.Close()
	sum := sha256.Sum256([]byte(args.ContainerID + "/" + args.IfName))
	unique := hex.EncodeToString(sum[:])
	_ = host.AddStandIn(args.IfName, "mnp"+unique[:12], "mni"+unique[:12])
}

// errNoLink means that a pod does not have the link of the call.
var errNoLink = errors.New("no such link in the pod")

// pod is the network of a pod, and the link of a call.
type pod struct {
	host  *netlink.Host
	facts hostnet.Facts
	link  hostnet.LinkFacts
}

func openPod(args *skel.CmdArgs) (*pod, error) {
	host, err := netlink.OpenAt(args.Netns)
	if err != nil {
		return nil, err
	}
	p := &pod{host: host}
	if p.facts, err = host.Facts(nil); err != nil {
		p.close()
		return nil, err
	}
	n := slices.IndexFunc(p.facts.Links, func(l hostnet.LinkFacts) bool { return l.Name == args.IfName })
	if n < 0 {
		p.close()
		return nil, fmt.Errorf("%s: %w", args.IfName, errNoLink)
	}
	p.link = p.facts.Links[n]
	return p, nil
}

func (p *pod) close() { p.host.Close() }

// settings returns the changes after which the link has the settings of a pod's link.
func (p *pod) settings(igmpVersion int) []hostnet.Operation {
	var operations []hostnet.Operation
	for _, change := range podnet.Settings(p.link, igmpVersion) {
		operations = append(operations, change)
	}
	return operations
}

func (p *pod) apply(operations []hostnet.Operation) error {
	for _, operation := range operations {
		if err := p.host.Apply(operation); err != nil {
			return types.NewError(types.ErrInternal, err.Error(), "")
		}
	}
	return nil
}
