// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

// lastWords is longer than any wait of a stopped controller.
const lastWords = 2 * time.Minute

// Mutation is one changing call to EC2.
type Mutation struct {
	At     time.Time
	Action string
	// Answered is when the answer arrived; zero before that.
	Answered time.Time
	// Instance is the instance of CreateNetworkInterface, by its tags, or of AttachNetworkInterface.
	Instance string
	// Interface is the interface of the call, if it exists already, and Subnet that of a new one.
	Interface, Subnet string
	// Force is set for a forced detach.
	Force bool
}

// Replica is one controller.
type Replica struct {
	Kubernetes, EC2 *Link
	Stop            context.CancelFunc
	// Metrics are the controller's own.
	Metrics *prometheus.Registry
	// Ended is closed when the controller has ended, with the error.
	Ended chan struct{}
	Err   error

	mu        sync.Mutex
	mutations []Mutation
	writes    map[string]int
	renewed   time.Time
}

// Defaults returns the options of `multieni controller` without flags, except those that do not work in a bubble, and a
// lease that needs few renewals: those of the default one would cost more than the rest of a test of virtual hours.
func (c *Cluster) Defaults() options.Controller {
	var o options.Controller
	o.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.Region, o.MetricsAddress, o.ProbeAddress = "us-east-1", "0", "0"
	o.LeaderElectionNamespace = "kube-system"
	o.LeaseDuration = 10 * time.Minute
	c.Must(o.Validate())
	return o
}

// Start starts a controller, which runs until it is stopped or the test ends.
func (c *Cluster) Start(o options.Controller) *Replica {
	c.Helper()
	c.started++
	number, begun := c.started, time.Now()
	r := &Replica{Ended: make(chan struct{}), Metrics: prometheus.NewRegistry(), writes: map[string]int{}}
	r.Kubernetes = newLink(c.API, uint64(c.started), c.latencies.Kubernetes, r.noteWrite)
	r.EC2 = newLink(c.EC2.Transport(), uint64(c.started), 0, r.noteMutation)
	ctx, stop := context.WithCancel(c.Context())
	r.Stop = stop
	surroundings := cli.Environment{
		Kubernetes: kubeapi.Config(r.Kubernetes), AWS: r.aws, Metrics: r.Metrics, Log: logger(c.started),
	}
	go func() {
		defer close(r.Ended)
		if r.Err = cli.RunController(ctx, o, surroundings); r.Err != nil {
			c.Logf("controller %d ended %s after its start: %v", number, time.Since(begun), r.Err)
		}
	}()
	c.Cleanup(r.Halt)
	return r
}

// logger writes logs to standard error at the level of the variable SYNCTEST_LOG.
func logger(replica int) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(os.Getenv("SYNCTEST_LOG"))) != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("replica", replica)
}

func (r *Replica) aws(_ context.Context, region string) (aws.Config, error) {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String("http://ec2.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient:  &http.Client{Transport: r.EC2, Timeout: givingUp},
	}, nil
}

// Halt stops a controller and returns once all its goroutines have ended.
func (r *Replica) Halt() {
	r.Stop()
	<-r.Ended
	time.Sleep(lastWords)
	synctest.Wait()
}

func (r *Replica) noteWrite(request *http.Request) (answered func()) {
	kind := writeOf(request)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case request.Method == http.MethodGet:
	case !strings.HasSuffix(kind, " leases"):
		r.writes[kind]++
	case request.Method == http.MethodPut:
		r.renewed = time.Now()
	}
	return func() {}
}

// writeOf names a request by its method, resource and subresource: "PATCH networkinterfaces/status".
func writeOf(request *http.Request) string {
	parts := strings.Split(strings.Trim(request.URL.Path, "/"), "/")
	// api/v1/..., or apis/GROUP/VERSION/..., and then namespaces/NAME/... for namespaced objects.
	parts = parts[min(2, len(parts)):]
	if strings.HasPrefix(request.URL.Path, "/apis/") {
		parts = parts[min(1, len(parts)):]
	}
	if len(parts) > 2 && parts[0] == "namespaces" {
		parts = parts[2:]
	}
	// The part between them is the object's name.
	if len(parts) > 1 {
		parts = slices.Delete(parts, 1, 2)
	}
	return request.Method + " " + strings.Join(parts, "/")
}

func (r *Replica) noteMutation(request *http.Request) (answered func()) {
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	form, formErr := url.ParseQuery(string(body))
	action := form.Get("Action")
	if err == nil && formErr == nil && (strings.HasPrefix(action, "Describe") || strings.HasPrefix(action, "Get")) {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	number := len(r.mutations)
	r.mutations = append(r.mutations, Mutation{
		At: time.Now(), Action: action, Instance: instanceIn(form), Force: form.Get("Force") == "true",
		Interface: form.Get("NetworkInterfaceId"), Subnet: form.Get("SubnetId"),
	})
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mutations[number].Answered = time.Now()
	}
}

// instanceIn returns the instance that a call names, or "".
func instanceIn(form url.Values) string {
	for name, values := range form {
		if prefix, isKey := strings.CutSuffix(name, ".Key"); isKey && values[0] == identity.TagInstanceID {
			return form.Get(prefix + ".Value")
		}
	}
	return form.Get("InstanceId")
}

// Writes returns the number of write requests to the API server, except those for leases.
func (r *Replica) Writes() int {
	sum := 0
	for _, count := range r.WritesByKind() {
		sum += count
	}
	return sum
}

// WritesByKind returns the same by method, resource and subresource.
func (r *Replica) WritesByKind() map[string]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.writes)
}

// Metric returns the sum of a metric of the controller, or of its series with the label value. For a histogram it is
// the number of observations.
func (r *Replica) Metric(name string, labelValue ...string) float64 {
	families, err := r.Metrics.Gather()
	if err != nil {
		panic(err)
	}
	sum := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			carried := 0
			for _, label := range m.GetLabel() {
				if slices.Contains(labelValue, label.GetValue()) {
					carried++
				}
			}
			if carried == len(labelValue) {
				sum += m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

// LastRenewal returns when the controller last renewed its lease, or tried to.
func (r *Replica) LastRenewal() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewed
}

// Changes returns the changing calls that reached EC2 after a time.
func (r *Replica) Changes(after time.Time) []Mutation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []Mutation
	for _, m := range r.mutations {
		if m.At.After(after) {
			later = append(later, m)
		}
	}
	return later
}
