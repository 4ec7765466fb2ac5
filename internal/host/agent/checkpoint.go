// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
)

// Checkpoint is what the agent of a node knows at its start without the API server.
type Checkpoint struct {
	Node       string `json:"node"`
	InstanceID string `json:"instanceID"`
	// Interfaces are the attached interfaces, for their links. They say nothing about the use of an interface.
	Interfaces []v1alpha1.NetworkInterface `json:"interfaces,omitempty"`
	// Held are the interfaces that the API server has as open, with no more prefixes than it grants.
	Held []podnet.Saved `json:"held,omitempty"`
}

// Checkpoints stores the checkpoint of an agent.
type Checkpoints interface {
	// Read returns the stored checkpoint; nil if there is none.
	Read() (*Checkpoint, error)
	// Write stores a checkpoint, so that it outlives a loss of power.
	Write(*Checkpoint) error
}

// linkPart returns the part of an object that the agent needs for its link.
func linkPart(n *v1alpha1.NetworkInterface) v1alpha1.NetworkInterface {
	part := v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID}}
	part.Spec = v1alpha1.NetworkInterfaceSpec{
		InstanceID: n.Spec.InstanceID, Ordinal: n.Spec.Ordinal, NodeName: n.Spec.NodeName,
		NodeENI: v1alpha1.NodeENIReference{Name: n.Spec.NodeENI.Name}, Subnets: n.Spec.Subnets, Slot: n.Spec.Slot,
		Link: n.Spec.Link,
	}
	part.Status = v1alpha1.NetworkInterfaceStatus{
		ENIID: n.Status.ENIID, MACAddress: n.Status.MACAddress, SubnetID: n.Status.SubnetID, Slot: n.Status.Slot,
		Addresses: n.Status.Addresses,
	}
	return part
}

// Confirmed returns the part of a checkpoint that instance metadata confirms: the interfaces that it lists on this
// instance with the same ID and MAC address. The checkpoint alone may be old, or of another instance, and metadata
// alone does not name the owner of an interface. The result has no devices of programs in user space: binding one
// removes its link, which needs more evidence. A pod network has only the prefixes that metadata lists as well: EC2 may
// have given another one to another node since.
func (c *Checkpoint) Confirmed(node string, known *eni.Metadata) (
	links []*v1alpha1.NetworkInterface, open []podnet.Network,
) {
	if c == nil || known == nil || c.Node != node || c.InstanceID != known.InstanceID {
		return nil, nil
	}
	listed := func(id, mac string) *eni.Interface {
		seen := known.ByMAC(mac)
		if seen == nil || seen.ID != id || mac == known.PrimaryMAC {
			return nil
		}
		return seen
	}
	for n := range c.Interfaces {
		if one := &c.Interfaces[n]; listed(one.Status.ENIID, one.Status.MACAddress) != nil {
			links = append(links, one)
		}
	}
	for _, saved := range c.Held {
		seen := listed(saved.ENI, saved.MAC)
		if seen == nil || saved.Device != "" {
			continue
		}
		network := saved.Network
		network.IPv4 = only(network.IPv4, seen.IPv4Prefixes)
		network.IPv6 = only(network.IPv6, seen.IPv6Prefixes)
		open = append(open, network)
	}
	return links, open
}

// only returns the family with the prefixes that instance metadata lists.
func only(family *podnet.Family, seen []netip.Prefix) *podnet.Family {
	if family == nil {
		return nil
	}
	certain := *family
	certain.Prefixes = slices.DeleteFunc(slices.Clone(family.Prefixes), func(p netip.Prefix) bool {
		return !slices.Contains(seen, p)
	})
	return &certain
}

// recall reads the checkpoint of the process before, once. One that cannot be read may have any interface, until it is
// replaced.
func (a *Agent) recall() {
	if a.loaded || a.Checkpoints == nil {
		return
	}
	a.loaded = true
	read, err := a.Checkpoints.Read()
	switch {
	case err != nil:
		a.Log.Warn("the checkpoint cannot be used", "err", err)
		a.unread = true
	case read != nil && read.Node == a.Node:
		a.saved = *read
	default:
		a.unread = read != nil
	}
}

