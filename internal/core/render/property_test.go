// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/core/selector"
)

// TestRenderingsEnd changes two NodeENIs, the Node and the interfaces of an instance at random. Renderings end each
// time, the API server refuses none of their writes, and they delete nothing that they must not.
func TestRenderingsEnd(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := in(nodeENI("n", "subnet-a"), nodeENI("m", "subnet-b"))
		i.NodeENIs[1].Selector = i.NodeENIs[0].Selector
		for range rapid.IntRange(1, 12).Draw(t, "steps") {
			change(t, &i)
			i = settle(t, i)
			complete(t, i)
		}
	})
}

// change makes one change.
func change(t *rapid.T, i *render.In) {
	n := &i.NodeENIs[rapid.IntRange(0, 1).Draw(t, "of")]
	ids := []string{"subnet-a", "subnet-b", "subnet-c", "subnet-d", "subnet-far", "subnet-x"}
	switch rapid.IntRange(0, 9).Draw(t, "change") {
	case 0, 1, 2:
		*n = found(*n, rapid.SliceOfNDistinct(rapid.SampledFrom(ids), 1, 4, rapid.ID[string]).Draw(t, "subnets")...)
		n.Generation++
	case 3:
		n.Found = nil
	case 4:
		n.UID += "'"
	case 5:
		if n.Template.Pods == nil {
			*n = withPods(*n)
		} else {
			n.Template.Pods = nil
		}
		n.Generation++
	case 6:
		i.Nodes[0].Labels = rapid.SampledFrom([]map[string]string{nil, n.Selector}).Draw(t, "labels")
	case 7:
		*i = attach(*i)
		for o := range i.Objects {
			i.Objects[o].Held = rapid.Bool().Draw(t, "held")
		}
	case 8:
		if len(i.Objects) > 0 {
			i.Objects = slices.Clone(i.Objects)
			i.Objects[rapid.IntRange(0, len(i.Objects)-1).Draw(t, "deleted")].Deleting = rapid.Bool().Draw(t, "deleting")
		}
	case 9:
		i.Objects = slices.DeleteFunc(slices.Clone(i.Objects), func(o render.Object) bool { return o.Deleting })
	}
}

// settle applies the writes until there are none.
func settle(t *rapid.T, i render.In) render.In {
	for range 10 {
		writes := render.Node(i)
		if len(writes) == 0 {
			return i
		}
		for _, w := range writes {
			at := slices.IndexFunc(i.Objects, func(o render.Object) bool { return o.Name == w.Name })
			if w.Verb == render.Delete && i.Objects[at].Spec.Pods != nil && (i.Objects[at].Held || !i.Objects[at].Spec.Pods.Closed) {
				t.Fatalf("%s is deleted while pods use it or can start to", w.Name)
			}
			i.Objects = apply(t, i.Objects, w)
		}
	}
	t.Fatalf("renderings do not end: %v", verbs(render.Node(i)))
	return i
}

// complete fails if a selected NodeENI has not all its objects, or if one has an object too many.
func complete(t *rapid.T, i render.In) {
	for _, n := range i.NodeENIs {
		if mode, _ := n.ModeOf(i.Nodes); mode != render.Ensure || n.Found == nil {
			continue
		}
		live := 0
		for _, o := range i.Objects {
			if o.Spec.NodeENI.Name == n.Name && (o.Spec.Problem == nil || o.Deleting) { // a deleted one is awaited
				live++
			}
		}
		placed := n.At(selector.Location{Zone: zone, VPCID: vpc})
		if live < len(placed.Interfaces) {
			t.Fatalf("NodeENI %s has %d objects, want %d", n.Name, live, len(placed.Interfaces))
		}
	}
}
