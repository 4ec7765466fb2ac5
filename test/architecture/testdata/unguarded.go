// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package testdata

import "github.com/multieni/multieni/internal/base/panics"

func beside(work func() error) {
	go work()
	go func() { _ = panics.AsError("work", work) }()
}
