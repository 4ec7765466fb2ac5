// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// patch applies a patch to the object, without its status if that is a subresource, or to the status alone.
func (t target) patch(after *unstructured.Unstructured, format types.PatchType, content map[string]any,
	manager string) error {
	c := t.collection
	switch {
	case format == types.ApplyPatchType && t.ofStatus:
		after.Object["status"] = c.applyStatus(t.key, manager, after.Object["status"], content["status"])
		content = map[string]any{"metadata": lock(content)}
	case t.ofStatus && (format == types.MergePatchType || c.hasStatus && format == types.StrategicMergePatchType):
		status, _ := content["status"].(map[string]any)
		content = map[string]any{"metadata": lock(content), "status": c.withMerged(after, status)}
	case t.ofStatus || format != types.MergePatchType && (format != types.StrategicMergePatchType || c.name != "Event"):
		// Clients patch only members of an Event that both formats of a merge treat alike.
		return apierrors.NewBadRequest(fmt.Sprintf("a patch of %s in the format %s is not simulated", c.resource, format))
	case c.isCustom:
		delete(content, "status")
	}
	merge(after.Object, content)
	return nil
}

// conditions is the list of a status in which each field manager has entries of its own, by their types.
const conditions = "conditions"

// applyStatus returns a status after a field manager applied its own: members and conditions that others applied stay.
// The managers share no other member.
func (c *collection) applyStatus(k key, manager string, before, applied any) map[string]any {
	status, _ := before.(map[string]any)
	status = maps.Clone(status)
	if status == nil {
		status = map[string]any{}
	}
	all, _ := status[conditions].([]any)
	for _, member := range c.applied[k][manager] {
		delete(status, member)
		all = withoutCondition(all, member)
	}
	own, _ := applied.(map[string]any)
	maps.Copy(status, own)
	members := slices.Collect(maps.Keys(own))
	given, _ := own[conditions].([]any)
	for _, condition := range given {
		kind, _ := typeOf(condition).(string)
		all = append(withoutCondition(all, conditions+"/"+kind), condition)
		members = append(members, conditions+"/"+kind)
	}
	delete(status, conditions)
	if len(all) > 0 {
		status[conditions] = all
	}
	if c.applied[k] == nil {
		c.applied[k] = map[string][]string{}
	}
	c.applied[k][manager] = slices.DeleteFunc(members, func(m string) bool { return m == conditions })
	return status
}

// withoutCondition returns the conditions without that of a member "conditions/TYPE".
func withoutCondition(all []any, member string) []any {
	return slices.DeleteFunc(slices.Clone(all), func(c any) bool {
		return member == fmt.Sprint(conditions, "/", typeOf(c))
	})
}

// serveOperations applies a JSON patch (RFC 6902) to an object, without its status if that is a subresource. A real
// server answers a failed test as an invalid object, without causes.
func (s *Server) serveOperations(r *http.Request, t target) (*object, error) {
	text, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	operations, err := jsonpatch.DecodePatch(text)
	if err != nil || t.ofStatus {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("a JSON patch of a status is not simulated: %v", err))
	}
	return s.update(t.collection, t.key, func(after *unstructured.Unstructured) error {
		before, err := json.Marshal(after.Object)
		if err != nil {
			return err
		}
		changed, err := operations.Apply(before)
		if err != nil {
			return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "patch", t.groupResource(), t.key.name,
				err.Error(), 0, false)
		}
		content := map[string]any{}
		if err := utiljson.Unmarshal(changed, &content); err != nil {
			return err
		}
		t.replace(after, content)
		return nil
	})
}

// withMerged returns a patch of a status in which the conditions of a Node are whole: a strategic merge patch merges
// them by their type.
func (c *collection) withMerged(before *unstructured.Unstructured, status map[string]any) map[string]any {
	given, _ := status["conditions"].([]any)
	if !c.hasStatus || given == nil {
		return status
	}
	all, _, _ := unstructured.NestedSlice(before.Object, "status", "conditions")
	for _, condition := range given {
		kind := typeOf(condition)
		all = append(slices.DeleteFunc(all, func(other any) bool { return typeOf(other) == kind }), condition)
	}
	status = maps.Clone(status)
	status["conditions"] = all
	return status
}

func typeOf(condition any) any {
	members, _ := condition.(map[string]any)
	return members["type"]
}

// replace replaces an object, without its status if that is a subresource.
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

// lock returns the part of a patch's metadata that names the object and its version.
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
