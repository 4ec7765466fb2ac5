// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "slices"

// Mutant is a bug shape that other controllers had, as a small change of our source. It is compiled only in the test
// that shows that the suite finds it.
type Mutant struct {
	Name string
	// Like names who has, or had, it.
	Like string
	// Edits are made in order.
	Edits []Edit
	// Below is set where the change is below the ports of the step driver: then TestPipeline has to find it.
	Below bool
}

// Edit replaces one text in a file, which is named from the root of the module.
type Edit struct{ File, Old, New string }

// What mutants edit.
const (
	executorFile  = "internal/executor/executor.go"
	computeFile   = "internal/core/plan/compute.go"
	replaceFile   = "internal/core/plan/replace.go"
	evidenceFile  = "internal/core/plan/evidence.go"
	identityFile  = "internal/core/identity/identity.go"
	inventoryFile = "internal/core/inventory/reads.go"
	deletionFile  = "internal/controller/nodeeni/deletion.go"
	gcFile        = "internal/controller/gc/collector.go"
	fenceFile     = "internal/controller/fence.go"
	token         = "		Token:       c.Member.Token(),\n"
	changeFail    = "		err = a.unassign(ctx, c.InterfaceID, to)\n	}\n"
)

// Mutants returns the bug shapes of the reliability catalogue.
func Mutants() []Mutant {
	return slices.Concat(beliefMutants(), actionMutants(), originMutants(), podMutants())
}

// originMutants mistake the interfaces that an instance has before it joins, the devices that programs drive, and the
// addresses that are free.
func originMutants() []Mutant {
	const launchFile = "internal/core/plan/launch_interfaces.go"
	return []Mutant{
		{Name: "a device is detached under a program", Like: "a controller that knows EC2 alone", Edits: []Edit{{
			"internal/core/plan/remove.go", "	case !p.ended && p.isHeld(i.ID):\n", "	case p.ended && p.isHeld(i.ID):\n",
		}}},
		{Name: "an address that is not the lowest", Like: "an allocator that counts on", Edits: []Edit{{
			"internal/core/ipam/reservations.go", "	lowest, err := s.Free(1)\n",
			"	lowest, err := s.Free(2)\n	lowest = lowest[max(0, len(lowest)-1):]\n",
		}}},
		{Name: "launch interfaces are not seen", Like: "aws-multi-eni-controller", Edits: []Edit{{
			launchFile, "		if !taken && i.AttachedTo(p.InstanceID)", "		if taken && i.AttachedTo(p.InstanceID)",
		}}},
		{Name: "launch interfaces are tagged again", Like: "a controller that adopts by tags", Edits: []Edit{{
			launchFile, "	todo := slices.DeleteFunc(changes(desired, nil, i, p.demandFor(m, i)), isTags)\n",
			"	todo := changes(desired, m.DesiredTags(desired.Spec.Tags), i, p.demandFor(m, i))\n",
		}}},
		{Name: "pre-join interfaces are leaks", Like: "a collector that looks for owners alone", Edits: []Edit{{
			gcFile, "	owners := slices.DeleteFunc(watch.Owners(), identity.Owner.IsNetwork)\n", "	owners := watch.Owners()\n",
		}}},
	}
}

