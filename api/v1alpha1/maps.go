// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Strings returns a copy of m with plain string values, as code outside the API uses for labels and tags. It is nil if
// m is nil.
func Strings[V ~string](m map[string]V) map[string]string {
	if m == nil {
		return nil
	}
	plain := make(map[string]string, len(m))
	for key, value := range m {
		plain[key] = string(value)
	}
	return plain
}
