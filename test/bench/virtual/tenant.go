// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"context"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// tenant is another program of the account, which calls each of the actions on interfaces at a steady rate, as the VPC
// CNIs of a fleet do that keep warm interfaces. Its calls are dry runs: EC2 throttles those like any other.
type tenant struct {
	cluster *bubble.Cluster
	calls   []tenantCall

	mu              sync.Mutex
	sent, throttled int
}

type tenantCall struct {
	form  url.Values
	every time.Duration
}

// newTenant returns one that spends a part of what flows into the buckets.
func newTenant(c *bubble.Cluster, part float64) *tenant {
	c.Helper()
	launched, err := c.EC2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a"})
	c.Must(err)
	primary := launched[0].NetworkInterfaces[0]
	t := &tenant{cluster: c}
	for action, parameters := range map[string]url.Values{
		"CreateNetworkInterface":          {"SubnetId": {bubble.SubnetIDs("hosts")[0]}},
		"AttachNetworkInterface":          {"InstanceId": {launched[0].InstanceID}, "NetworkInterfaceId": {primary.NetworkInterfaceID}, "DeviceIndex": {"1"}},
		"ModifyNetworkInterfaceAttribute": {"NetworkInterfaceId": {primary.NetworkInterfaceID}, "Description.Value": {"warm"}},
		"DetachNetworkInterface":          {"AttachmentId": {primary.Attachment.AttachmentID}},
		"DeleteNetworkInterface":          {"NetworkInterfaceId": {primary.NetworkInterfaceID}},
	} {
		parameters.Set("Action", action)
		parameters.Set("Version", "2016-11-15")
		parameters.Set("DryRun", "true")
		rate := scenario.Documented()[action].Refill * part
		t.calls = append(t.calls, tenantCall{parameters, time.Duration(float64(time.Second) / rate)})
	}
	return t
}

// work calls until the context ends.
func (t *tenant) work(ctx context.Context) {
	var all sync.WaitGroup
	for _, call := range t.calls {
		all.Go(func() {
			ticker := time.NewTicker(call.every)
			defer ticker.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-ticker.C:
					t.do(ctx, call.form)
				}
			}
		})
	}
	all.Wait()
}

func (t *tenant) do(ctx context.Context, form url.Values) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://ec2.invalid/", strings.NewReader(form.Encode()))
	if err != nil {
		t.cluster.Error(err)
		return
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := t.cluster.EC2.Transport().RoundTrip(request)
	if err != nil {
		return // the run is over
	}
	defer response.Body.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent++
	if response.StatusCode == http.StatusServiceUnavailable {
		t.throttled++
	}
}

func (t *tenant) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sent, t.throttled = 0, 0
}

func (t *tenant) counts() (sent, throttled int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.sent, t.throttled
}

func (t *tenant) throttledPart() float64 {
	sent, throttled := t.counts()
	return part(throttled, sent)
}