// beliefMutants believe what is not so.
func beliefMutants() []Mutant {
	return []Mutant{
		{Name: "no client token", Like: "aws-multi-eni-controller, VPC CNI, VPC resource controller", Edits: []Edit{{executorFile, token, ""}}},
		{Name: "random client token", Like: "Cilium, by the SDK's default", Edits: []Edit{{executorFile, token, "		Token: fmt.Sprint(a.Now().UnixNano()),\n"}}},
		{Name: "client token without generation", Like: "a token that names the slot alone", Edits: []Edit{{
			identityFile, "m.Cluster, m.Owner, m.InstanceID, m.Ordinal, m.Generation))", "m.Cluster, m.Owner, m.InstanceID, m.Ordinal, 0))",
		}}},
		{Name: "tags after create", Like: "a controller that tags with CreateTags", Edits: []Edit{{
			executorFile, "		Tags: c.Member.Tags(c.Member.Generation.Time(), c.Spec.Tags),\n	}\n	if !c.Spec.LowestFree {\n		return a.cloud.CreateInterface(ctx, request)\n	}\n",
			"	}\n	if !c.Spec.LowestFree {\n		made, err := a.cloud.CreateInterface(ctx, request)\n		if err != nil {\n			return made, err\n		}\n" +
				"		made.Tags = c.Member.Tags(c.Member.Generation.Time(), c.Spec.Tags)\n		return made, a.cloud.PutTags(ctx, made.ID, made.Tags)\n	}\n",
		}}},
		{Name: "finalizer dropped first", Like: "VPC resource controller", Edits: []Edit{
			{deletionFile, " || r.Observer.Holds(identity.Owner(uid)) {", " {"}, {deletionFile, "	if len(states.Items) > 0 && ", "	if false && "},
			{deletionFile, "if err != nil || len(left) > 0 {", "if err != nil || len(left) > 1000 {"},
		}},
		{Name: "unreadable time is long ago", Like: "VPC CNI", Edits: []Edit{{
			identityFile, "return known && now.Sub(created) >= MinLeakAge", "_ = known\n	return now.Sub(created) >= MinLeakAge",
		}}},
		{Name: "detach as a probe", Like: "aws-multi-eni-controller", Edits: []Edit{{
			executorFile, "	after := c.To.Apply\n",
			"	after := c.To.Apply\n	if i, ok := a.notes.(interface{ Interface(string) (eni.Interface, bool) }).Interface(c.InterfaceID); ok && i.Attachment != nil {\n		_ = a.cloud.DetachInterface(ctx, i.Attachment.ID, false)\n	}\n",
		}}},
		{Name: "next free index from the cache", Like: "Cilium", Edits: []Edit{
			{"internal/core/plan/slots.go", "			if !known || i.Attachment != nil && i.Attachment.Slot == eni.Primary {", "			if i.Attachment != nil && i.Attachment.Slot == eni.Primary && (known || !known) {"},
			{"internal/core/plan/slots.go", "		s.markUnusable(slot, refusal, lookedAt, p.now)\n", "		_, _, _ = slot, refusal, lookedAt\n"},
		}},
		{Name: "a list replaces newer facts", Like: "Cilium", Edits: []Edit{
			{inventoryFile, "if !ok || begun.Before(e.newestReadBegan) || begun.Before(e.madeAt.Add(VisibilityWindow)) {", "if !ok {"},
			{inventoryFile, "	return !begun.Before(e.newestReadBegan) && ", "	return true || !begun.Before(e.newestReadBegan) && "},
			{inventoryFile, "	if !e.Missing {\n", "	if false {\n"},
			{inventoryFile, "	if begun.Sub(e.absentSince) < AbsenceConfirmation {\n", "	if false {\n"},
		}},
		{Name: "not found is absent at once", Like: "cloud-provider-aws, once", Edits: []Edit{
			{inventoryFile, "if !ok || begun.Before(e.newestReadBegan) || begun.Before(e.madeAt.Add(VisibilityWindow)) {", "if !ok {"},
			{inventoryFile, "	if !e.Missing {\n", "	if false {\n"},
			{inventoryFile, "	if begun.Sub(e.absentSince) < AbsenceConfirmation {\n", "	if false {\n"},
		}},
		earlyCollector(),
	}
}

