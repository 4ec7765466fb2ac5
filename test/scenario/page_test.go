// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// shell is what stands between the fences of a block of commands.
var shell = regexp.MustCompile("(?ms)^```sh\n(.*?)^```")

func page(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: page FILE HEADING [WORD=VALUE]...")
	}
	content, err := os.ReadFile(filepath.Join(ts.Getenv("ROOT"), args[0]))
	ts.Check(err)
	var words []string
	for _, arg := range args[2:] {
		word, value, _ := strings.Cut(arg, "=")
		words = append(words, word, value)
	}
	var run int
	for line := range strings.SplitSeq(section(string(content), args[1]), "\n") {
		if !strings.HasPrefix(line, "kubectl ") || strings.Contains(line, "(AWS)") {
			continue
		}
		run++
		line = strings.NewReplacer(words...).Replace(line)
		if err := ts.Exec("sh", "-c", line); err != nil {
			ts.Fatalf("%s, %s: %s: %v", args[0], args[1], line, err)
		}
	}
	if run == 0 {
		ts.Fatalf("%s has no section %q with commands", args[0], args[1])
	}
}

// section returns the commands below a heading, up to the next one of the second level.
func section(document, heading string) string {
	_, rest, _ := strings.Cut(document, "# "+heading+"\n")
	rest, _, _ = strings.Cut(rest, "\n## ")
	var lines strings.Builder
	for _, block := range shell.FindAllStringSubmatch(rest, -1) {
		lines.WriteString(block[1])
	}
	return lines.String()
}
