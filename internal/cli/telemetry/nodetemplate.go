// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// NodeTemplate has the counts of an AWSNodeTemplate's nodes.
type NodeTemplate struct {
	Nodes int
	// Drifted counts nodes by their first differing field.
	Drifted map[string]int
	// ReadAt is when the referenced launch template was last read; zero without one.
	ReadAt time.Time
}

type nodeTemplates struct {
	all                  func() map[string]NodeTemplate
	now                  func() time.Time
	nodes, drifted, read *prometheus.Desc
}

// RegisterNodeTemplates registers the gauges of the AWSNodeTemplates that the function returns by name.
func RegisterNodeTemplates(registry prometheus.Registerer, all func() map[string]NodeTemplate, now func() time.Time) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "awsnodetemplate", name), help,
			append([]string{"awsnodetemplate"}, labels...), nil)
	}
	registry.MustRegister(nodeTemplates{
		all: all, now: now,
		nodes: desc("nodes", "Nodes that were launched from the AWSNodeTemplate."),
		drifted: desc("drifted_nodes", "Nodes that differ from the current AWSNodeTemplate, by the first "+
			"differing field.", "field"),
		read: desc("source_age_seconds",
			"Time since the last read of the launch template that launchTemplateRef names; its alias can be outdated by that."),
	})
}

// Describe implements [prometheus.Collector].
func (t nodeTemplates) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{t.nodes, t.drifted, t.read} {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (t nodeTemplates) Collect(metrics chan<- prometheus.Metric) {
	for name, s := range t.all() {
		metrics <- prometheus.MustNewConstMetric(t.nodes, prometheus.GaugeValue, float64(s.Nodes), name)
		for field, count := range s.Drifted {
			metrics <- prometheus.MustNewConstMetric(t.drifted, prometheus.GaugeValue, float64(count), name, field)
		}
		if !s.ReadAt.IsZero() {
			metrics <- prometheus.MustNewConstMetric(t.read, prometheus.GaugeValue, t.now().Sub(s.ReadAt).Seconds(), name)
		}
	}
}
