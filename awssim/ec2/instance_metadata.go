// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"github.com/multieni/multieni/awssim/instancetypes"
)

// Metadata is the state of the instance metadata service of one instance. It lags behind EC2, see [Behavior].
type Metadata struct {
	Instance   *Instance
	Region     string
	AccountID  string
	Interfaces []MetadataInterface // by slot, the primary first
	// LifecycleState is the target lifecycle state of its Auto Scaling group; empty without a group.
	LifecycleState string
}

// MetadataInterface is an interface as the metadata service sees it.
type MetadataInterface struct {
	*NetworkInterface
	Subnet *Subnet
	VPC    *VPC
	// IndexKnown is false in the first moments, when the device number is 0 and there is no network card.
	IndexKnown bool
}

// departure is an interface that was detached from an instance.
type departure struct {
	ENI *NetworkInterface `json:"networkInterface"`
	At  time.Time         `json:"at"`
	// Stays is set for an interface that was detached by force: it is shown until the instance is stopped.
	Stays bool `json:"stays,omitempty"`
}

// Metadata returns the present state of the metadata service of an instance.
func (m *Model) Metadata(c Call, instanceID string) (*Metadata, error) {
	m.Advance(c.Now)
	instance := m.instances.get(instanceID)
	if instance == nil || instance.State.Name != Running && instance.State.Name != ShuttingDown &&
		instance.State.Name != Pending {
		return nil, instanceNotFound(instanceID)
	}
	md := &Metadata{
		Instance: withInterfaces(instance, m.interfacesOf(instanceID)), Region: m.region, AccountID: m.account,
		LifecycleState: m.lifecycleStates[instanceID],
	}
	for _, eni := range m.interfacesOf(instanceID) {
		m.addMetadata(md, eni)
	}
	for _, gone := range m.departures[instanceID] {
		if gone.Stays || m.now().Before(gone.At.Add(m.metadataLag(m.behavior.Metadata, gone.ENI.Attachment.AttachmentID))) {
			md.Interfaces = append(md.Interfaces, m.metadataOf(gone.ENI, true))
		}
	}
	slices.SortStableFunc(md.Interfaces, func(a, b MetadataInterface) int {
		return compareSlots(a.NetworkInterface, b.NetworkInterface)
	})
	return md, nil
}

// addMetadata adds an interface as it was before the lag. Interfaces of the launch are included from the beginning.
func (m *Model) addMetadata(md *Metadata, eni *NetworkInterface) {
	attachment := eni.Attachment
	if md.Instance.LaunchTime.Equal(attachment.AttachTime) {
		md.Interfaces = append(md.Interfaces, m.metadataOf(m.metadataVersion(eni, attachment.AttachmentID), true))
		return
	}
	lag := m.metadataLag(m.behavior.Metadata, attachment.AttachmentID)
	attached, ok := m.attachedSince(eni)
	if !ok || m.now().Before(attached.Add(lag)) {
		return
	}
	indexAt := attached.Add(lag + m.metadataLag(m.behavior.MetadataIndex, attachment.AttachmentID))
	md.Interfaces = append(md.Interfaces,
		m.metadataOf(m.metadataVersion(eni, attachment.AttachmentID), !m.now().Before(indexAt)))
}

// metadataVersion returns the interface as it was before the lag, if it was attached then.
func (m *Model) metadataVersion(eni *NetworkInterface, attachmentID string) *NetworkInterface {
	limit := m.now().Add(-m.metadataLag(m.behavior.Metadata, attachmentID))
	versions := m.interfaces.entries[eni.NetworkInterfaceID].versions
	for i := len(versions) - 1; i >= 0; i-- {
		v := versions[i]
		if v.value != nil && !v.since.After(limit) && v.value.Attachment != nil &&
			v.value.Attachment.AttachmentID == attachmentID {
			return v.value
		}
	}
	return eni
}

// attachedSince returns the time at which the present attachment became attached, if it is still stored.
func (m *Model) attachedSince(eni *NetworkInterface) (time.Time, bool) {
	since, found := time.Time{}, false
	for _, v := range slices.Backward(m.interfaces.entries[eni.NetworkInterfaceID].versions) {
		if v.value == nil || v.value.Attachment == nil || v.value.Attachment.AttachmentID != eni.Attachment.AttachmentID ||
			v.value.Attachment.Status == Attaching {
			break
		}
		since, found = v.since, true
	}
	return since, found
}

func (m *Model) metadataOf(eni *NetworkInterface, indexKnown bool) MetadataInterface {
	return MetadataInterface{NetworkInterface: eni, Subnet: m.subnets.get(eni.SubnetID), VPC: m.vpcs.get(eni.VPCID),
		IndexKnown: indexKnown}
}

// metadataLag draws a latency by the attachment's ID, so that it is the same at each read.
func (m *Model) metadataLag(l Latency, attachmentID string) time.Duration {
	hash := fnv.New64a()
	// A hash's Write never fails.
	_, _ = hash.Write([]byte(strconv.FormatUint(m.seed, 16) + attachmentID))
	share := float64(hash.Sum64()%10_000) / 10_000
	if share < l.TailShare {
		return l.Max + time.Duration(float64(l.Tail-l.Max)*share/l.TailShare)
	}
	return l.Min + time.Duration(float64(max(0, l.Max-l.Min))*share)
}

// depart records for the metadata service that an interface was detached from its instance.
func (m *Model) depart(eni *NetworkInterface, forced bool) {
	id := eni.Attachment.InstanceID
	stays := func(d departure) bool { return d.Stays || m.now().Sub(d.At) < time.Hour }
	kept := slices.DeleteFunc(m.departures[id], func(d departure) bool { return !stays(d) })
	m.departures[id] = append(kept, departure{ENI: eni, At: m.now(), Stays: forced})
}

// SetLifecycleState sets the target lifecycle state that the metadata service of an instance shows.
func (m *Model) SetLifecycleState(instanceID, state string) { m.lifecycleStates[instanceID] = state }

// IsMultiCard reports whether the instance's type has several network cards.
func (md *Metadata) IsMultiCard() bool {
	limits, _ := instancetypes.Lookup(md.Instance.InstanceType)
	return len(limits.Cards) > 1
}
