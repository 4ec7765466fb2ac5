// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Mutant is a bug shape that other controllers had, as a small change of our source. Only the test that shows that the
// suite finds it compiles it.
type Mutant struct {
	Name string
	// Like names the programs that have, or had, the bug.
	Like string
	// Edits are made in order.
	Edits []Edit
	// Below is set where the change is below the ports of the step driver: then TestPipeline has to find it.
	Below bool
}

// Sources that mutants edit.
const (
	core            = "internal/core/"
	nodePackage     = "internal/controller/node"
	instancePackage = "internal/controller/instance"
	objectPackage   = "internal/controller/object"
	collectors      = "internal/controller/unowned"
	executors       = "internal/aws/executor"
	ec2Clients      = "internal/aws/awsec2"
	apiPackage      = "api/v1alpha1"
	clientToken     = "$Token: $c.$Key.$Token(),"
)

// Mutants returns the bug shapes of the reliability catalogue.
func Mutants() []Mutant {
	return slices.Concat(beliefMutants(), actionMutants(), ownershipMutants(), callMutants(), agentMutants(), podMutants())
}

// beliefMutants act on a wrong view of EC2.
func beliefMutants() []Mutant {
	absent := Edit{
		core + "inventory",
		"if !$ok || $begun.Before($e.$newestReadBegan) || $begun.Before($e.$madeAt.Add($VisibilityWindow)) {",
		"if !$ok {",
	}
	missing := Edit{core + "inventory", "if !$e.Missing {", "if false {"}
	confirmed := Edit{core + "inventory", "if $begun.Sub($e.$absentSince) < $AbsenceConfirmation {", "if false {"}
	return []Mutant{
		{Name: "no client token", Like: "aws-multi-eni-controller, VPC CNI, VPC resource controller",
			Edits: []Edit{{executors, clientToken, ""}}},
		{Name: "random client token", Like: "Cilium, by the SDK's default",
			Edits: []Edit{{executors, clientToken, "$Token: fmt.Sprint(a.Now().UnixNano()),"}}},
		{Name: "a token that is not the UID", Like: "a token that names the slot alone",
			Edits: []Edit{{executors, clientToken, "$Token: $c.$Key.Name,"}}},
		{Name: "detach as a probe", Like: "aws-multi-eni-controller", Edits: []Edit{{
			executors, "$after := $c.$To.Apply",
			"$after := $c.$To.Apply\n" + lookUp("$c.InterfaceID") + " && i.Attachment != nil {\n" +
				"_ = a.cloud.DetachInterface(ctx, i.Attachment.ID, false)\n}",
		}}},
		{Name: "next free index from the cache", Like: "Cilium", Edits: []Edit{
			{core + "plan", "if !$known || $i.$Attachment != nil && $i.$Attachment.$Slot == $eni.$Primary {",
				"if $i.$Attachment != nil && $i.$Attachment.$Slot == $eni.$Primary && ($known || !$known) {"},
			{core + "plan", "$s.markUnusable($slot, $refusal, $lookedAt, $now)", "_, _, _ = $slot, $refusal, $lookedAt"},
		}},
		{Name: "not found is absent at once", Like: "cloud-provider-aws, once", Edits: []Edit{absent, missing, confirmed}},
	}
}

// lookUp begins a statement that reads an interface in the inventory, within a method of the executor.
func lookUp(id string) string {
	return "if i, ok := a.notes.(interface{ Interface(string) (eni.Interface, bool) }).Interface(" + id + "); ok"
}

