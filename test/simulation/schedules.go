// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"slices"

	"k8s.io/utils/ptr"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/test/model"
)

// Schedule is a fixed order of steps: the shortest counterexample that package model finds without one of its rules.
// The product must withstand it.
type Schedule struct {
	Rule model.Rule
	// Variant says what differs from the counterexample; empty if nothing does.
	Variant string
	// Without removes the rule from the sources. The schedule fails then.
	Without []Edit
	// pods are those of the NodeENI.
	pods  v1alpha1.NodeENIPods
	steps func(*stage)
}

// Schedules returns the schedules in the order of the rules.
func Schedules() []Schedule {
	addresses := slices.Concat(holderSchedules(), moveSchedules(), endSchedules())
	for n := range addresses {
		addresses[n].pods = v1alpha1.NodeENIPods{
			Namespaces: []string{"default"}, Attachment: v1alpha1.PodAttachmentHostDevice,
			Floating: (&cluster{name: stageCluster}).floatingRanges(29),
		}
	}
	prefixes := leaderSchedules()
	for n := range prefixes {
		prefixes[n].pods = v1alpha1.NodeENIPods{Namespaces: []string{"default"}, Attachment: v1alpha1.PodAttachmentIPVLAN,
			IPv4: &v1alpha1.PodIPv4{Prefixes: v1alpha1.PodIPv4Prefixes{Min: 1, Max: 2}, Spare: ptr.To[int32](1)}}
	}
	interfaces := detachSchedules()
	for n := range interfaces {
		interfaces[n].pods = v1alpha1.NodeENIPods{
			Namespaces: []string{"default"}, Attachment: v1alpha1.PodAttachmentHostDevice,
		}
	}
	return slices.Concat(interfaces, prefixes, addresses)
}

// Run plays the schedule. Then everything is well, and the run converges and rests.
func (s Schedule) Run(o Options) Result {
	o.Calm = true
	return o.play(func(r *run) { r.furnish(s.pods) }, func(r *run) {
		stage := r.raise()
		s.steps(stage)
		stage.end()
		r.heal()
		r.converge()
		r.rest()
	})
}

// Sources that the schedules edit, besides those of mutants.go.
const (
	podAddresses   = core + "podaddress"
	addressPackage = "internal/controller/floatingaddress"
	ownPackage     = "test/simulation"
)

