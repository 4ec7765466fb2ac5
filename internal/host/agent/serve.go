// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// lockTime bounds how long one pass waits for locks of leases, so that the other networks and all links go on.
const lockTime = time.Second

// served is an interface in one pass, with one network.
type served struct {
	network, eni string
	// object is nil for a folder, or an entry of the checkpoint, without one. It must not be changed.
	object *v1alpha1.NetworkInterface
	// desired is the network of the object, and unknown the family whose range is not known.
	desired podnet.Network
	unknown string
	// link says why pods cannot use the link; nil if they can.
	link *problem
	// leases are those in the folder, and brought is the number of further addresses of pods.
	leases  []podnet.Lease
	brought int
	readAt  time.Time
	// blocked is set while another folder keeps the interface from being opened.
	blocked bool
	// step is what package podnet decided. It does not count after an error.
	step podnet.Step
	err  error
}

// uses reports whether pods can use the interface of an object.
func (o *served) uses() bool { return o.object != nil && o.object.Spec.Pods != nil }

// isOpen reports whether the object has the hold. It gets a folder also after the end of its network: an open object of
// this boot without one would be taken for one whose leases are lost.
func (o *served) isOpen() bool {
	return o.object != nil && o.object.Status.Node != nil && o.object.Status.Node.Open
}

// opens reports whether pods can attach, or can once the API server has answered this report: one write says both.
func (o *served) opens() bool {
	return o.step.State == podnet.Serving || o.step.State == podnet.Opening && o.step.Open && !o.blocked
}

// isLeft reports whether the interface has no object, and isNew whether its object has no report yet.
func (o *served) isLeft() bool { return o.object == nil }
func (o *served) isNew() bool  { return o.object != nil && o.object.Status.Node == nil }

// serve decides about the use of each interface, and writes the files of pod networks and the checkpoint.
func (a *Agent) serve(ctx context.Context, s *snapshot) error {
	a.recall()
	a.observe(ctx, s)
	var folders map[string][]string
	if a.PodFiles != nil {
		var err error
		if folders, err = a.PodFiles.Folders(); err != nil {
			return err // nothing is known of leases
		}
	}
	waits, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	var failures []error
	for _, network := range a.networks(s, folders) {
		failures = append(failures, a.serveNetwork(waits, s, network, folders))
	}
	stale := a.flush(s)
	a.settle(s, stale)
	a.forgetPresent(s)
	return errors.Join(append(failures, stale)...)
}

