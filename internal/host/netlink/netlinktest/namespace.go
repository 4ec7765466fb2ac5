// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

// Package netlinktest creates network namespaces for tests: one represents a node, others the VPC, and pairs of virtual
// links between them represent network interfaces. The tests never change their own namespace.
package netlinktest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/test/needs"
)

// Namespace is a network namespace. It ends with the test.
type Namespace struct {
	tb    testing.TB
	inner *namespace.Namespace
	// mounted is the file that NewMounted mounted the namespace on; empty for other namespaces.
	mounted string
}

// New creates a network namespace with only a loopback link, which is up. If that is not possible, the test ends with
// the reason.
func New(tb testing.TB) *Namespace {
	tb.Helper()
	needs.Namespaces(tb, namespace.Possible())
	inner, err := namespace.New()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = inner.Close() })
	return &Namespace{tb: tb, inner: inner}
}

// NewMounted creates a network namespace that is mounted on a file, as runtimes create those of pods. No other file
// takes its path after it ends.
func NewMounted(tb testing.TB) *Namespace {
	tb.Helper()
	n := New(tb)
	n.mounted = filepath.Join(tb.TempDir(), "netns")
	err := os.WriteFile(n.mounted, nil, 0o600)
	if err == nil {
		err = unix.Mount(n.inner.Path(), n.mounted, "", unix.MS_BIND, "")
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(n.unmount)
	return n
}

func (n *Namespace) unmount() {
	if n.mounted != "" {
		_ = unix.Unmount(n.mounted, unix.MNT_DETACH)
		_ = os.Remove(n.mounted)
	}
}

// Do runs f on a thread in the namespace. Goroutines that f starts run in other namespaces.
func (n *Namespace) Do(f func()) {
	if err := n.inner.Do(f); err != nil {
		n.tb.Error(err)
	}
}

// DoContained is Do as in a container without privileges: f has only the given capabilities, and /proc/sys is
// read-only.
func (n *Namespace) DoContained(f func(), capabilities ...int) {
	n.Do(func() {
		if err := contain(capabilities); err != nil {
			n.tb.Errorf("contain the thread: %v", err)
			return
		}
		f()
	})
}

func contain(capabilities []int) error {
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("/proc/sys", "/proc/sys", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount("", "/proc/sys", "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		return err
	}
	var sets [2]unix.CapUserData
	for _, c := range capabilities {
		sets[c/32].Effective |= 1 << (c % 32)
		sets[c/32].Permitted |= 1 << (c % 32)
	}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &sets[0])
}

// Path returns a path of the namespace that other processes can open.
func (n *Namespace) Path() string {
	if n.mounted != "" {
		return n.mounted
	}
	return n.inner.Path()
}

// End ends the namespace, with all its contents, before the test ends.
func (n *Namespace) End() {
	n.unmount()
	_ = n.inner.Close()
}

// IP runs ip(8) in the namespace with the arguments, which are separated by spaces, and returns what it prints.
func (n *Namespace) IP(arguments string) string {
	n.tb.Helper()
	output, err := n.inner.IP(arguments)
	if err != nil {
		n.tb.Fatal(err)
	}
	return output
}

// Attach attaches an interface with the MAC address to the node, as EC2 does: a link appears there, and is down. Its
// other end appears in the VPC under the name peer, and is up.
func (n *Namespace) Attach(name, mac string, vpc *Namespace, peer string) {
	n.tb.Helper()
	if err := n.inner.Attach(name, mac, vpc.inner, peer); err != nil {
		n.tb.Fatal(err)
	}
}

// Give moves a link into another namespace.
func (n *Namespace) Give(name string, to *Namespace) {
	n.tb.Helper()
	n.IP(fmt.Sprintf("link set %s netns %s", name, to.inner.Path()))
}

// volatile matches output of ip that is not part of the configuration.
var volatile = regexp.MustCompile(` (tentative|(valid|preferred)_lft \S+|link-netns \S+|link-netnsid \d+|qlen \d+|state \S+|expires \S+|pref \S+|qdisc \S+)`)

// State returns the whole state of the namespace as ip(8) prints it, as sorted text.
func (n *Namespace) State() string {
	n.tb.Helper()
	var lines []string
	for _, list := range []string{"-o link", "-o address", "-4 rule", "-6 rule", "-4 route show table all",
		"-6 route show table all"} {
		for line := range strings.Lines(strings.ReplaceAll(n.IP(list), "\\", "")) {
			lines = append(lines, list+": "+strings.Join(strings.Fields(volatile.ReplaceAllString(line, "")), " "))
		}
	}
	lines = append(lines, n.settings()...)
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// settings returns the settings of every link, those of IPv4 and IPv6.
func (n *Namespace) settings() []string {
	var output []byte
	var err error
	n.Do(func() {
		output, err = exec.CommandContext(context.Background(), "sh", "-c",
			"cd /proc/sys/net && grep -r . ipv4/conf ipv6/conf 2>/dev/null | grep -v stable_secret").Output()
	})
	if err != nil {
		n.tb.Fatalf("read settings: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(output)), "\n")
}
