// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// workflow has the fields of a GitHub workflow that the tests need.
type workflow struct {
	On   map[string]any
	Jobs map[string]struct {
		Needs, Uses string
		Permissions map[string]string
		Strategy    struct{ Matrix struct{ Target []string } }
		Steps       []struct {
			ID, Name, Uses, Run string
		}
	}
}

// TestActionsArePinned: a tag of an action can be moved to other code, which would run with the rights to release; a commit cannot.
func TestActionsArePinned(t *testing.T) {
	pinned := regexp.MustCompile(`^[\w.-]+/[\w.-]+@[0-9a-f]{40} # v\d+(\.\d+)*$`)
	files, err := filepath.Glob(filepath.Join(root, ".github/workflows/*.y*ml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("there are no workflows: %v", err)
	}
	commits := map[string]string{}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			_, action, uses := strings.Cut(line, "uses:")
			if action = strings.TrimSpace(action); !uses || strings.HasPrefix(action, "./") {
				continue
			}
			name, commit, _ := strings.Cut(action, "@")
			if !pinned.MatchString(action) {
				t.Errorf("%s: %q is not OWNER/NAME@COMMIT # vVERSION", filepath.Base(file), action)
			} else if other, known := commits[name]; known && other != commit {
				t.Errorf("%s: %s is %s here and %s elsewhere", filepath.Base(file), name, commit, other)
			}
			commits[name] = commit
		}
	}
}

// asRoot runs a command as root with the variables and the programs of the runner.
const asRoot = `sudo -E env "PATH=$PATH" `

// makes returns the targets that a step makes.
func makes(run string) (targets string, is bool) {
	return strings.CutPrefix(strings.TrimPrefix(run, asRoot), "make ")
}

// A workflow runs tests as root, with keepalived installed: the suites of the node need both, and fail without.
func TestWorkflowsTestAsRoot(t *testing.T) {
	suites, tested := regexp.MustCompile(`\bmake\b.* (test|test-all|\$\{\{ matrix\.target \}\})`), 0
	for _, name := range []string{"beta", "change", "nightly", "release"} {
		var w workflow
		if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/"+name+".yaml")), &w); err != nil {
			t.Fatal(err)
		}
		for job, steps := range w.Jobs {
			installed := false
			for _, step := range steps.Steps {
				installed = installed || regexp.MustCompile(`\bsudo apt-get install\b.* keepalived\b`).MatchString(step.Run)
				if !suites.MatchString(" " + step.Run) {
					continue
				}
				tested++
				if !strings.HasPrefix(step.Run, asRoot) || !installed {
					t.Errorf("%s, job %s: %q runs without root or keepalived", name, job, step.Run)
				}
			}
		}
	}
	if tested < 2 {
		t.Errorf("%d steps run the suites, want those of a change and of the night", tested)
	}
}

// The release workflow runs targets, programs and files that exist, in an order in which each exists at its step.
func TestReleaseWorkflow(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/release.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	makefile := read(t, "Makefile")
	made, order := regexp.MustCompile(`\bmake((?: [a-z-]+)+)`), []string{}
	for _, step := range w.Jobs["release"].Steps {
		for _, targets := range made.FindAllStringSubmatch(step.Run, -1) {
			for target := range strings.FieldsSeq(targets[1]) {
				order = append(order, target)
				if !strings.Contains(makefile, "\n.PHONY: "+target+"\n") {
					t.Errorf("%q runs make %s, which there is not", step.Name, target)
				}
			}
		}
		for _, output := range regexp.MustCompile(`steps\.(\w+)\.`).FindAllStringSubmatch(step.Run, -1) {
			if !slices.ContainsFunc(w.Jobs["release"].Steps, func(s struct{ ID, Name, Uses, Run string }) bool { return s.ID == output[1] }) {
				t.Errorf("%q takes an output of %s, and no step is called so", step.Name, output[1])
			}
		}
		if strings.Contains(step.Run, "gh release create") {
			order = append(order, "publish")
		}
	}
	if check := w.Jobs["release"].Needs; w.Jobs[check].Uses != "./.github/workflows/change.yaml" {
		t.Errorf("the release needs the job %q, want one that checks it like a change", check)
	}
	want := []string{"image", "image-awssim", "chart", "programs", "publish"}
	if !slices.Equal(order, want) {
		t.Errorf("the workflow makes %v, want %v", order, want)
	}
	for permission, why := range map[string]string{"id-token": "signatures without keys", "attestations": "provenance", "packages": "the image", "contents": "the release"} {
		if w.Jobs["release"].Permissions[permission] != "write" {
			t.Errorf("the job may not write %s: %s", permission, why)
		}
	}
	for file := range strings.FieldsSeq("go.mod tools/helm/go.mod CHANGELOG.md") {
		if _, err := os.Stat(filepath.Join(root, file)); err != nil {
			t.Error(err)
		}
	}
}

