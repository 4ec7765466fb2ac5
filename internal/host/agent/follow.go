// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/rest"
)

// writtenFor is longer than a watch takes to show a write.
const writtenFor = 10 * time.Second

// kubeObject is an object of the API server.
type kubeObject interface {
	runtime.Object
	metav1.Object
}

// followers are the watched objects of a kind. The agent watches each object by its name, because the API server
// dispatches only such watches without work for every agent.
type followers[T kubeObject] struct {
	api    *API
	client rest.Interface
	// resource is the name of the kind, and blank returns an empty object of it.
	resource string
	blank    func() T
	// mu guards all: the watched objects by name. One goroutine at a time works on each.
	mu  sync.Mutex
	all map[string]*follower[T]
	// running are the watches.
	running sync.WaitGroup
}

// follower is a watched object.
type follower[T kubeObject] struct {
	object
	stop context.CancelFunc
	// written is the object as this process wrote it, or read it past the watch, at a time. It counts until the watch has
	// that version. After writtenFor the process reads the object: the watch misses one that is deleted soon.
	written *T
	at      time.Time
}

func newFollowers[T kubeObject](api *API, client rest.Interface, resource string, blank func() T) *followers[T] {
	return &followers[T]{api: api, client: client, resource: resource, blank: blank, all: map[string]*follower[T]{}}
}

// follow watches the named objects too, and returns the names of all that are watched, sorted.
func (f *followers[T]) follow(ctx context.Context, names ...string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, name := range names {
		if f.all[name] != nil {
			continue
		}
		one := &follower[T]{object: f.api.object(f.client, f.resource, name, f.blank())}
		ctx, stop := context.WithCancel(ctx)
		one.stop = stop
		f.running.Go(func() { one.informer.RunWithContext(ctx) })
		f.all[name] = one
	}
	return slices.Sorted(maps.Keys(f.all))
}

// leave ends the watch of an object.
func (f *followers[T]) leave(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if one := f.all[name]; one != nil {
		one.stop()
		delete(f.all, name)
	}
}

func (f *followers[T]) one(name string) *follower[T] {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all[name]
}

// get returns the newest known version of a watched object; found is false if there is none. It reads the object itself
// while the watch has not begun. Callers must not change the object.
func (f *followers[T]) get(ctx context.Context, name string) (newest T, found bool, err error) {
	one := f.one(name)
	if one == nil {
		return newest, false, nil
	}
	stored, _, _ := one.store.GetByKey(name) // it fails only for objects without a name
	watched, has := stored.(T)
	switch {
	case one.written != nil && isOlder(watched, has, *one.written):
		if time.Since(one.at) < writtenFor {
			return *one.written, true, nil
		}
		return f.read(ctx, name)
	case !one.informer.HasSynced():
		return f.read(ctx, name)
	}
	one.written = nil
	return watched, has, nil
}

// isOlder reports whether a watch has an earlier version of an object than a known one, or none.
func isOlder[T kubeObject](watched T, has bool, known T) bool {
	if !has {
		return true
	}
	order, err := resourceversion.CompareResourceVersion(watched.GetResourceVersion(), known.GetResourceVersion())
	return err == nil && order < 0
}

// read reads an object past its watch.
func (f *followers[T]) read(ctx context.Context, name string) (now T, found bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	now = f.blank()
	err = f.client.Get().Resource(f.resource).Name(name).Do(ctx).Into(now)
	if apierrors.IsNotFound(err) {
		f.forget(name)
		return now, false, nil
	}
	if err != nil {
		return now, false, err
	}
	now.SetManagedFields(nil)
	f.note(now)
	return now, true, nil
}

// note keeps the version of an object that an answer of the API server had.
func (f *followers[T]) note(object T) {
	if one := f.one(object.GetName()); one != nil {
		one.written, one.at = &object, time.Now()
	}
}

// forget drops what is known past the watch of an object.
func (f *followers[T]) forget(name string) {
	if one := f.one(name); one != nil {
		one.written = nil
	}
}
