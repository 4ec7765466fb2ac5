// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"fmt"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/multieni/multieni/internal/core/report"
)

// rolePrefix is the prefix of the names of all roles of the chart.
const rolePrefix = "multieni-"

// binding is what a RoleBinding and a ClusterRoleBinding have in common.
type binding struct {
	kind, namespace, name string
	role                  rbacv1.RoleRef
	subjects              []rbacv1.Subject
}

// remove returns the command that deletes the binding.
func (b binding) remove() string {
	command := "kubectl delete " + strings.ToLower(b.kind)
	if b.namespace != "" {
		command += " -n " + b.namespace
	}
	return command + " " + b.name
}

// rights checks whether multieni's ServiceAccounts have roles that multieni did not bind. A migration from the
// aws-multi-eni-controller leaves some, because both products have a ServiceAccount of the same name.
func (d *doctor) rights(ctx context.Context) {
	bindings, err := d.bindings(ctx)
	if err != nil {
		d.add(report.Warning, "rights", "the role bindings cannot be read: "+err.Error(),
			"Ask for permission to list RoleBindings and ClusterRoleBindings.")
		return
	}
	surplus := 0
	for _, b := range bindings {
		for _, s := range b.subjects {
			if !d.isOurs(s) || strings.HasPrefix(b.role.Name, rolePrefix) {
				continue
			}
			surplus++
			d.add(report.Warning, "rights", fmt.Sprintf("%s %s gives %s %s to ServiceAccount %s/%s, which does not need it",
				b.kind, b.name, b.role.Kind, b.role.Name, s.Namespace, s.Name), b.remove())
		}
	}
	if surplus == 0 {
		d.add(report.OK, "rights", "the ServiceAccounts have no roles but multieni's", "")
	}
}

// isOurs reports whether a subject is the controller's or the agents' ServiceAccount.
func (d *doctor) isOurs(s rbacv1.Subject) bool {
	return s.Kind == rbacv1.ServiceAccountKind &&
		(s.Name == "eni-controller" && s.Namespace == d.namespace || s.Name == "eni-manager" && s.Namespace == agentNamespace)
}

// bindings reads all role bindings of the cluster.
func (d *doctor) bindings(ctx context.Context) ([]binding, error) {
	var (
		cluster    rbacv1.ClusterRoleBindingList
		namespaced rbacv1.RoleBindingList
		all        []binding
	)
	if err := d.api.List(ctx, &cluster); err != nil {
		return nil, err
	}
	if err := d.api.List(ctx, &namespaced); err != nil {
		return nil, err
	}
	for _, b := range cluster.Items {
		all = append(all, binding{kind: "ClusterRoleBinding", name: b.Name, role: b.RoleRef, subjects: b.Subjects})
	}
	for _, b := range namespaced.Items {
		all = append(all, binding{kind: "RoleBinding", namespace: b.Namespace, name: b.Name, role: b.RoleRef,
			subjects: b.Subjects})
	}
	return all, nil
}
