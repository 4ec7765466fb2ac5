// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kubeapi is a Kubernetes API server in memory, for tests in a testing/synctest bubble, where a socket would
// keep time from passing: the unmodified informers, clients, event recorders and leader election of client-go talk to
// its [Server.Config] as they do to a real one.
//
// What a controller can tell is as Kubernetes documents it (Kubernetes API concepts): resource versions and conflicts,
// generations, finalizers, preconditions, JSON merge patches, watches with initial events, bookmarks, a time after
// which they end, and a history that is forgotten. What it does not do: schemas with their defaults and validation,
// admission, access control, pages of a list, and server-side apply with more than one field owner. Those are what
// test/apiserver is for.
//
// The reading tour: kinds.go says what is served and answers discovery, store.go keeps the objects, patch.go changes
// them, watch.go tells of changes, and transport.go is the protocol.
package kubeapi
