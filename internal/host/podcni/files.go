// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package podcni

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// files are the files of pod networks, which the program shares with the agent.
type files struct {
	pods string
	// about is the name of the program and its release.
	about string
}

// choose returns the index of the files from which the link of a pod has, or gets, its addresses.
func (f files) choose(name string, all []podlease.Folder, link podnet.Holder) (int, error) {
	if len(all) == 0 {
		return -1, f.missing(name)
	}
	at := podlease.Choose(all, link)
	return at, f.usable(name, all[at])
}

// missing is the error of a network without a folder.
func (f files) missing(name string) error {
	return types.NewError(types.ErrTryAgainLater,
		fmt.Sprintf("pod network %s is not ready on this node: "+
			"its agent has not made a folder in %s yet, because the interface of the NodeENI is not attached; "+
			"wait for it, or see kubectl eni node NODE", name, filepath.Join(f.pods, name)), "")
}

// usable refuses an invalid file, and one of a later release, whose pods could get addresses that they must not have.
// The agent of that release installs its own program when its pod starts.
func (f files) usable(name string, one podlease.Folder) error {
	path := filepath.Join(f.pods, name, one.ENI)
	if later := (*podnet.LaterVersionError)(nil); errors.As(one.Invalid, &later) {
		return types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("the agent of the node is of a later release than %s: %v: %s; delete the agent's pod on node %s: "+
				"its next pod installs the program of the same release in the CNI folder", f.about, later, path,
				cmp.Or(one.Node, "NODE")), "")
	}
	if one.Invalid != nil {
		return types.NewError(types.ErrDecodingFailure,
			fmt.Sprintf("the file of pod network %s is not valid; restart the agent of the node, which writes it again: %s: %v",
				name, path, one.Invalid), "")
	}
	return nil
}

// network returns the network from which the link of a pod has its addresses.
func (f files) network(name string, link podnet.Holder) (podnet.Network, error) {
	one, err := podlease.Find(f.pods, name, link)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return podnet.Network{}, f.missing(name)
	case err != nil:
		return podnet.Network{}, failure(err)
	}
	return one.Network, f.usable(name, one)
}
