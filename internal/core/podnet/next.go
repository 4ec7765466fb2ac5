// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podnet

import "slices"

// Process is a process of the agent, in a boot of the node.
type Process struct{ Boot, ID string }

// Purpose is what an object lets its interface be used for, besides by the node itself.
type Purpose int

const (
	// ForNode is an interface that only the node uses. Nothing holds it.
	ForNode Purpose = iota
	// ForPods gives pods addresses by leases.
	ForPods
	// ForObserved leaves pods and addresses to the user's plugin. The interface is held while a pod has an address on it.
	ForObserved
	// ForProgram gives the device to a program in user space.
	ForProgram
)

// Object is one version of a NetworkInterface that has an ENI, as far as it is about the use of the ENI.
type Object struct {
	UID string
	// Closed is spec.pods.closed. It can be taken back, other than Deleting.
	Closed, Deleting bool
	Purpose          Purpose
	// TakenOver is set if the ENI existed before the object, which is held until an agent has answered.
	TakenOver bool
	// Answered is set if status.node exists, Agent is who wrote it, and Open is the hold.
	Answered bool
	Agent    Process
	Open     bool
}

// LinkUse is what the link of an interface, or its device, is good for.
type LinkUse int

const (
	// LinkUsable can serve pods, or a program.
	LinkUsable LinkUse = iota
	// LinkUnsettled changes, or has no carrier: the file stays as it is.
	LinkUnsettled
	// LinkLost does not exist, or cannot be as desired until a user changes something.
	LinkLost
)

// Use is what uses an interface on the node.
type Use struct {
	// Known is set if all leases of the interface were read under the lock of its network, in all of its folders.
	Known bool
	// Leased is set if a pod has an address by a lease, and Resting if an address rests.
	Leased, Resting bool
	// Brought is set if a pod has another address on a link of the interface, or may have one: the agent may observe pods,
	// and did not see all of them.
	Brought bool
	// Linked is set if a pod has, or may have, a link on the interface, with or without an address.
	Linked bool
	// Device is set if the device has a driver for user space, or is between two drivers.
	Device bool
}

// idle reports whether nothing uses the interface.
func (u Use) idle() bool { return u.Known && !u.Leased && !u.Resting && !u.Brought && !u.Device }

// active reports whether something is known to use the interface now.
func (u Use) active() bool { return u.Known && u.Leased || u.Brought || u.Device }

// Saved is the entry of the checkpoint for an interface: what an agent may open after a boot without the API server. It
// has no more than what the API server has as held.
type Saved struct {
	Network
	// Device is the bus address of a device that a program uses; "" for a pod network.
	Device string `json:"device,omitempty"`
}

// Facts is what the agent of a node knows of an interface and one network: the object of the interface, the folder
// NETWORK/ENI, and what uses the interface.
//
// The agent asks for each object with an ENI and the network of its name, and for each folder besides. For a folder of
// another network than that of the object, Object is nil.
type Facts struct {
	// Process is the asking process.
	Process Process
	// Read is set once the process has read the objects of its node from the API server. Before that, Object is nil.
	Read bool
	// Object is the newest version that the process read or wrote; nil if there is none with the ENI.
	Object *Object
	// Unanswered is set after a write of status.node of this object without an answer, until a later one succeeds.
	Unanswered bool
	// Desired is the network of the object, with the usable prefixes of that version. Next sets its UID and Phase.
	Desired Network
	// Problem is set if Desired lacks something without which no pod may start.
	Problem bool
	// Folder is the file in the folder; nil if there is no folder. A damaged file has only the names of the folder.
	Folder *Network
	Use    Use
	// Saved is the entry of the checkpoint that has the ENI, regardless of what object or network it names; nil for none.
	// For a folder without an object it is nil if the ENI has an object.
	Saved *Saved
	// Recalled is the part of Saved that instance metadata shows on this instance; nil for none.
	Recalled *Network
	// Device is the bus address of the device of an interface for programs.
	Device string
	// Recorded is set if the report of the object, or the checkpoint, names a device that has been, or was about to be,
	// bound.
	Recorded bool
	// Enabled is set if the agent serves pod networks.
	Enabled bool
	Link    LinkUse
	// Blocked is set while another folder of the network is open, or the ENI has a folder in another network.
	Blocked bool
}

// State says why the interface is open or not.
type State int

const (
	// Idle is an interface without a purpose besides the node's.
	Idle State = iota
	// Serving is open.
	Serving
	// Opening waits for an answer of the API server, or for another folder.
	Opening
	// Shared waits until the pods that another CNI plugin attached have ended: one that has the whole interface would take
	// it from them.
	Shared
	// Closing takes no further pod: it is closed, or being deleted, or has no purpose any more.
	Closing
	// Disabled is closed because the agent serves no pod networks.
	Disabled
	// WithoutLink is closed because the link is lost, or not opened before it is settled.
	WithoutLink
	// Incomplete has a [Facts.Problem].
	Incomplete
	// LeasesLost opens no further, and is not let go, until the node boots: the object was open in this boot, and the
	// leases of its pods are gone.
	LeasesLost
)

