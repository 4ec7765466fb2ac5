// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"net/http"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
)

// permission is a verb on a resource, as RBAC names them.
type permission struct{ verb, group, resource string }

// permissionOf returns the permission that a request needs; false for a request for no object.
func permissionOf(r *http.Request) (permission, bool) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var p permission
	switch {
	case len(parts) >= 3 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) >= 4 && parts[0] == "apis":
		p.group, parts = parts[1], parts[3:]
	default:
		return p, false
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	p.resource = parts[0]
	if len(parts) > 2 {
		p.resource += "/" + parts[2]
	}
	p.verb = verbOf(r, len(parts) > 1)
	return p, true
}

func verbOf(r *http.Request, isNamed bool) string {
	switch {
	case r.Method == http.MethodGet && r.URL.Query().Get("watch") != "":
		return "watch"
	case r.Method == http.MethodGet && isNamed:
		return "get"
	case r.Method == http.MethodGet:
		return "list"
	default:
		return map[string]string{
			http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
		}[r.Method]
	}
}

// granted lists the permissions that rules grant.
func granted(rules []rbacv1.PolicyRule) []permission {
	var all []permission
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, permission{verb, group, resource})
				}
			}
		}
	}
	return all
}
