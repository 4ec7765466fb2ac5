// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/netattach"
	"github.com/multieni/multieni/internal/core/text"
)

// cniState says whether the container runtime uses Multus; nil if the agent need not know.
func (a *Agent) cniState() *v1alpha1.CNIState {
	if a.CNIConfigDir == "" {
		return nil
	}
	name, content, err := firstConfiguration(a.CNIConfigDir)
	switch {
	case err != nil:
		return &v1alpha1.CNIState{Message: text.Clip(err.Error(), maxMessage)}
	case !netattach.IsMultus(content):
		return &v1alpha1.CNIState{
			Message: fmt.Sprintf("the first configuration, which the runtime uses, is %s", text.Clip(name, maxMessage/2)),
		}
	default:
		return &v1alpha1.CNIState{Ready: true}
	}
}

// firstConfiguration returns the CNI configuration that a container runtime uses: the first in the order of names.
func firstConfiguration(dir string) (name string, content []byte, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	for _, entry := range entries {
		if slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(entry.Name())) {
			content, err = os.ReadFile(filepath.Join(dir, entry.Name()))
			return entry.Name(), content, err
		}
	}
	return "", nil, errors.New("there is no configuration yet")
}
