// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"
)

// writeBill writes the bill of materials of the programs in a folder in the form of SPDX 2.3: the modules that the Go
// toolchain recorded in them.
func writeBill(folder string, programs []string, version string, made time.Time, to string) error {
	var infos []*debug.BuildInfo
	for _, program := range programs {
		info, err := buildinfo.ReadFile(filepath.Join(folder, program))
		if err != nil {
			return fmt.Errorf("read the modules of %s: %w", program, err)
		}
		infos = append(infos, info)
	}
	type reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	type piece struct {
		ID           string      `json:"SPDXID"`
		Name         string      `json:"name"`
		Version      string      `json:"versionInfo"`
		Download     string      `json:"downloadLocation"`
		ExternalRefs []reference `json:"externalRefs"`
	}
	type relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
	pieces := []piece{{ID: "SPDXRef-multieni", Name: infos[0].Main.Path, Version: version, Download: "NOASSERTION"}}
	relations := []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-multieni"}}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(pieces))
		pieces = append(pieces, piece{id, path, version, "NOASSERTION",
			[]reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
		relations = append(relations, relationship{"SPDXRef-multieni", "DEPENDS_ON", id})
	}
	add("stdlib", infos[0].GoVersion)
	known := map[string]bool{}
	for _, info := range infos {
		for _, module := range info.Deps {
			if module.Replace != nil {
				module = module.Replace
			}
			if !known[module.Path] { // all have the versions of one go.mod
				add(module.Path, module.Version)
			}
			known[module.Path] = true
		}
	}
	content, err := json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "multieni " + version,
		"documentNamespace": "https://github.com/multieni/multieni/sbom/" + version + "/" + infos[0].GoVersion,
		"creationInfo": map[string]any{"created": made.UTC().Format(time.RFC3339),
			"creators": []string{"Tool: multieni/tools/image"}},
		"packages": pieces, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(content, '\n'), 0o644)
}
