// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package pci

// React has the function called after each write, as a kernel would act on it.
func (h *Host) React(kernel func(path, text string) error) {
	h.write = func(path, text string) error {
		if err := write(path, text); err != nil {
			return err
		}
		return kernel(path, text)
	}
}
