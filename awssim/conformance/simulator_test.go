// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fault"
)

// simulator says how the simulator of a test differs from others.
type simulator struct {
	// speed is simulated seconds per second. At 300, EC2's two minutes are less than half a second.
	speed float64
	// quota is the number of interfaces that the account may have; 0 means EC2's default.
	quota int
	// templates is the number of launch templates, and of versions of each; 0 means EC2's default.
	templates int
	// stuck makes every detach hang until it is forced, which is rare on AWS.
	stuck bool
}

// start serves a world with everything that the rows need.
func (s simulator) start(t *testing.T, ec *endpoint) {
	t.Helper()
	world, err := awssim.LoadWorldFile("testdata/world.yaml")
	ok(t, err)
	world.Quotas.NetworkInterfaces = s.quota
	world.Quotas.LaunchTemplates, world.Quotas.LaunchTemplateVersions = s.templates, s.templates
	sim, err := awssim.New(awssim.Options{World: world, Clock: awssim.ScaledClock(s.speed)})
	ok(t, err)
	if s.stuck {
		_, err = sim.AddFault(fault.Fault{Kind: fault.StuckDetaching})
		ok(t, err)
	}
	server, err := awssim.Listen(context.WithoutCancel(t.Context()), "127.0.0.1:0", sim)
	ok(t, err)
	t.Cleanup(func() { ok(t, server.Close()) })
	ec.simulated = true
	ec.url = server.URL()
	ec.region = world.Region
	ec.credentials = credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "example", "")
	ec.multiCardType = "c6in.32xlarge"
	ec.poll = 2 * time.Millisecond
	ec.backoff = 20 * time.Millisecond
	ec.patience = 5 * time.Second
}
