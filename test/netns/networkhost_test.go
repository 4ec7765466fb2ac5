// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/test/needs"
)

const (
	networkdProgram = "/lib/systemd/systemd-networkd"
	udevProgram     = "/lib/systemd/systemd-udevd"
)

// networkHost runs systemd-networkd, and the programs that it needs, in a network namespace and with folders of its own.
type networkHost struct {
	*netlinktest.Namespace
	t *testing.T
	// run, etc, lib and rules are mounted on /run, /etc/systemd/network, /usr/lib/systemd/network and /etc/udev/rules.d.
	run, etc, lib, rules string
	// library makes links look like those of EC2.
	library string
	// holder is the process that keeps the mounts.
	holder int
	// endNetworkd ends systemd-networkd, which writes to networkdLog.
	endNetworkd func()
	networkdLog string
	starts      int
}

// mounts gives the process folders of its own, and then keeps them. Links are in the sysfs of their network namespace.
// udevd must be able to write there, else networkd does not wait for it.
const mounts = `mount --bind "$0/run" /run && mount --bind "$0/etc" /etc/systemd/network &&
mount --bind "$0/lib" /usr/lib/systemd/network && mount --bind "$0/rules" /etc/udev/rules.d &&
mount -t sysfs -o "$1" sysfs /sys && echo mounted && exec sleep infinity`

// newNetworkHost makes a host with the files. With udev, networkd learns of links as on a host: after systemd-udevd has
// applied its rules.
func newNetworkHost(t *testing.T, namespace *netlinktest.Namespace, files fs.FS, library string, udev bool) *networkHost {
	t.Helper()
	dir := t.TempDir()
	h := &networkHost{Namespace: namespace, t: t, library: library, run: filepath.Join(dir, "run"), etc: filepath.Join(dir, "etc"),
		lib: filepath.Join(dir, "lib"), rules: filepath.Join(dir, "rules")}
	for _, folder := range []string{h.run + "/systemd/network", h.run + "/systemd/networkd.conf.d", h.run + "/dbus", h.etc, h.lib, h.rules} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.CopyFS(dir, files); err != nil {
		t.Fatal(err)
	}
	sysfs := map[bool]string{true: "rw", false: "ro"}[udev]
	holder := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, dir, sysfs)
	output, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	h.start(holder)
	if _, err := bufio.NewReader(output).ReadString('\n'); err != nil {
		t.Fatalf("the folders of the host could not be mounted: %v", err)
	}
	h.holder = holder.Process.Pid
	if udev {
		h.program("dbus-daemon", "--system", "--nofork", "--nopidfile", "--nosyslog")
		h.program(udevProgram)
		for _, socket := range []string{"/udev/control", "/dbus/system_bus_socket"} {
			h.eventually("there is "+socket, func() error { _, err := os.Stat(h.run + socket); return err })
		}
	}
	h.startNetworkd()
	if udev {
		h.reload()
	}
	return h
}

// start starts a command in the network namespace, and ends it with the test. end ends it earlier.
func (h *networkHost) start(command *exec.Cmd) (end func()) {
	h.t.Helper()
	var err error
	h.Do(func() { err = command.Start() })
	if err != nil {
		h.t.Fatal(err)
	}
	ended := false
	end = func() {
		if !ended {
			ended = true
			_ = command.Process.Signal(syscall.SIGTERM)
			_ = command.Wait()
		}
	}
	h.t.Cleanup(end)
	return end
}

// inside is a command with the folders of the host.
func (h *networkHost) inside(name string, arguments ...string) *exec.Cmd {
	command := exec.Command("nsenter", append([]string{"--target", strconv.Itoa(h.holder), "--mount", "--net", name}, arguments...)...)
	command.Env = []string{"PATH=" + os.Getenv("PATH"), "LD_PRELOAD=" + h.library, "SYSTEMD_LOG_TARGET=console", "SYSTEMD_LOG_LEVEL=info"}
	return command
}

// logFile returns the log of the program that was started last.
func (h *networkHost) logFile(program string) string {
	return filepath.Join(filepath.Dir(h.run), fmt.Sprintf("%d-%s.log", h.starts, filepath.Base(program)))
}

