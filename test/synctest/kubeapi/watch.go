// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The types of watch events.
const (
	added    = "ADDED"
	modified = "MODIFIED"
	deleted  = "DELETED"
)

// change is one change of an object, with the object after it or, for a deletion, before it.
type change struct {
	happened  string
	namespace string
	version   int64
	*object
}

func (c change) line() []byte { return line(c.happened, c.encoded) }

func line(happened string, encoded []byte) []byte {
	return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", happened, encoded)
}

// bookmark returns the event with the version that a watch has reached.
func (c *collection) bookmark(version int64, initialEventsEnd bool) []byte {
	annotations := ""
	if initialEventsEnd {
		annotations = fmt.Sprintf(`,"annotations":{%q:"true"}`, metav1.InitialEventsAnnotationKey)
	}
	return line("BOOKMARK", fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q,"metadata":{"resourceVersion":"%d"%s}}`,
		c.GroupVersion, c.name, version, annotations))
}

// tell records a change and sends it to all watches.
func (c *collection) tell(happened change) {
	c.changes = append(c.changes, happened)
	if len(c.changes) > 2*history {
		c.forgotten = c.changes[history-1].version
		c.changes = append([]change(nil), c.changes[history:]...)
	}
	text := happened.line()
	for w := range c.watches {
		if w.matches(happened.namespace, happened.GetName()) {
			w.send(text)
		}
	}
}

// scope is the objects of a watch: those of a namespace and of a name; empty ones mean all.
type scope struct{ namespace, name string }

func (s scope) matches(namespace, name string) bool {
	return (s.namespace == "" || s.namespace == namespace) && (s.name == "" || s.name == name)
}

// interest has the parameters of a watch.
type interest struct {
	scope
	// after is the version after which changes are requested; 0 requests all existing objects first.
	after int64
	// initialEvents requests all existing objects first, and then a bookmark.
	initialEvents bool
	bookmarks     bool
	// timeout is how long the watch lasts.
	timeout time.Duration
}

// watch begins a watch. Its body ends with the watch.
func (s *Server) watch(ctx context.Context, c *collection, i interest) (io.ReadCloser, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	everything := i.initialEvents || i.after == 0
	if !everything && i.after < c.forgotten {
		return nil, apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", i.after, c.forgotten))
	}
	w := newStream(i.scope)
	if everything {
		for _, o := range c.in(i.namespace) {
			if i.matches(o.GetNamespace(), o.GetName()) {
				w.send(line(added, o.encoded))
			}
		}
	} else {
		for _, happened := range c.changes {
			if happened.version > i.after && i.matches(happened.namespace, happened.GetName()) {
				w.send(happened.line())
			}
		}
	}
	if i.initialEvents {
		w.send(c.bookmark(s.version, true))
	}
	c.watches[w] = true
	timer := time.AfterFunc(i.timeout, func() { s.finish(c, w, i.bookmarks) })
	stopWatching := context.AfterFunc(ctx, func() { w.end(ctx.Err()) })
	w.onClose = func() {
		timer.Stop()
		stopWatching()
		s.forget(c, w)
	}
	return w, nil
}

// finish ends a watch without an error.
func (s *Server) finish(c *collection, w *stream, bookmark bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if bookmark {
		w.send(c.bookmark(s.version, false))
	}
	delete(c.watches, w)
	w.end(io.EOF)
}

func (s *Server) forget(c *collection, w *stream) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(c.watches, w)
}

// stream is the body of a watch's response. Events wait in memory until they are read.
type stream struct {
	scope
	onClose func()

	mu     sync.Mutex
	news   sync.Cond
	unread bytes.Buffer
	ended  error
}

func newStream(of scope) *stream {
	w := &stream{scope: of}
	w.news.L = &w.mu
	return w
}

func (w *stream) send(text []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.unread.Write(text)
		w.news.Broadcast()
	}
}

// end makes reads return the error once everything is read. Only the first end counts.
func (w *stream) end(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended == nil {
		w.ended = err
		w.news.Broadcast()
	}
}

// Read is part of [io.Reader].
func (w *stream) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.unread.Len() == 0 && w.ended == nil {
		w.news.Wait()
	}
	if w.unread.Len() == 0 {
		return 0, w.ended
	}
	return w.unread.Read(p)
}

// Close is part of [io.Closer].
func (w *stream) Close() error {
	w.end(io.ErrClosedPipe)
	w.onClose()
	return nil
}
