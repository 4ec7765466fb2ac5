// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package pci

// React sets a function that is called after each write, in place of the kernel.
func (h *Host) React(kernel func(path, text string) error) {
	h.write = func(path, text string) error {
		if err := write(path, text); err != nil {
			return err
		}
		return kernel(path, text)
	}
}