// actionMutants take wrong actions, or too many.
func actionMutants() []Mutant {
	const attached = "$a.$note($at.$InterfaceID, func($i $eni.$Interface) $eni.$Interface {\n" +
		"$i.$Status, $i.$Attachment = $eni.InUse,"
	return []Mutant{
		{Name: "maxUnavailable is ignored", Like: "aws-multi-eni-controller, which has no rollout", Edits: []Edit{
			{core + "fleet", "func ($n NodeENI) limit() int { return max(1, $n.MaxUnavailable) }",
				"func ($n NodeENI) limit() int { return max(100, $n.MaxUnavailable) }"},
		}},
		{Name: "deletions of users have no turn", Like: "a controller that takes each DELETE as an order", Edits: []Edit{
			{core + "fleet", "!$s.needsTurn($o) || !$n.Paused && hasTurn($n.Turns, $o)",
				"$s.n.Name != \"\" || hasTurn($n.Turns, $o)"},
		}},
		{Name: "tags are written again after the attach", Like: "VPC CNI", Edits: []Edit{{
			executors, attached,
			lookUp("$at.$InterfaceID") + " {\n_ = $a.cloud.PutTags(ctx, i.ID, i.Tags)\n}\n" + attached,
		}}},
		{Name: "no bound on what is on its way", Like: "a controller that makes all interfaces at once", Edits: []Edit{{
			core + "plan", "case $p.unattached >= $MaxUnattached:", "case $p.unattached >= 100*$MaxUnattached:",
		}}},
		{Name: "a taken slot is looked at every minute", Like: "a controller that polls", Edits: []Edit{{
			core + "plan", "foreignSlotRecheck = 5 * time.Minute", "foreignSlotRecheck = time.Minute",
		}}},
		{Name: "a pause does not hold what is done on a node", Like: "a pause that is read for NodeENIs alone",
			Edits: []Edit{{instancePackage, "case $g.paused():", "case $g.paused() && $g == nil:"}}},
		{Name: "network cards are not known", Like: "aws-multi-eni-controller", Edits: []Edit{{
			core + "plan", "if onCard == 0 {", "if onCard = max(onCard, 1); onCard == 0 {",
		}}},
		{Name: "an address that is not the lowest", Like: "an allocator that counts on", Edits: []Edit{{
			core + "ipam", "$lowest, $err := $s.$Free(1)",
			"$lowest, $err := $s.$Free(2)\n$lowest = $lowest[max(0, len($lowest)-1):]",
		}}},
	}
}

