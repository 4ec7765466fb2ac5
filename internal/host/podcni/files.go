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

// files are the files of networks, which the agent writes.
type files struct {
	folder string
	// about is the name of the program and its release.
	about string
}

// network reads the file of a network. It refuses one of a later release, whose pods could get addresses that they must
// not have. The agent of that release installs its own program when its pod starts.
func (f files) network(name string) (podnet.Network, error) {
	file := name + ".json"
	path := filepath.Join(f.folder, file)
	text, err := podlease.ReadFile(f.folder, file)
	if errors.Is(err, fs.ErrNotExist) {
		return podnet.Network{}, types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("pod network %s is not ready on this node: "+
				"its agent has not written %s yet, because the interface of the NodeENI is not attached; "+
				"wait for it, or see kubectl eni node NODE", name, path), "")
	}
	if err != nil {
		return podnet.Network{}, failure(err)
	}
	network, err := podnet.ParseNetwork(text)
	if later := (*podnet.LaterVersionError)(nil); errors.As(err, &later) {
		return podnet.Network{}, types.NewError(types.ErrTryAgainLater,
			fmt.Sprintf("the agent of the node is of a later release than %s: %v: %s; delete the agent's pod on node %s: "+
				"its next pod installs the program of the same release in the CNI folder", f.about, later, path,
				cmp.Or(network.Node, "NODE")), "")
	}
	if err != nil {
		return podnet.Network{}, types.NewError(types.ErrDecodingFailure,
			fmt.Sprintf("the file of pod network %s is not valid; restart the agent of the node, which writes it again: %s: %v",
				name, path, err), "")
	}
	return network, nil
}
