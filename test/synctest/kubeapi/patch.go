// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// patch applies a patch. What is patched is the object without its status, or the status and nothing else.
func (c *collection) patch(after *unstructured.Unstructured, format types.PatchType, content map[string]any, ofStatus bool) error {
	status, hadStatus := after.Object["status"]
	current := after.GetResourceVersion()
	after.SetResourceVersion("")
	switch {
	case format == types.MergePatchType || format == types.StrategicMergePatchType && c.name == "Event":
		// Of an Event clients patch only members that both formats treat alike.
		if ofStatus {
			content = map[string]any{"status": content["status"], "metadata": lock(content)}
		}
		merge(after.Object, content)
	case format == types.ApplyPatchType && ofStatus:
		after.Object["status"] = content["status"]
		merge(after.Object, map[string]any{"metadata": lock(content)})
	default:
		return apierrors.NewBadRequest(fmt.Sprintf("a patch of %s in the format %s is not simulated", c.resource, format))
	}
	if after.GetResourceVersion() == "" {
		after.SetResourceVersion(current)
	}
	if c.isCustom && !ofStatus {
		restore(after.Object, "status", status, hadStatus)
	}
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
