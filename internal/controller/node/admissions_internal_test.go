// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"fmt"
	"testing"
)

// TestARampIsNotForgottenByWhoKnowsNothingOfIt lets a reconciliation that began before a NodeENI was changed look at it while
// nodes are let in: it still has the NodeENI without its ramp.
func TestARampIsNotForgottenByWhoKnowsNothingOfIt(t *testing.T) {
	const uid, before, after, limit = "uid-a", 1, 2, 50
	var a rampAdmissions
	a.begin(uid, after, nil)
	admitted := 0
	for n := range 2 * limit {
		if a.admit(uid, fmt.Sprintf("node-%d", n), limit) {
			admitted++
		}
		if a.end(uid, before); !a.begun(uid) {
			a.begin(uid, after, nil)
		}
	}
	if admitted != limit {
		t.Errorf("%d nodes were let in, want %d", admitted, limit)
	}
	if a.end(uid, after); a.begun(uid) {
		t.Error("it does not end when the ramp is over")
	}
}
