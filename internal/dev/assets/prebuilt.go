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

// patience is the time limit for the index, and for the archive to send data, before Dir compiles the programs instead.
var patience = 5 * time.Second

// prebuiltDir returns the folder of prebuilt programs for this machine.
func prebuiltDir(cache string) string {
	return filepath.Join(cache, "controlplane", "prebuilt-"+thisMachine().BaseName(prebuiltVersion))
}

func thisMachine() versions.Platform {
	return versions.Platform{OS: runtime.GOOS, Arch: runtime.GOARCH}
}

// fetch writes the programs that the index lists to dir, if their archive has the checksum of the index.
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
	partial := dir + ".partial" // the files of an interrupted download may still exist
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
	// GetVersion compares the checksum, because it is set for the platform.
	if err := client.GetVersion(ctx, prebuiltVersion, platform, &monitored{archive, silence}); err != nil {
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

// unpack writes the programs of the archive to dir, which is created by renaming: it is complete or does not exist.
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

// monitored passes written data on, and records that there was some.
type monitored struct {
	io.Writer
	silence *time.Timer
}

func (h *monitored) Write(p []byte) (int, error) {
	h.silence.Reset(patience)
	return h.Writer.Write(p)
}

// causeOf returns the cause of the context's end, if it has ended, and otherwise the error.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return context.Cause(ctx)
	}
	return err
}
