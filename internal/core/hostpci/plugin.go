// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostpci

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// Resource is a device that pods can ask for.
type Resource struct {
	// Name is that of the extended resource; a name without a prefix gets [DefaultPrefix].
	Name string
	// Address and Driver are the device's present ones.
	Address, Driver string
}

// DefaultPrefix and DefaultResource name the resource of devices for which the user chose no name.
const (
	DefaultPrefix   = "intel.com"
	DefaultResource = DefaultPrefix + "/sriov_net"
)

// PluginMark is the member that marks a configuration as ours. The plugin does not read it.
const PluginMark = "writtenBy"

type pluginConfig struct {
	WrittenBy string       `json:"writtenBy"`
	Pools     []pluginPool `json:"resourceList"`
}

type pluginPool struct {
	Prefix    string           `json:"resourcePrefix"`
	Name      string           `json:"resourceName"`
	Selectors []pluginSelector `json:"selectors"`
}

// pluginSelector chooses the devices that match all of its fields.
type pluginSelector struct {
	Vendors   []string `json:"vendors"`
	Drivers   []string `json:"drivers"`
	Addresses []string `json:"pciAddresses"`
}

// vendorAmazon is the PCI vendor ID of the Elastic Network Adapter.
const vendorAmazon = "1d0f"

// PluginConfig returns the configuration that makes the SR-IOV network device plugin offer the resources, and no other
// device of the node. It does not depend on the order of the resources.
func PluginConfig(resources []Resource) []byte {
	resources = slices.Clone(resources)
	for n, r := range resources {
		if !strings.Contains(r.Name, "/") {
			resources[n].Name = DefaultPrefix + "/" + r.Name
		}
	}
	slices.SortFunc(resources, func(a, b Resource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Driver, b.Driver), cmp.Compare(a.Address, b.Address))
	})
	config := pluginConfig{WrittenBy: "multieni agent", Pools: []pluginPool{}}
	for _, r := range resources {
		prefix, name, _ := strings.Cut(r.Name, "/")
		last := len(config.Pools) - 1
		if last < 0 || config.Pools[last].Prefix != prefix || config.Pools[last].Name != name {
			config.Pools = append(config.Pools, pluginPool{Prefix: prefix, Name: name})
			last++
		}
		config.Pools[last].add(r)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		panic(err) // strings and lists of them always are JSON
	}
	return append(text, '\n')
}

func (p *pluginPool) add(r Resource) {
	for n := range p.Selectors {
		if slices.Contains(p.Selectors[n].Drivers, r.Driver) {
			p.Selectors[n].Addresses = append(p.Selectors[n].Addresses, r.Address)
			return
		}
	}
	p.Selectors = append(p.Selectors, pluginSelector{Vendors: []string{vendorAmazon}, Drivers: []string{r.Driver},
		Addresses: []string{r.Address}})
}
