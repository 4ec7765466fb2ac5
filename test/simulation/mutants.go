// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

// Mutant is a bug shape that other controllers had, as a small change of our source. It is compiled only in the test that
// shows that the suite finds it.
type Mutant struct {
	Name string
	// Edits are made in order.
	Edits []Edit
	// Pending says why a mutant cannot be made; it is empty for those that can.
	Pending string
}

// Edit replaces one text in a file, which is named from the root of the module.
type Edit struct{ File, Old, New string }

// Mutants returns the bug shapes of the reliability catalogue.
func Mutants() []Mutant {
	const (
		applier    = "internal/apply/apply.go"
		identity   = "ownership/ownership.go"
		inventory  = "inventory/inventory.go"
		nodeENI    = "internal/controller/nodeeni/reconciler.go"
		sweeper    = "internal/controller/sweeper/sweeper.go"
		fence      = "internal/controller/fence.go"
		token      = "		Token:       c.Member.Token(),\n"
		changeFail = "		err = a.unassign(ctx, c.InterfaceID, to)\n	}\n	if err != nil {\n"
	)
	return []Mutant{
		{Name: "no client token", Edits: []Edit{{applier, token, ""}}},
		{Name: "random client token", Edits: []Edit{{applier, token, "		Token: fmt.Sprint(a.Now().UnixNano()),\n"}}},
		{Name: "client token without generation", Edits: []Edit{{
			identity, "m.Cluster, m.NodeENIUID, m.InstanceID, m.Ordinal, m.Generation))", "m.Cluster, m.NodeENIUID, m.InstanceID, m.Ordinal, 0))",
		}}},
		{Name: "tags after create", Edits: []Edit{{
			applier, "		Tags: c.Member.Tags(time.Unix(c.Member.Generation, 0), c.Spec.Tags),\n	})\n	if err != nil {\n		return err\n	}\n",
			"	})\n	if err != nil {\n		return err\n	}\n" +
				"	made.Tags = c.Member.Tags(time.Unix(c.Member.Generation, 0), c.Spec.Tags)\n" +
				"	if err := a.cloud.PutTags(ctx, made.ID, made.Tags); err != nil {\n		return err\n	}\n",
		}}},
		{Name: "finalizer dropped first", Edits: []Edit{
			{nodeENI, "len(states.Items) > 0 || r.Observer.Holds(string(uid)) {", "false {"},
			{nodeENI, "if err != nil || len(left) > 0 {", "if err != nil || len(left) > 1000 {"},
		}},
		{Name: "unreadable time is long ago", Edits: []Edit{{
			identity, "return known && !created.After(now) && now.Sub(created) >= LeakAge", "_ = known\n	return !created.After(now) && now.Sub(created) >= LeakAge",
		}}},
		{Name: "detach as a probe", Edits: []Edit{{
			applier, "	after := c.To.On\n",
			"	after := c.To.On\n	if i, ok := a.notes.Interface(c.InterfaceID); ok && i.Attachment != nil {\n		_ = a.cloud.DetachInterface(ctx, i.Attachment.ID, false)\n	}\n",
		}}},
		{Name: "next free index from the cache", Edits: []Edit{
			{"plan/slots.go", "			if !known || i.Attachment != nil && i.Attachment.Slot == eni.Primary {", "			if i.Attachment != nil && i.Attachment.Slot == eni.Primary && (known || !known) {"},
			{"plan/slots.go", "			s.believe(slot, refusal, lookedAt, p.now)\n", "			_, _ = slot, refusal\n"},
		}},
		{Name: "a list replaces newer facts", Edits: []Edit{
			{inventory, "if !ok || begun.Before(e.seenBegun) || begun.Before(e.madeAt.Add(Newborn)) {", "if !ok {"},
			{inventory, "	return !begun.Before(e.seenBegun) &&\n		!slices.ContainsFunc", "	return true || !begun.Before(e.seenBegun) &&\n		!slices.ContainsFunc"},
			{inventory, "	if !e.Missing {\n", "	if false {\n"},
			{inventory, "	if begun.Sub(e.missedFirst) < Confirm {\n", "	if false {\n"},
		}},
		{Name: "not found is absent at once", Edits: []Edit{
			{inventory, "if !ok || begun.Before(e.seenBegun) || begun.Before(e.madeAt.Add(Newborn)) {", "if !ok {"},
			{inventory, "	if !e.Missing {\n", "	if false {\n"},
			{inventory, "	if begun.Sub(e.missedFirst) < Confirm {\n", "	if false {\n"},
		}},
		{Name: "cluster is listed before the cloud, one sighting convicts", Edits: []Edit{
			{sweeper, "	alive, err := s.alive(ctx)\n", "	now, err := s.alive(ctx)\n	alive := s.before\n	s.before = now\n"},
			{sweeper, "	convicts map[string]bool\n", "	convicts map[string]bool\n	before map[string]bool\n"},
			{sweeper, ">= ownership.SightingGap {", ">= 0 {"},
			{identity, "now.Sub(created) >= LeakAge", "now.Sub(created) >= 0"},
			{"internal/controller/node/desired.go", "s.nodeENI(m.NodeENIUID) != nil || ", ""},
		}},
		{Name: "leaks are judged without the UID", Edits: []Edit{{sweeper, "alive[uid])", "len(alive) > 0)"}}},
		{Name: "delete after a failed change", Edits: []Edit{{applier, changeFail, changeFail + "		_ = a.cloud.DeleteInterface(ctx, c.InterfaceID)\n"}}},
		{Name: "old leader not fenced", Edits: []Edit{{fence, "age > f.Deadline {", "age > 1000*f.Deadline {"}}},
		{Name: "change skipped after a crash", Edits: []Edit{{
			"plan/drift.go", "	if a := i.Attachment; a != nil {\n		wanted", "	if a := i.Attachment; a != nil && a.Status != eni.AttachmentAttached {\n		wanted",
		}}},
		{Name: "not found is retried", Pending: "the class of a NotFound answer is decided in internal/awsec2, below the ports of the simulation; its own tests cover it"},
		{Name: "one bad ID fails a batch", Pending: "batches are made in internal/awsec2, below the ports of the simulation; its own tests cover it"},
		{Name: "one limiter for all actions", Pending: "pacing is in internal/awsec2, below the ports of the simulation; its own tests and the benchmarks cover it"},
	}
}
