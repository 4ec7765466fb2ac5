// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/cli/options"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/instancetype"
	"github.com/multieni/multieni/internal/core/ratelimit"
	"github.com/multieni/multieni/internal/core/report"
)

// TestSizesOnPage computes each figure of docs/telco-sizing.md that follows from limits in the code.
func TestSizesOnPage(t *testing.T) {
	page := read(t, filepath.Join(root, "docs/telco-sizing.md"))
	types := 0
	for line := range strings.Lines(page) {
		name := strings.Split(strings.TrimPrefix(line, "| "), " ")[0]
		limits, known := instancetype.Offline(name)
		if !known {
			continue
		}
		types++
		shared := limits.IPv4 - 1 // without the primary address
		want := fmt.Sprintf("| %s | %d | %d | %d | %d |\n", name, limits.Interfaces, limits.IPv4,
			report.AddressesPerPrefix*shared, min(shared, v1alpha1.MaxAddressesOfInterface))
		if line != want {
			t.Errorf("the page has %swant     %s", line, want)
		}
	}
	if types < 5 {
		t.Errorf("the page has sizes of %d instance types, want 5 or more", types)
	}

	bucket := awsec2.DocumentedBuckets()["AssignPrivateIpAddresses"]
	var flags options.Controller
	flags.Bind(pflag.NewFlagSet("controller", pflag.ContinueOnError))
	for _, sentence := range []string{
		fmt.Sprintf("k − 1 following addresses, at most %d", v1alpha1.MaxAddressesOfInterface),
		fmt.Sprintf("| a single address | moves at most every %d s |", floating.MoveInterval/time.Second),
		fmt.Sprintf("AssignPrivateIpAddresses: %d at once, then %g per second by default; multieni uses %g %% of that at first",
			bucket.Capacity, bucket.Refill, ratelimit.InitialShare*100),
		fmt.Sprintf("these are %.0f calls, and all of them go at once", float64(bucket.Capacity)*ratelimit.InitialShare),
		fmt.Sprintf("%g s more, and up to %.0f s |", flags.LeaseDuration.Seconds(), flags.LeaseDuration.Seconds()/8),
	} {
		if !strings.Contains(page, sentence) {
			t.Errorf("the page does not have %q", sentence)
		}
	}
}
