// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import "os"

func end() { os.Exit(1) }
