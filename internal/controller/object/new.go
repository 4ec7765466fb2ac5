// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package object

import (
	"context"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/render"
)

// maxLabel is the most characters of the value of a label (Kubernetes, "Labels and Selectors").
const maxLabel = 63

// New returns the object of a rendered spec with its labels.
func New(name string, spec render.Spec) *v1alpha1.NetworkInterface {
	return &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1alpha1.InstanceLabel: spec.InstanceID, v1alpha1.NodeENILabel: LabelOf(spec.NodeENI.Name),
		}},
		Spec: SpecOf(spec),
	}
}

// LabelOf returns the name of a NodeENI or of a network as the value of a label, cut to the length of one.
func LabelOf(name string) string {
	value := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.ContainsRune("-_.", c) {
			return c
		}
		return '-'
	}, name)
	return strings.Trim(value[:min(len(value), maxLabel)], "-_.")
}

// KeepsENI reports whether the ENI of an object stays when the object is deleted.
func KeepsENI(o *v1alpha1.NetworkInterface) bool {
	return o.Annotations[v1alpha1.OnDeleteAnnotation] == v1alpha1.OnDeleteKeep
}

// Keep lets the ENI of an object stay when the object is deleted.
func Keep(ctx context.Context, c client.Client, o *v1alpha1.NetworkInterface) error {
	annotations := map[string]string{v1alpha1.OnDeleteAnnotation: v1alpha1.OnDeleteKeep}
	for key, value := range o.Annotations {
		if key != v1alpha1.OnDeleteAnnotation {
			annotations[key] = value
		}
	}
	return wrap("annotate", o, patch(ctx, c, o, operation{"add", "/metadata/annotations", annotations}))
}
