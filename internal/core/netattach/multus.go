// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package netattach

import (
	"encoding/json"
	"slices"
)

// IsMultus reports whether a CNI configuration, or a list of plugins, calls Multus: as one program, or by its daemon
// (Multus, "Thick Plugin").
func IsMultus(configuration []byte) bool {
	var called struct {
		plugin
		Plugins []plugin `json:"plugins"`
	}
	if json.Unmarshal(configuration, &called) != nil {
		return false
	}
	return slices.ContainsFunc(append(called.Plugins, called.plugin), func(p plugin) bool {
		return p.Type == "multus" || p.Type == "multus-shim"
	})
}
