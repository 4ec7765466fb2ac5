// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// writeBill writes the bill of materials of a program in the form of SPDX 2.3: the modules that the Go toolchain recorded
// in it.
func writeBill(program, version string, made time.Time, to string) error {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return fmt.Errorf("read the modules of %s: %w", program, err)
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
	pieces := []piece{{ID: "SPDXRef-multieni", Name: info.Main.Path, Version: version, Download: "NOASSERTION"}}
	relations := []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", "SPDXRef-multieni"}}
	add := func(path, version string) {
		id := fmt.Sprintf("SPDXRef-module-%d", len(pieces))
		pieces = append(pieces, piece{id, path, version, "NOASSERTION", []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + version}}})
		relations = append(relations, relationship{"SPDXRef-multieni", "DEPENDS_ON", id})
	}
	add("stdlib", info.GoVersion)
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		add(module.Path, module.Version)
	}
	content, err := json.MarshalIndent(map[string]any{
		"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": "multieni " + version,
		"documentNamespace": "https://github.com/multieni/multieni/sbom/" + version + "/" + info.GoVersion,
		"creationInfo":      map[string]any{"created": made.UTC().Format(time.RFC3339), "creators": []string{"Tool: multieni/tools/image"}},
		"packages":          pieces, "relationships": relations,
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(to, append(content, '\n'), 0o644)
}
