// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity says which network interfaces are ours and which member each one is.
//
// EC2 with its tags is the source of truth: every interface carries, from the very call that made it, enough tags to
// find its cluster, NodeENI, instance and ordinal again after every status and every cache is lost. [Member] is that
// identity as a value, [Member.Tags] and [Read] convert it, and [Member.Token] makes its creation idempotent.
package identity

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Prefix begins every tag key that is ours alone; users' tags may not use it.
const Prefix = "networking.k8s.aws/"

// The tag keys of an interface we own.
const (
	TagCluster    = Prefix + "cluster"
	TagNodeENI    = Prefix + "nodeeni"
	TagNodeENIUID = Prefix + "nodeeni-uid"
	TagNode       = Prefix + "node"
	TagInstanceID = Prefix + "instance-id"
	TagMember     = Prefix + "member"
	TagGeneration = Prefix + "generation"
	TagCreatedAt  = Prefix + "created-at"
)

// The tag keys of what is launched from a node template: instances, volumes and interfaces, and of the launch templates
// themselves. An interface that has them is no member of a NodeENI.
const (
	TagNodeTemplate    = Prefix + "nodetemplate"
	TagNodeTemplateUID = Prefix + "nodetemplate-uid"
	// TagTemplateHash is which rendering of the node template it was.
	TagTemplateHash = Prefix + "template-hash"
)

// TagNoManage makes the VPC CNI leave an interface alone (amazon-vpc-cni-k8s README, "ENI tags related to Allocation").
const TagNoManage = "node.k8s.amazonaws.com/no_manage"

// TagName is what the EC2 console shows as an interface's name.
const TagName = "Name"

// maxTagValue is the most characters of a tag value (EC2 user guide, "Tag restrictions").
const maxTagValue = 256

// Bounds of what tags are believed to say. What is beyond was not written by us, and does not fit the API's schemas.
const (
	// MaxOrdinal is the highest ordinal of a member on one instance.
	MaxOrdinal = 127
	// MaxGeneration is the last second that a time of Kubernetes can say (RFC 3339 has years of four digits), since
	// generations and the times of creation are seconds.
	MaxGeneration = 253402300799

	// maxName is the most bytes of the name of a Kubernetes object, and maxUID of what stands for a NodeENI.
	maxName, maxUID = 253, 128
)

// Key names a member within one instance: the NodeENI that wants it and its ordinal there.
type Key struct {
	NodeENIUID string
	Ordinal    int
}

// Compare orders keys by NodeENI UID, then by ordinal.
func (k Key) Compare(other Key) int {
	return cmp.Or(strings.Compare(k.NodeENIUID, other.NodeENIUID), cmp.Compare(k.Ordinal, other.Ordinal))
}

// network begins what stands for a NodeENI's UID where there is none. No UID of Kubernetes has a slash.
const network = "network/"

// NetworkOwner returns what stands for a NodeENI's UID in the interfaces that instances get before they join a cluster: they
// are made for a network of that name, by whoever prepares instances. They belong to their instance. Nobody convicts them of
// being leaks while it lives, and a NodeENI that wants the like of them takes them over.
func NetworkOwner(name string) string { return network + name }

// IsNetworkOwner reports whether a UID stands for a network instead of a NodeENI.
func IsNetworkOwner(uid string) bool { return strings.HasPrefix(uid, network) }

// Member is one wanted interface, and the identity an interface carries in its tags.
type Member struct {
	// Cluster tells clusters that share a VPC apart: the UID of the kube-system namespace, or what --cluster-name says.
	Cluster string
	// NodeENI is the name of the NodeENI; it is for people. UID is what counts.
	NodeENI string
	// Node is the name of the Kubernetes node; InstanceID is what counts.
	Node       string
	InstanceID string
	Key
	// Generation tells the member's successive interfaces apart. It grows whenever an interface that existed is to be
	// made again, so that EC2's memory of an old client token never answers for a new interface.
	Generation int64
}

// Token returns the client token with which the member's interface is created: the same for every attempt at one
// generation, across restarts. It is 64 ASCII characters, EC2's maximum (EC2 API reference, "Ensuring idempotency").
func (m Member) Token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d",
		m.Cluster, m.NodeENIUID, m.InstanceID, m.Ordinal, m.Generation))
	return hex.EncodeToString(sum[:])
}

// Tags returns all tags of the member's interface: the user's, then ours over them. A Name among the user's tags is kept.
func (m Member) Tags(createdAt time.Time, user map[string]string) map[string]string {
	tags := map[string]string{TagName: clip(m.NodeENI + "/" + m.Node)}
	for k, v := range user {
		tags[k] = v
	}
	for k, v := range m.identity() {
		tags[k] = v
	}
	tags[TagCreatedAt] = strconv.FormatInt(createdAt.Unix(), 10)
	tags[TagNoManage] = "true"
	return tags
}

func (m Member) identity() map[string]string {
	return map[string]string{
		TagCluster:    m.Cluster,
		TagNodeENI:    m.NodeENI,
		TagNodeENIUID: m.NodeENIUID,
		TagNode:       m.Node,
		TagInstanceID: m.InstanceID,
		TagMember:     strconv.Itoa(m.Ordinal),
		TagGeneration: strconv.FormatInt(m.Generation, 10),
	}
}

