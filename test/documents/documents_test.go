// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/test/documents"
)

const page = "# Title\n" +
	"## 1. First\n" +
	"```sh\n" +
	"kubectl get nodeeni     # with words\n" +
	"aws sts get-caller-identity   # (AWS) with more words\n" +
	"\n" +
	"sed 's|#|x|' \\\n" +
	"  file\n" +
	"```\n" +
	"```yaml\n" +
	"# Not a heading\n" +
	"```\n" +
	"### Second\n" +
	"1. In a list:\n" +
	"\n" +
	"   ```sh\n" +
	"   # Words of no consequence.\n" +
	"   one\n" +
	"   # (minutes)\n" +
	"   two\n" +
	"   three   # (nodes)\n" +
	"   ```\n"

func TestCommands(t *testing.T) {
	first, second := documents.Command{Page: "a.md", Section: "1. First"}, documents.Command{Page: "a.md", Section: "Second"}
	at := func(c documents.Command, line int, text, mark string) documents.Command {
		c.Line, c.Text, c.Mark = line, text, mark
		return c
	}
	want := []documents.Command{
		at(first, 4, "kubectl get nodeeni", ""),
		at(first, 5, "aws sts get-caller-identity", "AWS"),
		at(first, 7, "sed 's|#|x|' \\\n  file", ""),
		at(second, 18, "one", ""),
		at(second, 20, "two", "minutes"),
		at(second, 21, "three", "nodes"),
	}
	parsed := documents.Parse("a.md", page)
	if diff := cmp.Diff(want, parsed.Commands()); diff != "" {
		t.Errorf("commands (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"Title", "1. First", "Second"}, parsed.Headings()); diff != "" {
		t.Errorf("headings (-want +got):\n%s", diff)
	}
}
