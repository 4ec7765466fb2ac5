// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/podlease"
)

// errNotAvailable is CNI's code for a plugin that cannot serve ADD (SPEC.md 1.1, "Well-known Error Codes").
const errNotAvailable = 50

// ipam gives addresses to the links of pods.
type ipam struct {
	now func() time.Time
	// networks and leases are folders; a CNI configuration may name others.
	networks, leases string
}

func (i ipam) functions() skel.CNIFuncs {
	return skel.CNIFuncs{Add: i.add, Del: i.del, Check: i.check, GC: i.gc, Status: i.status}
}

// add leases addresses to the link of a pod. A link that already has leases keeps them: the runtime may call again
// after the program was killed before it answered.
func (i ipam) add(args *skel.CmdArgs) error {
	config, err := i.configure(args.StdinData)
	if err != nil {
		return err
	}
	store, err := config.open()
	if err != nil {
		return err
	}
	defer store.Close()
	network, err := config.network()
	if err != nil {
		return err
	}
	holder, err := newHolder(config, args)
	if err != nil {
		return err
	}
	mine, err := i.lease(store, network, holder)
	if err != nil {
		return err
	}
	configuration, err := network.Configure(mine)
	if err != nil {
		return types.NewError(types.ErrInternal, err.Error(), "")
	}
	if err := settle(args, configuration); err != nil {
		return err
	}
	return types.PrintResult(newResult(configuration), config.CNIVersion)
}

// lease ends the leases of pods that no longer exist, and writes those of the holder.
func (i ipam) lease(store *podlease.Store, network podnet.Network, holder podnet.Holder) ([]podnet.Lease, error) {
	now := i.now()
	leases, err := store.Leases()
	if err != nil {
		return nil, failure(err)
	}
	boot, err := podlease.ThisBoot(now)
	if err != nil {
		return nil, failure(err)
	}
	holder.BootID = boot.ID
	ended := podnet.EndOfBoots(leases, boot)
	ended = append(ended, podnet.End(without(leases, ended), now, func(l podnet.Lease) bool { return gone(l, holder) })...)
	if err := store.Put(ended...); err != nil {
		return nil, failure(err)
	}
	leases = append(without(leases, ended), ended...)
	mine, err := network.Allocate(leases, holder, now)
	if err != nil {
		return nil, types.NewError(types.ErrTryAgainLater, err.Error(), "")
	}
	if err := store.Put(mine...); err != nil {
		return nil, failure(err)
	}
	return mine, nil
}

// without returns the leases of other addresses.
func without(leases, others []podnet.Lease) []podnet.Lease {
	return slices.DeleteFunc(slices.Clone(leases), func(l podnet.Lease) bool {
		return slices.ContainsFunc(others, func(o podnet.Lease) bool { return o.Address == l.Address })
	})
}

// del ends the leases of a link. A link without leases is no error, and the file of the network is not needed.
func (i ipam) del(args *skel.CmdArgs) error {
	link := podnet.Holder{ContainerID: args.ContainerID, Interface: args.IfName}
	return i.end(args, func(_ config, l podnet.Lease) bool { return l.Is(link) })
}

// gc ends the leases that the CNI configuration made for links which the runtime does not list.
func (i ipam) gc(args *skel.CmdArgs) error {
	return i.end(args, func(config config, l podnet.Lease) bool {
		valid := slices.ContainsFunc(config.ValidAttachments, func(a types.GCAttachment) bool {
			return l.Is(podnet.Holder{ContainerID: a.ContainerID, Interface: a.IfName})
		})
		return l.Config == config.Name && !valid
	})
}

func (i ipam) end(args *skel.CmdArgs, ended func(config, podnet.Lease) bool) error {
	config, err := i.configure(args.StdinData)
	if err != nil {
		return err
	}
	store, err := config.open()
	if err != nil {
		return err
	}
	defer store.Close()
	leases, err := store.Leases()
	if err != nil {
		return failure(err)
	}
	changed := podnet.End(leases, i.now(), func(l podnet.Lease) bool { return ended(config, l) })
	return failure(store.Put(changed...))
}

// check fails if the link has no lease in use.
func (i ipam) check(args *skel.CmdArgs) error {
	config, err := i.configure(args.StdinData)
	if err != nil {
		return err
	}
	store, err := config.open()
	if err != nil {
		return err
	}
	defer store.Close()
	leases, err := store.Leases()
	if err != nil {
		return failure(err)
	}
	link := podnet.Holder{ContainerID: args.ContainerID, Interface: args.IfName}
	leases = slices.DeleteFunc(leases, func(l podnet.Lease) bool { return !l.InUse() || !l.Is(link) })
	if len(leases) == 0 {
		return types.NewError(types.ErrUnknownContainer,
			fmt.Sprintf("link %s of container %s has no address of pod network %s", args.IfName, args.ContainerID,
				config.IPAM.Network), "")
	}
	return nil
}

// status fails while the network cannot give addresses because its file is missing or invalid.
func (i ipam) status(args *skel.CmdArgs) error {
	config, err := i.configure(args.StdinData)
	if err != nil {
		return err
	}
	if _, err := config.network(); err != nil {
		return types.NewError(errNotAvailable, err.Error(), "")
	}
	return nil
}

// network reads the file of the network.
func (c config) network() (podnet.Network, error) {
	path := filepath.Join(c.IPAM.NetworksDir, c.IPAM.Network+".json")
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return podnet.Network{}, types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("pod network %s is not ready on this node: "+
				"its agent has not written %s yet, because the interface of the NodeENI is not attached; "+
				"wait for it, or see kubectl eni node NODE", c.IPAM.Network, path), "")
	}
	if err != nil {
		return podnet.Network{}, failure(err)
	}
	network, err := podnet.ParseNetwork(text)
	if err != nil {
		return podnet.Network{}, types.NewError(types.ErrDecodingFailure,
			fmt.Sprintf("the file of pod network %s is not valid; restart the agent of the node, which writes it again: %s: %v",
				c.IPAM.Network, path, err), "")
	}
	return network, nil
}

func (c config) open() (*podlease.Store, error) {
	store, err := podlease.Open(c.IPAM.LeasesDir, c.IPAM.Network)
	if err != nil {
		return nil, failure(err)
	}
	return store, nil
}

// failure converts an error of the node's file system to one of CNI, or returns nil.
func failure(err error) error {
	if err == nil {
		return nil
	}
	return types.NewError(types.ErrIOFailure, err.Error(), "")
}

func newResult(c podnet.Configuration) *current.Result {
	result := &current.Result{CNIVersion: current.ImplementedSpecVersion}
	for _, a := range c.Addresses {
		result.IPs = append(result.IPs, &current.IPConfig{Address: ipNet(a.Address), Gateway: a.Gateway.AsSlice()})
	}
	for _, r := range c.Routes {
		result.Routes = append(result.Routes, &types.Route{Dst: ipNet(r.To), GW: r.Gateway.AsSlice()})
	}
	return result
}
