// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/multieni/multieni/eni"
	"github.com/multieni/multieni/internal/awsec2"
)

const namespace = "multieni"

// EC2Calls counts and times the requests to EC2.
type EC2Calls struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewEC2Calls registers the metrics.
func NewEC2Calls(registry prometheus.Registerer) *EC2Calls {
	m := &EC2Calls{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "ec2", Name: "requests_total",
			Help: "Requests to EC2 by action and EC2's error code; the code is empty for success and \"none\" when no answer came.",
		}, []string{"action", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "ec2", Name: "request_duration_seconds",
			Help:    "Time from sending a request to EC2 to its whole answer, by action.",
			Buckets: prometheus.ExponentialBuckets(0.01, 2, 12),
		}, []string{"action"}),
	}
	registry.MustRegister(m.requests, m.duration)
	return m
}

// Observe takes one request in.
func (m *EC2Calls) Observe(call awsec2.Call) {
	code := call.Code
	if code == "" && call.Class == eni.Transient {
		code = "none"
	}
	m.requests.WithLabelValues(call.Action, code).Inc()
	m.duration.WithLabelValues(call.Action).Observe(call.Duration.Seconds())
}

// Owned tells about the interfaces that the cluster owns.
type Owned struct {
	// All is how many there are; Unattached of them are attached to nothing; Leaked ones have no NodeENI any more.
	All, Unattached, Leaked func() int
	// Braked is whether no more are made, because too many are unattached.
	Braked func() bool
}

// RegisterOwned registers the gauges of the interfaces the cluster owns.
func RegisterOwned(registry prometheus.Registerer, owned Owned) {
	gauge := func(name, help string, value func() int) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Namespace: namespace, Name: name, Help: help},
			func() float64 { return float64(value()) })
	}
	registry.MustRegister(
		gauge("owned_interfaces", "Network interfaces in EC2 that carry this cluster's ownership tags.", owned.All),
		gauge("unattached_interfaces", "Owned network interfaces that are attached to nothing; many of them for long mean that attaching fails.", owned.Unattached),
		gauge("leaked_interfaces", "Owned network interfaces whose NodeENI does not exist any more, and which are being removed.", owned.Leaked),
		gauge("creation_braked", "1 while no interfaces are made because too many of the cluster's are attached to nothing, else 0.", func() int {
			if owned.Braked() {
				return 1
			}
			return 0
		}),
	)
}
