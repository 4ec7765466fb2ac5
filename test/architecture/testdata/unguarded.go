// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package testdata

func beside(work func()) {
	go work()
}
