// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package testdata

type snapshot struct{ confirmed map[string]bool }

func (s *snapshot) confirm(uid string) { s.confirmed[uid] = true }

func (s *snapshot) with(confirmed map[string]bool) *snapshot {
	next := *s
	next.confirmed = confirmed
	return &next
}