// entry returns the entry of the checkpoint for an interface; nil for none.
func (a *Agent) entry(eni string) *podnet.Saved {
	if n := slices.IndexFunc(a.saved.Held, func(s podnet.Saved) bool { return s.ENI == eni }); n >= 0 {
		return &a.saved.Held[n]
	}
	return nil
}

// flush stores the checkpoint with the changes of the steps. After a failure it may be stored or not, so the entries of
// both count. One that was lost or damaged since the last pass is written again.
func (a *Agent) flush(s *snapshot) error {
	if !s.read || s.instance == "" {
		return nil
	}
	next := a.nextCheckpoint(s)
	if err := a.store(&next); err != nil {
		if a.saved.InstanceID != s.instance { // entries of another instance do not count
			a.saved = Checkpoint{Node: a.Node, InstanceID: s.instance}
		}
		for _, one := range next.Held {
			if a.entry(one.ENI) == nil {
				a.saved.Held = append(a.saved.Held, one)
			}
		}
		return fmt.Errorf("store the checkpoint: %w", err)
	}
	a.saved, a.unread = next, false
	return nil
}

// nextCheckpoint returns the checkpoint after the steps of the pass.
func (a *Agent) nextCheckpoint(s *snapshot) Checkpoint {
	next := Checkpoint{Node: a.Node, InstanceID: s.instance}
	for _, n := range s.objects {
		if n.Status.MACAddress != "" && n.Status.ENIID != "" && driverOf(n) == "" && wantsLink(n) {
			next.Interfaces = append(next.Interfaces, linkPart(n))
		}
	}
	if a.saved.InstanceID == s.instance {
		next.Held = slices.Clone(a.saved.Held)
	}
	without := func(eni string) {
		next.Held = slices.DeleteFunc(next.Held, func(s podnet.Saved) bool { return s.ENI == eni })
	}
	for _, one := range s.served {
		switch {
		case one.err != nil:
		case one.step.Forget:
			without(one.eni)
		case one.step.Save != nil:
			without(one.eni)
			next.Held = append(next.Held, *one.step.Save)
		}
	}
	slices.SortFunc(next.Held, func(x, y podnet.Saved) int { return bytes.Compare([]byte(x.ENI), []byte(y.ENI)) })
	return next
}

// store stores a checkpoint. An agent without a place for it keeps it in memory alone: the next process opens nothing.
func (a *Agent) store(c *Checkpoint) error {
	if a.Checkpoints == nil {
		return nil
	}
	return a.Checkpoints.Write(c)
}

// checkpointFile is the file in the agent's folder.
const checkpointFile = "agent.json"

// checkpointFolder stores the checkpoint in a folder of the agent.
type checkpointFolder struct {
	dir string
	// flushed is the content that this process has flushed to the disk.
	flushed []byte
}

// Read is part of [Checkpoints].
func (f *checkpointFolder) Read() (*Checkpoint, error) {
	content, err := os.ReadFile(filepath.Join(f.dir, checkpointFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	read := &Checkpoint{}
	if err := errors.Join(err, json.Unmarshal(content, read)); err != nil {
		return nil, fmt.Errorf("read the checkpoint: %w", err)
	}
	return read, nil
}

// Write is part of [Checkpoints].
func (f *checkpointFolder) Write(c *Checkpoint) error {
	content, err := json.Marshal(c)
	if err != nil {
		return err
	}
	path := filepath.Join(f.dir, checkpointFile)
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, content) && bytes.Equal(f.flushed, content) {
		return nil
	}
	f.flushed = nil
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	if err := replaceFlushed(path, content); err != nil {
		return err
	}
	f.flushed = content
	return nil
}

// replaceFlushed replaces a file, and returns after the disk has it.
func replaceFlushed(path string, content []byte) error {
	draft, err := os.CreateTemp(filepath.Dir(path), ".multieni-*")
	if err != nil {
		return err
	}
	_, err = draft.Write(content)
	err = errors.Join(err, draft.Chmod(0o644), draft.Sync(), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