// networks returns the networks of the node: those of objects, of folders and of the checkpoint.
func (a *Agent) networks(s *snapshot, folders map[string][]string) []string {
	all := map[string]bool{}
	for _, n := range s.objects {
		all[networkOf(n).Name()] = true
	}
	for network := range folders {
		all[network] = true
	}
	for _, saved := range a.saved.Held {
		all[saved.Name] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// settle ends the steps of the pass: unless the disk has the checkpoint, nothing is let go and no device is bound.
func (a *Agent) settle(s *snapshot, stale error) {
	a.mayBind = map[string]bool{}
	for _, one := range s.served {
		if stale != nil && one.err == nil && (one.step.Forget || one.step.Save != nil && one.step.Bind || a.unread) {
			one.err = stale
		}
		if one.err != nil {
			continue
		}
		if one.binds(stale) {
			a.mayBind[recordedDevice(one.object, a.saved.Held)] = true
		}
		if one.step.File != nil || one.step.Remove || one.step.Save != nil || one.step.Forget {
			a.wake() // the next step
		}
	}
}

// binds reports whether the device of an interface may be bound: the disk has the checkpoint that names it.
func (o *served) binds(stale error) bool { return o.step.Bind && o.step.Save == nil && stale == nil }

// serveNetwork serves the interfaces of one network.
func (a *Agent) serveNetwork(
	ctx context.Context, s *snapshot, network string, folders map[string][]string,
) error {
	var all []*served
	for _, n := range s.objects {
		if networkOf(n).Name() == network && n.Status.ENIID != "" {
			one := &served{network: network, eni: n.Status.ENIID, object: n}
			one.desired, one.unknown = Network(n, a.Node, a.DefaultMTU)
			all = append(all, one)
		}
	}
	isNew := func(eni string) bool {
		return !slices.ContainsFunc(all, func(o *served) bool { return o.eni == eni })
	}
	for _, eni := range folders[network] {
		if isNew(eni) {
			all = append(all, &served{network: network, eni: eni})
		}
	}
	for _, saved := range a.saved.Held {
		if saved.Name == network && isNew(saved.ENI) {
			all = append(all, &served{network: network, eni: saved.ENI})
		}
	}
	// the folders without an object come first: they can keep another one from being opened
	slices.SortStableFunc(all, func(x, y *served) int {
		switch {
		case (x.object == nil) == (y.object == nil):
			return strings.Compare(x.eni, y.eni)
		case x.object == nil:
			return -1
		}
		return 1
	})
	s.served = append(s.served, all...)
	return a.serveAll(ctx, s, network, all, folders)
}

// serveAll serves the interfaces under the lock of their network, if there is something to lock.
func (a *Agent) serveAll(
	ctx context.Context, s *snapshot, network string, all []*served, folders map[string][]string,
) error {
	lock := a.lockOf(network, all, folders)
	if lock == nil {
		for _, one := range all {
			a.decideUse(s, one, nil, folders)
		}
		return nil
	}
	files, err := lock(ctx, network)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // another process removed the folder a moment ago
	}
	var present []podlease.Folder
	if err == nil {
		defer files.Close()
		present, err = files.Current(a.Now())
	}
	if err != nil {
		for _, one := range all {
			one.err = err
		}
		return err
	}
	var failures []error
	for _, one := range all {
		a.decideUse(s, one, present, folders)
		if present, one.err = a.execute(files, one, present); one.err != nil {
			failures = append(failures, one.err)
		}
	}
	if len(present) == 0 {
		failures = append(failures, files.Remove())
	}
	return errors.Join(failures...)
}

// lockOf returns how to lock the files of a network; nil if there is nothing to lock: no interface of it has a folder,
// or gets one.
func (a *Agent) lockOf(
	network string, all []*served, folders map[string][]string,
) func(context.Context, string) (Files, error) {
	switch {
	case a.PodFiles == nil:
		return nil
	case slices.ContainsFunc(all, (*served).uses), slices.ContainsFunc(all, (*served).isOpen),
		slices.ContainsFunc(all, a.isRecalled):
		return a.PodFiles.Lock
	}
	if _, present := folders[network]; present {
		return a.PodFiles.LockPresent
	}
	return nil
}

// isRecalled reports whether the interface may be opened without the API server.
func (a *Agent) isRecalled(one *served) bool { return a.recalled[one.eni] != nil }

// decideUse sets the next step of an interface, given the folders of its network.
func (a *Agent) decideUse(s *snapshot, one *served, present []podlease.Folder, folders map[string][]string) {
	one.readAt = a.Now()
	f := podnet.Facts{Process: a.Process, Read: s.read, Desired: one.desired, Problem: one.unknown != "",
		Saved: a.entry(one.eni), Enabled: a.PodFiles != nil && !a.PodsDisabled, Recalled: a.recalled[one.eni]}
	f.Use.Known = a.PodFiles != nil
	for n := range present {
		switch folder := &present[n]; {
		case folder.ENI == one.eni:
			f.Folder, one.leases = &folder.Network, folder.Leases
		case folder.IsOpen():
			f.Blocked = true
		}
	}
	for network, enis := range folders {
		if network != one.network && slices.Contains(enis, one.eni) {
			f.Blocked, f.Use.Known = one.object != nil, one.object == nil && f.Use.Known
		}
	}
	one.blocked = f.Blocked
	a.decideObject(s, one, &f)
	a.watchLeases(one, f.Folder)
	one.brought = a.updatePresent(s, one)
	f.Use.Brought = one.brought > 0 || a.mayHaveBrought(one)
	_, linked := a.found[one.eni]
	f.Use.Linked = linked || a.PodAddresses != nil && !a.foundAll
	for _, l := range one.leases {
		f.Use.Leased = f.Use.Leased || l.InUse()
		f.Use.Resting = f.Use.Resting || l.Rests(one.readAt)
	}
	one.step = f.Next()
}

// decideObject completes the facts with those of the object, its link and its device.
func (a *Agent) decideObject(s *snapshot, one *served, f *podnet.Facts) {
	n := one.object
	if n == nil {
		if s.hasENI(one.eni) {
			f.Saved = nil
		}
		if f.Saved != nil && f.Saved.Device != "" {
			f.Use.Device = s.bus.Holds(f.Saved.Device)
		}
		return
	}
	if s.read {
		f.Object = objectOf(n)
		f.Unanswered = a.unanswered[n.UID]
		if a.PodFiles == nil { // nothing is known of leases, and only a hold of an earlier agent can have had some
			f.Use.Known = !f.Object.TakenOver && !f.Object.Open
		}
	}
	f.Link, one.link = linkUse(n, s.observed)
	if o := observationOf(n, s.observed); o != nil && o.Facts != nil {
		f.Device = o.Facts.Device
	}
	if device := recordedDevice(n, a.saved.Held); device != "" {
		f.Recorded, f.Use.Device = true, s.bus.Holds(device)
	}
	if f.Link == podnet.LinkUsable && driverOf(n) == "" && n.Spec.Pods == nil {
		one.link = nil
	}
}

// execute writes the file of an interface, and returns the folders of its network after that.
func (a *Agent) execute(files Files, one *served, present []podlease.Folder) ([]podlease.Folder, error) {
	at := slices.IndexFunc(present, func(f podlease.Folder) bool { return f.ENI == one.eni })
	switch {
	case one.step.File != nil:
		if err := files.WriteNetwork(*one.step.File); err != nil {
			return present, err
		}
		if at < 0 {
			return append(present, podlease.Folder{Folder: podnet.Folder{Network: *one.step.File}}), nil
		}
		present[at].Network, present[at].Invalid = *one.step.File, nil
	case one.step.Remove:
		if err := files.RemoveFolder(one.eni); err != nil {
			return present, err
		}
		if at >= 0 {
			present = slices.Delete(present, at, at+1)
		}
	}
	return present, nil
}

// hasENI reports whether an object has the interface.
func (s *snapshot) hasENI(eni string) bool {
	return slices.ContainsFunc(s.objects, func(n *v1alpha1.NetworkInterface) bool { return n.Status.ENIID == eni })
}

// linkOf returns the index of the link of an interface; 0 if it is not on the node.
func (s *snapshot) linkOf(n *v1alpha1.NetworkInterface) int {
	if o := observationOf(n, s.observed); o != nil && o.Facts != nil {
		return o.Facts.Index
	}
	return 0
}

// preserves reports whether the agent leaves a link as it is that no object desires. A missing object is no reason to
// restore its link: only a deletion is.
func (s *snapshot) preserves(mac string) bool { return !s.read || !s.ended[mac] }

// wants reports whether the MAC address is that of a desired link or device of the node.
func (s *snapshot) wants(mac string) bool {
	for _, link := range s.links {
		if link.MAC == mac {
			return true
		}
	}
	for _, device := range s.devices {
		if device.Link.MAC == mac {
			return true
		}
	}
	return false
}

// preserved returns the MAC addresses of links that the agent configured, and leaves as they are.
func (s *snapshot) preserved() (macs []string) {
	for _, link := range s.facts.Links {
		if hostnet.ParseOriginalState(link.Alias) != nil && !s.wants(link.MAC) && s.preserves(link.MAC) {
			macs = append(macs, link.MAC)
		}
	}
	return macs
}

// changesPreserved reports whether an operation would change something that the agent preserves.
func (s *snapshot) changesPreserved(o hostnet.Operation) bool {
	switch o.(type) {
	case hostnet.AddRule: // of a desired link
		return false
	case hostnet.RemoveRule: // its owner is unknown
		return len(s.preserved()) > 0 || !s.read
	}
	n := slices.IndexFunc(s.facts.Links, func(l hostnet.LinkFacts) bool { return l.Index == o.LinkIndex() })
	return n < 0 || !s.wants(s.facts.Links[n].MAC) && s.preserves(s.facts.Links[n].MAC)
}
