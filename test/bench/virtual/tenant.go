// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// tenant is the VPC CNI on other nodes of the account, which join and leave in groups, as Auto Scaling and Karpenter
// launch and end them: it creates an interface for each new node, attaches it and changes an attribute, and detaches
// and deletes one for each node that ends. Its calls are dry runs: EC2 throttles those like any other.
type tenant struct {
	cluster *bubble.Cluster
	forms   map[string]url.Values
	// pause is the mean time between two groups.
	pause time.Duration

	mu sync.Mutex
	// ever counts all its calls, and measured those since the reset.
	ever, measured calls
	// taken is how many calls of each action EC2 let through since the reset.
	taken map[string]int
	// stop ends its work; calls in flight are still answered, and counted.
	stop context.CancelFunc
}

// calls counts calls, and those that EC2 throttled.
type calls struct{ sent, throttled int }

const (
	// largestGroup is the largest number of nodes that join or leave at once, and middleGroup the mean.
	largestGroup = 19
	middleGroup  = (1 + largestGroup) / 2
	// tenantRetry is how long the VPC CNI waits before it repeats a call that was throttled.
	tenantRetry = time.Second
)

// newTenant returns a tenant that on average uses a part of the refill of the buckets.
func newTenant(c *bubble.Cluster, part float64) *tenant {
	c.Helper()
	launched, err := c.EC2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a"})
	c.Must(err)
	primary := launched[0].NetworkInterfaces[0]
	rate := part * scenario.Documented()["AttachNetworkInterface"].Refill
	t := &tenant{cluster: c, taken: map[string]int{}, pause: time.Duration(middleGroup / rate * float64(time.Second)),
		forms: map[string]url.Values{
			"CreateNetworkInterface": {"SubnetId": {bubble.SubnetIDs("hosts")[0]}},
			"AttachNetworkInterface": {"InstanceId": {launched[0].InstanceID},
				"NetworkInterfaceId": {primary.NetworkInterfaceID}, "DeviceIndex": {"1"}},
			"ModifyNetworkInterfaceAttribute": {"NetworkInterfaceId": {primary.NetworkInterfaceID},
				"Description.Value": {"warm"}},
			"DetachNetworkInterface": {"AttachmentId": {primary.Attachment.AttachmentID}},
			"DeleteNetworkInterface": {"NetworkInterfaceId": {primary.NetworkInterfaceID}},
		}}
	for action, form := range t.forms {
		form.Set("Action", action)
		form.Set("Version", "2016-11-15")
		form.Set("DryRun", "true")
	}
	return t
}

// work makes calls until the tenant is stopped.
func (t *tenant) work(ctx context.Context) {
	var all sync.WaitGroup
	for seed, actions := range [][]string{
		{"CreateNetworkInterface", "AttachNetworkInterface", "ModifyNetworkInterfaceAttribute"},
		{"DetachNetworkInterface", "DeleteNetworkInterface"},
	} {
		all.Go(func() { t.groups(ctx, rand.New(rand.NewPCG(uint64(seed), 4)), actions) })
	}
	all.Wait()
}

// groups makes groups of nodes join or leave. Each node of a group makes the calls one after the other.
func (t *tenant) groups(ctx context.Context, random *rand.Rand, actions []string) {
	var all sync.WaitGroup
	defer all.Wait()
	for t.sleep(ctx, time.Duration(random.ExpFloat64()*float64(t.pause))) {
		for range 1 + random.IntN(largestGroup) {
			// Nodes of a group do not start at the same moment.
			after := time.Duration(random.Int64N(int64(2 * time.Second)))
			all.Go(func() { t.node(ctx, after, actions) })
		}
	}
}

func (t *tenant) node(ctx context.Context, after time.Duration, actions []string) {
	t.sleep(ctx, after)
	for _, action := range actions {
		for t.do(ctx, t.forms[action]) && t.sleep(ctx, tenantRetry) {
		}
	}
}

// sleep sleeps, and reports whether the context has not ended before.
func (t *tenant) sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// do makes a call and reports whether it was throttled.
func (t *tenant) do(ctx context.Context, form url.Values) (throttled bool) {
	request, err := http.NewRequestWithContext(context.WithoutCancel(ctx), http.MethodPost, "http://ec2.invalid/",
		strings.NewReader(form.Encode()))
	if err != nil {
		t.cluster.Error(err)
		return false
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := t.cluster.EC2.Transport().RoundTrip(request)
	if err != nil {
		return false // the run is over
	}
	defer response.Body.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	throttled = response.StatusCode == http.StatusServiceUnavailable
	if !throttled {
		t.taken[form.Get("Action")]++
	}
	for _, c := range []*calls{&t.ever, &t.measured} {
		c.sent++
		if throttled {
			c.throttled++
		}
	}
	return throttled
}

func (t *tenant) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.measured, t.taken = calls{}, map[string]int{}
}

// attaching returns the least time to give nodes n interfaces, without the tokens that the tenant has used since the
// reset. A bucket that was full at first provides its capacity, and then its refill.
func (t *tenant) attaching(n int) (least time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, action := range []string{"CreateNetworkInterface", "AttachNetworkInterface",
		"ModifyNetworkInterfaceAttribute"} {
		least = max(least, scenario.Documented().Takes(action, n+t.taken[action]))
	}
	return least
}

// all returns the counts of all its calls.
func (t *tenant) all() calls {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ever
}

func (t *tenant) throttledPart() float64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return part(t.measured.throttled, t.measured.sent)
}
