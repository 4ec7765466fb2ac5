// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/cli/manifest"
)

const (
	node = "apiVersion: networking.k8s.aws/v1alpha1\nkind: NodeENI\nmetadata: {name: a}\nspec: {subnetID: subnet-1}\n"
	pod  = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n"

	jsonNode = `{"apiVersion":"networking.k8s.aws/v1alpha1","kind":"NodeENI","metadata":{"name":"b"}}`
)

func names(objects []manifest.Object) []string {
	var all []string
	for _, o := range objects {
		all = append(all, o.APIVersion+" "+o.Kind+" "+o.Name)
	}
	return all
}

func TestFormsOfAManifest(t *testing.T) {
	const a, b = "networking.k8s.aws/v1alpha1 NodeENI a", "networking.k8s.aws/v1alpha1 NodeENI b"
	item := "- " + strings.ReplaceAll(strings.TrimSpace(node), "\n", "\n  ") + "\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                        {"", nil},
		"comments alone":                 {"# later\n---\n# later still\n", nil},
		"one object":                     {node, []string{a}},
		"several documents":              {"---\n" + node + "---\n" + pod + "---\n", []string{a, "v1 Pod p"}},
		"JSON":                           {jsonNode, []string{b}},
		"JSON objects in a row":          {jsonNode + "\n" + jsonNode, []string{b, b}},
		"YAML in braces":                 {"{apiVersion: v1, kind: Pod, metadata: {name: p}}", []string{"v1 Pod p"}},
		"kind List, as kubectl prints":   {"apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n" + item, []string{a}},
		"kind List in JSON":              {`{"kind":"List","apiVersion":"v1","items":[` + jsonNode + "," + jsonNode + "]}", []string{b, b}},
		"a list of lists":                {`{"kind":"List","apiVersion":"v1","items":[{"kind":"List","apiVersion":"v1","items":[` + jsonNode + "]}]}", []string{b}},
		"an empty list":                  {"apiVersion: v1\nkind: List\nitems: []\n", nil},
		"a list of one kind":             {"apiVersion: networking.k8s.aws/v1alpha1\nkind: NodeENIList\nitems:\n" + item, []string{a}},
		"items without their kind":       {"apiVersion: networking.k8s.aws/v1alpha1\nkind: NodeENIList\nitems: [{metadata: {name: a}}]\n", []string{a}},
		"a list among other documents":   {pod + "---\napiVersion: v1\nkind: List\nitems:\n" + item, []string{"v1 Pod p", a}},
		"a kind that only ends in List":  {"apiVersion: example.com/v1\nkind: AllowList\nmetadata: {name: l}\n", []string{"example.com/v1 AllowList l"}},
		"lines that end as on Windows":   {strings.ReplaceAll(node+"---\n"+pod, "\n", "\r\n"), []string{a, "v1 Pod p"}},
		"a byte order mark in the front": {"\ufeff" + node, []string{a}},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := manifest.Read("-", strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, names(objects)); diff != "" {
				t.Errorf("objects (-want +got):\n%s", diff)
			}
		})
	}
}

func TestManifestsThatAreNone(t *testing.T) {
	for name, tc := range map[string]struct{ text, says string }{
		"no YAML":               {"kind: [", "standard input: "},
		"a text":                {"hello", "standard input: it is no Kubernetes object"},
		"no kind":               {"replicas: 3\n", "standard input has no apiVersion and kind"},
		"no kind behind others": {node + "---\nreplicas: 3\n", "standard input has no apiVersion and kind"},
		"an item without kind":  {"apiVersion: v1\nkind: List\nitems: [{metadata: {name: a}}]\n", "standard input, item 1 has no apiVersion and kind"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := manifest.Read("-", strings.NewReader(tc.text)); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want something about %q", err, tc.says)
			}
		})
	}
}

// A folder of a deployment has more than manifests: a README, values of a chart, folders of other things.
func TestAFolderIsReadAsKubectlReadsIt(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"2.yaml": node, "1.yml": pod, "3.json": jsonNode, "README.md": "# Ours", "values.yaml": "replicas: 3\n", "other/4.yaml": node,
	} {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := manifest.Read(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"v1 Pod p", "networking.k8s.aws/v1alpha1 NodeENI a", "networking.k8s.aws/v1alpha1 NodeENI b"}
	if diff := cmp.Diff(want, names(objects)); diff != "" {
		t.Errorf("objects (-want +got):\n%s", diff)
	}
	if got := objects[1].Source; got != filepath.Join(folder, "2.yaml") {
		t.Errorf("source %s", got)
	}
}

func TestAFileInAFolderThatIsNoYAMLFails(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "a.yaml"), []byte("{{ if }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.Read(folder, nil); err == nil || !strings.Contains(err.Error(), "a.yaml: ") {
		t.Errorf("got %v, want the name of the file", err)
	}
}

func TestDecodingIsStrict(t *testing.T) {
	type object struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Spec struct {
			SubnetID string `json:"subnetID"`
		} `json:"spec"`
	}
	for name, tc := range map[string]struct{ text, says string }{
		"all known":        {node, ""},
		"an unknown field": {strings.Replace(node, "subnetID", "subnet", 1), `unknown field "spec.subnet"`},
		"a key twice":      {node + "spec: {}\n", `key "spec" already set`},
		"a key twice in an item of a list": {
			"apiVersion: v1\nkind: List\nitems: [{apiVersion: v1, kind: Pod, kind: Pod}]\n", `key "kind" already set`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			objects, err := manifest.Read("-", strings.NewReader(tc.text))
			if err != nil {
				t.Fatal(err)
			}
			err = objects[0].Decode(&object{})
			if (err != nil) != (tc.says != "") || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, want %q", err, tc.says)
			}
		})
	}
}
