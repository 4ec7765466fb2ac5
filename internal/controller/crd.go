// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// IsCRDMissing reports whether the API server cannot store an object because its CustomResourceDefinition is deleted or
// being deleted. While it is being deleted, objects can be changed but not created.
func IsCRDMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
