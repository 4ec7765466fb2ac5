// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package cli

import (
	"context"
	"log/slog"
)

// releaseMemory does nothing: agents run on Linux.
func releaseMemory(context.Context, *slog.Logger) {}
