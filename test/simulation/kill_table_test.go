// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"errors"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/test/simulation"
	"github.com/multieni/multieni/test/size"
)

// TestKillTable fails if the documented table does not list the existing mutants, if one of them survives in it, or if a
// mutant is no longer found near the seed that the table names. It tries none of the mutants in make test, some in make
// test-all, and all in make test-long.
func TestKillTable(t *testing.T) {
	rows := documented(t)
	var names []string
	for n, m := range simulation.Mutants() {
		names = append(names, m.Name)
		row, there := rows[m.Name]
		if there && row.edits != len(m.Edits) {
			t.Errorf("docs/reliability.md says that %q is %d edits, and it is %d", m.Name, row.edits, len(m.Edits))
		}
		if !there || raced || !size.All() || !size.Long() && n%20 != 0 {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			// Any change of the product shifts the draws of the seeds a little.
			if _, _, err := kill(t, m, 1, 2*row.seed+50); err != nil {
				t.Errorf("%v; the table says seed %d, and make mutants makes it anew", err, row.seed)
			}
		})
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(names)), slices.Sorted(maps.Keys(rows))); diff != "" {
		t.Errorf("docs/reliability.md does not list, as found, the mutants that exist (-exist +listed):\n%s", diff)
	}
}

var rowForm = regexp.MustCompile(`(?m)^\| ([^|]+) \| [^|]+ \| (\d+) \| (\d+) \| \w+ \|$`)

// killed is a row of the kill table: the number of a mutant's edits, and the seed that found it.
type killed struct{ edits, seed int }

// documented returns the rows of the kill table by mutant. One that survives is left out.
func documented(t *testing.T) map[string]killed {
	t.Helper()
	_, table, _ := tableIn(t)
	rows := map[string]killed{}
	for _, match := range rowForm.FindAllStringSubmatch(table, -1) {
		edits, errEdits := strconv.Atoi(match[2])
		seed, errSeed := strconv.Atoi(match[3])
		if err := errors.Join(errEdits, errSeed); err != nil {
			t.Fatal(err)
		}
		rows[match[1]] = killed{edits, seed}
	}
	return rows
}
