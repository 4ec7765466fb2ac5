// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import "github.com/prometheus/client_golang/prometheus"

// standings tells how the fleet stands with each NodeENI.
type standings struct {
	counts     func() map[string]map[string]int
	interfaces *prometheus.Desc
}

// RegisterNodeENIs registers the gauges of NodeENIs. The function counts interfaces by the name of their NodeENI and by how
// they stand.
func RegisterNodeENIs(registry prometheus.Registerer, counts func() map[string]map[string]int) {
	registry.MustRegister(standings{counts, prometheus.NewDesc(prometheus.BuildFQName(namespace, "nodeeni", "interfaces"),
		"Network interfaces of a NodeENI by how they stand: desired, attached, ready, blocked, and drifted, which differ in what only a new interface can mend.",
		[]string{"nodeeni", "standing"}, nil)})
}

// Describe implements [prometheus.Collector].
func (s standings) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- s.interfaces }

// Collect implements [prometheus.Collector].
func (s standings) Collect(metrics chan<- prometheus.Metric) {
	for nodeENI, counts := range s.counts() {
		for standing, count := range counts {
			metrics <- prometheus.MustNewConstMetric(s.interfaces, prometheus.GaugeValue, float64(count), nodeENI, standing)
		}
	}
}
