// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package assets_test

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/dev/assets"
)

// Without a terminal, one line every 15 seconds shows the progress of the build.
func TestProgressInALog(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		meter := assets.NewMeter(&log, "Programs")
		meter.Enter("downloading modules")
		time.Sleep(16 * time.Second)
		meter.Compile(2000)
		meter.Compiled()
		meter.Compiled()
		time.Sleep(15 * time.Second)
		meter.Close()
		want := "Programs, built once per version: 15s, downloading modules\n" +
			"Programs, built once per version: 30s, 2 of at most 2000 packages compiled\n"
		if diff := cmp.Diff(want, log.String()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}

func TestNoProgressOfWhatIsQuick(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		meter := assets.NewMeter(&log, "Programs")
		time.Sleep(14 * time.Second)
		meter.Close()
		if log.Len() > 0 {
			t.Errorf("log is %q, want nothing", log.String())
		}
	})
}