// ownershipMutants take an interface or a reservation for one of ours, or for a leak, on too little evidence.
func ownershipMutants() []Mutant {
	return []Mutant{
		{Name: "takes over an interface that another object has", Like: "a controller that looks its interfaces up by tags",
			Edits: []Edit{{core + "plan", "return !$taken[$r.ID] && $is($r)", "return ($taken[$r.ID] || true) && $is($r)"}}},
		{Name: "creates before it takes over", Like: "aws-multi-eni-controller, whose records are its memory",
			Edits: []Edit{{core + "plan", "case $m.$awaited != nil:\nreturn $s.$wait(*$m.$awaited)\ncase $m.problem != nil && " +
				"$m.again == nil:", "case $m.problem != nil && $m.again == nil:"}}},
		{Name: "what was taken over is not held", Like: "a controller that trusts its records",
			Edits: []Edit{{apiPackage, "($n.Status.Evidence != EvidenceCreated || $observed)",
				"($n.Status.Evidence == \"\" || $observed)"}}},
		{Name: "detaches a held one", Like: "a controller that knows EC2 alone", Edits: []Edit{
			{core + "plan", "return $m.Held && !$p.ended", "return $m.Held && $p.ended"},
			{instancePackage, "return ($live.Final() || $run.$ended) && !$another ||",
				"return ($live.DeletionTimestamp != nil || $run.$ended) && !$another ||"},
		}},
		{Name: "deletes an object that pods hold", Like: "a controller that deletes what nothing selects", Edits: []Edit{
			{core + "render", "case $o.Spec.Pods != nil && $o.Held, $r.Incomplete:", "case $r.Incomplete:"},
		}},
		{Name: "deletes an object that is open", Like: "a controller that takes no order back", Edits: []Edit{
			{core + "render", "case $o.Spec.Pods != nil && !$o.Spec.Pods.Closed:",
				"case $o.Spec.Pods != nil && !$o.Spec.Pods.Closed && $o.Deleting:"},
		}},
		{Name: "closed and held by the cache alone", Like: "a controller that trusts its cache", Edits: []Edit{
			{nodePackage, "if $err := $r.confirm($ctx, $g, $confirmed); $err != nil || !$confirmed.deletes[$w.UID] {",
				"if $err := $r.confirm($ctx, $g, $confirmed); $err != nil && !$confirmed.deletes[$w.UID] {"},
		}},
		{Name: "an ENI that must stay is removed", Like: "Cilium, whose objects end with their interfaces", Edits: []Edit{
			{instancePackage, "if object.KeepsENI($o) {", "if object.KeepsENI($o) && $o.Name == \"\" {"},
		}},
		{Name: "the finalizer goes before EC2 answered", Like: "VPC resource controller", Edits: []Edit{
			{core + "plan", "$s.Phase = Deleting\nreturn $s.act(Delete{",
				"$s.Phase, $s.gone = Deleting, true\nreturn $s.act(Delete{"},
		}},
		{Name: "unowned by the cache alone, and at once", Like: "a collector that trusts its cache", Edits: []Edit{
			{collectors, "if ownersOf($live.Items).has($record) {", "if len($live.Items) < 0 {"},
			{collectors, "$wait := $since.Add($identity.$ConfirmInterval).Sub($now); $wait > 0 {",
				"$wait := $since.Add($identity.$ConfirmInterval).Sub($now); $wait > time.Hour {"},
			{core + "identity", "return $known && $now.Sub($created) >= $MinLeakAge",
				"return $known && $now.Sub($created) >= 0"},
		}},
		{Name: "launch interfaces are tagged again", Like: "a controller that adopts by tags", Edits: []Edit{{
			core + "identity", "if $tags[TagNodeTemplate] != \"\" && $tags[TagUID] == \"\" {",
			"if $tags[TagNodeTemplate] == \"none\" && $tags[TagUID] == \"\" {",
		}}},
		{Name: "reservations of all clusters are its own", Like: "a controller that expects one cluster in an account",
			Edits: []Edit{{core + "reservation", "return $o.$isNamedBy($r) && $r.Description == $o.Description()",
				"return $r.Tags[identity.TagSubnetReservation] == $o.Name"}}},
	}
}

// callMutants call EC2 at the wrong time, in the wrong order, or at the wrong rate.
func callMutants() []Mutant {
	return []Mutant{
		{Name: "delete after a failed change", Like: "Cilium", Edits: []Edit{{
			executors, "$err = $a.$unassign($ctx, $c.$InterfaceID, $to)\n}",
			"$err = $a.$unassign($ctx, $c.$InterfaceID, $to)\n}\n" +
				"if $err != nil {\n_ = $a.cloud.DeleteInterface($ctx, $c.$InterfaceID)\n}",
		}}},
		{Name: "old leader not fenced", Like: "a controller that relies on leader election alone",
			Edits: []Edit{{"internal/controller", "$age > $f.Deadline {", "$age > 1000*$f.Deadline {"}}},
		{Name: "change skipped after a crash", Like: "a controller that sets DeleteOnTermination only once", Edits: []Edit{{
			core + "plan", "if $a := $i.$Attachment; $a != nil {\n$wanted = append(",
			"if $a := $i.$Attachment; $a != nil && $a.Status != eni.AttachmentAttached {\n$wanted = append(",
		}}},
		{Name: "one bad ID fails a batch", Like: "EBS CSI driver, once", Below: true, Edits: []Edit{{
			ec2Clients, "if $err := $group.Wait(); $err != nil {\nreturn nil,",
			"_ = $group.Wait()\nif len(instances) < len(ids) {\nreturn nil, &eni.APIError{Class: eni.NotFound, " +
				"Operation: \"DescribeInstances\", Err: fmt.Errorf(\"one ID is not known\")}\n}\n" +
				"if $err := $group.Wait(); $err != nil {\nreturn nil,",
		}}},
		{Name: "one limiter for all actions", Like: "Cilium, VPC resource controller", Below: true, Edits: []Edit{{
			ec2Clients, "$spender := $p.$spenders[$call.$Action]",
			"$spender := $p.$spenders[\"ModifyNetworkInterfaceAttribute\"]",
		}}},
	}
}

