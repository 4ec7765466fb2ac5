// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/dev/cast"
	"github.com/multieni/multieni/internal/dev/demo"
)

// renew is the next step if the recording is not of this tree.
const renew = "run make demo RECORD=1 as root"

// The recording in the documents has every title, text, command and outcome of the story, in its order. A story of
// test/scenario compares the output of the commands.
func TestRecordingIsOfTheStory(t *testing.T) {
	t.Parallel()
	file, err := os.ReadFile("../../../docs/demo.cast")
	if err != nil {
		t.Fatal(err)
	}
	recording, err := cast.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	plain := func(text string) string {
		return strings.Join(strings.Fields(regexp.MustCompile("\x1b\\[[0-9]+m").ReplaceAllString(text, "")), " ")
	}
	rest := plain(recording.Text())
	for _, part := range demo.Script() {
		_, after, found := strings.Cut(rest, plain(part))
		if !found {
			t.Fatalf("docs/demo.cast does not continue with %q: %s", part, renew)
		}
		rest = after
	}
	if !strings.HasSuffix(rest, "everything was as declared") {
		t.Errorf("docs/demo.cast has no good end: %s", renew)
	}
	picture, err := os.ReadFile("../../../docs/demo.svg")
	if err != nil {
		t.Fatal(err)
	}
	if string(picture) != recording.SVG() {
		t.Errorf("docs/demo.svg is not the picture of docs/demo.cast: %s", renew)
	}
	if most := 60 << 10; len(file) > most {
		t.Errorf("docs/demo.cast has %d bytes, want at most %d", len(file), most)
	}
}
