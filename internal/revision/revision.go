// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision notices that etcd was restored from a backup.
//
// Revisions of a restored etcd go on from that of the backup. An informer that saw later ones asks the API server for
// what comes after the last of them. The API server accepts the watch and sends nothing until etcd has counted that far
// again, and the informer shows objects as they were before the restore. A restore breaks every watch, so the time to
// look is when an informer watches again: one small list, about every eight minutes for each informer.
//
// Not noticed is a restore after which etcd counts past the informer's revision before it watches again, which takes
// half a minute at most: a backup that is younger than that.
package revision

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Compare returns an error of reason Expired if the current resource version of a kind is lower than one that is known.
// Versions that are no numbers are not compared: the API servers of Kubernetes have numbers.
// Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
func Compare(known, current string) error {
	order, err := resourceversion.CompareResourceVersion(current, known)
	if err != nil || order >= 0 {
		return nil //nolint:nilerr // what cannot be compared shows no restore
	}
	return apierrors.NewResourceExpired(
		fmt.Sprintf("the API server is at resource version %s, and %s was seen: etcd was restored from a backup",
			current, known))
}

// Guard returns the source of an informer that compares the API server's current revision before each request that
// names one. If the revision went back, Guard calls restored, and the request fails with [Compare]'s error, after which
// an informer lists everything again.
func Guard(source cache.ListerWatcher, restored func(error)) cache.ListerWatcher {
	g := guard{source: cache.ToListerWatcherWithContext(source), restored: restored}
	return cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: g.list,
		WatchFuncWithContext: g.watch}, source)
}

type guard struct {
	source   cache.ListerWatcherWithContext
	restored func(error)
}

func (g guard) list(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if err := g.look(ctx, options.ResourceVersion); err != nil {
		return nil, err
	}
	return g.source.ListWithContext(ctx, options)
}

func (g guard) watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	if err := g.look(ctx, options.ResourceVersion); err != nil {
		return nil, err
	}
	return g.source.WatchWithContext(ctx, options)
}

// look compares a known resource version with that of a list that no cache may answer from the past.
func (g guard) look(ctx context.Context, known string) error {
	if known == "" || known == "0" {
		return nil // any will do
	}
	list, err := g.source.ListWithContext(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	answer, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	if err := Compare(known, answer.GetResourceVersion()); err != nil {
		g.restored(err)
		return err
	}
	return nil
}