// agentMutants break a rule of the agent (docs/model.md).
func agentMutants() []Mutant {
	return []Mutant{
		{Name: "opens before its hold is written", Like: "a daemon that reports what it did", Edits: []Edit{
			{core + "podnet", "$o.Open && $f.written() && !$f.Blocked:", "!$f.Blocked:"},
			{core + "podnet", "case $f.written() && $f.Link == LinkUsable:", "case $f.Link == LinkUsable:"},
		}},
		{Name: "a process reads instead of writing first", Like: "a daemon that trusts its cache", Edits: []Edit{
			{core + "podnet", "return $f.Object.Answered && $f.Object.Agent == $f.Process && !$f.Unanswered",
				"return $f.Object.Answered"},
		}},
		{Name: "lets go with a lease", Like: "a daemon that does not know its pods", Edits: []Edit{
			{core + "podnet", "func ($u Use) idle() bool { return $u.Known && !$u.Leased &&",
				"func ($u Use) idle() bool { return $u.Known && ($u.Leased || true) &&"},
			{core + "podnet", "func ($u Use) active() bool { return $u.Known && $u.Leased || $u.Brought || $u.Device }",
				"func ($u Use) active() bool { return $u.Brought || $u.Device }"},
		}},
		{Name: "lets go while a pod has an observed address", Like: "a daemon that knows leases alone", Edits: []Edit{
			{core + "podnet", "!$u.Resting && !$u.Brought && !$u.Device }", "!$u.Resting && !$u.Device }"},
			{core + "podnet", "func ($u Use) active() bool { return $u.Known && $u.Leased || $u.Brought || $u.Device }",
				"func ($u Use) active() bool { return $u.Known && $u.Leased || $u.Device }"},
		}},
		{Name: "gives a device back while a program drives it", Like: "driverctl, which knows no programs", Edits: []Edit{
			{core + "hostpci", "case $device.Driver == VFIO && $device.Enabled:",
				"case $device.Driver == \"\" && $device.Enabled:"},
		}},
		{Name: "lets go while a program has the device", Like: "a controller that knows EC2 alone", Edits: []Edit{
			{core + "podnet", "!$u.Resting && !$u.Brought && !$u.Device }", "!$u.Resting && !$u.Brought }"},
			{core + "podnet", "func ($u Use) active() bool { return $u.Known && $u.Leased || $u.Brought || $u.Device }",
				"func ($u Use) active() bool { return $u.Known && $u.Leased || $u.Brought }"},
		}},
	}
}

// podMutants are about pods that use interfaces, and their addresses.
func podMutants() []Mutant {
	return []Mutant{
		{Name: "an assignment for an earlier holder counts for the present one", Like: "a controller that trusts its status",
			Edits: []Edit{{core + "floating", "$there := slices.Contains(f.At, i.ID)",
				"$there := slices.Contains(f.At, i.ID) || a.Assignment != nil"}}},
		{Name: "a lease outlives its pod", Like: "host-local IPAM, which waits for a call", Edits: []Edit{{
			core + "podnet", "range End($leases, $now, $gone)",
			"range End($leases, $now, func(Lease) bool { return gone == nil })",
		}}},
		{Name: "two pods of a node get one address", Like: "the static plugin of CNI, which knows no leases", Edits: []Edit{{
			core + "podnet", "case $l.Unreadable:\nreturn $n.occupied($l)\ncase $l.InUse():",
			"case $l.Unreadable:\nreturn $n.occupied($l)\ncase $l.InUse() && $l.Unreadable:",
		}}},
	}
}
