// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/store"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/versions"
)

// prebuiltVersion is the release of the programs that setup-envtest's index has. Its minor version is that of our
// clients, and the index has the first release of every minor version.
var prebuiltVersion = versions.Concrete{Major: 1, Minor: 37, Patch: 0}

// patience is how long the index may take, and how long the archive may send nothing, before the programs are compiled
// instead.
var patience = 5 * time.Second

// prebuiltDir is where prebuilt programs for this machine are kept.
func prebuiltDir(cache string) string {
	return filepath.Join(cache, "controlplane", "prebuilt-"+thisMachine().BaseName(prebuiltVersion))
}

func thisMachine() versions.Platform {
	return versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// fetch leaves in dir the programs that the index lists, once their archive has the checksum that the index says.
func fetch(ctx context.Context, index, dir string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(patience, func() { cancel(fmt.Errorf("no answer for %s", patience)) })
	defer silence.Stop()

	client := &remote.HTTPClient{Log: logr.Discard(), IndexURL: index}
	platform, err := listed(ctx, client)
	if err != nil {
		return causeOf(ctx, err)
	}
	partial := dir + ".partial" // what an interrupted download left may still be there
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	defer os.RemoveAll(partial)
	if err := os.MkdirAll(partial, 0o755); err != nil {
		return err
	}
	archive, err := os.Create(filepath.Join(partial, "archive"))
	if err != nil {
		return err
	}
	defer archive.Close()
	silence.Reset(patience)
	// GetVersion compares the checksum, because the platform has one.
	if err := client.GetVersion(ctx, prebuiltVersion, platform, &heard{archive, silence}); err != nil {
		return causeOf(ctx, err)
	}
	silence.Stop()
	return unpack(ctx, archive, partial, dir)
}

// listed finds the archive for this machine in the index, with its checksum.
func listed(ctx context.Context, client remote.Client) (versions.PlatformItem, error) {
	sets, err := client.ListVersions(ctx)
	if err != nil {
		return versions.PlatformItem{}, err
	}
	for _, set := range sets {
		at := slices.IndexFunc(set.Platforms, func(p versions.PlatformItem) bool { return p.Platform == thisMachine() })
		if set.Version == prebuiltVersion && at >= 0 && set.Platforms[at].Hash != nil {
			return set.Platforms[at], nil
		}
	}
	return versions.PlatformItem{}, fmt.Errorf("the index has no %s", thisMachine().ArchiveName(prebuiltVersion))
}

// unpack leaves the programs of the archive in dir, which appears by renaming: it is whole or it is not there.
func unpack(ctx context.Context, archive io.ReadSeeker, partial, dir string) error {
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return err
	}
	item := store.Item{Version: prebuiltVersion, Platform: thisMachine()}
	unpacked := store.NewAt(partial)
	if err := unpacked.Add(logr.NewContext(ctx, logr.Discard()), item, archive); err != nil {
		return err
	}
	path, err := unpacked.Path(item)
	if err != nil {
		return err
	}
	if err := os.Chmod(path, 0o755); err != nil { // the store makes it read-only, which forbids to move it
		return err
	}
	if err := checkPrograms(path); err != nil {
		return err
	}
	return os.Rename(path, dir)
}

// heard passes on what is written, and notes that something was.
type heard struct {
	io.Writer
	silence *time.Timer
}

func (h *heard) Write(p []byte) (int, error) {
	h.silence.Reset(patience)
	return h.Writer.Write(p)
}

// causeOf is why the context ended, if it did, and else the error.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}