// program starts a program of the host. The test that fails shows what it logs.
func (h *networkHost) program(name string, arguments ...string) (end func()) {
	h.t.Helper()
	h.starts++
	log, err := os.Create(h.logFile(name))
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = log.Close() })
	command := h.inside(name, arguments...)
	command.Stdout, command.Stderr = log, log
	return h.start(command)
}

func (h *networkHost) startNetworkd() {
	h.endNetworkd = h.program(networkdProgram)
	h.networkdLog = h.logFile(networkdProgram)
}

// acquires waits until networkd has a lease for the link since its last start.
func (h *networkHost) acquires(link string) {
	h.t.Helper()
	h.eventually("networkd has a lease for "+link, func() error {
		log, err := os.ReadFile(h.networkdLog)
		if err == nil && !bytes.Contains(log, []byte(link+": DHCPv4 address ")) {
			err = errors.New("its log has none")
		}
		return err
	})
}

// restartNetworkd restarts systemd-networkd, which knows no link before it has looked.
func (h *networkHost) restartNetworkd() {
	h.t.Helper()
	h.endNetworkd()
	if err := os.RemoveAll(filepath.Join(h.run, "systemd/netif/links")); err != nil {
		h.t.Fatal(err)
	}
	h.startNetworkd()
}

// reload makes networkd read its files. networkd does not answer before it is on the bus.
func (h *networkHost) reload() {
	h.t.Helper()
	h.eventually("networkd reads its files", func() error { _, err := h.command("networkctl", "reload"); return err })
}

// command runs a program of the host, and returns what it prints.
func (h *networkHost) command(name string, arguments ...string) (string, error) {
	output, err := h.inside(name, arguments...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(arguments, " "), err, output)
	}
	return string(output), err
}

// eventually waits until there is no error: other programs have no other signal.
func (h *networkHost) eventually(what string, check func() error) {
	h.t.Helper()
	for begin := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		err := check()
		if err == nil {
			return
		}
		if time.Since(begin) > patience {
			h.t.Fatalf("it is not so that %s: %v\n%s", what, err, h.logs())
		}
	}
}

// logs returns the end of all logs.
func (h *networkHost) logs() string {
	paths, _ := filepath.Glob(filepath.Join(filepath.Dir(h.run), "*.log"))
	var all strings.Builder
	for _, path := range paths {
		content, _ := os.ReadFile(path)
		lines := strings.Split(strings.TrimSpace(string(content)), "\n")
		fmt.Fprintf(&all, "%s\n%s\n", filepath.Base(path), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	return all.String()
}

// management is what networkd says about a link.
type management struct{ state, file string }

// managed returns how networkd manages a link (its private file, which networkctl reads).
func (h *networkHost) managed(link string) (management, error) {
	var m management
	index, _, found := strings.Cut(h.IP("-o link show dev "+link), ":")
	content, err := os.ReadFile(filepath.Join(h.run, "systemd/netif/links", index))
	if err != nil || !found {
		return m, errors.Join(err, errors.New("networkd does not know the link"))
	}
	for line := range strings.Lines(string(content)) {
		switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
		case "ADMIN_STATE":
			m.state = value
		case "NETWORK_FILE":
			m.file = value
		}
	}
	return m, nil
}

func requireHostPrograms(t *testing.T) {
	t.Helper()
	needs.Programs(t, "gcc", "unshare", "nsenter", "dbus-daemon", "networkctl", networkdProgram, udevProgram)
}

// buildENA compiles the library that makes links look like those of EC2.
func buildENA(t *testing.T) string {
	t.Helper()
	library := filepath.Join(t.TempDir(), "ena.so")
	source, err := hostFiles.ReadFile("testdata/hostnetwork/ena.c")
	if err != nil {
		t.Fatal(err)
	}
	compile := exec.Command("gcc", "-shared", "-fPIC", "-o", library, "-x", "c", "-")
	compile.Stdin = bytes.NewReader(source)
	if output, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("compile the library: %v\n%s", err, output)
	}
	return library
}
