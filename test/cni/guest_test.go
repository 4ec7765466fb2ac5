// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/test/needs"
	"github.com/multieni/multieni/test/size"
)

// testsOfTheGuest are those that need no API server. They run once more in a virtual machine whose kernel has ipvlan.
var testsOfTheGuest = []string{
	"TestAPodWithTheWholeInterfacePings", "TestCheckFindsWhatIsMissing", "TestDelOfAPodThatIsGone", "TestDelRemovesRulesOfALinkThatStays",
	"TestHostDeviceGivesTheInterfaceToOnePod", "TestPodsOfTwoZonesPingEachOther", "TestRoutesOfAPod",
	"TestThreeNetworksOfOnePodHaveTheirOwnTables", "TestTwoHundredPodsStartAtOnce",
}

// TestPodsByIPVLAN runs tests of this package in a virtual machine, with the CNI project's plugin ipvlan in place of
// macvlan. QEMU emulates the processor, so the test runs everywhere.
func TestPodsByIPVLAN(t *testing.T) {
	size.NeedsLong(t, "the virtual machine takes minutes")
	needs.Programs(t, "qemu-system-x86_64", "cpio", "apt-get", "dpkg-deb") // of qemu-system-x86 and cpio
	g := guest{t, t.TempDir()}
	kernel := g.unpackKernel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	machine := exec.CommandContext(ctx, "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-m", "1024", "-nographic", "-no-reboot",
		"-kernel", kernel, "-initrd", g.initialFiles(filepath.Dir(filepath.Dir(kernel))), "-append",
		"console=ttyS0 quiet panic=-1 -- -test.v -test.run=^("+strings.Join(testsOfTheGuest, "|")+")$")
	console, err := machine.CombinedOutput()
	if err != nil || !bytes.Contains(console, []byte("GUEST RESULT ok")) {
		t.Fatalf("the virtual machine failed: %v\n%s", err, console)
	}
	for _, test := range testsOfTheGuest {
		if !bytes.Contains(console, []byte("--- PASS: "+test+" ")) {
			t.Errorf("%s did not run:\n%s", test, console)
		}
	}
}

// guest builds the virtual machine in a folder.
type guest struct {
	*testing.T
	dir string
}

func (g guest) run(dir, program string, arguments ...string) string {
	g.Helper()
	command := exec.CommandContext(g.Context(), program, arguments...)
	command.Dir, command.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	output, err := command.CombinedOutput()
	if err != nil {
		g.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, output)
	}
	return string(output)
}

// unpackKernel returns the path of the kernel of Debian's or Ubuntu's package for virtual machines, unpacked and not installed.
func (g guest) unpackKernel() string {
	g.Helper()
	packages := filepath.Join(g.dir, "packages")
	g.must(os.Mkdir(packages, 0o777))
	g.must(os.Chmod(packages, 0o777)) // apt-get downloads as another user
	meta := "linux-image-cloud-amd64"
	if exec.CommandContext(g.Context(), "apt-cache", "show", meta).Run() != nil {
		meta = "linux-image-virtual"
	}
	names := regexp.MustCompile(`linux-(image|modules)-\d\S*`).FindAllString(g.run("", "apt-cache", "depends", "--recurse", "--no-recommends",
		"--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances", meta), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) == 0 {
		g.Fatalf("no package with a kernel: run apt-get update")
	}
	g.run(packages, "apt-get", append([]string{"download"}, names...)...)
	all, err := filepath.Glob(filepath.Join(packages, "*.deb"))
	g.must(err)
	root := filepath.Join(g.dir, "kernel")
	for _, one := range all {
		g.run("", "dpkg-deb", "-x", one, root)
	}
	kernels, err := filepath.Glob(filepath.Join(root, "boot", "vmlinuz-*"))
	g.must(err)
	if len(kernels) == 0 {
		g.Fatalf("%v have no kernel", names)
	}
	return kernels[0]
}

// initialFiles returns the path of the initial file system: the tests, the CNI programs, the kernel's modules under the folder, and
// the programs that the tests call, with their libraries.
func (g guest) initialFiles(kernelRoot string) string {
	g.Helper()
	root := filepath.Join(g.dir, "root")
	for _, folder := range []string{"bin", "cni", "plugins", "modules", "proc", "sys", "dev", "tmp", "run"} {
		g.must(os.MkdirAll(filepath.Join(root, folder), 0o755))
	}
	g.run("", "go", "build", "-o", filepath.Join(root, "init"), "./guest")
	g.run("", "go", "test", "-c", "-o", filepath.Join(root, "bin", "cni.test"), ".")
	folders, err := programs()
	g.must(err)
	for n, into := range []string{"cni", "plugins"} {
		g.run("", "cp", "-rL", folders[n]+"/.", filepath.Join(root, into))
	}
	for _, program := range []string{"sh", "grep", "ip", "ping", "cat"} {
		g.copyProgram(root, program)
	}
	g.must(filepath.WalkDir(kernelRoot, func(path string, _ fs.DirEntry, err error) error {
		name, compression, _ := strings.Cut(filepath.Base(path), ".ko")
		if unpack := map[string]string{"": "cat", ".xz": "xz -dc", ".zst": "zstd -dc"}[compression]; slices.Contains([]string{"veth", "macvlan", "ipvlan"}, name) {
			g.run("", "sh", "-c", fmt.Sprintf("%s %q > %q", unpack, path, filepath.Join(root, "modules", name+".ko")))
		}
		return err
	}))
	archive := filepath.Join(g.dir, "initial.img")
	g.run(root, "sh", "-c", fmt.Sprintf("find . | cpio --quiet -o -H newc > %q", archive))
	return archive
}

// copyProgram copies a program of the host and the libraries that it loads.
func (g guest) copyProgram(root, name string) {
	g.Helper()
	path, err := exec.LookPath(name)
	g.must(err)
	g.run("", "cp", "-L", path, filepath.Join(root, "bin"))
	libraries, _ := exec.CommandContext(g.Context(), "ldd", path).Output() // it fails for a static program
	for _, library := range regexp.MustCompile(`/\S+`).FindAllString(string(libraries), -1) {
		g.must(os.MkdirAll(filepath.Join(root, filepath.Dir(library)), 0o755))
		g.run("", "cp", "-L", library, filepath.Join(root, library))
	}
}

func (g guest) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}