// DesiredTags returns the tags to keep on an existing interface of the member, which leaves out the time it was made.
func (m Member) DesiredTags(user map[string]string) map[string]string {
	tags := m.Tags(time.Time{}, user)
	delete(tags, TagCreatedAt)
	return tags
}

// Verdict says whose interface it is.
type Verdict int

const (
	// Foreign interfaces are never touched.
	Foreign Verdict = iota
	// Malformed interfaces carry our cluster's tag but not a whole identity: somebody edited or copied tags. They are
	// never touched either, only reported.
	Malformed
	// Owned may be changed, detached and deleted.
	Owned
	// Launched interfaces were born with their instance, from a launch template of ours. They may be changed, and are
	// never detached or deleted: EC2 does that with the instance.
	Launched
)

// Read finds the member an interface's tags name, from the standpoint of the given cluster.
func Read(cluster string, tags map[string]string) (Member, Verdict) {
	if cluster == "" || tags[TagCluster] != cluster {
		return Member{}, Foreign
	}
	if tags[TagNodeTemplate] != "" && tags[TagNodeENIUID] == "" {
		return Member{}, Launched
	}
	m := Member{
		Cluster:    cluster,
		NodeENI:    tags[TagNodeENI],
		Node:       tags[TagNode],
		InstanceID: tags[TagInstanceID],
		Key:        Key{NodeENIUID: tags[TagNodeENIUID]},
	}
	ordinal, errOrdinal := strconv.Atoi(tags[TagMember])
	generation, errGeneration := strconv.ParseInt(tags[TagGeneration], 10, 64)
	m.Ordinal, m.Generation = ordinal, generation
	if errOrdinal != nil || errGeneration != nil || !m.isValid() {
		return m, Malformed
	}
	return m, Owned
}

// HasNoOwner reports whether tags keep an interface from the VPC CNI and name no cluster, as the tags of the interfaces do that the
// published Multus functions made. They are foreign, and a user can import them.
func HasNoOwner(tags map[string]string) bool {
	return tags[TagNoManage] == "true" && tags[TagCluster] == ""
}

// isValid reports whether we can have written the identity.
func (m Member) isValid() bool {
	within := func(text string, most int) bool { return text != "" && len(text) <= most }
	return m.Ordinal >= 0 && m.Ordinal <= MaxOrdinal && m.Generation >= 0 && m.Generation <= MaxGeneration &&
		within(m.NodeENI, maxName) && within(m.Node, maxName) && within(m.NodeENIUID, maxUID) && eni.IsInstanceID(m.InstanceID)
}

// CreatedAt returns when the interface was made, by its tag. It is not known when the tag is missing or unreadable,
// and then must never be taken for long ago.
func CreatedAt(tags map[string]string) (t time.Time, known bool) {
	seconds, err := strconv.ParseInt(tags[TagCreatedAt], 10, 64)
	if err != nil || seconds <= 0 || seconds > MaxGeneration {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// MinLeakAge is how old an interface must be before it can be taken for a leak: what made it may not have said so yet.
const MinLeakAge = 10 * time.Minute

// AttachedOrphanGrace is how long an interface that is attached to an instance is left there after its NodeENI was first found
// missing. Workloads may use it, and the NodeENI may be missing because etcd was restored to a time before it.
const AttachedOrphanGrace = 30 * time.Minute

// MassLossGrace is the same where so many interfaces in use are without a NodeENI that it is rather the NodeENIs that were lost.
const MassLossGrace = 24 * time.Hour

// massLossThreshold is from how many on, in a cluster of any size, interfaces in use without a NodeENI tell of a loss.
const massLossThreshold = 10

// maxClockSkew is by how much those of the controller and of the API server may differ.
const maxClockSkew = time.Minute

// IsAdopted reports whether an interface in use tells of a restore that may still go on: it is older than the NodeENI that
// stands for it, which was created at the given time and not long ago. So it was made for one that was lost, and others that
// were lost together with that may not be back yet. Which ones, nobody who was not there before can tell.
func IsAdopted(tags map[string]string, nodeENI, now time.Time) bool {
	made, known := CreatedAt(tags)
	return known && made.Before(nodeENI.Add(-maxClockSkew)) && now.Sub(nodeENI) < MassLossGrace
}

// OrphanGrace returns how long interfaces that are attached are left where they are although their NodeENI does not exist:
// orphans of the attached ones of the cluster are such, or were until just now. One by one they are leaks; all at once they are what an etcd that
// was restored to a time before them, or definitions that were deleted, leave behind.
func OrphanGrace(orphans, attached int) time.Duration {
	if orphans >= massLossThreshold || orphans >= 2 && 2*orphans >= attached {
		return MassLossGrace
	}
	return AttachedOrphanGrace
}

// ConfirmInterval is the least time between the two sightings that make an interface a leak.
const ConfirmInterval = 2 * time.Minute

// PastMinLeakAge reports whether an interface is old enough to be a leak. One whose time of creation is missing, unreadable or
// in the future never is.
func PastMinLeakAge(tags map[string]string, now time.Time) bool {
	created, known := CreatedAt(tags)
	return known && now.Sub(created) >= MinLeakAge
}

func clip(value string) string {
	if runes := []rune(value); len(runes) > maxTagValue {
		return string(runes[:maxTagValue])
	}
	return value
}
