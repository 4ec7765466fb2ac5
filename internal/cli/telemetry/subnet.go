// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/multieni/multieni/internal/core/ipam"
)

type subnets struct {
	counts                             func() []ipam.SubnetCount
	free, addresses, freePrefixes, all *prometheus.Desc
}

// RegisterSubnets registers the gauges of the free IPv4 addresses and /28s of the subnets that the function returns.
func RegisterSubnets(registry prometheus.Registerer, counts func() []ipam.SubnetCount) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "subnet", name), help, []string{"subnet", "zone"}, nil)
	}
	registry.MustRegister(subnets{
		counts: counts,
		free: desc("free_addresses", "Free IPv4 addresses outside of reservations of a subnet that objects of the cluster "+
			"select, counted from its interfaces every 10 minutes if it has reservations, else by EC2. Prefixes can run out "+
			"earlier: see multieni_subnet_free_prefixes."),
		addresses: desc("addresses", "Addresses of that subnet without interfaces: of its IPv4 block, without the 5 that "+
			"EC2 keeps and without those in reservations."),
		freePrefixes: desc("free_prefixes", "Free /28s of a subnet in which NodeENIs need prefixes, counted from its "+
			"interfaces and reservations every 10 minutes."),
		all: desc("prefixes", "The /28s that EC2 could delegate in that subnet without interfaces: of reservations of type "+
			"prefix, or of the whole subnet without one."),
	})
}

// Describe implements [prometheus.Collector].
func (s subnets) Describe(descriptions chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.free, s.addresses, s.freePrefixes, s.all} {
		descriptions <- d
	}
}

// Collect implements [prometheus.Collector].
func (s subnets) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range s.counts() {
		gauge := func(desc *prometheus.Desc, value int) {
			metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), c.SubnetID, c.Zone)
		}
		gauge(s.free, c.Free)
		gauge(s.addresses, c.Addresses)
		if c.NeedsPrefixes {
			gauge(s.freePrefixes, c.FreePrefixes)
			gauge(s.all, c.Prefixes)
		}
	}
}
