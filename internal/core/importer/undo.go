// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package importer

import (
	"maps"
	"slices"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// The programs whose interfaces can be imported, as [identity.TagImportedFrom] names them.
const (
	FromController = "aws-multi-eni-controller"
	FromFunction   = "multus-function"
)

// FindImported returns the interfaces on the instance, among those of the cluster, that were imported from a program.
// Without our tags they are that program's again. All others of the instance are passed.
func FindImported(cluster, instanceID, from string, interfaces []eni.Interface) Result {
	var r Result
	for _, i := range bySlot(interfaces) {
		tagged, verdict := identity.Read(cluster, i.Tags)
		source := i.Tags[identity.TagImportedFrom]
		switch {
		case verdict == identity.Foreign || !i.AttachedTo(instanceID):
		case verdict != identity.Owned:
			r.Passed = append(r.Passed, Skipped{i, "its tags name no interface of a NodeENI"})
		case source == "":
			r.Passed = append(r.Passed, Skipped{i, "kubectl eni import did not give it its tags, so no other program knows it"})
		case source != from:
			r.Passed = append(r.Passed, Skipped{i, "it was imported from " + source + ": --from " + source})
		default:
			r.Matches = append(r.Matches, Match{i, tagged})
		}
	}
	return r
}

// ImportedKeys returns the keys of the tags that only multieni writes. Name and the tags of the NodeENI are no proof of
// an owner, and can be older than the import.
func ImportedKeys(tags map[string]string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(tags)), func(key string) bool {
		return !strings.HasPrefix(key, identity.Prefix)
	})
}
