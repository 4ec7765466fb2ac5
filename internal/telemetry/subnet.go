// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ipam"
)

type subnets struct {
	all         func() []eni.Subnet
	free, total *prometheus.Desc
}

// RegisterSubnets registers the gauges of the IPv4 addresses of the subnets that the function returns. They omit a
// subnet without an IPv4 block.
func RegisterSubnets(registry prometheus.Registerer, all func() []eni.Subnet) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "subnet", name), help, []string{"subnet", "zone"}, nil)
	}
	registry.MustRegister(subnets{
		all: all,
		free: desc("free_addresses", "Free IPv4 addresses of a subnet that objects of the cluster select, as EC2 "+
			"counted them at the last read, up to 30 minutes ago. "+
			"Prefixes can run out earlier: see multieni_subnet_free_prefixes."),
		total: desc("addresses", "Size of the IPv4 block of a subnet that objects of the cluster select, in "+
			"addresses; EC2 keeps 5 of them."),
	})
}

// Describe implements [prometheus.Collector].
func (s subnets) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- s.free
	descriptions <- s.total
}

// Collect implements [prometheus.Collector].
func (s subnets) Collect(metrics chan<- prometheus.Metric) {
	for _, subnet := range s.all() {
		if !subnet.CIDR.IsValid() {
			continue
		}
		size := 1 << (32 - subnet.CIDR.Bits())
		metrics <- prometheus.MustNewConstMetric(s.free, prometheus.GaugeValue, float64(subnet.FreeIPv4),
			subnet.ID, subnet.Zone)
		metrics <- prometheus.MustNewConstMetric(s.total, prometheus.GaugeValue, float64(size), subnet.ID, subnet.Zone)
	}
}

type prefixes struct {
	counts    func() []ipam.PrefixCount
	free, all *prometheus.Desc
}

// RegisterPrefixes registers the gauges of the /28s of the subnets that the function returns.
func RegisterPrefixes(registry prometheus.Registerer, counts func() []ipam.PrefixCount) {
	desc := func(name, help string) *prometheus.Desc {
		return prometheus.NewDesc(prometheus.BuildFQName(namespace, "subnet", name), help, []string{"subnet", "zone"}, nil)
	}
	registry.MustRegister(prefixes{
		counts: counts,
		free: desc("free_prefixes", "Free /28s of a subnet in which NodeENIs need prefixes, counted from its interfaces and "+
			"reservations every 10 minutes."),
		all: desc("prefixes", "The /28s that EC2 could delegate in that subnet without interfaces: of reservations of type "+
			"prefix, or of the whole subnet without one."),
	})
}

// Describe implements [prometheus.Collector].
func (p prefixes) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- p.free
	descriptions <- p.all
}

// Collect implements [prometheus.Collector].
func (p prefixes) Collect(metrics chan<- prometheus.Metric) {
	for _, c := range p.counts() {
		metrics <- prometheus.MustNewConstMetric(p.free, prometheus.GaugeValue, float64(c.Free), c.SubnetID, c.Zone)
		metrics <- prometheus.MustNewConstMetric(p.all, prometheus.GaugeValue, float64(c.All), c.SubnetID, c.Zone)
	}
}
