// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package networkd_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/host/networkd"
)

// host is a folder in place of /run/systemd, with a networkd that records the files it reads.
type host struct {
	networkd.Manager
	t     *testing.T
	log   bytes.Buffer
	reads [][]string
	err   error
}

func newHost(t *testing.T, folders ...string) *host {
	t.Helper()
	h := &host{t: t}
	h.Manager = networkd.Manager{Run: t.TempDir(), Log: slog.New(slog.NewTextHandler(&h.log, nil)), Reload: func(context.Context) error {
		h.reads = append(h.reads, h.files())
		return h.err
	}}
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(h.Run, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *host) files() (names []string) {
	h.t.Helper()
	all, err := os.ReadDir(filepath.Join(h.Run, "network"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		h.t.Fatal(err)
	}
	for _, file := range all {
		names = append(names, file.Name())
	}
	return names
}

const one, other = "02:00:00:00:00:01", "02:00:00:00:00:02"

const fileOfOne, fileOfOther = "00-multieni-020000000001.network", "00-multieni-020000000002.network"

// The file of a link exists before the link, and networkd reads it then. networkd is reloaded only when a file changed.
func TestLeave(t *testing.T) {
	h := newHost(t, "netif")
	h.Leave(t.Context(), one)
	h.Leave(t.Context(), other)
	h.Leave(t.Context(), other)
	h.LeaveOnly(t.Context(), []string{one, other})
	if diff := cmp.Diff([][]string{{fileOfOne}, {fileOfOne, fileOfOther}}, h.reads); diff != "" {
		t.Errorf("networkd read (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(filepath.Join(h.Run, "network", fileOfOne))
	if err != nil || !strings.Contains(string(text), "PermanentMACAddress="+one) || !strings.Contains(string(text), "Unmanaged=yes") {
		t.Errorf("%v: %s", err, text)
	}
}

// LeaveOnly removes the files for links that are no longer desired, and keeps the files of other programs.
func TestLeaveOnly(t *testing.T) {
	h := newHost(t, "netif", "network")
	const theirs = "70-eks-ens6.network"
	if err := os.WriteFile(filepath.Join(h.Run, "network", theirs), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.LeaveOnly(t.Context(), []string{one, other})
	h.LeaveOnly(t.Context(), []string{other})
	if diff := cmp.Diff([][]string{{fileOfOne, fileOfOther, theirs}, {fileOfOther, theirs}}, h.reads); diff != "" {
		t.Errorf("networkd read (-want +got):\n%s", diff)
	}
}

func TestAHostWithoutNetworkd(t *testing.T) {
	h := newHost(t)
	h.Leave(t.Context(), one)
	h.LeaveOnly(t.Context(), []string{one})
	if len(h.reads) > 0 || len(h.files()) > 0 || h.log.Len() > 0 {
		t.Errorf("read %q, files %q, log %s", h.reads, h.files(), &h.log)
	}
}

// The log reports a networkd that does not answer, and the boot continues.
func TestNetworkdFails(t *testing.T) {
	h := newHost(t, "netif")
	h.err = errors.New("it is not there")
	h.Leave(t.Context(), one)
	if !strings.Contains(h.log.String(), "it is not there") {
		t.Errorf("log %q", &h.log)
	}
}
