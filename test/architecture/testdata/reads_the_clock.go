// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"os"
	"time"
)

func read() (time.Time, *os.File) { return time.Now(), os.Stdin }
