// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"slices"
	"time"
)

// InstancesInput is the request of TerminateInstances and StartInstances.
type InstancesInput struct {
	InstanceIDs []string `query:"InstanceId"`
	DryRun      bool     `query:"DryRun"`
}

// StopInstancesInput is the request of StopInstances. Force makes no difference to a simulated machine.
type StopInstancesInput struct {
	InstancesInput
	Force bool `query:"Force"`
}

// InstanceStateChanges is the answer of the three.
type InstanceStateChanges struct {
	Changes []InstanceStateChange `json:"instances" xml:"instancesSet"`
}

// InstanceStateChange has the previous and the current state of an instance.
type InstanceStateChange struct {
	InstanceID    string        `json:"instanceId"`
	PreviousState InstanceState `json:"previousState"`
	CurrentState  InstanceState `json:"currentState"`
}

// TerminateInstances begins to terminate instances. It also succeeds for terminated ones.
func (m *Model) TerminateInstances(c Call, in *InstancesInput) (*InstanceStateChanges, error) {
	return m.changeStates(c, *in, func(i *Instance) error {
		if i.internal.Protected {
			return refuse("OperationNotPermitted",
				"The instance '%s' may not be terminated. Modify its 'disableApiTermination' instance attribute "+
					"and try again.", i.InstanceID)
		}
		return nil
	}, m.terminate)
}

// StopInstances begins to stop instances. Their interfaces stay attached.
func (m *Model) StopInstances(c Call, in *StopInstancesInput) (*InstanceStateChanges, error) {
	return m.changeStates(c, in.InstancesInput, func(i *Instance) error {
		if i.State.Name == ShuttingDown || i.State.Name == Terminated || i.State.Name == Pending {
			return incorrectInstanceState(i, "stopped")
		}
		if i.internal.StopProtected {
			return refuse("OperationNotPermitted", "The instance '%s' may not be stopped. Modify its 'disableApiStop' "+
				"instance attribute and try again.", i.InstanceID)
		}
		return nil
	}, m.stop)
}

// StartInstances begins to start stopped instances.
func (m *Model) StartInstances(c Call, in *InstancesInput) (*InstanceStateChanges, error) {
	return m.changeStates(c, *in, func(i *Instance) error {
		if i.State.Name == ShuttingDown || i.State.Name == Terminated || i.State.Name == Stopping {
			return incorrectInstanceState(i, "started")
		}
		return nil
	}, m.start)
}

func incorrectInstanceState(i *Instance, to string) *Error {
	return refuse("IncorrectInstanceState", "The instance '%s' is not in a state from which it can be %s: it is %s.",
		i.InstanceID, to, i.State.Name)
}

// changeStates checks all instances before it changes one.
func (m *Model) changeStates(
	c Call, in InstancesInput, check func(*Instance) error, change func(id string),
) (*InstanceStateChanges, error) {
	m.Advance(c.Now)
	if len(in.InstanceIDs) == 0 {
		return nil, missing("InstanceId")
	}
	for _, id := range in.InstanceIDs {
		instance, err := m.instanceOf(id)
		if err != nil {
			return nil, err
		}
		if err := check(instance); err != nil {
			return nil, err
		}
	}
	if in.DryRun {
		return nil, dryRun()
	}
	answer := &InstanceStateChanges{}
	for _, id := range in.InstanceIDs {
		change := InstanceStateChange{InstanceID: id, PreviousState: m.instances.get(id).State}
		answer.Changes = append(answer.Changes, change)
	}
	for i, id := range in.InstanceIDs {
		change(id)
		answer.Changes[i].CurrentState = m.instances.get(id).State
	}
	return answer, nil
}

// enterRunning sets a new or started instance to running.
func (m *Model) enterRunning(id string) {
	instance := m.instances.get(id)
	if instance == nil || instance.State.Name != Pending {
		return
	}
	m.changeInstance(id, func(i *Instance) { i.State = state(Running) })
	for _, eni := range m.interfacesOf(id) {
		m.attached(eni.NetworkInterfaceID, eni.Attachment.AttachmentID)
	}
	if instance.internal.CNI != nil {
		after(m, m.behavior.CNI, m.events.warmed, id)
	}
}

// runCNI is the first action of the VPC CNI on a node: it uses the lowest free device indexes of card 0. It ignores
// refused calls.
func (m *Model) runCNI(instanceID string) {
	instance := m.instances.get(instanceID)
	if instance == nil || instance.State.Name != Running {
		return
	}
	for range instance.internal.CNI.WarmENIs - m.ownedByCNI(instanceID) {
		where := m.lowestFree(instanceID)
		eni, err := m.create(InterfaceSettings{
			SubnetID: instance.SubnetID, Groups: groupIDs(instance.Groups), Description: "aws-K8S-" + instanceID,
		}, "", Tags{cniTag: instanceID})
		if err != nil {
			return
		}
		if err := m.canAttach(eni, instance, where, false); err != nil {
			m.delete(eni)
			return
		}
		id := m.attach(eni, where, Attachment{InstanceID: instanceID, DeleteOnTermination: true})
		after(m, m.behavior.Attach, m.events.attached, attachment{eni.NetworkInterfaceID, id})
	}
}

