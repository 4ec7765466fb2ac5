// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import "os"

// scaled returns the usual size of a story, or the long one if the variable MULTIENI_LONG is set.
func scaled(usual, long int) int {
	if os.Getenv("MULTIENI_LONG") != "" {
		return long
	}
	return usual
}
