// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cast_test

import (
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/dev/cast"
)

// Texts that come at once are one event, and a long pause is shorter in the recording.
func TestPrint(t *testing.T) {
	var r cast.Recording
	r.Print(time.Minute, "a")
	r.Print(20*time.Millisecond, "b")
	r.Print(time.Second, "c")
	r.Print(time.Minute, "d")
	want := []cast.Event{{0, "ab"}, {time.Second, "c"}, {3 * time.Second, "d"}}
	if diff := cmp.Diff(want, r.Events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func TestFile(t *testing.T) {
	r := cast.Recording{Title: "<greeting>", Width: 80, Height: 24}
	r.Print(0, "$ echo hello\n")
	r.Print(1500*time.Millisecond, "\x1b[32mhello\x1b[0m\n")
	const want = `{"version":2,"width":80,"height":24,"title":"<greeting>"}
[0,"o","$ echo hello\r\n"]
[1.5,"o","\u001b[32mhello\u001b[0m\r\n"]
`
	if diff := cmp.Diff(want, string(r.Bytes())); diff != "" {
		t.Errorf("file (-want +got):\n%s", diff)
	}
}

// A file has what was printed, at its time.
func TestParseReadsWhatBytesWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := cast.Recording{Title: rapid.String().Draw(t, "title"), Width: 100, Height: 32}
		for range rapid.IntRange(0, 20).Draw(t, "texts") {
			after := time.Duration(rapid.IntRange(0, 300).Draw(t, "after")) * (time.Second / 100)
			r.Print(after, strings.ReplaceAll(rapid.String().Draw(t, "text"), "\r", ""))
		}
		got, err := cast.Parse(r.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(r, got); diff != "" {
			t.Errorf("recording (-printed +parsed):\n%s", diff)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"an empty file":    {"", "line 1"},
		"asciicast v1":     {`{"version": 1, "width": 80}` + "\n", "line 1"},
		"a line of a text": {`{"version": 2}` + "\nhello\n", "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := cast.Parse([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want one with %q", err, c.want)
			}
		})
	}
}

// The picture is XML with each character of any text.
func TestSVGHasTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([a-z<>&'" é✓]|\x1b\[(0|1|2|31|32|33)m|[\x00-\x09]){0,200}`).Draw(t, "text")
		r := cast.Recording{Width: 40, Height: 10}
		r.Print(0, "first\n"+text+"\n")
		picture := xml.NewDecoder(strings.NewReader(r.SVG()))
		var shown strings.Builder
		for {
			token, err := picture.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, r.SVG())
			}
			if characters, is := token.(xml.CharData); is {
				shown.Write(characters)
			}
		}
		letters := func(s string) string {
			return strings.Join(strings.FieldsFunc(s, func(c rune) bool { return !strings.ContainsRune("<>&é✓", c) }), "")
		}
		if _, got, _ := strings.Cut(shown.String(), "first"); letters(got) != letters(text) {
			t.Errorf("the picture has %q of %q", got, text)
		}
	})
}

// Each event shows what is printed until then, at the lower edge.
func TestSVGMoves(t *testing.T) {
	r := cast.Recording{Width: 20, Height: 3}
	r.Print(0, "one\n")
	r.Print(2*time.Second, strings.Repeat("wide ", 5)+"\nlast\n")
	got := r.SVG()
	for _, want := range []string{
		"0.00%{transform:translateY(36px)}\n25.00%{transform:translateY(-18px)}\n100%", "story 8.00s",
		">wide wide wide wide </text>", "y='54'>wide </text>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the picture has no %q:\n%s", want, got)
		}
	}
}
