// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/internal/core/report"
)

// variables are environment variables of the VPC CNI by name.
type variables map[string]string

// vpcCNI returns the environment variables of the VPC CNI, and whether the cluster has it. Variables whose values come
// from other objects are left out.
func vpcCNI(ctx context.Context, api client.Reader) (vars variables, installed bool, err error) {
	var set appsv1.DaemonSet
	err = api.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "aws-node"}, &set)
	if apierrors.IsNotFound(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	vars = variables{}
	for _, container := range set.Spec.Template.Spec.Containers {
		for _, variable := range container.Env {
			if variable.ValueFrom == nil {
				vars[variable.Name] = variable.Value
			}
		}
	}
	return vars, true, nil
}

// settings returns the limits of the VPC CNI's interfaces. It ignores numbers that it cannot read, and takes no MAX_ENI
// below 1. Other warm targets replace WARM_ENI_TARGET (aws/amazon-vpc-cni-k8s, README).
func (v variables) settings() report.CNISettings {
	number := func(name string, otherwise int) int {
		if n, err := strconv.Atoi(v[name]); err == nil && n >= 0 {
			return n
		}
		return otherwise
	}
	s := report.CNISettings{MaxENI: number("MAX_ENI", 0), Warm: number("WARM_ENI_TARGET", 1)}
	prefixes := strings.EqualFold(v["ENABLE_PREFIX_DELEGATION"], "true")
	if prefixes || number("WARM_IP_TARGET", 0) > 0 || number("MINIMUM_IP_TARGET", 0) > 0 {
		s.Warm = 0
	}
	return s
}

// vpcCNI checks for the setting with which the VPC CNI uses interfaces that are not its own: with it, it reads no tags,
// not even those that exclude an interface.
func (d *doctor) vpcCNI(ctx context.Context) {
	vars, installed, err := vpcCNI(ctx, d.api)
	switch {
	case err != nil:
		d.add(report.Warning, "VPC CNI", "its DaemonSet cannot be read: "+err.Error(),
			"Ask for permission to read DaemonSets in kube-system.")
	case !installed:
		d.add(report.OK, "VPC CNI", "not installed as kube-system/aws-node", "")
	case strings.EqualFold(vars["ENABLE_IMDS_ONLY_MODE"], "true"):
		d.add(report.Failed, "VPC CNI",
			"ENABLE_IMDS_ONLY_MODE is on: the VPC CNI reads no tags and uses multieni's interfaces as its own",
			"kubectl set env -n kube-system daemonset/aws-node ENABLE_IMDS_ONLY_MODE=false")
	default:
		d.add(report.OK, "VPC CNI", "ignores interfaces with multieni's tags", "")
		d.cni = new(vars.settings())
	}
}

// slots says what is left to the VPC CNI on each instance type, with the interfaces that NodeENIs want.
func (d *doctor) slots(ctx context.Context, cloud ec2, o objects) {
	const check = "slots"
	if d.cni == nil {
		return
	}
	typeOf, wanted := map[string]string{}, map[string]int{}
	for i := range o.nodes {
		typeOf[o.nodes[i].Name] = o.nodes[i].Labels[corev1.LabelInstanceTypeStable]
	}
	for i := range o.interfaces {
		n := &o.interfaces[i]
		if n.DeletionTimestamp.IsZero() && n.Spec.Slot.NetworkCardIndex == 0 {
			wanted[n.Spec.NodeName]++
		}
	}
	var nodes []report.CNINode
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if typeOf[name] == "" {
			continue
		}
		limits, err := cloud.Limits(ctx, typeOf[name])
		if err != nil {
			d.add(report.Warning, check, "the limits of "+typeOf[name]+" cannot be read: "+err.Error(), "Repeat the check.")
			return
		}
		nodes = append(nodes, report.CNINode{InstanceType: typeOf[name], Limit: limits.MaxOnCard(0), Unmanaged: wanted[name]})
	}
	for _, room := range report.RoomForCNI(nodes, *d.cni) {
		if found, next := room.Warning(); found != "" {
			d.add(report.Warning, check, found, next)
			continue
		}
		d.add(report.OK, check, room.String(), "")
	}
}
