// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package telemetry

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// LifecycleEvents counts and times the lifecycle events of instances, and the requests to the services that send them.
type LifecycleEvents struct {
	events   *prometheus.CounterVec
	duration *prometheus.HistogramVec
	requests *prometheus.CounterVec
	attached prometheus.Counter
	failures *prometheus.CounterVec
}

// NewLifecycleEvents registers the metrics.
func NewLifecycleEvents(registry prometheus.Registerer) *LifecycleEvents {
	m := &LifecycleEvents{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "lifecycle", Name: "events_total",
			Help: "Lifecycle events of instances that the lifecycle hook handled, by kind (Launching, Terminating, " +
				"Running, Ended, Scheduled, Irrelevant) and result: " +
				"Ready, Failed or Gone for an instance to prepare, NotServed, Done, Retry for an event that the hook " +
				"retries, Malformed.",
		}, []string{"kind", "result"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Subsystem: "lifecycle", Name: "event_duration_seconds",
			Help: "Time from the receipt of an event to the end of its handling, by kind, including EC2's own " +
				"time and waits for it.",
			Buckets: []float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 7.5, 10, 15, 30, 60, 120, 300},
		}, []string{"kind"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "lifecycle", Name: "requests_total",
			Help: "Requests of the lifecycle hook to Auto Scaling and SQS, by service, action and error code; the " +
				"code is empty for success and \"none\" without an answer.",
		}, []string{"service", "action", "code"}),
		attached: prometheus.NewCounter(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "lifecycle", Name: "interfaces_attached_total",
			Help: "Network interfaces that the lifecycle hook attached.",
		}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Subsystem: "lifecycle", Name: "failures_total",
			Help: "Attempts without a required network for an instance, by reason; docs/troubleshooting.md explains " +
				"each. TimedOut means that EC2 did not finish within the time limit.",
		}, []string{"reason"}),
	}
	registry.MustRegister(m.events, m.duration, m.requests, m.attached, m.failures)
	return m
}

// Handled records one event.
func (m *LifecycleEvents) Handled(kind, result string, took time.Duration) {
	m.events.WithLabelValues(kind, result).Inc()
	m.duration.WithLabelValues(kind).Observe(took.Seconds())
}

// Prepared records one instance: how many interfaces were attached for it, and the reason if it could not be prepared.
func (m *LifecycleEvents) Prepared(attached int, failure string) {
	m.attached.Add(float64(attached))
	if failure != "" {
		m.failures.WithLabelValues(failure).Inc()
	}
}

// Requested records one request.
func (m *LifecycleEvents) Requested(service, action, code string) {
	m.requests.WithLabelValues(service, action, code).Inc()
}
