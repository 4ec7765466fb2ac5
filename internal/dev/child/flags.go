// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/core/ratelimit"
)

// Flags returns the arguments that adapt the controller to a simulator whose time is speed times as fast as real time:
// its periods, and the refill rates of EC2's token buckets, are the defaults scaled by speed. The growth of its share
// is not scaled, so it begins with the final share.
//
// It runs without a lease, so that the successor of a killed controller starts at once, and without ports, so that any
// number can run on a machine.
func Flags(speed float64) []string {
	var o options.Controller
	o.Bind(pflag.NewFlagSet("defaults", pflag.ContinueOnError))
	flags := []string{
		"controller", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--poll-interval=" + scaled(o.PollInterval, speed, shortestPoll),
		"--resync-period=" + scaled(o.ResyncPeriod, speed, shortestResync),
		"--source-refresh-period=" + scaled(o.SourceRefreshPeriod, speed, shortestRefresh),
	}
	if speed == 1 {
		return flags
	}
	flags = append(flags, fmt.Sprintf("--ec2-rate-share=%g", ratelimit.MaxShare))
	for action, bucket := range awsec2.DocumentedBuckets() {
		bucket.Refill *= speed
		flags = append(flags, fmt.Sprintf("--ec2-bucket=%s=%s", action, bucket))
	}
	return flags
}

// The shortest periods that make sense on one machine; the controller refuses still shorter ones.
const (
	shortestPoll    = 20 * time.Millisecond
	shortestResync  = time.Second
	shortestRefresh = time.Second
)

func scaled(period time.Duration, speed float64, shortest time.Duration) string {
	return max(time.Duration(float64(period)/speed), shortest).String()
}
