// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/test/bench/report"
)

// newCombine returns the command that puts the results of several runs into one document.
func newCombine() *cobra.Command {
	var s settings
	command := &cobra.Command{
		Use:     "combine RESULT...",
		Short:   "Write the tables of a document from the results of several runs of one source",
		Example: `  go run ./test/bench combine --document docs/performance.md .cache/bench/result.json .cache/other/result.json`,
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			r, err := combine(files)
			if err != nil {
				return err
			}
			fmt.Fprint(c.OutOrStdout(), r.Markdown())
			return s.rewrite(r)
		},
	}
	bindDocument(command, &s.document)
	return command
}

// combine reads the reports of runs of one source in one world.
func combine(files []string) (all report.Report, err error) {
	for n, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return all, err
		}
		var r report.Report
		if err := json.Unmarshal(content, &r); err != nil {
			return all, fmt.Errorf("%s: %w", file, err)
		}
		if n == 0 {
			all = r
			continue
		}
		if r.Commit != all.Commit || r.World() != all.World() {
			return all, fmt.Errorf("%s is of commit %s with %s, and %s of %s with %s: run one of them again",
				file, r.Commit, r.World(), files[0], all.Commit, all.World())
		}
		all.Results = append(all.Results, r.Results...)
	}
	return all, nil
}

// bindDocument adds the flag for the document.
func bindDocument(command *cobra.Command, document *string) {
	command.Flags().StringVar(document, "document", "", "document whose tables of the same world to replace")
}
