// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package connectivity

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	"github.com/multieni/multieni/internal/core/netattach"
)

// configuration is the CNI configuration of a definition: one plugin, or a list of plugins (CNI specification,
// "Configuration format").
type configuration struct {
	plugin
	Plugins []plugin `json:"plugins"`
}

type plugin struct {
	Type   string `json:"type"`
	Master string `json:"master"`
	Device string `json:"device"`
	IPAM   struct {
		Type    string `json:"type"`
		Network string `json:"network"`
		Routes  []struct {
			To netip.Prefix `json:"dst"`
		} `json:"routes"`
	} `json:"ipam"`
}

func parseConfiguration(text string) (configuration, error) {
	var c configuration
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		return c, err
	}
	if c.Type != "" {
		c.Plugins = append(c.Plugins, c.plugin)
	}
	if len(c.Plugins) == 0 {
		return c, errors.New("it calls no plugin")
	}
	return c, nil
}

// main returns the plugin that makes the link: the first one.
func (c configuration) main() plugin { return c.Plugins[0] }

// lower returns the name of the link that the plugin attaches pods to.
func (p plugin) lower() string {
	if p.Master != "" {
		return p.Master
	}
	return p.Device
}

// isOurs reports whether pods get their addresses from multieni-ipam.
func (c configuration) isOurs() bool { return c.main().IPAM.Type == netattach.IPAMPlugin }

// routesBySource reports whether the pod has a route table for each of its addresses, so that a socket that is bound to
// one reaches all of the VPC. The CNI project's plugin sbr does that too.
func (c configuration) routesBySource() bool {
	return slices.ContainsFunc(c.Plugins, func(p plugin) bool {
		return p.Type == netattach.RoutesPlugin || p.Type == "sbr"
	})
}

// routes returns the destinations of the IPAM plugin.
func (c configuration) routes() []netip.Prefix {
	var all []netip.Prefix
	for _, r := range c.main().IPAM.Routes {
		all = append(all, r.To)
	}
	return all
}
