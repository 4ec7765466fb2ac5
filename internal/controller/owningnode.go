// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
)

// CompareNodes orders the Nodes that name one instance. The first one, the oldest, owns it (docs/decisions/0018).
func CompareNodes(a, b corev1.Node) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}
