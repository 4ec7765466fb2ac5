// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/multieni/multieni/test/synctest/bubble"
)

func TestMain(m *testing.M) {
	bubble.Prepare()
	goleak.VerifyTestMain(m)
}
