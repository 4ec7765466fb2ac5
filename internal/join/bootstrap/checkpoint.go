// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/join/join"
)

// checkpointFile is the file name of the checkpoint.
const checkpointFile = "bootstrap.json"

// Checkpoint is the result of a boot. It is stored on the disk, from which an image can be created, so it is valid for
// one instance only.
type Checkpoint struct {
	InstanceID string      `json:"instanceID"`
	Interfaces []Interface `json:"interfaces"`
	// Lacking are the optional networks that the instance does not have.
	Lacking []string `json:"lacking,omitempty"`
	// Limits are the limits of the instance, which determine the number of its pods from the number of its interfaces.
	Limits eni.Limits `json:"limits"`
}

// Interface is one interface of a checkpoint.
type Interface struct {
	Network          string         `json:"network"`
	ENIID            string         `json:"eniID"`
	MACAddress       string         `json:"macAddress"`
	SubnetID         string         `json:"subnetID"`
	NetworkCardIndex int            `json:"networkCardIndex"`
	DeviceIndex      int            `json:"deviceIndex"`
	Addresses        []netip.Prefix `json:"addresses"`
	// MTU is the MTU of the link in bytes; 0 means the MTU of the command. Sysctls are kernel settings of the link.
	MTU     int                     `json:"mtu,omitempty"`
	Sysctls map[hostnet.Setting]int `json:"sysctls,omitempty"`
}

func checkpointOf(instanceID string, result join.Result) Checkpoint {
	r := Checkpoint{InstanceID: instanceID, Lacking: result.Missing, Limits: result.Limits}
	for _, s := range result.Interfaces {
		if s.Interface != nil && s.Interface.Ready() {
			r.add(s.Key.NodeENI, *s.Interface)
		}
	}
	return r
}

func (r *Checkpoint) add(network string, i eni.Interface) {
	made := Interface{
		Network: network, ENIID: i.ID, MACAddress: i.MAC, SubnetID: i.SubnetID,
		NetworkCardIndex: i.Attachment.Slot.Card, DeviceIndex: i.Attachment.Slot.Device,
	}
	made.MTU, made.Sysctls = identity.ReadLink(i.Tags)
	for _, address := range slices.Concat([]netip.Addr{i.PrimaryIPv4}, i.SecondaryIPv4, i.IPv6) {
		if address.IsValid() {
			made.Addresses = append(made.Addresses, netip.PrefixFrom(address, address.BitLen()))
		}
	}
	made.Addresses = slices.Concat(made.Addresses, i.IPv4Prefixes, i.IPv6Prefixes)
	r.Interfaces = append(r.Interfaces, made)
}

// presentIn reports whether instance metadata lists every interface of the checkpoint.
func (r Checkpoint) presentIn(m eni.Metadata) bool {
	for _, i := range r.Interfaces {
		if shown := m.ByMAC(i.MACAddress); shown == nil || shown.ID != i.ENIID {
			return false
		}
	}
	return len(r.Interfaces) > 0
}

func (r Checkpoint) macs() []string {
	var macs []string
	for _, i := range r.Interfaces {
		macs = append(macs, i.MACAddress)
	}
	return macs
}

// links are the links of the interfaces, named after their networks.
func (r Checkpoint) links(mtu int) []hostnet.Link {
	var links []hostnet.Link
	seen := map[string]int{}
	for _, i := range r.Interfaces {
		name := i.Network
		if n := seen[name]; n > 0 {
			name = fmt.Sprintf("%s-%d", name, n)
		}
		seen[i.Network]++
		links = append(links, hostnet.Link{
			Name: name, MAC: strings.ToLower(i.MACAddress), Slot: eni.Slot{Card: i.NetworkCardIndex, Device: i.DeviceIndex},
			MTU: cmp.Or(i.MTU, mtu), Mode: hostnet.None, Assigned: i.Addresses, Settings: i.Sysctls,
		})
	}
	return links
}

// load returns the checkpoint of the last boot, or an empty one if there is none.
func (o Options) load() (Checkpoint, error) {
	text, err := os.ReadFile(filepath.Join(o.Dir, checkpointFile))
	if errors.Is(err, os.ErrNotExist) {
		return Checkpoint{}, nil
	}
	if err != nil {
		return Checkpoint{}, err
	}
	var r Checkpoint
	if err := json.Unmarshal(text, &r); err != nil {
		return Checkpoint{}, fmt.Errorf("read %s: %w", checkpointFile, err)
	}
	return r, nil
}

// store writes the checkpoint atomically.
func (o Options) store(r Checkpoint) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("keep the record: %w", err)
	}
	path := filepath.Join(o.Dir, checkpointFile)
	if err := os.WriteFile(path+".new", append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("keep the record: %w", err)
	}
	return os.Rename(path+".new", path)
}
