// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"regexp"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/multieni/multieni/internal/dev/cast"
)

// sameRecording asserts that two recordings are of the same story, with the same output of its commands. IDs, addresses
// and times can differ, and so can the lines that say when an interface changes and when the controller is killed. A
// recording without the chapters that need root has nothing to compare.
func sameRecording(ts *testscript.TestScript, _ bool, files []string) {
	var texts []string
	for _, file := range files {
		recording, err := cast.Parse([]byte(ts.ReadFile(file)))
		ts.Check(err)
		texts = append(texts, lasting(recording.Text()))
	}
	if strings.Contains(texts[0]+texts[1], "left out here:") {
		ts.Logf("one of the recordings leaves chapters out")
		return
	}
	if diff := cmp.Diff(strings.Split(texts[0], "\n"), strings.Split(texts[1], "\n")); diff != "" {
		ts.Fatalf("%v (-first +second); write the first again with make demo RECORD=1:\n%s", files, diff)
	}
}

var (
	attributes = regexp.MustCompile("\x1b\\[[0-9]+m")
	moments    = regexp.MustCompile(`(?m)^ +\+[0-9.]+ s  .*\n|^ *\$ kill -9 .*\n`)
	folders    = regexp.MustCompile(`/\S*/net/`)
	// changing are MAC addresses, IDs, ages such as 2m5s, IP addresses and other numbers.
	changing = regexp.MustCompile(`\b([0-9a-f]{2}:){5}[0-9a-f]{2}\b|-[0-9a-f]{17}\b|\b([0-9]+(ms|[hms])){1,3}\b|[0-9][0-9.]*`)
)

// lasting returns what of a story's text is the same in each run.
func lasting(text string) string {
	text = attributes.ReplaceAllString(text, "")
	text = moments.ReplaceAllString(text, "")
	text = folders.ReplaceAllString(text, "/net/")
	text = changing.ReplaceAllString(text, "N")
	text = strings.Join(strings.Fields(text), " ") // where a line is folded depends on the width of an age
	return strings.NewReplacer(" $ ", "\n$ ", " ✓ ", "\n✓ ").Replace(text)
}
