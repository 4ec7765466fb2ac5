// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"bufio"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/awssim/fault"
)

// TestAnOrdinaryStopIsNoError stops a leader while its calls to EC2 are in flight. The interrupted calls are not logged
// as errors, since an operator need not act on them.
func TestAnOrdinaryStopIsNoError(t *testing.T) {
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.strike(fault.Fault{Kind: fault.Delay, Delay: 20 * time.Second * time.Duration(speed)}, mutating()...)
	r := s.run("--leader-elect", "--leader-election-namespace=default")
	s.label(names("node", 0, 8)...)
	s.eventually(afterwards, "calls are under way", func() string {
		if s.struck() < 4 {
			return "too few"
		}
		return ""
	})
	s.must(r.Stop())
	log, err := os.Open(r.log)
	s.must(err)
	defer log.Close()
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if line := lines.Text(); !strings.Contains(line, "level=INFO") {
			t.Error(line)
		}
	}
}