// actionMutants do what they should not, or too much of it.
func actionMutants() []Mutant {
	return []Mutant{
		{Name: "a replacement without drift", Like: "a controller that compares with what it last applied", Edits: []Edit{{
			replaceFile, "		m.Drift = fixedDrift(*m.desired, m.target, m.record.Interface)\n",
			"		m.Drift = fixedDrift(*m.desired, m.target, m.record.Interface)\n		if m.claim.ReplaceAllowed && p.now.Hour() == 0 {\n			m.Drift = []Drift{{\"slot\", \"another\", \"this\"}}\n		}\n",
		}}},
		{Name: "two replacements on a node", Like: "a rollout that counts nodes alone", Edits: []Edit{{
			replaceFile, "	if n < 0 || len(p.plan.Unsettled) > 0 {\n", "	if n < 0 {\n",
		}}},
		{Name: "maxUnavailable is ignored", Like: "aws-multi-eni-controller, which has no rollout", Edits: []Edit{{
			"internal/controller/node/desired.go", "	if r.mayReplace(string(p.ReplaceCandidate), instanceID, limit, instancesOf(unavailable)) {\n",
			"	if r.mayReplace(string(p.ReplaceCandidate), instanceID, 100*limit, instancesOf(unavailable)) || limit > 0 {\n",
		}}},
		{Name: "a plan forgets the calls under way", Like: "a controller that plans from its cache alone", Edits: []Edit{
			{computeFile, "	p.Owned = o.expected()\n", ""},
			{"internal/core/plan/match.go", "(own < 0 || paired) && p.mayBecomeVisible(key)", "own < -1 && (paired || p.mayBecomeVisible(key))"},
		}},
		{Name: "tags are written again after the attach", Like: "VPC CNI", Edits: []Edit{{
			executorFile, "	a.note(at.InterfaceID, func(i eni.Interface) eni.Interface {\n",
			"	if i, ok := a.notes.(interface{ Interface(string) (eni.Interface, bool) }).Interface(at.InterfaceID); ok {\n		_ = a.cloud.PutTags(ctx, i.ID, i.Tags)\n	}\n" +
				"	a.note(at.InterfaceID, func(i eni.Interface) eni.Interface {\n",
		}}},
		{Name: "no bound on what is on its way", Like: "a controller that makes all interfaces at once", Edits: []Edit{{
			"internal/core/plan/transitions.go", "	case p.unattached >= MaxUnattached:\n", "	case p.unattached >= 100*MaxUnattached:\n",
		}}},
		{Name: "a taken slot is looked at every minute", Like: "a controller that polls", Edits: []Edit{{
			computeFile, "	foreignSlotRecheck = 5 * time.Minute\n", "	foreignSlotRecheck = time.Minute\n",
		}}},
		{Name: "an attach is overdue at once", Like: "a controller without patience", Edits: []Edit{{
			"internal/core/plan/transitions.go", "p.lastRead(m).Sub(since) >= AttachTimeout", "p.lastRead(m).Sub(since) >= time.Second",
		}}},
		{Name: "a pause does not hold what is done on a node", Like: "a pause that is read for NodeENIs alone", Edits: []Edit{{
			"internal/core/plan/desired.go", "	case c.NodePaused:\n", "	case c.NodePaused && c.NodeENIDeleting:\n",
		}}},
		{Name: "Ready is what one node says", Like: "aws-multi-eni-controller, whose status lists what was tried last", Edits: []Edit{
			{"internal/controller/nodeeni/report.go", "	case len(blocked) > 0:\n", "	case len(blocked) > 0 && st.Attached == 0:\n"},
			{"internal/controller/nodeeni/report.go", "	case st.Attached < st.Desired || waiting > 0:\n", "	case st.Attached == 0 || waiting > 0:\n"},
		}},
		{Name: "names mean subnets of any VPC", Like: "aws-multi-eni-controller", Edits: []Edit{
			{"internal/controller/node/snapshot.go", "		at.VPCID = known.Owned[0].VPCID\n", "		at.VPCID = \"\"\n"},
			{"internal/controller/node/snapshot.go", "		at.VPCID = look.Instance.VPCID\n", "		at.VPCID = \"\"\n"},
		}},
		{Name: "network cards are not known", Like: "aws-multi-eni-controller", Edits: []Edit{{
			"internal/core/plan/slots.go", "	if onCard == 0 {\n", "	if onCard = max(onCard, 1); onCard == 0 {\n",
		}}},
		{Name: "tags are proof", Like: "a collector that believes tags", Edits: []Edit{
			{evidenceFile, "	return !p.isAttachedToRunning(r) || ", "	return true || !p.isAttachedToRunning(r) || "},
			{evidenceFile, "	if r.Attachment == nil || p.isRecorded(r) {\n", "	if true || r.Attachment == nil || p.isRecorded(r) {\n"},
		}},
		{Name: "copied tags are those of what they name", Like: "a controller that looks its interfaces up by tags", Edits: []Edit{
			{evidenceFile, "p.inLedger(r) && p.hasUniqueIdentity(r)\n", "p.inLedger(r)\n"},
			{evidenceFile, "	if r.Attachment == nil || p.isRecorded(r) {\n", "	if true || r.Attachment == nil || p.isRecorded(r) {\n"},
		}},
		{Name: "leaks are judged without the UID", Like: "a collector that compares names", Edits: []Edit{{gcFile, "		_, there := alive[owner]\n", "		there := len(alive) > 0\n"}}},
		{Name: "lost NodeENIs are leaks like any other", Like: "a collector that trusts a restored etcd", Edits: []Edit{{identityFile, "		return MassLossGrace\n", "		return AttachedOrphanGrace\n"}}},
		{Name: "what an earlier NodeENI of the name left is made again", Like: "aws-multi-eni-controller, whose records are its memory", Edits: []Edit{
			{"internal/core/plan/adopt.go", "dead.Leaked && dead.NodeENI == claim.NodeENI", "dead.Leaked && dead.NodeENI == claim.NodeENI && dead.NodeENI == \"\""},
			{"internal/core/plan/adopt.go", "if m.desired != nil && r.Member.NodeENI == m.NodeENI && ", "if m.desired != nil && r.Member.NodeENI == \"\" && "},
		}},
		{Name: "delete after a failed change", Like: "Cilium", Edits: []Edit{{executorFile, changeFail, changeFail + "	if err != nil {\n		_ = a.cloud.DeleteInterface(ctx, c.InterfaceID)\n	}\n"}}},
		{Name: "old leader not fenced", Like: "a controller that relies on leader election alone", Edits: []Edit{{fenceFile, "age > f.Deadline {", "age > 1000*f.Deadline {"}}},
		{Name: "change skipped after a crash", Like: "a controller that sets DeleteOnTermination only once", Edits: []Edit{{
			"internal/core/plan/drift.go", "	if a := i.Attachment; a != nil {\n		wanted", "	if a := i.Attachment; a != nil && a.Status != eni.AttachmentAttached {\n		wanted",
		}}},
		{Name: "a delete is retried after every error", Like: "VPC resource controller", Edits: []Edit{{
			executorFile, "	err := a.cloud.DeleteInterface(ctx, d.InterfaceID)\n",
			"	err := a.cloud.DeleteInterface(ctx, d.InterfaceID)\n	for range 3 {\n		if err != nil {\n			err = a.cloud.DeleteInterface(ctx, d.InterfaceID)\n		}\n	}\n",
		}}},
		{Name: "one bad ID fails a batch", Like: "EBS CSI driver, once", Below: true, Edits: []Edit{{
			"internal/awsec2/describe_instance.go", "	if err := group.Wait(); err != nil {\n",
			"	_ = group.Wait()\n	if len(instances) < len(ids) {\n		return nil, &eni.APIError{Class: eni.NotFound, Operation: \"DescribeInstances\", Err: fmt.Errorf(\"one ID is not known\")}\n	}\n" +
				"	if err := group.Wait(); err != nil {\n",
		}}},
		{Name: "one limiter for all actions", Like: "Cilium, VPC resource controller", Below: true, Edits: []Edit{{
			"internal/awsec2/pacing.go", "		spender := p.spenders[call.Action]\n", "		spender := p.spenders[\"ModifyNetworkInterfaceAttribute\"]\n",
		}}},
	}
}

