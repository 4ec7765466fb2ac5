// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// AttachTimes measures how long nodes wait for their interfaces.
type AttachTimes struct{ seconds prometheus.Histogram }

// NewAttachTimes registers the metric.
func NewAttachTimes(registry prometheus.Registerer) *AttachTimes {
	m := &AttachTimes{prometheus.NewHistogram(prometheus.HistogramOpts{
		Namespace: namespace, Name: "attach_duration_seconds",
		Help: "Time from the first plan with an interface on a node to the plan that finds it attached. " +
			"It includes waits for EC2 and for its request rate, but not time in which a user must act.",
		Buckets: []float64{0.5, 1, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600},
	})}
	registry.MustRegister(m.seconds)
	return m
}

// Observe records one interface that a plan just found attached.
func (m *AttachTimes) Observe(took time.Duration) { m.seconds.Observe(took.Seconds()) }

// blocked counts blocked interfaces by reason.
type blocked struct {
	counts      func() map[string]int
	description *prometheus.Desc
}

// RegisterBlocked registers the gauge of blocked interfaces. The function counts them by reason.
func RegisterBlocked(registry prometheus.Registerer, counts func() map[string]int) {
	registry.MustRegister(blocked{counts, prometheus.NewDesc(prometheus.BuildFQName(namespace, "", "blocked_interfaces"),
		"Desired network interfaces that nodes do not get, by reason; docs/troubleshooting.md explains each.",
		[]string{"reason"}, nil)})
}

// Describe implements [prometheus.Collector].
func (b blocked) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- b.description }

// Collect implements [prometheus.Collector].
func (b blocked) Collect(metrics chan<- prometheus.Metric) {
	for reason, count := range b.counts() {
		metrics <- prometheus.MustNewConstMetric(b.description, prometheus.GaugeValue, float64(count), reason)
	}
}

// states counts the interfaces of each NodeENI by state.
type states struct {
	counts     func() map[string]map[string]int
	interfaces *prometheus.Desc
}

// RegisterNodeENIs registers the gauges of NodeENIs. The function counts interfaces by the name of their NodeENI and by
// state.
func RegisterNodeENIs(registry prometheus.Registerer, counts func() map[string]map[string]int) {
	registry.MustRegister(states{counts, prometheus.NewDesc(prometheus.BuildFQName(namespace, "nodeeni", "interfaces"),
		"Network interfaces of a NodeENI by state: desired, attached, ready, blocked, and drifted, which only a "+
			"replacement can correct.",
		[]string{"nodeeni", "state"}, nil)})
}

// Describe implements [prometheus.Collector].
func (s states) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- s.interfaces }

// Collect implements [prometheus.Collector].
func (s states) Collect(metrics chan<- prometheus.Metric) {
	for nodeENI, counts := range s.counts() {
		for state, count := range counts {
			metrics <- prometheus.MustNewConstMetric(s.interfaces, prometheus.GaugeValue, float64(count), nodeENI, state)
		}
	}
}

// Interface is an attached interface, as metrics name it.
type Interface struct{ Node, NodeENI, MAC, ENI string }

// interfaces has one series for each attached interface.
type interfaces struct {
	attached    func() []Interface
	description *prometheus.Desc
}

// RegisterInterfaces registers the metric that says to which NodeENI the interface with a MAC address belongs. Metrics
// of other programs that know the MAC address of a link can be joined with it.
func RegisterInterfaces(registry prometheus.Registerer, attached func() []Interface) {
	registry.MustRegister(interfaces{attached, prometheus.NewDesc(prometheus.BuildFQName(namespace, "interface", "info"),
		"1 for each attached network interface; the MAC address is that of its link, to join it with metrics of links. "+
			"Only the leader has it.",
		[]string{"node", "nodeeni", "mac", "eni"}, nil)})
}

// Describe implements [prometheus.Collector].
func (i interfaces) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- i.description }

// Collect implements [prometheus.Collector].
func (i interfaces) Collect(metrics chan<- prometheus.Metric) {
	for _, one := range i.attached() {
		metrics <- prometheus.MustNewConstMetric(i.description, prometheus.GaugeValue, 1, one.Node, one.NodeENI, one.MAC,
			one.ENI)
	}
}
