// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package testdata

import "sync"

type counted struct {
	// mu guards count.
	mu    sync.Mutex
	count int
}

type silent struct {
	mu    sync.RWMutex
	count int
}
