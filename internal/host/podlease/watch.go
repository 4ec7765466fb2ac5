// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package podlease

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/fsnotify/fsnotify"

	"github.com/multieni/multieni/internal/base/panics"
)

// Watch reports changes of leases by any process.
type Watch struct {
	pods    string
	watcher *fsnotify.Watcher
	events  chan struct{}
}

// OpenWatch returns a watch of interfaces in the folder of all networks, at first of none. The kernel bounds the
// watches of a node (inotify(7), "max_user_instances").
func OpenWatch(pods string) (*Watch, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch the leases of pods: %w", err)
	}
	w := &Watch{pods: pods, watcher: watcher, events: make(chan struct{}, 1)}
	go func() {
		for open := true; open; {
			_ = panics.AsError("the events of leases", func() error {
				open = w.next()
				return nil
			})
		}
	}()
	return w, nil
}

// Watch reports the changes of the leases of an interface from now on. Its folder must exist; the watch ends with the
// folder.
func (w *Watch) Watch(network, eni string) error {
	return w.watcher.Add(filepath.Join(w.pods, network, eni))
}

// Events sends a value after changes.
func (w *Watch) Events() <-chan struct{} { return w.events }

// Close ends the watch.
func (w *Watch) Close() { _ = w.watcher.Close() }

// next waits for one event, and reports whether there are further ones. After an error, which means that events were
// lost, the leases may have changed.
func (w *Watch) next() bool {
	select {
	case event, open := <-w.watcher.Events:
		// The store renames each draft to the name of the lease.
		if !open || !event.Has(fsnotify.Create) || strings.HasPrefix(filepath.Base(event.Name), draftPrefix) {
			return open
		}
	case _, open := <-w.watcher.Errors:
		if !open {
			return false
		}
	}
	select {
	case w.events <- struct{}{}:
	default: // one is pending already
	}
	return true
}
