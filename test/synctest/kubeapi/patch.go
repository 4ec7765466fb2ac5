// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// patch applies a patch, to the object without its status if that is a matter of its own, or to the status alone.
func (c *collection) patch(after *unstructured.Unstructured, format types.PatchType, content map[string]any, ofStatus bool) error {
	switch {
	case format == types.ApplyPatchType && ofStatus:
		after.Object["status"] = content["status"]
		content = map[string]any{"metadata": lock(content)}
	case ofStatus || format != types.MergePatchType && (format != types.StrategicMergePatchType || c.name != "Event"):
		// Of an Event clients patch only members that both formats of a merge treat alike.
		return apierrors.NewBadRequest(fmt.Sprintf("a patch of %s in the format %s is not simulated", c.resource, format))
	case c.isCustom:
		delete(content, "status")
	}
	merge(after.Object, content)
	return nil
}

// replace puts another object in the place of one, without its status if that is a matter of its own.
func (c *collection) replace(after *unstructured.Unstructured, content map[string]any) {
	if c.isCustom {
		status, hadStatus := after.Object["status"]
		restore(content, "status", status, hadStatus)
	}
	after.Object = content
}

func restore(content map[string]any, name string, value any, had bool) {
	delete(content, name)
	if had {
		content[name] = value
	}
}

// lock returns what of a patch's metadata says which object, and which version of it, is meant.
func lock(content map[string]any) map[string]any {
	metadata, _ := content["metadata"].(map[string]any)
	kept := map[string]any{}
	for _, name := range []string{"uid", "resourceVersion"} {
		if value, given := metadata[name]; given {
			kept[name] = value
		}
	}
	return kept
}

// merge applies a JSON merge patch (RFC 7386).
func merge(into, patch map[string]any) {
	for name, value := range patch {
		change, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isObject:
			inner, was := into[name].(map[string]any)
			if !was {
				inner = map[string]any{}
				into[name] = inner
			}
			merge(inner, change)
		default:
			into[name] = value
		}
	}
}
