// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// IsCRDMissing reports whether the API server has no place for an object because the definition of its kind is gone, or
// is on its way out, when objects can still be changed and not be made.
func IsCRDMissing(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsMethodNotSupported(err)
}
