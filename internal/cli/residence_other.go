// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cli

import "context"

// releaseAfterStart does nothing: agents run on Linux.
func releaseAfterStart(context.Context) error { return nil }
