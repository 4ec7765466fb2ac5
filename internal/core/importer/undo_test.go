// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package importer_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
)

// adopted is an interface of a NodeENI, as an import leaves it; from is empty if multieni created the interface.
func adopted(from string, edit ...func(*eni.Interface)) eni.Interface {
	key := declares().Key("multus", 0)
	key.Node = "node-1"
	i := legacy("eni-1", "multus", "subnet-1", 2)
	for tag, value := range key.Tags(decided, map[string]string{"team": "core"}) {
		i.Tags[tag] = value
	}
	if from != "" {
		i.Tags[identity.TagImportedFrom] = from
	}
	for _, f := range edit {
		f(&i)
	}
	return i
}

func TestFindImported(t *testing.T) {
	for name, c := range map[string]struct {
		of eni.Interface
		// found reports whether it is given back; why is a part of the reason if it is passed.
		found bool
		why   string
	}{
		"imported":                {adopted(importer.FromController), true, ""},
		"created by multieni":     {adopted(""), false, "kubectl eni import did not give it"},
		"imported from elsewhere": {adopted(importer.FromFunction), false, "--from multus-function"},
		"of another cluster": {adopted(importer.FromController, func(i *eni.Interface) { i.Tags[identity.TagCluster] = "other" }),
			false, ""},
		"with damaged tags": {adopted(importer.FromController, func(i *eni.Interface) { delete(i.Tags, identity.TagInterface) }),
			false, "name no interface"},
		"on another instance": {adopted(importer.FromController, func(i *eni.Interface) { i.Attachment.InstanceID = "i-2" }), false, ""},
		"not attached":        {adopted(importer.FromController, func(i *eni.Interface) { i.Attachment = nil }), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := importer.FindImported("c", instanceID, importer.FromController, []eni.Interface{c.of})
			if len(got.Matches) == 1 != c.found || len(got.Passed) == 1 != (c.why != "") {
				t.Fatalf("found %+v, passed %+v", got.Matches, got.Passed)
			}
			if c.why != "" && !strings.Contains(got.Passed[0].Why, c.why) {
				t.Errorf("passed because %q, want %q", got.Passed[0].Why, c.why)
			}
		})
	}
}

// Without the keys, the interface has the tags of its former owner and of people.
func TestImportedKeysAreOurs(t *testing.T) {
	i := adopted(importer.FromFunction)
	for _, key := range importer.ImportedKeys(i.Tags) {
		delete(i.Tags, key)
	}
	want := map[string]string{importer.TagManagedBy: importer.ManagedBy, importer.TagNodeENI: "multus", "team": "core",
		identity.TagName: "multus/node-1", identity.TagNoManage: "true"}
	if diff := cmp.Diff(want, i.Tags); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if !identity.HasNoOwner(i.Tags) {
		t.Error("it has an owner")
	}
}
