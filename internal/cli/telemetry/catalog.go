// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package telemetry sets up metrics and traces.
package telemetry

import "github.com/prometheus/client_golang/prometheus"

// Catalog returns the descriptions of all of multieni's own metrics, for the documents.
func Catalog() []*prometheus.Desc {
	registry := prometheus.NewRegistry()
	NewEC2Calls(registry)
	NewAttachTimes(registry)
	RegisterBuckets(registry, nil)
	RegisterClock(registry, nil)
	RegisterOwned(registry, Owned{})
	RegisterNodeENIs(registry, nil)
	RegisterBlocked(registry, nil)
	RegisterInterfaces(registry, nil)
	RegisterSubnets(registry, nil)
	RegisterNodeTemplates(registry, nil, nil)
	NewLifecycleEvents(registry)
	found := make(chan *prometheus.Desc)
	go func() {
		defer close(found)
		registry.Describe(found)
	}()
	var all []*prometheus.Desc
	for description := range found {
		all = append(all, description)
	}
	return all
}