// Step is what the agent does next, in the order of the fields. It ends at the first failure: a later part needs the
// earlier ones. After the answer to a report it asks again.
type Step struct {
	// File is what the file becomes, under the lock under which Use was read; nil leaves it. The folder is made.
	File *Network
	// Remove removes the folder.
	Remove bool
	// Save is what the entry of the checkpoint becomes, and Forget removes the entry. The checkpoint is flushed to the
	// disk.
	Save   *Saved
	Forget bool
	// Bind says that the device may be bound to its driver for user space.
	Bind bool
	// Answers says that status.node may be written, over the version of the object: with this process and Open. Due says
	// that it must be, also if nothing else in it changed.
	Answers, Due, Open bool
	State              State
}

// Next decides what the agent does next.
//
// Its rules, which docs/model.md proves: status.node is open before the file is, or the device is bound (A2). Each
// process writes status.node before it opens or adds anything or lets go (A1). It lets go after the file is closed,
// without a lease in use or at rest, and after the checkpoint has forgotten the ENI (A4). What is not known is in use.
func (f Facts) Next() Step {
	switch {
	case !f.Read:
		return f.recall()
	case f.Object == nil:
		return f.leave()
	case f.lost():
		return Step{Answers: true, Due: !f.written(), Open: true, State: LeasesLost}
	}
	step := Step{State: f.state()}
	f.keepFile(&step)
	asks := step.State == Serving || step.State == Opening && (f.Object.Open || !f.Blocked)
	step.Open = asks && f.Object.Purpose != ForObserved || f.active() || f.Object.Open && !f.mayLetGo(step.State)
	f.keepCheckpoint(&step)
	f.answer(&step)
	return step
}

// recall opens what the checkpoint has, if the node booted without the API server. An earlier process of this boot left
// a folder, which stays as it is.
func (f Facts) recall() Step {
	if f.Folder != nil || f.Recalled == nil || !f.Enabled {
		return Step{State: Opening}
	}
	return Step{File: f.Recalled.in(f.Recalled.UID, f.Recalled.Attachment != Observed), State: Serving}
}

// leave closes a folder without an object. Its leases stay until they end.
func (f Facts) leave() Step {
	step := Step{State: Closing}
	switch {
	case f.Folder != nil && f.Folder.IsOpen():
		step.File = f.Folder.in(f.Folder.UID, false)
		step.Forget = f.Saved != nil && f.Use.idle()
	case f.Saved != nil:
		step.Forget = f.Use.idle()
	default:
		step.Remove = f.Folder != nil && f.Use.idle()
	}
	return step
}

// active reports whether something holds the interface. An address of a pod that came after the interface of an object
// that is being deleted was let go does not: no hold begins there, and the API server would refuse one at each attempt.
func (f Facts) active() bool {
	use := f.Use
	if f.Object.Deleting && f.Object.Answered && !f.Object.Open {
		use.Brought = false
	}
	return use.active()
}

// lost reports whether the object was open in this boot, and the folder with the leases is gone. A device shows by
// itself whether it is in use.
func (f Facts) lost() bool {
	return f.Object.Open && f.Object.Agent.Boot == f.Process.Boot && f.Folder == nil && f.leasesMatter() &&
		f.Object.Purpose != ForObserved
}

// leasesMatter reports whether an open object has a folder.
func (f Facts) leasesMatter() bool { return !f.Recorded && f.Object.Purpose != ForProgram }

// written reports whether the object has a write of this process, and no other one can arrive.
func (f Facts) written() bool {
	return f.Object.Answered && f.Object.Agent == f.Process && !f.Unanswered
}

// state returns what the interface does after this step.
func (f Facts) state() State {
	o := f.Object
	switch {
	case o.Deleting, o.Purpose == ForNode && o.Open, f.hasFile() && o.Closed:
		return Closing
	case o.Purpose == ForNode:
		return Idle
	case f.hasFile() && !f.Enabled:
		return Disabled
	case f.Link == LinkLost, f.Link == LinkUnsettled && !f.isOpen():
		return WithoutLink
	case f.hasFile() && f.Problem:
		return Incomplete
	case f.isShared():
		return Shared
	case f.isOpen(), o.Purpose == ForObserved, o.Open && f.written() && !f.Blocked:
		return Serving
	}
	return Opening
}

// hasFile reports whether the object has a network for pods, with a file.
func (f Facts) hasFile() bool { return f.Object.Purpose == ForPods || f.Object.Purpose == ForObserved }

// isOpen reports whether the file is open for this object.
func (f Facts) isOpen() bool {
	return f.Folder != nil && f.Folder.IsOpen() && f.Folder.UID == f.Object.UID && f.Object.Open
}

// isShared reports whether a pod would get a whole interface that pods of another CNI plugin use.
func (f Facts) isShared() bool { return f.Desired.Attachment == HostDevice && f.isObserved() }