// holderSchedules are about the agents, which write the holder.
func holderSchedules() []Schedule {
	return []Schedule{
		{Rule: model.HolderNamesVersion,
			// The agents of the simulation write as those of the product do.
			Without: []Edit{{ownPackage, "$h.$c.$api.$update(floatingAddresses, $name, $object.$ResourceVersion,",
				"$h.$c.$api.$update(floatingAddresses, $name, $object.$ResourceVersion[:0],"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.goes(node1)
				s.agentBeginsWrite(node1) // that it no longer holds it
				s.agentWrites(node1)
				s.agentWrites(node2)
				s.lateWriteIsRefused()
			}},
		{Rule: model.StartTakesNothing,
			Without: []Edit{{podAddresses,
				"case $seen.$Came, $o.$Holder.$Node == \"\", $o.$Holder.$Node == $me.$Node:", "case $seen.$Came || true:"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.agentWrites(node2)
				s.agentWrites(node1)
			}},
		{Rule: model.HolderEmpties,
			Without: []Edit{{podAddresses, "case !$seen.$Present && $o.$Holder.$Node == $me.$Node:",
				"case !$seen.$Present && $o.$Holder.$Node != \"\":"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.goes(node1)
				s.agentWrites(node2)
				s.agentWrites(node1)
			}},
	}
}

// moveSchedules are about the controller, which brings the address to the holder.
func moveSchedules() []Schedule {
	settled := []Edit{{core + "floating", "if !$f.$mayMove($m) || $f.$settled($m) {\nreturn $step",
		"if true {\nreturn $step"}}
	return []Schedule{
		{Rule: model.AssignUntilSettled, Without: settled,
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.leaderSees()
				s.leaderCallsWithoutAnswer() // to assign it to the interface of node 1
				s.agentWrites(node2)
				s.leaderSees()
				s.leaderAssigns(node2)
				s.lateCallArrives()
				s.returnsTo(node2)
			}},
		{Rule: model.AssignUntilSettled, Variant: "after another leader took over", Without: settled,
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.leaderSees()
				s.leaderCallsWithoutAnswer() // to assign it to the interface of node 1
				s.standbySees()
				s.agentWrites(node2)
				s.anotherLeaderTakesOver()
				s.leaderSees()
				s.leaderAssigns(node2)
				s.lateCallArrives()
				s.returnsTo(node2)
			}},
		{Rule: model.StatusOfGeneration,
			Without: []Edit{{core + "floating", "$there := slices.Contains(f.At, i.ID)",
				"$there := slices.Contains(f.At, i.ID) || a.Assignment != nil"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.leaderSees()
				s.leaderAssigns(node1)
				s.agentWrites(node2)
				s.goes(node2)
				s.leaderSees()
				s.leaderCallsWithoutAnswer() // to assign it to the interface of node 2
				s.agentWrites(node2)
				s.agentWrites(node1)
				s.lateCallArrives()
				s.returnsTo(node1)
			}},
		{Rule: model.AssignLive,
			Without: []Edit{{addressPackage, "if !$same {\nreturn apierrors.NewConflict(",
				"if !$same && $same {\nreturn apierrors.NewConflict("}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.comesUp(node2)
				s.leaderSees()
				s.leaderAssigns(node1) // so that the old version has the record that the next leader would write
				s.standbySees()
				s.agentWrites(node2)
				s.leaderSees()
				s.leaderAssigns(node2)
				s.anotherLeaderTakesOver()
				s.leaderActs()
			}},
	}
}

// endSchedules are about the controller, which removes an address that no pod has.
func endSchedules() []Schedule {
	return []Schedule{
		{Rule: model.DeleteNamesVersion,
			Without: []Edit{{addressPackage,
				"client.Preconditions{UID: &$object.$UID, ResourceVersion: &$object.$ResourceVersion}",
				"client.Preconditions{UID: &$object.$UID}"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.leaderSees()
				s.leaderAssigns(node1)
				s.goes(node1)
				s.agentWrites(node1)
				s.leaderSees()
				s.leaderActs()
				s.passes(floating.Retention)
				s.comesUp(node1)
				s.leaderSees()
				s.agentWrites(node1)
				s.leaderActs()
				s.isKept()
			}},
		{Rule: model.UnassignUnderTombstone,
			Without: []Edit{{core + "floating", "case $a.$Deleting:\n$step = end($step, $a, $f, $m, $now)",
				"case $a.$Deleting:\n$step = end($step, $a, $f, $m, $now)\n" +
					"case !held && len($f.At) > 0 && !$now.Before($m.IdleSince.Add(Retention)):\n" +
					"$step.Do, $step.On = Unassign, $f.At[0]"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.leaderSees()
				s.leaderAssigns(node1)
				s.goes(node1)
				s.agentWrites(node1)
				s.comesUp(node1)
				s.leaderSees()
				s.leaderActs()
				s.passes(floating.Retention)
				s.leaderMayCallWithoutAnswer() // to unassign it: the product deletes the object first
				s.agentWrites(node1)
				s.lateCallsArrive()
			}},
		{Rule: model.AddressFinishSettled,
			Without: []Edit{{core + "floating", "case !$a.$isOurs(), $f.$settled($m):",
				"case !$a.$isOurs(), $f.$settled($m) || true:"}},
			steps: func(s *stage) {
				s.comesUp(node1)
				s.agentWrites(node1)
				s.leaderSees()
				s.leaderCallsWithoutAnswer() // to assign it
				s.goes(node1)
				s.agentWrites(node1)
				s.leaderSees()
				s.leaderActs()
				s.lateCallArrives()
				s.passes(floating.Retention)
				s.leaderActs() // deletes the object
				s.leaderSees()
				s.leaderActs() // removes the finalizer, or unassigns the address before
			}},
	}
}

// newLeaderTrustsItsRead lets a new leader expect no late effects of the calls of its predecessors.
var newLeaderTrustsItsRead = []Edit{{core + "plan",
	"$at := $p.Era.SettledAt()\nfor _, $last := range $p.Attempts[$m.Key.UID].Updates {",
	"$at := time.Time{}\nfor _, $last := range $p.Attempts[$m.Key.UID].Updates {"}}

// leaderSchedules are about calls for prefixes without an answer, and about leaders that follow each other.
func leaderSchedules() []Schedule {
	return []Schedule{
		{Rule: model.OnePrefixCall,
			Without: []Edit{{core + "plan", "if $last.Class == eni.Transient {\n$at = later(",
				"if $last.Class == eni.Transient && $at.IsZero() && !$at.IsZero() {\n$at = later("}},
			steps: func(s *stage) {
				s.podsStart(node1)
				s.agentActs()
				s.leaderServesWithoutAnswer() // to assign a second prefix
				for range 3 {
					s.leaderServes()
				}
				s.lateCallsArrive()
				s.hasPrefixes(node1, 2) // pods.ipv4.prefixes.max
			}},
		{Rule: model.OnePrefixCall, Variant: "after another leader took over", Without: newLeaderTrustsItsRead,
			steps: func(s *stage) {
				s.podsStart(node1)
				s.agentActs()
				s.leaderServesWithoutAnswer() // to assign a second prefix
				s.anotherLeaderTakesOver()
				s.leaderServes()
				s.lateCallsArrive()
				s.hasPrefixes(node1, 2) // pods.ipv4.prefixes.max
			}},
	}
}

// detachSchedules are about calls to detach the interface of an object that get no answer, and users who strip the
// object of its finalizer meanwhile. Its successor must not open the interface before that call has arrived.
func detachSchedules() []Schedule {
	tornAway := func(takesOver func(*stage)) func(*stage) {
		return func(s *stage) {
			s.podsEnd(node1)
			s.userDeletes(node1)
			s.agentActs()                 // lets go
			s.leaderServesWithoutAnswer() // to detach the interface
			s.userStrips(node1)
			takesOver(s)
			for range 3 { // the successor takes the interface over, and the agent opens it
				s.leaderServes()
				s.agentActs()
			}
			s.podsStart(node1)
			s.lateCallsArrive()
		}
	}
	return []Schedule{
		{Rule: model.TakeOverSettled, Variant: "after a call to detach its interface without an answer",
			Without: []Edit{{core + "plan", "$settled := $p.settledAt($m, $r)", "$settled := time.Time{}"}},
			steps:   tornAway(func(*stage) {})},
		{Rule: model.TakeOverSettled, Variant: "after another leader took over",
			Without: []Edit{{core + "plan", "$settled := $p.settledAt($m, $r)", "$settled := time.Time{}"}},
			steps:   tornAway((*stage).anotherLeaderTakesOver)},
	}
}
