// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/dev/cluster"
)

// A release is installed, a later one with a new field of NodeENI follows, and helm rolls back. The objects stay. The
// value of the new field is invisible meanwhile, and lost only in objects that are written meanwhile: the API server
// drops what the definition does not have.
func TestRollback(t *testing.T) {
	s := &site{T: t}
	var err error
	s.Cluster, err = cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir()})
	s.must(err)
	t.Cleanup(func() { s.must(s.Stop()) })
	s.forgetDefinitions()
	earlier, later := s.packaged(chart, "0.1.0"), s.packaged(s.chartWithNewField(), "0.2.0")
	field := func(name string) string { return s.kubectl("get", "nodeeni", name, "-o", "jsonpath={.spec.toCome}") }
	declare := func(name, toCome string) {
		file := filepath.Join(t.TempDir(), "nodeeni.yaml")
		s.must(os.WriteFile(file, []byte("apiVersion: networking.k8s.aws/v1alpha1\nkind: NodeENI\nmetadata: {name: "+name+"}\n"+
			"spec: {nodeSelector: {ng: multi-eni}, subnetID: subnet-0f59b4f14737be9ad, securityGroupIDs: [sg-05da196f3314d4af8], deviceIndex: 2"+toCome+"}\n"), 0o600))
		s.kubectl("apply", "--server-side", "-f", file)
	}

	s.helm("install", release, earlier, "--set", "awsRegion=us-east-1,clusterName=prod")
	declare("before", "")
	uid := s.kubectl("get", "nodeeni", "before", "-o", "jsonpath={.metadata.uid}")
	s.helm("upgrade", release, later, "--reuse-values", "--set", "clusterName=prod,controller.verbosity=4")
	declare("untouched", ", toCome: kept")
	declare("written", ", toCome: kept")
	if field("untouched") != "kept" || field("written") != "kept" {
		t.Fatal("the later release does not have its field")
	}

	s.helm("rollback", release)
	if got := s.kubectl("get", "nodeeni", "-o", "name"); len(strings.Fields(got)) != 3 {
		t.Errorf("after the rollback the objects are %s", got)
	}
	if got := s.kubectl("get", "nodeeni", "before", "-o", "jsonpath={.metadata.uid}"); got != uid {
		t.Errorf("the object of before has UID %s, had %s", got, uid)
	}
	if got := s.kubectl("get", "crd", "nodeenis.networking.k8s.aws", "-o", "yaml"); strings.Contains(got, "toCome") {
		t.Error("the definition is still the later one")
	}
	deployment := s.kubectl("get", "deployment", "-n", "eni-controller-system", "eni-controller", "-o", "yaml")
	if !strings.Contains(deployment, "--v=0") || !strings.Contains(deployment, "value: prod") {
		t.Errorf("the values of before are not back:\n%s", deployment)
	}
	s.eventually("the API server no longer shows the field", func() bool { return field("untouched") == "" && field("written") == "" })
	s.kubectl("annotate", "nodeeni", "written", "by=the-earlier-controller")

	s.helm("upgrade", release, later, "--reuse-values")
	s.eventually("an object that was not written has its field again", func() bool { return field("untouched") == "kept" })
	if got := field("written"); got != "" {
		t.Errorf("a write under the earlier definition keeps the field: %q; docs/install.md says that it is lost", got)
	}
}

// chartWithNewField returns a copy of the chart whose NodeENIs have a field that this release does not know.
func (s *site) chartWithNewField() string {
	s.Helper()
	dir := filepath.Join(s.TempDir(), "multieni")
	s.must(os.CopyFS(dir, os.DirFS(filepath.Join(root, chart))))
	file := filepath.Join(dir, "templates", "crds.yaml")
	content, err := os.ReadFile(file)
	s.must(err)
	before, ours, found := strings.Cut(string(content), "name: nodeenis.networking.k8s.aws")
	const spec = "          spec:\n"
	above, below, declared := strings.Cut(ours, spec)
	inSpec, rest, listed := strings.Cut(below, "            properties:\n")
	if !found || !declared || !listed {
		s.Fatal("the definition of NodeENI has another form")
	}
	s.must(os.WriteFile(file, []byte(before+"name: nodeenis.networking.k8s.aws"+above+spec+inSpec+
		"            properties:\n              toCome: {type: string}\n"+rest), 0o600))
	return dir
}
