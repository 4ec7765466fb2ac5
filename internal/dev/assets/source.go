// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Modules of dev/controlplane whose versions name a build.
const (
	kubernetesModule = "k8s.io/kubernetes"
	etcdModule       = "go.etcd.io/etcd/server/v3"
)

// ownModfile is the module file with the release of Kubernetes whose libraries multieni uses.
const ownModfile = "go.mod"

// source is the module dev/controlplane of one checkout, with one of its module files.
type source struct {
	dir        string // absolute path
	modfile    string // name
	kubernetes string // version, "v1.37.1"
	etcd       string // version, "v3.7.0"
	digest     string // over the module's files and the toolchain that compiles them
}

// findSource looks for dev/controlplane in the working directory and above.
func findSource(ctx context.Context, modfile string) (source, error) {
	dir, err := findModule("controlplane")
	if err != nil {
		return source{}, fmt.Errorf("%w: work in one, or set %s to a folder with %s", err, EnvAssets,
			strings.Join(programs(), ", "))
	}
	versions, err := requirements(ctx, dir, modfile)
	if err != nil {
		return source{}, err
	}
	digest, err := digest(ctx, dir, modfile, strings.TrimSuffix(modfile, ".mod")+".sum", "main.go")
	if err != nil {
		return source{}, err
	}
	return source{
		dir:        dir,
		modfile:    modfile,
		kubernetes: versions[kubernetesModule],
		etcd:       versions[etcdModule],
		digest:     digest,
	}, nil
}

// findModule looks for the module dev/NAME in the working directory and above.
func findModule(name string) (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		module := filepath.Join(dir, "dev", name)
		if _, err := os.Stat(filepath.Join(module, "go.mod")); err == nil {
			return module, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not in a checkout of multieni, which holds their source", start)
		}
	}
}

// key names a build: the versions are for users, the digest makes the key unique.
func (s source) key() string {
	return fmt.Sprintf("%s-etcd%s-%s", s.kubernetes, strings.TrimPrefix(s.etcd, "v"), s.digest[:12])
}

func (s source) ldflags() string { return versionFlags(s.kubernetes) }

// versionFlags gives programs of Kubernetes the version of their module; other programs ignore it. Without it an API
// server has version v0.0.0-master, which clients do not handle well.
func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version"
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	return fmt.Sprintf("-s -w -X %[1]s.gitVersion=%[2]s -X %[1]s.gitMajor=%[3]s -X %[1]s.gitMinor=%[4]s",
		pkg, version, major, minor)
}

// requirements returns the version of each module that a module file of dir requires.
func requirements(ctx context.Context, dir, modfile string) (map[string]string, error) {
	out, err := runGo(ctx, dir, "mod", "edit", "-json", modfile)
	if err != nil {
		return nil, err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(out, &mod); err != nil {
		return nil, fmt.Errorf("read the requirements of %s: %w", filepath.Join(dir, modfile), err)
	}
	versions := make(map[string]string, len(mod.Require))
	for _, r := range mod.Require {
		versions[r.Path] = r.Version
	}
	return versions, nil
}

// digest covers all inputs of the build: the module's files, the Go version and the platform.
func digest(ctx context.Context, dir string, files ...string) (string, error) {
	toolchain, err := runGo(ctx, dir, "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	sum.Write(toolchain)
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(sum, "%s %d\n%s", name, len(content), content)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// runGo returns the output of a go command in dir.
func runGo(ctx context.Context, dir string, args ...string) ([]byte, error) {
	out, err := goCommand(ctx, dir, args...).Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, fmt.Errorf("run go %s: %w", args[0], err)
	}
	return out, nil
}
