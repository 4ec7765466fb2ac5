// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// TestTheDocumentHasTheDriftTable checks that the table in docs/launch-time.md is that of the program.
func TestTheDocumentHasTheDriftTable(t *testing.T) {
	document, err := os.ReadFile("../../../docs/launch-time.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, path := range slices.Sorted(maps.Keys(launchtemplate.Fields())) {
		f := launchtemplate.Fields()[path]
		fmt.Fprintf(&rows, "| `%s` | %s | %s |\n", path, f.Class, f.Action)
	}
	if !strings.Contains(string(document), "| field | class | action |\n|---|---|---|\n"+rows.String()+"\n") {
		t.Errorf("docs/launch-time.md must have these rows, in this order:\n%s", rows.String())
	}
}

// documents draws launch template data with values of every kind that JSON has.
func documents() *rapid.Generator[launchtemplate.Document] {
	name := rapid.SampledFrom([]string{"ImageId", "UserData", "EbsOptimized", "KeyName", "<&>", "\u00e9"})
	value := rapid.Deferred(func() *rapid.Generator[any] { return jsonValues(name, 2) })
	return rapid.Custom(func(t *rapid.T) launchtemplate.Document {
		return rapid.MapOfN(name, value, 0, 4).Draw(t, "document")
	})
}

func jsonValues(name *rapid.Generator[string], depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int32().AsAny(), rapid.StringMatching(`[a-z<>&"]{0,6}`).AsAny(),
	}
	if depth > 0 {
		inner := jsonValues(name, depth-1)
		kinds = append(kinds, rapid.SliceOfN(inner, 0, 3).AsAny(), rapid.MapOfN(name, inner, 0, 3).AsAny())
	}
	return rapid.OneOf(kinds...)
}

// A document, its clone and its round trip through text have the same hash and the same text.
func TestDocumentsHaveOneForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := documents().Draw(t, "data")
		var read launchtemplate.Document
		if err := json.Unmarshal(d.JSON(), &read); err != nil {
			t.Fatalf("the text cannot be read: %v\n%s", err, d.JSON())
		}
		for what, other := range map[string]launchtemplate.Document{"clone": d.Clone(), "document that is read": read} {
			if other.Hash() != d.Hash() || string(other.JSON()) != string(d.JSON()) {
				t.Errorf("the %s is another one (-data +%s):\n%s", what, what,
					cmp.Diff(string(d.JSON()), string(other.JSON())))
			}
		}
	})
}

// Two documents have one hash exactly if they have one text.
func TestTheHashIsThatOfTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := documents().Draw(t, "a"), documents().Draw(t, "b")
		if same := string(a.JSON()) == string(b.JSON()); same != (a.Hash() == b.Hash()) {
			t.Errorf("same text: %t, hashes %s and %s of\n%s%s", same, a.Hash(), b.Hash(), a.JSON(), b.JSON())
		}
	})
}

// The hash is in tags and descriptions of resources in EC2: another one for the same data would replace all nodes.
// The order of members makes no difference, and the order of elements does. The first one is that of
// printf 'v1\n{}' | sha256sum.
func TestTheHashOfADocumentStaysTheSame(t *testing.T) {
	for text, want := range map[string]string{
		`{}`: "fb367f591ca61e8e67fb21c87ccaf605",
		`{"ImageId": "ami-1", "UserData": "<&>"}`:                         "c614fe806821532ad6643d13ae6ecb0c",
		`{"UserData": "<&>", "ImageId": "ami-1"}`:                         "c614fe806821532ad6643d13ae6ecb0c",
		`{"NetworkInterfaces": [{"DeviceIndex": 0}, {"DeviceIndex": 1}]}`: "3fac0b7055cb025866af1a61205da986",
		`{"NetworkInterfaces": [{"DeviceIndex": 1}, {"DeviceIndex": 0}]}`: "8df1f8f31b95a786c98529e6ed9ef6fa",
	} {
		if got := document(t, text).Hash(); got != want {
			t.Errorf("the hash of %s is %s, want %s", text, got, want)
		}
	}
}

// Users read the text and copy it into files: it is indented, its members are sorted, and no character is escaped for
// HTML.
func TestADocumentAsPeopleReadIt(t *testing.T) {
	data := document(t, `{"UserData": "a && b > c", "NetworkInterfaces": [{"DeviceIndex": 0, "Groups": []}]}`)
	const want = `{
  "NetworkInterfaces": [
    {
      "DeviceIndex": 0,
      "Groups": []
    }
  ],
  "UserData": "a && b > c"
}
`
	if diff := cmp.Diff(want, string(data.JSON())); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

// A shadow names in one line the layer that a user has to change.
func TestAShadowAsText(t *testing.T) {
	for want, shadow := range map[string]launchtemplate.Shadow{
		"ImageId: the referenced launch template hides the spec": {
			Path: "ImageId", By: launchtemplate.FromTemplate, Of: launchtemplate.FromInline,
		},
		"UserData: the launchTemplateOverride hides the referenced launch template": {
			Path: "UserData", By: launchtemplate.FromOverride, Of: launchtemplate.FromTemplate,
		},
		"KeyName: the launchTemplateOverride hides the spec": {
			Path: "KeyName", By: launchtemplate.FromOverride, Of: launchtemplate.FromDefault,
		},
	} {
		if got := shadow.String(); got != want {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

// The indices of a slot are numbers of JSON, or of Go where a program wrote the data. An index that is missing, or that
// is no number, is 0: EC2's default.
func TestTheSlotOfAnInterfaceInTheData(t *testing.T) {
	for name, tc := range map[string]struct {
		card, device any
		want         eni.Slot
	}{
		"numbers of JSON":    {2.0, 1.0, eni.Slot{Card: 2, Device: 1}},
		"numbers of Go":      {2, 1, eni.Slot{Card: 2, Device: 1}},
		"numbers of the SDK": {int64(2), int64(1), eni.Slot{Card: 2, Device: 1}},
		"texts":              {"2", "1", eni.Slot{}},
		"nothing":            {nil, nil, eni.Slot{}},
	} {
		t.Run(name, func(t *testing.T) {
			data := launchtemplate.Document{"NetworkInterfaces": []any{
				map[string]any{"NetworkCardIndex": tc.card, "DeviceIndex": tc.device, "SubnetId": "subnet-a"},
			}}
			want := map[eni.Slot]string{tc.want: "subnet-a"}
			if diff := cmp.Diff(want, launchtemplate.ChosenSubnets(data)); diff != "" {
				t.Errorf("subnets by slot (-want +got):\n%s", diff)
			}
		})
	}
}

// A Go program that makes a document may use a list of strings of Go, which differs from the list of encoding/json.
func TestGroupsAreReadInBothForms(t *testing.T) {
	for name, groups := range map[string]any{
		"as Go has them": []string{"sg-8", "sg-9"}, "as JSON has them": []any{"sg-8", "sg-9"},
	} {
		t.Run(name, func(t *testing.T) {
			n := plain()
			n.Override = launchtemplate.Document{"NetworkInterfaces": []any{map[string]any{"Groups": groups}}}
			if diff := cmp.Diff([]string{"sg-8", "sg-9"}, only(t, n).Interfaces[0].Groups); diff != "" {
				t.Errorf("groups (-want +got):\n%s", diff)
			}
		})
	}
}