// The workflow of sandbox branches builds the image with a target that exists, under tags that a registry accepts, and
// may write only packages.
func TestBetaWorkflow(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/beta.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	makefile, script := read(t, "Makefile"), ""
	for _, step := range w.Jobs["image"].Steps {
		if step.Name == "Image" {
			script = step.Run
		}
	}
	if !strings.Contains(makefile, "\n.PHONY: image\n") || w.Jobs["image"].Permissions["packages"] != "write" || w.Jobs["image"].Permissions["contents"] != "read" {
		t.Errorf("the job may %v", w.Jobs["image"].Permissions)
	}
	folder := t.TempDir()
	for name, text := range map[string]string{
		"make":   "#!/bin/sh\necho \"$@\" >>\"" + folder + "/calls\"\necho built\necho sha256:0a\n",
		"docker": "#!/bin/sh\necho \"$@\" >>\"" + folder + "/calls\"\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	command := exec.CommandContext(t.Context(), "bash", "-eo", "pipefail", "-c", script)
	command.Env = []string{"PATH=" + folder + ":" + os.Getenv("PATH"), "IMAGE=ghcr.io/o/r", "GITHUB_REF_NAME=sandbox/new things", "GITHUB_SHA=0123456789abcdef0123"}
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	calls, err := os.ReadFile(filepath.Join(folder, "calls"))
	want := "image VERSION=beta-sandbox-new-things.0123456789ab PUSH=ghcr.io/o/r:beta-sandbox-new-things.0123456789ab\n" +
		"buildx imagetools create --tag ghcr.io/o/r:beta-sandbox-new-things --tag ghcr.io/o/r:beta-latest ghcr.io/o/r@sha256:0a\n"
	if err != nil || string(calls) != want {
		t.Errorf("it calls\n%s, %v; want\n%s", calls, err, want)
	}
}

// The workflow for changes runs targets that exist.
func TestChangeWorkflow(t *testing.T) {
	var w workflow
	if err := yaml.Unmarshal([]byte(read(t, ".github/workflows/change.yaml")), &w); err != nil {
		t.Fatal(err)
	}
	makefile, ran := read(t, "Makefile"), []string{}
	for _, job := range []string{"check", "test"} {
		for _, step := range w.Jobs[job].Steps {
			if targets, is := makes(step.Run); is {
				ran = append(ran, strings.Fields(targets)...)
			}
		}
	}
	for _, target := range ran {
		if !strings.Contains(makefile, "\n.PHONY: "+target+"\n") {
			t.Errorf("it runs make %s, which there is not", target)
		}
	}
	if want := []string{"verify", "lint", "vuln", "test-all"}; !slices.Equal(ran, want) {
		t.Errorf("it makes %v, want %v", ran, want)
	}
}

// The nightly workflow runs all long forms, with targets that exist, on random cases of the day, and prints their
// seeds.
func TestNightlyWorkflow(t *testing.T) {
	var w workflow
	text := read(t, ".github/workflows/nightly.yaml")
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(text, "\n  schedule:\n  - cron: ") {
		t.Error("it has no schedule")
	}
	const drawn, chosen = `echo "SIM_FIRST=$(date -u +%Y%m%d)00001" | tee -a "$GITHUB_ENV"`, "${{ matrix.target }}"
	makefile, ran := read(t, "Makefile"), []string{}
	for name, job := range w.Jobs {
		draws := false
		for _, step := range job.Steps {
			draws = draws || strings.Contains(step.Run, drawn)
			target, is := makes(step.Run)
			switch {
			case !is:
			case !draws:
				t.Errorf("job %s runs make %s on cases that it does not print", name, target)
			case target == chosen:
				ran = append(ran, job.Strategy.Matrix.Target...)
			default:
				ran = append(ran, target)
			}
		}
	}
	for _, target := range ran {
		if !strings.Contains(makefile, "\n.PHONY: "+target+"\n") {
			t.Errorf("it runs make %s, which there is not", target)
		}
	}
	slices.Sort(ran)
	if want := []string{"fuzz", "mutants", "test-cases", "test-guest", "test-model", "test-node", "test-seeds", "test-soak", "test-versions"}; !slices.Equal(ran, want) {
		t.Errorf("it makes %v, want %v", ran, want)
	}
}

// The manifest for krew names the archives that `make programs` writes.
func TestKrewManifest(t *testing.T) {
	manifest := read(t, ".krew.yaml")
	named := regexp.MustCompile(`selector: \{matchLabels: \{os: (\w+), arch: (\w+)\}\}\n\s+\{\{addURIAndSha "[^"]+/kubectl-eni_\{\{ \.TagName \}\}_(\w+)_(\w+)\.tar\.gz" \.TagName \}\}\n\s+bin: kubectl-eni`).
		FindAllStringSubmatch(manifest, -1)
	var have []string
	for _, n := range named {
		if n[1] != n[3] || n[2] != n[4] {
			t.Errorf("for %s/%s the manifest names the archive of %s/%s", n[1], n[2], n[3], n[4])
		}
		have = append(have, n[1]+"/"+n[2])
	}
	_, rest, _ := strings.Cut(read(t, "Makefile"), "\nPLATFORMS := ")
	platforms, _, _ := strings.Cut(rest, "\n")
	if want := strings.Fields(platforms); !slices.Equal(have, want) || strings.Count(manifest, "selector:") != len(want) {
		t.Errorf("the manifest has %v, and make programs builds for %v", have, want)
	}
	if !strings.Contains(read(t, "Makefile"), "dist/$${program}_$(VERSION)_$${os}_$$arch.tar.gz") {
		t.Error("make programs gives its archives other names")
	}
}

// An archive of a release has the program of its name, multieni's for Linux also the agent. Only Linux has the programs
// for nodes and functions. The go command of the test compiles nothing.
func TestArchivesOfARelease(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"Makefile": read(t, "Makefile"),
		"LICENSE":  "license",
		"go":       "#!/bin/bash\nwhile [ \"$1\" != -o ]; do shift; done\nmkdir -p $2; for c in \"${@:3}\"; do echo $GOOS > $2/${c##*/}; done\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	build := exec.CommandContext(t.Context(), "make", "-C", dir, "programs", "VERSION=v1", "PLATFORMS=linux/arm64 darwin/amd64")
	build.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := map[string]string{}
	archives, err := filepath.Glob(filepath.Join(dir, "dist", "*.tar.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, archive := range archives {
		listed, err := exec.CommandContext(t.Context(), "tar", "tzf", archive).Output()
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(archive)] = strings.Join(strings.Fields(string(listed)), " ")
	}
	want := map[string]string{
		"multieni_v1_linux_arm64.tar.gz":       "multieni eni-manager LICENSE",
		"kubectl-eni_v1_linux_arm64.tar.gz":    "kubectl-eni LICENSE",
		"eni-bootstrap_v1_linux_arm64.tar.gz":  "eni-bootstrap LICENSE",
		"lifecycle-hook_v1_linux_arm64.tar.gz": "lifecycle-hook LICENSE",
		"multieni-cni_v1_linux_arm64.tar.gz":   "multieni-cni LICENSE",
		"awssim_v1_linux_arm64.tar.gz":         "awssim LICENSE",
		"awssim_v1_darwin_amd64.tar.gz":        "awssim LICENSE",
		"multieni_v1_darwin_amd64.tar.gz":      "multieni LICENSE",
		"kubectl-eni_v1_darwin_amd64.tar.gz":   "kubectl-eni LICENSE",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("archives (-want +got):\n%s", diff)
	}
}
