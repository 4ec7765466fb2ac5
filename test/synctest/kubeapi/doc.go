// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is a Kubernetes API server in memory, for tests in a testing/synctest bubble, where a socket would
// keep time from passing: the unmodified informers, clients, event recorders and leader election of client-go talk to
// its [Server.Config] as they do to a real one.
//
// It behaves as Kubernetes documents it (Kubernetes API concepts) in all that a controller can observe: resource
// versions and conflicts, generations, finalizers, preconditions, JSON merge patches, and watches with initial events,
// bookmarks, timeouts and a bounded history. It does not have defaults of schemas, admission, access control, and
// server-side apply of anything but a status. test/apiserver tests those.
//
// The files: kinds.go lists the served kinds and answers discovery, store.go keeps the objects, patch.go changes them,
// watch.go reports changes, and transport.go is the protocol.
package kubeapi
