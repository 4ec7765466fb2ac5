// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// nodeENIs tells how the fleet stands with each NodeENI, by what their statuses say at the moment.
type nodeENIs struct {
	reader     client.Reader
	interfaces *prometheus.Desc
}

// RegisterNodeENIs registers the gauges of NodeENIs. The reader is a cache.
func RegisterNodeENIs(registry prometheus.Registerer, reader client.Reader) {
	registry.MustRegister(nodeENIs{reader, prometheus.NewDesc(prometheus.BuildFQName(namespace, "nodeeni", "interfaces"),
		"Network interfaces of a NodeENI by how they stand: desired, attached, ready, blocked, and drifted, which differ in what only a new interface can mend.",
		[]string{"nodeeni", "standing"}, nil)})
}

// Describe implements [prometheus.Collector].
func (n nodeENIs) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- n.interfaces }

// Collect implements [prometheus.Collector]. While the NodeENIs cannot be read there is nothing to tell.
func (n nodeENIs) Collect(metrics chan<- prometheus.Metric) {
	var all v1alpha1.NodeENIList
	if err := n.reader.List(context.Background(), &all, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for _, nodeENI := range all.Items {
		for standing, count := range map[string]int32{
			"desired": nodeENI.Status.Desired, "attached": nodeENI.Status.Attached, "ready": nodeENI.Status.Ready,
			"blocked": nodeENI.Status.Blocked, "drifted": nodeENI.Status.Drifted,
		} {
			metrics <- prometheus.MustNewConstMetric(n.interfaces, prometheus.GaugeValue, float64(count), nodeENI.Name, standing)
		}
	}
}