// cniTag is the tag with which the VPC CNI marks its interfaces.
const cniTag = "node.k8s.amazonaws.com/instance_id"

func (m *Model) ownedByCNI(instanceID string) int {
	n := 0
	for _, eni := range m.interfacesOf(instanceID) {
		if eni.Tags[cniTag] == instanceID {
			n++
		}
	}
	return n
}

func (m *Model) lowestFree(instanceID string) slot {
	isTaken := func(eni *NetworkInterface, where slot) bool { return eni.Attachment.slot() == where }
	for where := (slot{device: 1}); ; where.device++ {
		if !slices.ContainsFunc(m.interfacesOf(instanceID), func(eni *NetworkInterface) bool { return isTaken(eni, where) }) {
			return where
		}
	}
}

func groupIDs(groups []GroupIdentifier) []string {
	return each(groups, func(g GroupIdentifier) string { return g.GroupID })
}

func (m *Model) stop(id string) {
	if name := m.instances.get(id).State.Name; name == Stopping || name == Stopped {
		return
	}
	m.changeInstance(id, func(i *Instance) { i.State, i.StateReason = state(Stopping), userInitiated() })
	after(m, m.behavior.Stop, m.events.stopped, id)
}

// stopped sets a stopping instance to stopped.
func (m *Model) stopped(id string) {
	if m.instances.get(id).State.Name != Stopping {
		return
	}
	m.losePublic(id)
	delete(m.departures, id)
	m.changeInstance(id, func(i *Instance) { i.State, i.internal.Poisoned = state(Stopped), nil })
}

func (m *Model) start(id string) {
	if m.instances.get(id).State.Name != Stopped {
		return
	}
	m.changeInstance(id, func(i *Instance) { i.State, i.StateReason = state(Pending), nil })
	m.regainPublic(id)
	after(m, m.behavior.Start, m.events.running, id)
}

// terminate begins to terminate an instance; it ignores one that is unknown or terminating.
func (m *Model) terminate(id string) {
	instance := m.instances.get(id)
	if instance == nil || instance.State.Name == ShuttingDown || instance.State.Name == Terminated {
		return
	}
	m.changeInstance(id, func(i *Instance) { i.State, i.StateReason = state(ShuttingDown), userInitiated() })
	after(m, m.behavior.Terminate, m.events.terminated, id)
}

func userInitiated() *StateReason {
	return &StateReason{
		Code:    "Client.UserInitiatedShutdown",
		Message: "Client.UserInitiatedShutdown: User initiated shutdown",
	}
}

// terminated sets an instance to terminated. It stays visible for a while.
func (m *Model) terminated(id string) {
	m.releaseInterfaces(id)
	m.changeInstance(id, func(i *Instance) {
		i.State = state(Terminated)
		i.SubnetID, i.VPCID, i.PrivateDNSName, i.Groups = "", "", "", nil
		i.PrivateIPAddress, i.IPv6Address = noAddress, noAddress
	})
	seen := m.behavior.TerminatedFor
	if seen == 0 {
		seen = time.Hour
	}
	delete(m.departures, id)
	delete(m.lifecycleStates, id)
	m.events.forgotten.After(seen, id)
}

// releaseInterfaces deletes an instance's interfaces, or makes them available again, depending on deleteOnTermination.
func (m *Model) releaseInterfaces(instanceID string) {
	for _, eni := range m.interfacesOf(instanceID) {
		if eni.Attachment.DeleteOnTermination {
			m.delete(eni)
		} else {
			m.detached(eni.NetworkInterfaceID, eni.Attachment.AttachmentID)
		}
	}
}

// interfacesOf returns the interfaces of an instance by slot, including those that are attaching or detaching.
func (m *Model) interfacesOf(instanceID string) []*NetworkInterface {
	return bySlot(m.interfaces.indexed(indexKey(filterAttachedTo, instanceID)))
}

// instanceOf returns the instance that a call names.
func (m *Model) instanceOf(id string) (*Instance, error) {
	if id == "" {
		return nil, missing("instanceId")
	}
	instance := m.instances.get(id)
	if instance == nil || m.instances.entries[id].hiddenUntil.After(m.now()) {
		return nil, instanceNotFound(id)
	}
	return instance, nil
}

func instanceNotFound(id string) *Error {
	if !isWellFormed(id, "i") {
		return refuse("InvalidInstanceID.Malformed", "Invalid id: %q (expecting \"i-...\")", id)
	}
	return refuse("InvalidInstanceID.NotFound", "The instance ID '%s' does not exist", id)
}
