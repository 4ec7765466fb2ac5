// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/netlink"
	"github.com/multieni/multieni/internal/host/podlease"
)

// errNotAvailable is CNI's code for a plugin that cannot serve ADD (SPEC.md 1.1, "Well-known Error Codes").
const errNotAvailable = 50

// validAttachments is the member of a CNI configuration for GC that lists the links which exist.
const validAttachments = "cni.dev/valid-attachments"

// ipam gives addresses to the links of pods.
type ipam struct {
	files
	now func() time.Time
}

func (i ipam) functions() skel.CNIFuncs {
	return skel.CNIFuncs{Add: i.add, Del: i.del, Check: i.check, GC: i.gc, Status: i.status}
}

// add leases addresses to the link of a pod. A link that already has leases keeps them: the runtime may call again
// after the program was killed before it answered.
func (i ipam) add(args *skel.CmdArgs) error {
	config, err := configure(args.StdinData)
	if err != nil {
		return err
	}
	holder, err := newHolder(config, args)
	if err != nil {
		return err
	}
	request, err := config.request()
	if err != nil {
		return allocationFailure(err)
	}
	configuration, err := i.lease(config.IPAM.Network, holder, request)
	if err != nil {
		return err
	}
	if err := settle(args, configuration); err != nil {
		return err
	}
	return types.PrintResult(newResult(configuration), config.CNIVersion)
}

// lease writes the leases of the holder, and returns the configuration of its link. The agent closes a network under
// the lock, so the file is read after the lock is there. Other pods wait for the lock, so lease does nothing that can
// take long, like a call of the kernel about the pod or the answer to the runtime.
func (i ipam) lease(name string, holder podnet.Holder, request podnet.Request) (podnet.Configuration, error) {
	store, err := podlease.OpenPresent(context.Background(), i.pods, name)
	if errors.Is(err, fs.ErrNotExist) {
		return podnet.Configuration{}, i.missing(name)
	}
	if err != nil {
		return podnet.Configuration{}, failure(err)
	}
	defer store.Close()
	now := i.now()
	all, err := store.Current(now)
	if err != nil {
		return podnet.Configuration{}, failure(err)
	}
	boot, err := podlease.ThisBoot(now)
	if err != nil {
		return podnet.Configuration{}, failure(err)
	}
	at, err := i.choose(name, all, holder)
	if err != nil {
		return podnet.Configuration{}, err
	}
	network := all[at].Network
	holder.BootID, holder.Attachment, holder.Link = boot.ID, network.Attachment, netlink.IndexOf(network.Link)
	var others []podnet.Lease
	for n := range all {
		if n != at {
			others = append(others, all[n].Leases...)
		}
	}
	mine, err := network.Allocate(all[at].Leases, others, holder, request, now)
	if err != nil {
		return podnet.Configuration{}, allocationFailure(err)
	}
	configuration, err := network.Configure(mine, request.Routes)
	if err != nil {
		return podnet.Configuration{}, types.NewError(types.ErrInternal, err.Error(), "")
	}
	return configuration, failure(store.Put(network.ENI, mine...))
}

// del ends the leases of a link. A link without leases is no error, and the file of the network is not needed.
func (i ipam) del(args *skel.CmdArgs) error {
	link := podnet.Holder{ContainerID: args.ContainerID, Interface: args.IfName}
	return i.end(args, func(_ config, l podnet.Lease) bool { return l.Is(link) })
}

// gc ends the leases that the CNI configuration made for links which the runtime does not list. Without the list it
// ends none: the pods of all of them may run (SPEC.md 1.1, "GC", requires cni.dev/valid-attachments).
func (i ipam) gc(args *skel.CmdArgs) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(args.StdinData, &given); err != nil {
		return types.NewError(types.ErrDecodingFailure, fmt.Sprintf("read the CNI configuration: %v", err), "")
	}
	if _, lists := given[validAttachments]; !lists {
		return types.NewError(types.ErrInvalidNetworkConfig,
			"GC without "+validAttachments+" says nothing of the links that exist, so no lease ends: list them", "")
	}
	return i.end(args, func(config config, l podnet.Lease) bool {
		valid := slices.ContainsFunc(config.ValidAttachments, func(a types.GCAttachment) bool {
			return l.Is(podnet.Holder{ContainerID: a.ContainerID, Interface: a.IfName})
		})
		return l.Config == config.Name && !valid
	})
}

func (i ipam) end(args *skel.CmdArgs, ended func(config, podnet.Lease) bool) error {
	config, err := configure(args.StdinData)
	if err != nil {
		return err
	}
	return i.withFolders(config.IPAM.Network, func(store *podlease.Store, all []podlease.Folder) error {
		var failures []error
		for _, one := range all {
			ends := podnet.End(one.Leases, i.now(), func(l podnet.Lease) bool { return ended(config, l) })
			failures = append(failures, store.End(one.ENI, ends...))
		}
		return errors.Join(failures...)
	})
}

// withFolders calls a function with the files of a network, which are locked meanwhile. A network without a folder has
// none, and the function is not called.
func (i ipam) withFolders(network string, use func(*podlease.Store, []podlease.Folder) error) error {
	store, err := podlease.OpenPresent(context.Background(), i.pods, network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failure(err)
	}
	defer store.Close()
	all, err := store.Folders()
	if err != nil {
		return failure(err)
	}
	return failure(use(store, all))
}

// check fails if the link has no lease in use.
func (i ipam) check(args *skel.CmdArgs) error {
	config, err := configure(args.StdinData)
	if err != nil {
		return err
	}
	link := podnet.Holder{ContainerID: args.ContainerID, Interface: args.IfName}
	has := false
	err = i.withFolders(config.IPAM.Network, func(_ *podlease.Store, all []podlease.Folder) error {
		for _, one := range all {
			has = has || slices.ContainsFunc(one.Leases, func(l podnet.Lease) bool { return l.InUse() && l.Is(link) })
		}
		return nil
	})
	if err == nil && !has {
		return types.NewError(types.ErrUnknownContainer,
			fmt.Sprintf("link %s of container %s has no address of pod network %s", args.IfName, args.ContainerID,
				config.IPAM.Network), "")
	}
	return err
}

// status fails while the network cannot give addresses: it has no valid file, or takes no further pod.
func (i ipam) status(args *skel.CmdArgs) error {
	config, err := configure(args.StdinData)
	if err != nil {
		return err
	}
	network, err := i.network(config.IPAM.Network, podnet.Holder{})
	if err == nil {
		err = network.Takes()
	}
	if err != nil {
		return types.NewError(errNotAvailable, err.Error(), "")
	}
	return nil
}

// allocationFailure converts the reason why a pod gets no address to an error of CNI. The runtime tries again after
// either; the code says whether that helps without an edit.
func allocationFailure(err error) error {
	code := types.ErrTryAgainLater
	if refused := (*podnet.RequestError)(nil); errors.As(err, &refused) {
		code = types.ErrInvalidNetworkConfig
	}
	return types.NewError(code, err.Error(), "")
}

// failure converts an error about leases or files of the node to one of CNI, or returns nil.
func failure(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, podlease.ErrLocked):
		return types.NewError(types.ErrTryAgainLater, err.Error(), "")
	default:
		return types.NewError(types.ErrIOFailure, err.Error(), "")
	}
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
