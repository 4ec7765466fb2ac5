// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package child

import (
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/internal/options"
)

// Flags returns the arguments that make the controller fit a simulator which lives speed times as fast as the world:
// its periods, and its share of EC2's request rates, are the defaults scaled by speed.
//
// It runs without a lease, so that one which was killed is followed at once, and without ports, so that any number can
// run on a machine.
func Flags(speed float64) []string {
	var o options.Controller
	o.Bind(pflag.NewFlagSet("defaults", pflag.ContinueOnError))
	return []string{
		"controller", "--leader-elect=false", "--metrics-bind-address=0", "--health-probe-bind-address=0",
		"--poll-interval=" + scaled(o.PollInterval, speed, shortestPoll),
		"--resync-period=" + scaled(o.ResyncPeriod, speed, shortestResync),
		"--ec2-share=" + strconv.FormatFloat(o.EC2Share*speed, 'g', 4, 64),
	}
}

// The shortest periods that make sense on one machine; the controller refuses still shorter ones.
const (
	shortestPoll   = 20 * time.Millisecond
	shortestResync = time.Second
)

func scaled(period time.Duration, speed float64, shortest time.Duration) string {
	return max(time.Duration(float64(period)/speed), shortest).String()
}