// earlyCollector lists the cluster before the cloud and collects after one absence. Each of the checks that it removes
// in addition would suffice alone: the second read, the minimal age of a leak, and the live read of the reconciler that
// deletes.
func earlyCollector() Mutant {
	const desired = "internal/controller/node/desired.go"
	return Mutant{Name: "cluster is listed before the cloud, one absence is enough", Like: "a collector that trusts its cache", Edits: []Edit{
		{gcFile, "	alive, err := s.alive(ctx)\n", "	now, err := s.alive(ctx)\n	alive := s.before\n	if s.before = now; alive == nil {\n		alive = now\n	}\n"},
		{gcFile, "	gone    map[identity.Owner]bool\n", "	gone    map[identity.Owner]bool\n	before map[identity.Owner]time.Time\n"},
		{gcFile, ">= identity.ConfirmInterval {", ">= 0 {"},
		{identityFile, "now.Sub(created) >= MinLeakAge", "now.Sub(created) >= 0"},
		{gcFile, "	for _, owner := range gone {\n", "	for _, owner := range owners {\n		watch.EnqueueOwner(ctx, owner)\n	}\n	for _, owner := range gone {\n"},
		{desired, "	for n := range s.nodeENIs {\n", "	for n := range s.nodeENIs {\n		if _, gone := r.GC.Gone(identity.Owner(s.nodeENIs[n].UID)); gone {\n			continue\n		}\n"},
		{desired, "s.nodeENI(m.Owner) != nil || ", ""},
	}}
}

// podMutants are about pods that use interfaces.
func podMutants() []Mutant {
	return []Mutant{
		{Name: "a network for pods is detached without being drained", Like: "a controller that trusts the last report", Edits: []Edit{{
			"internal/core/plan/podnetworks.go", "		return !network.Drained || isNetwork && !draining\n", "		return network.Used > 0\n",
		}}},
	}
}
