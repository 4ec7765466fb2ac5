// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodekeeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pollPeriod is the delay after which a change of an instance is visible on its node.
const pollPeriod = 250 * time.Millisecond

// A Keeper maintains nodes until it is stopped.
type Keeper struct {
	instances func() []Instance
	nodes     cache.Cache
	writer    client.Client
	logger    *slog.Logger
	synced    chan struct{}
}

// New returns a keeper for the nodes of instances in the cluster of config. It calls instances several times a second.
func New(config *rest.Config, instances func() []Instance, logger *slog.Logger) (*Keeper, error) {
	simulated := labels.SelectorFromSet(labels.Set{Label: "true"})
	nodes, err := cache.New(config, cache.Options{
		ByObject: map[client.Object]cache.ByObject{&corev1.Node{}: {Label: simulated}},
	})
	if err != nil {
		return nil, fmt.Errorf("watch simulated nodes: %w", err)
	}
	writer, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client for simulated nodes: %w", err)
	}
	return &Keeper{instances: instances, nodes: nodes, writer: writer, logger: logger, synced: make(chan struct{})}, nil
}

// Synced is closed when each instance that ran at the beginning has its node.
func (k *Keeper) Synced() <-chan struct{} { return k.synced }

// Run keeps the nodes until ctx ends. A write that fails is logged and tried
// again.
func (k *Keeper) Run(ctx context.Context) error {
	if _, err := k.nodes.GetInformer(ctx, &corev1.Node{}); err != nil {
		return fmt.Errorf("watch simulated nodes: %w", err)
	}
	watch := make(chan error, 1)
	go func() { watch <- k.nodes.Start(ctx) }()
	k.nodes.WaitForCacheSync(ctx)
	ticks := time.NewTicker(pollPeriod)
	defer ticks.Stop()
	for first := k.synced; ; {
		switch err := k.sync(ctx); {
		case err == nil && first != nil:
			close(first)
			first = nil
		case err != nil && ctx.Err() == nil:
			k.logger.Warn("simulated nodes are behind their instances", "error", err)
		}
		select {
		case <-ticks.C:
		case err := <-watch: // ends with ctx
			return err
		}
	}
}

// sync executes one plan.
func (k *Keeper) sync(ctx context.Context) error {
	var list corev1.NodeList
	if err := k.nodes.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list simulated nodes: %w", err)
	}
	nodes := make([]*corev1.Node, len(list.Items))
	for i := range list.Items {
		nodes[i] = &list.Items[i]
	}
	changes := Plan(k.instances(), nodes, time.Now())
	// The list may lag behind our own writes for a moment: a repeated write is no error.
	var errs []error
	for _, node := range changes.Create {
		errs = append(errs, client.IgnoreAlreadyExists(k.writer.Create(ctx, node)))
	}
	for _, node := range changes.Report {
		errs = append(errs, client.IgnoreNotFound(k.report(ctx, node)))
	}
	for _, node := range changes.Delete {
		uid := client.Preconditions{UID: &node.UID}
		errs = append(errs, client.IgnoreNotFound(k.writer.Delete(ctx, node, uid)))
	}
	return errors.Join(errs...)
}

// report merges the Ready condition into the node's status; conditions that
// others set stay.
func (k *Keeper) report(ctx context.Context, node *corev1.Node) error {
	without := node.DeepCopy()
	without.Status.Conditions = slices.DeleteFunc(without.Status.Conditions, isReady)
	return k.writer.Status().Patch(ctx, node, client.StrategicMergeFrom(without))
}
