// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/namespace"
)

// Source is the account that a fabric follows: an awssim.Simulator.
type Source interface {
	// State returns the current state.
	State() ec2.State
	// StateAfter waits for a state with another revision.
	StateAfter(ctx context.Context, revision uint64) (ec2.State, error)
}

// Node is an instance with a network.
type Node struct {
	InstanceID string
	// Namespace is the path of the instance's network namespace, such as /run/netns/NAME.
	Namespace string
	// LinkName names the link of an attachment, at most 15 bytes; "" leaves the interface without a link. Nil means eth
	// and the device index.
	LinkName func(*ec2.Attachment) string
}

func (n Node) linkName(a *ec2.Attachment) string {
	if n.LinkName == nil {
		return fmt.Sprintf("eth%d", a.DeviceIndex)
	}
	return n.LinkName(a)
}

// Fabric is the network of an account. All methods are safe for concurrent use.
type Fabric struct {
	source Source

	mu    sync.Mutex
	nodes map[string]Node // by instance ID
	vpcs  map[string]*vpc // by VPC ID
}

// Possible returns why a fabric does not work here, or nil.
func Possible() error { return namespace.Possible() }

// New returns the fabric of an account, without nodes. Close it after use.
func New(source Source) (*Fabric, error) {
	if err := Possible(); err != nil {
		return nil, fmt.Errorf("simulate the network of VPCs: %w", err)
	}
	return &Fabric{source: source, nodes: map[string]Node{}, vpcs: map[string]*vpc{}}, nil
}

// AddNode gives an instance a network: links for the interfaces that are attached now, and later ones while
// [Fabric.Follow] runs. An existing node with another namespace moves to the new one, as after a reboot.
func (f *Fabric) AddNode(n Node) error {
	if err := f.RemoveNode(n.InstanceID); err != nil {
		return err
	}
	f.mu.Lock()
	f.nodes[n.InstanceID] = n
	f.mu.Unlock()
	return f.Sync()
}

// RemoveNode removes an instance's links. It succeeds if the instance has no network.
func (f *Fabric) RemoveNode(instanceID string) error {
	f.mu.Lock()
	delete(f.nodes, instanceID)
	f.mu.Unlock()
	return f.Sync()
}

// Sync updates the network to EC2's current state. Its error names the interface and the node that it concerns.
func (f *Fabric) Sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.apply(f.source.State())
}

// Follow updates the network to EC2's state, now and after each change, until the context ends, which is no error.
func (f *Fabric) Follow(ctx context.Context) error {
	if err := f.Sync(); err != nil {
		return err
	}
	for revision := uint64(0); ; {
		state, err := f.source.StateAfter(ctx, revision)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the end of the context is how following ends
		}
		if err != nil {
			return fmt.Errorf("wait for a change of EC2's state: %w", err)
		}
		revision = state.Revision
		// The state may be older than that of a concurrent Sync.
		if err := f.Sync(); err != nil {
			return err
		}
	}
}

// Inside runs a function in the namespace of the VPC, with the name of the link that is the VPC's end of an interface:
// packets that a node sends by the interface arrive there. Goroutines that the function starts run elsewhere.
func (f *Fabric) Inside(interfaceID string, do func(link string)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, links := range linksByVPC(f.source.State(), f.nodes) {
		at := slices.IndexFunc(links, func(l link) bool { return l.id == interfaceID })
		if at >= 0 && f.vpcs[id] != nil {
			return f.vpcs[id].inside(func() { do(links[at].peer()) })
		}
	}
	return fmt.Errorf("enter the network of interface %s: it is not attached to a node of the fabric", interfaceID)
}

// apply updates the networks of all VPCs to a state.
func (f *Fabric) apply(state ec2.State) error {
	wanted := linksByVPC(state, f.nodes)
	for id := range wanted {
		if f.vpcs[id] != nil {
			continue
		}
		v, err := newVPC()
		if err != nil {
			return fmt.Errorf("simulate the network of %s: %w", id, err)
		}
		f.vpcs[id] = v
	}
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(f.vpcs)) {
		if err := f.vpcs[id].apply(wanted[id]); err != nil {
			errs = append(errs, fmt.Errorf("simulate the network of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// Close removes all links and namespaces of the fabric. The namespaces of nodes stay.
func (f *Fabric) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	var errs []error
	for _, v := range f.vpcs {
		errs = append(errs, v.apply(nil), v.close())
	}
	clear(f.vpcs)
	clear(f.nodes)
	return errors.Join(errs...)
}
