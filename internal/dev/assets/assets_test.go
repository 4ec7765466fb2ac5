// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets_test

import (
	"context"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/multieni/multieni/internal/dev/assets"
)

// The tests build a small program instead of Kubernetes, which takes a second instead of minutes and has the same
// steps.
const (
	goMod = `module example.com/controlplane

go 1.26

require (
	go.etcd.io/etcd/server/v3 v3.7.0
	k8s.io/kubernetes v1.37.1
)

replace (
	go.etcd.io/etcd/server/v3 => ./etcd
	k8s.io/kubernetes => ./kubernetes
)
`
	mainGo = `package main

import ("fmt"; "os"; "path/filepath")

func main() { fmt.Println("I am", filepath.Base(os.Args[0])) }
`
)

// checkout creates a checkout with that program, enters a nested folder, and sets another cache folder. It returns the
// path of the program's source.
func checkout(t *testing.T) (mainFile string) {
	t.Helper()
	root := t.TempDir()
	module := filepath.Join(root, "dev", "controlplane")
	mainFile = filepath.Join(module, "main.go")
	write(t, filepath.Join(module, "go.mod"), goMod)
	write(t, filepath.Join(module, "go.sum"), "")
	write(t, filepath.Join(module, "etcd", "go.mod"), "module go.etcd.io/etcd/server/v3\n")
	write(t, filepath.Join(module, "kubernetes", "go.mod"), "module k8s.io/kubernetes\n")
	write(t, mainFile, mainGo)
	write(t, filepath.Join(root, "some", "package", "doc.go"), "package deep")
	t.Chdir(filepath.Join(root, "some", "package"))
	t.Setenv(assets.EnvAssets, "")
	t.Setenv(assets.EnvCache, filepath.Join(t.TempDir(), "cache"))
	t.Setenv(assets.EnvIndex, assets.NoIndex)
	return mainFile
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func dir(t *testing.T) string {
	t.Helper()
	dir, err := assets.Dir(t.Context(), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func built(t *testing.T, dir string) time.Time {
	t.Helper()
	return modified(t, filepath.Join(dir, assets.APIServer))
}

func modified(t *testing.T, file string) time.Time {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

func TestDirHoldsThePrograms(t *testing.T) {
	checkout(t)
	dir := dir(t)
	for _, name := range []string{assets.APIServer, assets.Etcd, assets.Kubectl} {
		said, err := exec.CommandContext(t.Context(), filepath.Join(dir, name)).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := string(said), "I am "+name+"\n"; got != want {
			t.Errorf("%s says %q, want %q", name, got, want)
		}
	}
	if name := filepath.Base(dir); !strings.HasPrefix(name, "v1.37.1-etcd3.7.0-") {
		t.Errorf("folder %s does not begin with the versions", name)
	}
}

func TestDirBuildsOnce(t *testing.T) {
	checkout(t)
	var (
		callers errgroup.Group
		dirs    [4]string
	)
	for i := range dirs {
		callers.Go(func() (err error) {
			dirs[i], err = assets.Dir(t.Context(), io.Discard)
			return err
		})
	}
	if err := callers.Wait(); err != nil {
		t.Fatal(err)
	}
	first := built(t, dirs[0])
	for _, dir := range append(dirs[:], dir(t)) {
		if dir != dirs[0] || !built(t, dir).Equal(first) {
			t.Errorf("%s was built at %s, %s at %s: want one build", dirs[0], first, dir, built(t, dir))
		}
	}
}

func TestDirBuildsAgainForOtherSource(t *testing.T) {
	mainFile := checkout(t)
	before := dir(t)
	write(t, mainFile, mainGo+"// changed\n")
	if after := dir(t); after == before {
		t.Errorf("%s serves two versions of the source", after)
	}
}

func TestDirRecoversFromAFailedBuild(t *testing.T) {
	mainFile := checkout(t)
	write(t, mainFile, "package main\n\nfunc main() { undefined() }\n")
	_, err := assets.Dir(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "main.go:3") {
		t.Fatalf("error is %v, want the compiler's", err)
	}
	write(t, mainFile, mainGo)
	dir(t)
}

func TestDirRecoversFromAnInterruptedBuild(t *testing.T) {
	checkout(t)
	whole := dir(t)
	if err := os.Rename(whole, whole+".partial"); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(whole+".partial", assets.Kubectl)); err != nil {
		t.Fatal(err)
	}
	if again := dir(t); again != whole {
		t.Errorf("built in %s, want %s", again, whole)
	}
}

func TestDirObeysItsContext(t *testing.T) {
	checkout(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if dir, err := assets.Dir(ctx, io.Discard); err == nil {
		t.Errorf("built %s after the context had ended", dir)
	}
}

func TestDirOfTheEnvironment(t *testing.T) {
	checkout(t)
	want := dir(t)
	t.Setenv(assets.EnvAssets, want)
	t.Setenv(assets.EnvCache, "/nowhere")
	t.Chdir("/")
	if got := dir(t); got != want {
		t.Errorf("folder is %s, want %s", got, want)
	}
}

func TestDirWithoutAWayToAnyPrograms(t *testing.T) {
	for name, tc := range map[string]struct{ assets, named string }{
		"outside a checkout":  {assets: "", named: assets.EnvAssets},
		"in an empty folder":  {assets: t.TempDir(), named: assets.APIServer},
		"in no folder at all": {assets: "/nowhere", named: assets.APIServer},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			t.Setenv(assets.EnvAssets, tc.assets)
			t.Setenv(assets.EnvIndex, assets.NoIndex)
			_, err := assets.Dir(t.Context(), io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.named) {
				t.Errorf("error is %v, want one that names %s", err, tc.named)
			}
		})
	}
}

// With equal versions the API server and its clients share most of their
// compiled packages, which halves the time of a first test run.
func TestProgramsAreOfTheVersionOfOurClients(t *testing.T) {
	t.Parallel()
	version := func(module, dependency string) string {
		file, err := os.ReadFile(filepath.Join(module, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`\s` + regexp.QuoteMeta(dependency) + ` (v\S+)`).FindSubmatch(file)
		if found == nil {
			t.Fatalf("%s/go.mod does not require %s", module, dependency)
		}
		return string(found[1])
	}
	const root, controlPlane = "../../..", "../../../dev/controlplane"
	if cni, want := version("../../../dev/cni", "k8s.io/client-go"), version(root, "k8s.io/client-go"); cni != want {
		t.Errorf("dev/cni has client-go at %s, want %s of this module", cni, want)
	}
	if kubelet, want := version("../../../dev/kubelet", "k8s.io/kubernetes"), version(controlPlane, "k8s.io/kubernetes"); kubelet != want {
		t.Errorf("dev/kubelet has Kubernetes at %s, want %s of dev/controlplane", kubelet, want)
	}
	clients := version(root, "k8s.io/client-go")
	if minor := strings.Split(strings.TrimPrefix(clients, "v0."), ".")[0]; strings.Split(assets.PrebuiltVersion(), ".")[1] != minor {
		t.Errorf("the prebuilt control plane is %s, and this module has client-go at %s: take its first release", assets.PrebuiltVersion(), clients)
	}
	for module, want := range map[string]string{
		"k8s.io/client-go":  clients,
		"k8s.io/kubernetes": "v1" + strings.TrimPrefix(clients, "v0"),
	} {
		if got := version(controlPlane, module); got != want {
			t.Errorf("dev/controlplane has %s at %s, want %s: this module has client-go at %s", module, got, want, clients)
		}
	}
}
