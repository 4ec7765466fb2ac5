// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package networkd writes files that make systemd-networkd ignore interfaces.
package networkd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// Keep writes one file for each MAC address into the folder, and removes other files of multieni. It reports whether it
// changed any.
func Keep(dir string, macs []string) (changed bool, err error) {
	want := map[string]string{}
	for _, mac := range macs {
		name, text, err := hostnet.Networkd(mac)
		if err != nil {
			return false, err
		}
		want[name] = text
	}
	present, err := filepath.Glob(filepath.Join(dir, hostnet.NetworkdFiles))
	if err != nil {
		return false, err
	}
	for _, path := range present {
		if _, wanted := want[filepath.Base(path)]; !wanted {
			if err := os.Remove(path); err != nil {
				return changed, fmt.Errorf("remove the file of an interface that is gone: %w", err)
			}
			changed = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		replaced, err := Replace(filepath.Join(dir, name), []byte(want[name]))
		if err != nil {
			return changed, fmt.Errorf("keep systemd-networkd off an interface: %w", err)
		}
		changed = changed || replaced
	}
	return changed, nil
}

// Replace atomically replaces the content of a file, and reports whether it differed.
func Replace(path string, content []byte) (replaced bool, err error) {
	if present, err := os.ReadFile(path); err == nil && bytes.Equal(present, content) {
		return false, nil
	}
	draft, err := os.CreateTemp(filepath.Dir(path), ".multieni-*")
	if err != nil {
		return false, err
	}
	_, err = draft.Write(content)
	err = errors.Join(err, draft.Chmod(0o644), draft.Close())
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return false, errors.Join(err, os.Remove(draft.Name()))
	}
	return true, nil
}

// reloadTime is the time limit for systemd-networkd to read its files.
const reloadTime = 10 * time.Second

// Manager is the systemd-networkd of a booting host. A reboot removes its files, and the boot creates them again. At a
// reboot Amazon Linux 2023 of EKS waits until networkd has configured the links that it configured at the previous boot
// (nodeadm-boot-hook); for a link that networkd must ignore, it gives up after a minute.
type Manager struct {
	// Run is the folder /run/systemd. If it has no folder netif, there is no networkd, and Manager does nothing.
	Run string
	// Reload makes networkd read its files; nil runs networkctl.
	Reload func(context.Context) error
	Log    *slog.Logger
}

// Leave makes networkd ignore the link with the MAC address, in addition to those of earlier calls. The link need not
// exist yet. Leave logs its errors and returns none: the agent removes an address that networkd adds to the link.
func (m Manager) Leave(ctx context.Context, mac string) {
	m.change(ctx, func(dir string) (bool, error) {
		name, text, err := hostnet.Networkd(mac)
		if err != nil {
			return false, err
		}
		return Replace(filepath.Join(dir, name), []byte(text))
	})
}

// LeaveOnly makes networkd ignore the links with these MAC addresses, and removes other files of multieni.
func (m Manager) LeaveOnly(ctx context.Context, macs []string) {
	m.change(ctx, func(dir string) (bool, error) { return Keep(dir, macs) })
}

func (m Manager) change(ctx context.Context, change func(dir string) (bool, error)) {
	if _, err := os.Stat(filepath.Join(m.Run, "netif")); errors.Is(err, fs.ErrNotExist) {
		return
	}
	dir := filepath.Join(m.Run, "network")
	err := os.MkdirAll(dir, 0o755)
	changed := false
	if err == nil {
		changed, err = change(dir)
	}
	if err == nil && changed {
		err = m.reload(ctx)
	}
	if err != nil {
		m.Log.Warn("systemd-networkd may give addresses to interfaces that are to have none", "err", err)
	}
}

func (m Manager) reload(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, reloadTime)
	defer cancel()
	if m.Reload != nil {
		return m.Reload(ctx)
	}
	if said, err := exec.CommandContext(ctx, "networkctl", "reload").CombinedOutput(); err != nil {
		return fmt.Errorf("networkctl reload: %w: %s", err, bytes.TrimSpace(said))
	}
	return nil
}
