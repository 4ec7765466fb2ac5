// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
)

// readManifests returns the NodeENIs of files, and skips other kinds. A file without a NodeENI is an error.
func readManifests(files []string) ([]v1alpha1.NodeENI, error) {
	var all []v1alpha1.NodeENI
	for _, file := range files {
		content, err := readFile(file)
		if err != nil {
			return nil, err
		}
		some, err := parseManifests(content)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if len(some) == 0 {
			return nil, fmt.Errorf("%s holds no NodeENI of %s", file, v1alpha1.SchemeGroupVersion)
		}
		all = append(all, some...)
	}
	return all, nil
}

func readFile(file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(os.Stdin)
	}
	return os.ReadFile(file)
}

func parseManifests(content []byte) ([]v1alpha1.NodeENI, error) {
	var all []v1alpha1.NodeENI
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		var kind metav1.TypeMeta
		if err := yaml.Unmarshal(document, &kind); err != nil {
			return nil, err
		}
		if kind.Kind != "NodeENI" || kind.APIVersion != v1alpha1.SchemeGroupVersion.String() {
			continue
		}
		var one v1alpha1.NodeENI
		if err := yaml.UnmarshalStrict(document, &one); err != nil {
			return nil, fmt.Errorf("read a NodeENI: %w", err)
		}
		all = append(all, one)
	}
}
