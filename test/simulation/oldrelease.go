// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// No release precedes this one yet. The changes that are allowed between two releases define an earlier one: a release
// can add optional fields, status values, and tags that decide nothing; it cannot change the meaning of tags and tokens
// (identity.TestToken). So an earlier release is this program behind a filter that hides the newest of these: it does
// not read them, does not write them, and overwrites objects whole, without them.

// release replaces processes that are at rest by processes of the earlier or of the present release: an upgrade, or its
// rollback.
func (c *cluster) release(earlier bool) {
	c.earlier = earlier
	for _, p := range slices.Clone(c.processes) {
		if p.depth == 0 && p.earlier != earlier {
			p.end("gives way to another release")
		}
	}
}

// seen is an object as an earlier release decodes it.
func (p *process) seen(object client.Object) client.Object {
	if !p.earlier {
		return object
	}
	switch object := object.(type) {
	case *v1alpha1.NodeENI:
		older := object.DeepCopy()
		older.Spec.UpdatePolicy, older.Spec.MaxUnavailable = "", 0
		older.Status = olderStatus(older.Status)
		return older
	case *v1alpha1.NetworkInterface:
		return olderInterface(object)
	}
	return object
}

// stored is an object as an earlier release writes it. The declarations of users stay as they were, since it writes
// none of them.
func (p *process) stored(object client.Object) client.Object {
	if !p.earlier {
		return object
	}
	switch object := object.(type) {
	case *v1alpha1.NodeENI:
		object.Status = olderStatus(object.Status)
	case *v1alpha1.NetworkInterface:
		return olderInterface(object)
	}
	return object
}

func olderStatus(s v1alpha1.NodeENIStatus) v1alpha1.NodeENIStatus {
	s.Drifted, s.Subnets, s.SecurityGroups = 0, nil, nil
	return s
}

func olderInterface(n *v1alpha1.NetworkInterface) *v1alpha1.NetworkInterface {
	older := n.DeepCopy()
	older.Status.Drift, older.Status.Unsupported, older.Status.SecurityGroupIDs = nil, nil, nil
	return older
}

// written are the tags that a process writes. An earlier release writes no tag Name on interfaces.
func (p *process) written(tags map[string]string) map[string]string {
	if !p.earlier {
		return tags
	}
	older := maps.Clone(tags)
	delete(older, identity.TagName)
	return older
}

// read is an interface as a process reads it. An earlier release does not miss the tag that it does not know.
func (p *process) read(i eni.Interface) eni.Interface {
	if p.earlier && i.Tags[identity.TagNodeENI] != "" {
		i.Tags = maps.Clone(i.Tags)
		m, _ := identity.Read(p.cluster.name, i.Tags)
		i.Tags[identity.TagName] = cmp.Or(m.Tags(time.Time{}, nil)[identity.TagName], i.Tags[identity.TagName])
	}
	return i
}
