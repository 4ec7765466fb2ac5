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
	core           = "internal/core/"
	agentPackage   = "internal/host/agent"
	nodePackage    = "internal/controller/node"
	nodeENIPackage = "internal/controller/nodeeni"
	collectors     = "internal/controller/gc"
	executors      = "internal/aws/executor"
	ec2Clients     = "internal/aws/awsec2"
	clientToken    = "$Token: $c.$Member.$Token(),"
)

// Mutants returns the bug shapes of the reliability catalogue.
func Mutants() []Mutant {
	return slices.Concat(beliefMutants(), actionMutants(), ownershipMutants(), callMutants(), originMutants(),
		podMutants())
}

// originMutants mistake the interfaces that an instance has before it joins, the devices that programs drive, and the
// addresses that are free.
func originMutants() []Mutant {
	return []Mutant{
		{Name: "a device is detached under a program", Like: "a controller that knows EC2 alone", Edits: []Edit{{
			core + "plan", "case $p.$Stored[$m.$Record.$ID].$DeviceInUse:", "case p.ended:",
		}}},
		{Name: "an address that is not the lowest", Like: "an allocator that counts on", Edits: []Edit{{
			core + "ipam", "$lowest, $err := $s.$Free(1)",
			"$lowest, $err := $s.$Free(2)\n$lowest = $lowest[max(0, len($lowest)-1):]",
		}}},
		{Name: "launch interfaces are not seen", Like: "aws-multi-eni-controller", Edits: []Edit{{
			core + "render", "if !$taken && $i.$AttachedTo($p.$InstanceID)", "if $taken && $i.$AttachedTo($p.$InstanceID)",
		}}},
		{Name: "launch interfaces are tagged again", Like: "a controller that adopts by tags", Edits: []Edit{{
			core + "plan", "slices.DeleteFunc($p.$attributes($m, $desired, nil, $i), $isTags)",
			"$p.$attributes($m, $desired, $m.DesiredTags($desired.Spec.Tags), $i)",
		}}},
		{Name: "pre-join interfaces are leaks", Like: "a collector that looks for owners alone", Edits: []Edit{{
			collectors, "slices.DeleteFunc($watch.$Owners(), $identity.$Owner.$IsNetwork)", "$watch.$Owners()",
		}}},
	}
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
		{Name: "client token without generation", Like: "a token that names the slot alone", Edits: []Edit{{
			core + "identity", "$m.$Cluster, $m.$Owner, $m.$InstanceID, $m.$Ordinal, $m.$Generation))",
			"$m.$Cluster, $m.$Owner, $m.$InstanceID, $m.$Ordinal, 0))",
		}}},
		{Name: "tags after create", Like: "a controller that tags with CreateTags", Edits: []Edit{{
			executors, "Tags: $c.$Member.$Tags($c.$Member.$Generation.$Time(), $c.$Spec.Tags),\n}\n" +
				"if !$c.$Spec.$LowestFree {\nreturn $a.$cloud.$CreateInterface($ctx, $request)\n}",
			"}\nif !$c.$Spec.$LowestFree {\nmade, err := $a.$cloud.$CreateInterface($ctx, $request)\n" +
				"if err != nil {\nreturn made, err\n}\n" +
				"made.Tags = $c.$Member.$Tags($c.$Member.$Generation.$Time(), $c.$Spec.Tags)\n" +
				"return made, $a.$cloud.PutTags($ctx, made.ID, made.Tags)\n}",
		}}},
		{Name: "finalizer dropped first", Like: "VPC resource controller", Edits: []Edit{
			{nodeENIPackage, " || $r.$Observer.$Holds($identity.$Owner($uid)) {", " {"},
			{nodeENIPackage, "if len($states.Items) > 0 && ", "if false && "},
			{nodeENIPackage, "if $err != nil || len($left) > 0 {", "if $err != nil || len($left) > 1000 {"},
		}},
		{Name: "unreadable time is long ago", Like: "VPC CNI", Edits: []Edit{{
			core + "identity", "return $known && $now.Sub($created) >= $MinLeakAge",
			"_ = $known\nreturn $now.Sub($created) >= $MinLeakAge",
		}}},
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
		{Name: "a list replaces newer facts", Like: "Cilium", Edits: []Edit{
			absent,
			{core + "inventory", "return !$begun.Before($e.$newestReadBegan) && ",
				"return true || !$begun.Before($e.$newestReadBegan) && "},
			missing, confirmed,
		}},
		{Name: "not found is absent at once", Like: "cloud-provider-aws, once", Edits: []Edit{absent, missing, confirmed}},
		earlyCollector(),
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
		{Name: "a replacement without drift", Like: "a controller that compares with what it last applied", Edits: []Edit{{
			core + "render", "$i.$Drift = $claim.$drift(*$desired, $record.$Interface)",
			"$i.$Drift = $claim.$drift(*$desired, $record.$Interface)\n" +
				"if $i.ReplaceAllowed && r.now.Hour() == 0 {\n" +
				"$i.$Drift = []plan.Drift{{Field: \"slot\", Want: \"another\", Have: \"this\"}}\n}",
		}}},
		{Name: "two replacements on a node", Like: "a rollout that counts nodes alone", Edits: []Edit{{
			core + "fleet",
			"if len($drifted) == 0 || len($r.$Unsettled) > 0 || $outside {", "if len($drifted) == 0 || $outside {",
		}}},
		{Name: "maxUnavailable is ignored", Like: "aws-multi-eni-controller, which has no rollout", Edits: []Edit{{
			nodePackage, "if $r.$mayReplace(string($owner), $instanceID, $limit, $instancesOf($unavailable)) {",
			"if $r.$mayReplace(string($owner), $instanceID, 100*$limit, $instancesOf($unavailable)) || " +
				"$limit > 0 {",
		}}},
		{Name: "a plan forgets the calls under way", Like: "a controller that plans from its cache alone", Edits: []Edit{
			{core + "plan", "range $o.Expected() {", "range $o.Owned {"},
			{core + "render", "$r.Owned = $o.$Expected()", ""},
			{core + "render", "($own < 0 || $paired) && $p.$mayBecomeVisible($key)",
				"$own < -1 && ($paired || $p.$mayBecomeVisible($key))"},
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
		{Name: "an attach is overdue at once", Like: "a controller without patience", Edits: []Edit{{
			core + "plan", "$p.$lastRead($m).Sub($since) >= AttachTimeout", "$p.$lastRead($m).Sub($since) >= time.Second",
		}}},
		{Name: "a pause does not hold what is done on a node", Like: "a pause that is read for NodeENIs alone",
			Edits: []Edit{{core + "render", "case $c.NodePaused:", "case $c.NodePaused && $c.NodeENIDeleting:"}}},
		{Name: "Ready is what one node says", Like: "aws-multi-eni-controller, whose status lists what was tried last",
			Edits: []Edit{
				{nodeENIPackage, "case len(blocked) > 0:", "case len(blocked) > 0 && st.Attached == 0:"},
				{nodeENIPackage, "case $st.$Attached < $st.$Desired || $waiting > 0:", "case $st.$Attached == 0 || $waiting > 0:"},
			}},
		{Name: "names mean subnets of any VPC", Like: "aws-multi-eni-controller", Edits: []Edit{
			{nodePackage, "$at.VPCID = $known.$Owned[0].VPCID", "$at.VPCID = \"\""},
			{nodePackage, "$at.VPCID = $look.$Instance.VPCID", "$at.VPCID = \"\""},
		}},
		{Name: "network cards are not known", Like: "aws-multi-eni-controller", Edits: []Edit{{
			core + "plan", "if onCard == 0 {", "if onCard = max(onCard, 1); onCard == 0 {",
		}}},
	}
}

// ownershipMutants take an interface or a reservation for one of ours, or for a leak, on too little evidence.
func ownershipMutants() []Mutant {
	const proof = "if $r.$Attachment == nil || $p.$isRecorded($r) {"
	return []Mutant{
		{Name: "tags are proof", Like: "a collector that believes tags", Edits: []Edit{
			{core + "render", "return !$p.isAttachedToRunning($r) || ", "return true || !$p.isAttachedToRunning($r) || "},
			{core + "render", proof, "if true || $r.$Attachment == nil || $p.$isRecorded($r) {"},
		}},
		{Name: "copied tags are those of what they name", Like: "a controller that looks its interfaces up by tags",
			Edits: []Edit{
				{core + "render", "$p.inLedger($r) && $p.$hasUniqueIdentity($r)", "$p.inLedger($r)"},
				{core + "render", proof, "if true || $r.$Attachment == nil || $p.$isRecorded($r) {"},
			}},
		{Name: "leaks are judged without the UID", Like: "a collector that compares names",
			Edits: []Edit{{collectors, "_, $there := $alive[$owner]", "$there := len($alive) > 0"}}},
		{Name: "lost NodeENIs are leaks like any other", Like: "a collector that trusts a restored etcd",
			Edits: []Edit{{core + "identity", "return MassLossGrace", "return AttachedOrphanGrace"}}},
		{Name: "what an earlier NodeENI of the name left is made again",
			Like: "aws-multi-eni-controller, whose records are its memory", Edits: []Edit{
				{core + "render", "$dead.$Leaked && $dead.$NodeENI == $claim.$NodeENI",
					"$dead.$Leaked && $dead.$NodeENI == $claim.$NodeENI && $dead.$NodeENI == \"\""},
				{core + "render", "if $record.$Member.$NodeENI == $nodeENI && $r.inUseMatching(",
					"if $record.$Member.$NodeENI == \"\" && $nodeENI != \"\" && $r.inUseMatching("},
			}},
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
		{Name: "a delete is retried after every error", Like: "VPC resource controller", Edits: []Edit{{
			executors, "$err := $a.$cloud.$DeleteInterface($ctx, $d.$InterfaceID)",
			"$err := $a.$cloud.$DeleteInterface($ctx, $d.$InterfaceID)\nfor range 3 {\nif $err != nil {\n" +
				"$err = $a.$cloud.$DeleteInterface($ctx, $d.$InterfaceID)\n}\n}",
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

// earlyCollector lists the cluster before the cloud and collects after one absence. It also removes three checks, since
// each alone would prevent the bug: the second read, the minimal age of a leak, and the live read of the reconciler
// that deletes.
func earlyCollector() Mutant {
	return Mutant{
		Name: "cluster is listed before the cloud, one absence is enough", Like: "a collector that trusts its cache",
		Edits: []Edit{
			{collectors, "$alive, $err := $s.$alive($ctx)",
				"now, $err := $s.$alive($ctx)\n$alive := $s.before\nif $s.before = now; $alive == nil {\n$alive = now\n}"},
			{collectors, "$gone map[$identity.$Owner]bool",
				"$gone map[$identity.$Owner]bool\nbefore map[$identity.$Owner]time.Time"},
			{collectors, ">= $identity.ConfirmInterval {", ">= 0 {"},
			{core + "identity", "$now.Sub($created) >= MinLeakAge", "$now.Sub($created) >= 0"},
			{collectors, "for _, $owner := range gone {",
				"for _, $owner := range owners {\nwatch.EnqueueOwner(ctx, $owner)\n}\nfor _, $owner := range gone {"},
			{nodePackage, "for $n := range $s.nodeENIs {\n$claim, $err := $r.$claim(",
				"for $n := range $s.nodeENIs {\nif _, gone := r.GC.Gone(identity.Owner($s.nodeENIs[$n].UID)); gone {\n" +
					"continue\n}\n$claim, $err := $r.$claim("},
			{nodePackage, "$s.nodeENI($m.Owner) != nil || ", ""},
		},
	}
}

// podMutants are about pods that use interfaces, and their addresses.
func podMutants() []Mutant {
	return []Mutant{
		{Name: "a network for pods is detached without being drained", Like: "a controller that trusts the last report",
			Edits: []Edit{{
				core + "plan", "return !$network.$Drained || $isNetwork && !$draining", "return $network.Used > 0",
			}}},
		{Name: "a prefix is returned without being drained", Like: "a controller that trusts the last report",
			Edits: []Edit{{core + "plan", "return !$known.$Drained || $known.$Used > 0", "return $known.$Used > 0"}}},
		{Name: "an assignment for an earlier holder counts for the present one", Like: "a controller that trusts its status",
			Edits: []Edit{{core + "floating", "$there := slices.Contains(f.At, i.ID)",
				"$there := slices.Contains(f.At, i.ID) || a.Assignment != nil"}}},
		{Name: "a lease outlives its boot", Like: "host-local IPAM, which knows no boots", Edits: []Edit{{
			core + "podnet", "return $l.BootID != $boot.ID", "return $l.BootID != $boot.ID && false",
		}}},
		{Name: "a lease outlives its pod", Like: "host-local IPAM, which waits for a call", Edits: []Edit{{
			core + "podnet", "range End($leases, $now, $gone)",
			"range End($leases, $now, func(Lease) bool { return gone == nil })",
		}}},
		{Name: "an idle prefix stays", Like: "VPC CNI, whose warm pool only grows", Edits: []Edit{{
			core + "podnet", "if $kept > $demand.Min && ", "if $kept > 100*$demand.Min && ",
		}}},
		{Name: "a prefix drains that the controller keeps", Like: "an agent that knows its pods alone", Edits: []Edit{{
			core + "podnet", "!slices.Contains($demand.$Returnable, $p.CIDR)", "len($demand.$Returnable) < 0",
		}}},
		{Name: "a pod that brings its address counts as none", Like: "a controller that knows leases alone", Edits: []Edit{{
			agentPackage, "$state.Used == 0 && $brought == 0, ", "$state.Used == 0 && $brought >= 0, ",
		}}},
		{Name: "pods are evicted without permission", Like: "Karpenter, which drains every node", Edits: []Edit{{
			"internal/controller", "return $pods != nil && $pods.OnRemoval == $v1alpha1.PodsEvict", "return $pods != nil",
		}}},
		{Name: "two pods of a node get one address", Like: "the static plugin of CNI, which knows no leases", Edits: []Edit{{
			core + "podnet", "case $l.Unreadable:\nreturn $n.occupied($l)\ncase $l.InUse():",
			"case $l.Unreadable:\nreturn $n.occupied($l)\ncase $l.InUse() && $l.Unreadable:",
		}}},
		{Name: "only IPv4 prefixes are drained", Like: "a controller that learned IPv6 later", Edits: []Edit{{
			core + "plan", "$all.IPv6Prefixes = slices.DeleteFunc($all.IPv6Prefixes, $inUse)", "",
		}}},
	}
}
