// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

const namespace = "multieni"

// EC2Calls counts and times the requests to EC2.
type EC2Calls struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
	waited   *prometheus.HistogramVec
}

// NewEC2Calls registers the metrics.
func NewEC2Calls(registry prometheus.Registerer) *EC2Calls {
	m := &EC2Calls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "ec2", Name: "requests_total",
			Help: "Requests to EC2 by action and EC2's error code; the code is empty for success and \"none\" when " +
				"no answer arrived.",
		}, []string{"action", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "ec2", Name: "request_duration_seconds",
			Help:    "Time from sending a request to EC2 until the complete answer, by action.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}, []string{"action"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "ec2", Name: "request_wait_seconds",
			Help: "Time that requests to EC2 waited in the queue, by the priority of their work: attach, removal, " +
				"update, read.",
			Buckets: prometheus.ExponentialBuckets(0.01, 3, 11),
		}, []string{"priority"}),
	}
	registry.MustRegister(m.requests, m.duration, m.waited)
	return m
}

// Observe records one request.
func (m *EC2Calls) Observe(call awsec2.Call) {
	code := call.Code
	if code == "" && call.Class == eni.Transient {
		code = "none"
	}
	m.requests.WithLabelValues(call.Action, code).Inc()
	m.duration.WithLabelValues(call.Action).Observe(call.Duration.Seconds())
	m.waited.WithLabelValues(call.Priority.String()).Observe(call.Waited.Seconds())
}

// buckets has the metrics of EC2's token buckets, which are read at each scrape.
type buckets struct {
	read    func() []awsec2.BucketState
	metrics []bucketMetric
}

type bucketMetric struct {
	description *prometheus.Desc
	value       func(awsec2.BucketState) float64
}

// RegisterBuckets registers the metrics of EC2's token buckets.
func RegisterBuckets(registry prometheus.Registerer, read func() []awsec2.BucketState) {
	b := &buckets{read: read}
	add := func(name, help string, value func(awsec2.BucketState) float64) {
		description := prometheus.NewDesc(prometheus.BuildFQName(namespace, "ec2", name), help, []string{"action"}, nil)
		b.metrics = append(b.metrics, bucketMetric{description, value})
	}
	add("bucket_tokens", "Requests of an action that the controller can send at once.",
		func(s awsec2.BucketState) float64 { return s.Level })
	add("bucket_rate", "Current maximum of requests per second of an action.",
		func(s awsec2.BucketState) float64 { return min(s.Share, ratelimit.MaxShare) * s.Refill })
	add("bucket_share", "Current maximum part of EC2's request rate for an action that the controller uses; it "+
		"falls when EC2 throttles and rises otherwise.",
		func(s awsec2.BucketState) float64 { return min(s.Share, ratelimit.MaxShare) })
	add("requests_waiting", "Requests of an action that wait in the queue.",
		func(s awsec2.BucketState) float64 { return float64(s.Waiting) })
	add("requests_in_flight", "Requests of an action without an answer yet.",
		func(s awsec2.BucketState) float64 { return float64(s.InFlight) })
	registry.MustRegister(b)
}

// Describe implements [prometheus.Collector].
func (b *buckets) Describe(to chan<- *prometheus.Desc) {
	for _, m := range b.metrics {
		to <- m.description
	}
}

// Collect implements [prometheus.Collector].
func (b *buckets) Collect(to chan<- prometheus.Metric) {
	for _, s := range b.read() {
		for _, m := range b.metrics {
			to <- prometheus.MustNewConstMetric(m.description, prometheus.GaugeValue, m.value(s), s.Action)
		}
	}
}

// RegisterClock registers the difference between EC2's clock and the controller's.
func RegisterClock(registry prometheus.Registerer, ahead func() time.Duration) {
	registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Subsystem: "ec2", Name: "clock_ahead_seconds",
		Help: "How far EC2's clock was ahead of the controller's at its last answer, in whole seconds; negative if behind.",
	}, func() float64 { return ahead().Seconds() }))
}

// Owned has the metrics of the interfaces that the cluster owns.
type Owned struct {
	// All is the number of owned interfaces. Leaked ones are unattached, and no NetworkInterface has them. Unverified ones
	// are attached without one: they are left alone, because nothing says that no pod uses them. Orphaned is the number of
	// NetworkInterfaces whose NodeENI does not exist.
	All, Unattached, Leaked, Unverified, Orphaned func() int
	// CreationBlocked reports whether too many are unattached to create more.
	CreationBlocked func() bool
	// Refused is the number of NetworkInterfaces and NodeENIs that the API server refuses to store.
	Refused func() int
}

// RegisterOwned registers the gauges of the interfaces the cluster owns.
func RegisterOwned(registry prometheus.Registerer, owned Owned) {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	registry.MustRegister(
		gauge("owned_interfaces", "Network interfaces in EC2 that carry this cluster's ownership tags.", owned.All),
		gauge("unattached_interfaces", "Owned network interfaces that are unattached; a large number for a long time "+
			"means that attaching fails.", owned.Unattached),
		gauge("leaked_interfaces", "Owned network interfaces that are unattached and have no NetworkInterface; the "+
			"controller deletes them.", owned.Leaked),
		gauge("unverified_interfaces", "Attached network interfaces that carry this cluster's ownership tags and have no "+
			"NetworkInterface; the controller leaves them alone, because nothing says that no pod uses them.", owned.Unverified),
		gauge("orphaned_interfaces", "NetworkInterfaces whose NodeENI does not exist; they stay for a day.", owned.Orphaned),
		gauge("creation_blocked", "1 while the controller creates no interfaces because too many of the cluster's "+
			"are unattached, else 0.", flag(owned.CreationBlocked)),
		gauge("refused_objects", "NetworkInterfaces and NodeENIs that the API server refuses to store; Events "+
			"StateRefused say why.", owned.Refused),
	)
}

// flag returns 1 while a condition is true, else 0.
func flag(is func() bool) func() int {
	return func() int {
		if is() {
			return 1
		}
		return 0
	}
}
