// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodetemplate

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/api/v1alpha1"
)

// Kind is the kind that [Read] looks for.
const Kind = "AWSNodeTemplate"

// karpenter is the API that the kind comes from.
const karpenter = "karpenter.k8s.aws/v1alpha1"

// Read returns the one AWSNodeTemplate of a manifest, and notes on how it was read. Unknown fields are errors. It
// accepts the apiVersion of Karpenter's old API.
func Read(r io.Reader) (*v1alpha1.AWSNodeTemplate, []string, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
	var found *v1alpha1.AWSNodeTemplate
	var notes []string
	for {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, fmt.Errorf("read the manifest: %w", err)
		}
		var header metav1.TypeMeta
		if err := yaml.Unmarshal(text, &header); err != nil {
			return nil, nil, fmt.Errorf("read the manifest: %w", err)
		}
		if header.Kind != Kind {
			continue
		}
		if found != nil {
			return nil, nil, fmt.Errorf("the manifest has several %ss; keep one to a file", Kind)
		}
		if found, notes, err = decode(header, text); err != nil {
			return nil, nil, err
		}
	}
	if found == nil {
		return nil, nil, fmt.Errorf("the manifest has no object of kind %s", Kind)
	}
	return found, notes, nil
}

func decode(header metav1.TypeMeta, text []byte) (*v1alpha1.AWSNodeTemplate, []string, error) {
	ours := v1alpha1.SchemeGroupVersion.String()
	var notes []string
	switch header.APIVersion {
	case ours:
	case karpenter:
		notes = append(notes, fmt.Sprintf(
			"apiVersion %s is read as %s; write that to apply it to a cluster, where the other group is Karpenter's",
			karpenter, ours))
	default:
		return nil, nil, fmt.Errorf("%s has apiVersion %q and must have %s", Kind, header.APIVersion, ours)
	}
	object := &v1alpha1.AWSNodeTemplate{}
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), object); err != nil {
		return nil, nil, fmt.Errorf("%s: %s; see: kubectl explain awsnodetemplate.spec", Kind, plain(err))
	}
	object.APIVersion = ours
	return object, notes, nil
}

// plain removes the names of Go packages from an error about JSON.
func plain(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "json: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return text
}