// isObserved reports whether pods that another CNI plugin attached have links on the interface. No lease says that they
// are there, so the folder stays, with their attachment.
func (f Facts) isObserved() bool {
	return f.Folder != nil && f.Folder.Attachment == Observed && f.Use.Linked
}

// keepFile decides about the file. One of another object with this ENI is closed, and its leases stay.
func (f Facts) keepFile(step *Step) {
	switch {
	case f.hasFile() && (step.State == Serving || step.State == Opening):
		step.File = f.fileInUse(step.State)
	case f.Folder == nil:
		if f.Object.Open && f.leasesMatter() { // the node booted; without a folder leases would be lost
			step.File = f.Desired.in(f.Object.UID, false)
		}
	default:
		f.keepFolder(step)
	}
	if step.File != nil && f.Folder != nil && step.File.Equal(*f.Folder) {
		step.File = nil
	}
}

// keepFolder closes the folder of an interface that serves no pods, and removes one that nothing needs.
func (f Facts) keepFolder(step *Step) {
	if f.Folder.IsOpen() || f.Folder.UID != f.Object.UID {
		step.File = f.closed()
	}
	step.Remove = step.File == nil && !f.Object.Open && f.written() && f.Saved == nil && f.Use.idle() &&
		!f.isObserved()
}

// closed returns the file of the folder, closed for this object. A damaged file, which no program reads, is replaced by
// that of the object; nil if the object has no network.
func (f Facts) closed() *Network {
	switch {
	case f.Folder.NodeENI != "":
		return f.Folder.in(f.Object.UID, false)
	case f.Desired.Attachment != "":
		return f.Desired.in(f.Object.UID, false)
	default:
		return nil
	}
}

// fileInUse returns the file of a network that serves pods or is about to; nil to leave it as it is.
func (f Facts) fileInUse(state State) *Network {
	switch {
	case state == Opening, f.Object.Purpose == ForObserved:
		return f.Desired.in(f.Object.UID, false)
	case f.written() && f.Link == LinkUsable:
		return f.Desired.in(f.Object.UID, true)
	}
	return nil
}

// mayLetGo reports whether nothing uses the interface any more, and nothing can start to. A link that changes is no
// reason to let go: it serves soon again.
func (f Facts) mayLetGo(state State) bool {
	changes := state == WithoutLink && f.Link == LinkUnsettled
	return f.written() && f.Use.idle() && !changes
}

// keepCheckpoint decides about the entry of the checkpoint, given the hold of this step.
func (f Facts) keepCheckpoint(step *Step) {
	held := f.Object.Open && f.written() && step.Open
	saved := Saved{Network: f.Desired}
	saved.UID, saved.Phase = f.Object.UID, ""
	switch {
	case !step.Open:
		step.Forget = f.Saved != nil && f.Use.Known
		return
	case !held || step.State != Serving:
		return
	case f.Object.Purpose == ForProgram:
		saved.Device = f.Device
		step.Bind = true
	}
	if f.Saved == nil || f.Saved.Device != saved.Device || !f.Saved.Equal(saved.Network) {
		step.Save = &saved
	}
}

// answer decides whether status.node is written. A first answer, or one about a folder of another object, needs to know
// the leases: no answer is better than a false one.
func (f Facts) answer(step *Step) {
	o := f.Object
	mine := f.Folder == nil || f.Folder.UID == o.UID
	step.Answers = step.Open || f.Use.Known || o.Answered && mine
	held := o.TakenOver || o.Deleting && o.Purpose == ForObserved // until the answer
	first := !o.Answered && held || !f.written() && (o.Open || f.Folder != nil)
	step.Due = step.Answers && (step.Open != o.Open || first)
}

// in returns the network with the UID of an object, open or closed.
func (n Network) in(uid string, open bool) *Network {
	n.UID, n.Phase = uid, Closed
	if open {
		n.Phase = Open
	}
	return &n
}

// IsOpen reports whether further pods can get addresses.
func (n Network) IsOpen() bool { return n.Phase == Open }

// Equal reports whether the files of both networks have the same content.
func (n Network) Equal(other Network) bool {
	return n.Name == other.Name && n.NodeENI == other.NodeENI && n.Node == other.Node && n.Link == other.Link &&
		n.ENI == other.ENI && n.MAC == other.MAC && n.MTU == other.MTU && n.Attachment == other.Attachment &&
		n.UID == other.UID && n.Phase == other.Phase && n.IPv4.equal(other.IPv4) && n.IPv6.equal(other.IPv6) &&
		slices.Equal(n.Addresses, other.Addresses) && slices.Equal(n.Routes, other.Routes)
}

func (f *Family) equal(other *Family) bool {
	if f == nil || other == nil {
		return f == other
	}
	return f.Subnet == other.Subnet && f.Gateway == other.Gateway && f.MaxPrefixes == other.MaxPrefixes &&
		slices.Equal(f.Prefixes, other.Prefixes) && slices.Equal(f.Granted, other.Granted)
}
