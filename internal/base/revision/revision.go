// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package revision detects that etcd was restored from a backup.
//
// A restored etcd continues with the revision of the backup. An informer that has later revisions asks the API server
// for changes after its last one. The API server accepts the watch but sends nothing until etcd reaches that revision
// again. Until then the informer has the objects from before the restore. A restore breaks every watch, so this package
// checks when an informer watches again: one small list, about every eight minutes for each informer.
//
// It does not detect a restore after which etcd passes the informer's revision before the informer watches again. That
// takes half a minute at most, so the backup must be younger than that.
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

// Compare returns an error of reason Expired if the current resource version of a kind is lower than a known one. It
// compares only numeric versions, which the API servers of Kubernetes have. Source:
// https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions
func Compare(known, current string) error {
	order, err := resourceversion.CompareResourceVersion(current, known)
	if err != nil || order >= 0 {
		return nil //nolint:nilerr // a version that is not a number shows no restore
	}
	return apierrors.NewResourceExpired(
		fmt.Sprintf("the API server is at resource version %s, below the known %s: etcd was restored from a backup",
			current, known))
}

// Guard returns the source of an informer that compares the API server's current revision before each request that
// names one. If the revision is lower, Guard calls restored, and the request fails with [Compare]'s error, after which
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

// look compares a known resource version with that of a list that is consistent with etcd.
func (g guard) look(ctx context.Context, known string) error {
	if known == "" || known == "0" {
		return nil // any version is good enough
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
