// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package netattach

import (
	"encoding/json"
	"fmt"
	"net/netip"

	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/ipam"
)

// Range is a block of a subnet that is reserved for addresses of pods.
type Range struct {
	// Network is that of the interfaces in the subnet.
	Network       Network
	Zone          string
	Subnet, Block netip.Prefix
}

// whereabouts is the configuration of the IPAM plugin of that name (whereabouts, "Core Parameters").
type whereabouts struct {
	Range string `json:"range"`
	Start string `json:"range_start"`
	End   string `json:"range_end"`
}

// WhereaboutsDefinitions returns a definition with the IPAM plugin whereabouts for each range with usable addresses. A
// subnet is in one zone, so the pods of each zone need a definition of their own: NETWORK-ZONE, with a number from the
// second block of a zone on.
func WhereaboutsDefinitions(ranges []Range) []Definition {
	var all []Definition
	blocks := map[string]int{}
	for _, r := range ranges {
		usable, ok := ipam.UsableRange(r.Subnet, r.Block)
		if !ok {
			continue
		}
		name := fmt.Sprintf("%s-%s", r.Network.Name(), r.Zone)
		if blocks[name]++; blocks[name] > 1 {
			name = fmt.Sprintf("%s-%d", name, blocks[name])
		}
		main := plugin{Type: "ipvlan", Master: hostnet.AltName(r.Network.LinkName()), Mode: "l2", IPAM: &plugin{
			Type: "whereabouts", whereabouts: &whereabouts{r.Subnet.String(), usable.From().String(), usable.To().String()},
		}}
		config, err := json.Marshal(configuration{CNIVersion: cniVersion, Name: name, Plugins: []plugin{main}})
		if err != nil {
			panic(err) // strings alone are always JSON
		}
		all = append(all, Definition{Name: name, Config: string(config)})
	}
	return all
}
