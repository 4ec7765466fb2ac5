// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestWhichGenerationAStatusSpeaksOf checks that a node's status has the generation of the NodeENI that its interfaces
// were compared with, also after a change that needs no call to EC2.
func TestWhichGenerationAStatusSpeaksOf(t *testing.T) {
	onStage(t, func(s *stage) {
		s.must(s.play(time.Minute))
		if got := s.observed(); got != 1 {
			t.Errorf("after a minute the status speaks of generation %d", got)
		}
		s.nodeENI(s.cache, func(n *v1alpha1.NodeENI) { n.Generation, n.Spec.Description = 2, "as before, in other words" })
		before := s.status(nodeName).Interfaces
		s.must(s.play(time.Second))
		if got := s.observed(); got != 2 {
			t.Errorf("after a change the status speaks of generation %d", got)
		}
		if after := s.status(nodeName).Interfaces; len(after) != 1 || after[0].ENIID != before[0].ENIID {
			t.Errorf("the interface was %v and is %v", before, after)
		}
	})
}

// TestMoreInterfacesThanAStateLists checks that a state lists existing interfaces first, that each NodeENI reports how
// many the list omits, and that one event says so.
func TestMoreInterfacesThanAStateLists(t *testing.T) {
	const nodeENIs = 140
	onStage(t, func(s *stage) {
		for n := range nodeENIs - 1 {
			s.alsoDeclare(fmt.Sprintf("another-%03d", n))
		}
		s.must(s.play(3 * time.Minute))
		st := s.status(nodeName)
		existing := slices.DeleteFunc(slices.Clone(st.Interfaces), func(i v1alpha1.InterfaceState) bool { return i.ENIID == "" })
		if len(st.Interfaces) != v1alpha1.MaxInterfaces || int(st.InterfacesOmitted) != nodeENIs-v1alpha1.MaxInterfaces {
			t.Errorf("%d interfaces are listed and %d omitted", len(st.Interfaces), st.InterfacesOmitted)
		}
		if got := len(s.attached()); got == 0 || len(existing) != got || int(st.Attached) != got || st.Desired != nodeENIs {
			t.Errorf("%d are attached, %d of these listed; the status says %d of %d", got, len(existing), st.Attached, st.Desired)
		}
		if len(st.NodeENIs) != nodeENIs {
			t.Errorf("the status speaks of %d NodeENIs", len(st.NodeENIs))
		}
		for _, o := range st.NodeENIs {
			listed := slices.ContainsFunc(st.Interfaces, func(i v1alpha1.InterfaceState) bool { return i.NodeENIUID == o.NodeENIUID })
			if listed != (o.Omitted == 0) || !listed && (o.Blocked != 1 || o.Reason != string(plan.InstanceFull)) {
				t.Errorf("listed %t: %+v", listed, o)
			}
		}
		if told := s.told(); !slices.Contains(told, "InterfacesOmitted") {
			t.Errorf("events tell of %v", told)
		}
		s.must(s.play(time.Minute))
		if told := s.told(); slices.Contains(told, "InterfacesOmitted") {
			t.Error("the event is repeated")
		}
	})
}

// TestOrdinalsThatNoInstanceHas checks that the list omits them: the API server would refuse the whole status
// otherwise.
func TestOrdinalsThatNoInstanceHas(t *testing.T) {
	onStage(t, func(s *stage) {
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) {
				for unknown := range 130 {
					n.Spec.SubnetIDs = append(n.Spec.SubnetIDs, fmt.Sprintf("subnet-%017x", 1000+unknown))
				}
			})
		})
		s.must(s.play(time.Minute))
		st := s.status(nodeName)
		for _, i := range st.Interfaces {
			if i.Ordinal > identity.MaxOrdinal {
				t.Errorf("ordinal %d is listed", i.Ordinal)
			}
		}
		if st.Attached != 1 || st.InterfacesOmitted != 3 || len(st.Interfaces) != v1alpha1.MaxInterfaces {
			t.Errorf("%d attached, %d listed, %d omitted", st.Attached, len(st.Interfaces), st.InterfacesOmitted)
		}
	})
}

// observed returns the generation of the NodeENI in the node's status.
func (s *stage) observed() int64 {
	s.Helper()
	for _, o := range s.status(nodeName).NodeENIs {
		if o.NodeENIUID == "uid-data" {
			return o.ObservedGeneration
		}
	}
	return 0
}

// alsoDeclare declares another NodeENI like the first.
func (s *stage) alsoDeclare(name string) {
	s.Helper()
	s.both(func(c client.Client) {
		var like v1alpha1.NodeENI
		s.must(c.Get(s.Context(), client.ObjectKey{Name: "data"}, &like))
		like.ObjectMeta = metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name), Generation: 1, Finalizers: like.Finalizers}
		s.must(c.Create(s.Context(), &like))
	})
}
