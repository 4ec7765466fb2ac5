// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"fmt"
	"io"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/manifest"
)

// readManifests returns the NodeENIs of files, folders and standard input, and skips other kinds. A file or folder
// without a NodeENI is an error.
func readManifests(files []string, stdin io.Reader) ([]v1alpha1.NodeENI, error) {
	const kind = "NodeENI"
	var all []v1alpha1.NodeENI
	sources := map[string]string{}
	for _, file := range files {
		objects, err := manifest.Read(file, stdin)
		if err != nil {
			return nil, err
		}
		before := len(all)
		for _, o := range objects {
			if o.Kind != kind {
				continue
			}
			if ours := v1alpha1.SchemeGroupVersion.String(); o.APIVersion != ours {
				return nil, fmt.Errorf("%s: %s %s has apiVersion %q and must have %s", o.Source, kind, o.Name, o.APIVersion, ours)
			}
			if other, twice := sources[o.Name]; twice {
				return nil, fmt.Errorf("%s %s is declared twice, in %s and in %s; keep one", kind, o.Name, other, o.Source)
			}
			sources[o.Name] = o.Source
			var one v1alpha1.NodeENI
			if err := o.Decode(&one); err != nil {
				return nil, fmt.Errorf("%s: %s %s: %w; see: kubectl explain nodeeni.spec", o.Source, kind, o.Name, err)
			}
			one.APIVersion, one.Kind = o.APIVersion, o.Kind
			all = append(all, one)
		}
		if len(all) == before {
			return nil, fmt.Errorf("%s holds no NodeENI of %s; a folder is read without its subfolders", file,
				v1alpha1.SchemeGroupVersion)
		}
	}
	return all, nil
}
