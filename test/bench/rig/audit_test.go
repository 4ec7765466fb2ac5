// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig //nolint:testpackage // the reader of the server's log is not part of the rig's interface

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Only the controller's writes in an audit log count, each once, even while the server appends to the log.
func TestAudit(t *testing.T) {
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	line := func(who, resource string, at, took time.Duration) string {
		return fmt.Sprintf(`{"impersonatedUser":{"username":%q},"objectRef":{"resource":%q},"requestReceivedTimestamp":%q,"stageTimestamp":%q}`,
			who, resource, begun.Add(at).Format(time.RFC3339Nano), begun.Add(at+took).Format(time.RFC3339Nano)) + "\n"
	}
	a := audit{path: filepath.Join(t.TempDir(), "audit.log")}
	if w, err := a.since(begun); err != nil || w.count != 0 {
		t.Fatalf("%d writes before there is a log: %v", w.count, err)
	}
	first := line(user, "networkinterfaces", 0, time.Second)
	last := line(user, "nodes", 2*time.Second, 3*time.Second)
	grow(t, a.path, first+line(user, "leases", 0, 0)+line("agent", "networkinterfaces", 0, 0)+`{"objectRef":{}}`+"\n"+last[:20])
	if w, err := a.since(begun); err != nil || w.count != 1 || w.p99() != 1 {
		t.Errorf("%d writes, 99 %% within %g s: %v", w.count, w.p99(), err)
	}
	grow(t, a.path, last[20:])
	if w, err := a.since(begun); err != nil || w.count != 2 || w.ofNodes != 1 || w.p99() != 3 {
		t.Errorf("then %d writes, %d of Nodes, 99 %% within %g s: %v", w.count, w.ofNodes, w.p99(), err)
	}
	if w, err := a.since(begun.Add(time.Second)); err != nil || w.count != 1 {
		t.Errorf("later %d writes: %v", w.count, err)
	}
}

func grow(t *testing.T, path, text string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}
