// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package versions_test installs multieni on the releases of Kubernetes that dev/controlplane builds, each with its own
// API server, etcd and kubectl, and plays the first minutes there: the chart, a first interface in the simulated AWS,
// and what the API server refuses. The table of docs/platforms.md has the results.
//
// make test-all runs the oldest release, make test-versions all of them.
package versions_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

// root is the folder of the checkout.
const root = "../.."

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"multieni": inputs.Self("multieni", cli.New)})
}

const (
	page = "docs/platforms.md"
	// The table of the page is between these lines.
	tableBegin = "<!-- what runs on which Kubernetes, printed by make test-versions -->\n"
	tableEnd   = "<!-- end of what runs on which Kubernetes -->\n"
)

// chapters are the columns of the table, in the order in which they run: each builds on those before.
var chapters = []struct {
	name string
	// live returns the cell.
	live func(*site) string
}{
	{"`helm install`", (*site).install},
	{"a first interface", (*site).firstInterface},
	{"columns of `kubectl get`", (*site).columns},
	{"wrong NodeENIs", (*site).wrongNodeENIs},
	{"agents of other nodes", (*site).otherAgents},
	{"kubelets, with `reserveNodeKeys`", (*site).kubelets},
	{"`pods.requestAddresses`", (*site).requestAddresses},
}

// Each release behaves as its row in the table of the page says. The test prints the table.
func TestFirstMinutes(t *testing.T) {
	size.NeedsAll(t, "it compiles the control plane of another Kubernetes, which takes five minutes")
	documented := rows(t)
	for _, release := range releases(t) {
		t.Run(release.Version, func(t *testing.T) {
			row := live(t, release)
			fmt.Print(row)
			if !slices.Contains(documented, row) {
				t.Errorf("the table of %s lacks the row\n%s", page, row)
			}
		})
	}
}

// live plays the first minutes on a release, and returns its row of the table.
func live(t *testing.T, release assets.Release) string {
	t.Helper()
	s := newSite(t, release)
	cells := []string{strings.TrimPrefix(release.Version, "v")}
	for _, chapter := range chapters {
		cell := "no"
		if !t.Run(chapter.name, func(t *testing.T) { cell = chapter.live(s.at(t)) }) {
			t.FailNow() // the next chapters need what this one made
		}
		cells = append(cells, cell)
	}
	return row(cells)
}

// The table of the page has a row for each release that dev/controlplane builds, and no other.
func TestThePageHasEachRelease(t *testing.T) {
	all, err := assets.Releases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	documented := rows(t)
	if len(documented) != len(all) {
		t.Fatalf("the table of %s has %d rows, want one for each of %d releases", page, len(documented), len(all))
	}
	for i, release := range all {
		if begin := "| " + strings.TrimPrefix(release.Version, "v") + " |"; !strings.HasPrefix(documented[i], begin) {
			t.Errorf("row %d of the table of %s is\n%swant one that begins with %q", i+1, page, documented[i], begin)
		}
	}
}

// releases returns the releases of this run.
func releases(t *testing.T) []assets.Release {
	t.Helper()
	all, err := assets.Releases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return all[:size.Of(0, 1, len(all))]
}

// rows returns the rows of the table of the page, which has the columns of this test.
func rows(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(root + "/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, begins := strings.Cut(string(content), tableBegin)
	table, _, ends := strings.Cut(rest, tableEnd)
	header := []string{"Kubernetes"}
	for _, chapter := range chapters {
		header = append(header, chapter.name)
	}
	head := row(header) + "|" + strings.Repeat("---|", len(header)) + "\n"
	body, found := strings.CutPrefix(table, head)
	if !begins || !ends || !found {
		t.Fatalf("%s lacks the table that begins with\n%s%s", page, tableBegin, head)
	}
	return slices.Collect(strings.Lines(body))
}

func row(cells []string) string { return "| " + strings.Join(cells, " | ") + " |\n" }
