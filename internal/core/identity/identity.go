// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity says which network interfaces belong to the cluster, and which member each one is.
//
// EC2 with its tags is the source of truth. The call that creates an interface also sets its tags. They name its
// cluster, NodeENI, instance and ordinal, so that a controller finds the member even after the loss of every status and
// cache. [Member] is that identity as a value. [Member.Tags] and [Read] convert it to and from tags, and [Member.Token]
// makes the creation idempotent.
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

// Prefix begins every tag key that only multieni writes. The tags of a NodeENI must not have it.
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

// TagImportedFrom is the tag key of an imported interface, with the program that created it. Only an import writes it,
// so that its undo finds the interfaces that another program can have back.
const TagImportedFrom = Prefix + "imported-from"

// The tag keys of the instances, volumes and interfaces that a node template launches, and of its launch templates. An
// interface with these tags alone is no member of a NodeENI.
const (
	TagNodeTemplate    = Prefix + "nodetemplate"
	TagNodeTemplateUID = Prefix + "nodetemplate-uid"
	// TagTemplateHash identifies the rendering of the node template.
	TagTemplateHash = Prefix + "template-hash"
)

// TagSubnetReservation is the tag key of a subnet CIDR reservation with the name of its SubnetReservation.
const TagSubnetReservation = Prefix + "subnetreservation"

// TagNoManage makes the VPC CNI leave an interface alone (amazon-vpc-cni-k8s README, "ENI tags related to Allocation").
const TagNoManage = "node.k8s.amazonaws.com/no_manage"

// TagName is the tag that the EC2 console shows as an interface's name.
const TagName = "Name"

// maxTagValue is the maximum length of a tag value in characters (EC2 user guide, "Tag restrictions").
const maxTagValue = 256

// Bounds of the values in tags. multieni writes no value beyond them, and the schemas of the API reject them.
const (
	// MaxOrdinal is the highest ordinal of a member on one instance.
	MaxOrdinal = 127
	// maxName is the maximum length of the name of a Kubernetes object, and maxUID that of an owner, both in bytes.
	maxName, maxUID = 253, 128
)

// Owner identifies what an interface belongs to: a NodeENI by its UID, or a network of the join path by its name. It is
// the value of [TagNodeENIUID].
type Owner string

// network is the prefix of an owner that is a network. No UID of Kubernetes has a slash.
const network = "network/"

// NetworkOwner returns the owner of the interfaces that an instance gets for a network before it joins a cluster. Those
// interfaces belong to their instance. Garbage collection leaves them alone while the instance lives, and a NodeENI
// with equal interfaces adopts them.
func NetworkOwner(name string) Owner { return Owner(network + name) }

// IsNetwork reports whether the owner is a network and not a NodeENI.
func (o Owner) IsNetwork() bool { return strings.HasPrefix(string(o), network) }

// Key names a member within one instance: its owner, and its ordinal there.
type Key struct {
	Owner   Owner
	Ordinal int
}

// Compare orders keys by owner, then by ordinal.
func (k Key) Compare(other Key) int {
	return cmp.Or(cmp.Compare(k.Owner, other.Owner), cmp.Compare(k.Ordinal, other.Ordinal))
}

// Generation distinguishes the successive interfaces of a member. It grows before a member gets another interface, so
// that EC2 never answers the new request with the interface of an old client token. It is the Unix time in seconds at
// which multieni decided to create the interface, so that it grows even after a loss of the ledger. A program that
// writes our tags can write a number that is not such a time.
type Generation int64

const (
	// Adopted is the generation of a member whose first interface came with its instance, from a launch template. It is
	// less than every time.
	Adopted Generation = 1
	// MaxGeneration is the last second that a Kubernetes time can express (RFC 3339 has years of four digits).
	MaxGeneration Generation = 253402300799
)

// GenerationAt returns the generation of an interface that multieni decides to create at the given time.
func GenerationAt(decided time.Time) Generation { return Generation(decided.Unix()) }

// Time returns the time at which multieni decided to create the interface.
func (g Generation) Time() time.Time { return time.Unix(int64(g), 0) }

// Generations has the generations of members.
type Generations map[Key]Generation

// Member is one desired interface, and the identity that an interface carries in its tags.
type Member struct {
	// Cluster distinguishes clusters that share a VPC: the UID of the kube-system namespace, or the value of
	// --cluster-name.
	Cluster string
	// NodeENI is the name of the NodeENI, for people; the UID identifies it.
	NodeENI string
	// Node is the name of the Kubernetes node, for people; InstanceID identifies the instance.
	Node       string
	InstanceID string
	Key
	Generation Generation
}

// Token returns the client token of the member's create call. It is the same for every attempt at one generation,
// across restarts. It is 64 ASCII characters, EC2's maximum (EC2 API reference, "Ensuring idempotency").
func (m Member) Token() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s\x00%d\x00%d",
		m.Cluster, m.Owner, m.InstanceID, m.Ordinal, m.Generation))
	return hex.EncodeToString(sum[:])
}

// Tags returns all tags of the member's interface. Our tags take precedence over the user's, except for the user's
// Name.
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
		TagNodeENIUID: string(m.Owner),
		TagNode:       m.Node,
		TagInstanceID: m.InstanceID,
		TagMember:     strconv.Itoa(m.Ordinal),
		TagGeneration: strconv.FormatInt(int64(m.Generation), 10),
	}
}

// DesiredTags returns the tags to keep on an existing interface of the member, without the time of creation.
func (m Member) DesiredTags(user map[string]string) map[string]string {
	tags := m.Tags(time.Time{}, user)
	delete(tags, TagCreatedAt)
	return tags
}

// Verdict classifies an interface by its owner.
type Verdict int

const (
	// Foreign interfaces lack the identity of this cluster. multieni never changes them.
	Foreign Verdict = iota
	// Malformed interfaces carry our cluster's tag but no complete identity: a user or another program edited or copied
	// tags. multieni reports them and never changes them.
	Malformed
	// Owned may be changed, detached and deleted.
	Owned
	// Launched interfaces come from a launch template of ours, together with their instance. multieni may change them, but
	// never detaches or deletes them: EC2 deletes them with the instance.
	Launched
)

// Read finds the member that an interface's tags name, as seen by the given cluster.
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
		Key:        Key{Owner: Owner(tags[TagNodeENIUID])},
	}
	ordinal, errOrdinal := strconv.Atoi(tags[TagMember])
	generation, errGeneration := strconv.ParseInt(tags[TagGeneration], 10, 64)
	m.Ordinal, m.Generation = ordinal, Generation(generation)
	if errOrdinal != nil || errGeneration != nil || !m.isValid() {
		return m, Malformed
	}
	return m, Owned
}

// HasNoOwner reports whether tags keep an interface from the VPC CNI and name no cluster. The interfaces of the
// published Multus functions have such tags. They are foreign, and a user can import them.
func HasNoOwner(tags map[string]string) bool {
	return tags[TagNoManage] == "true" && tags[TagCluster] == ""
}

// isValid reports whether multieni can have written the identity.
func (m Member) isValid() bool {
	within := func(text string, most int) bool { return text != "" && len(text) <= most }
	return m.Ordinal >= 0 && m.Ordinal <= MaxOrdinal && m.Generation >= 0 && m.Generation <= MaxGeneration &&
		within(m.NodeENI, maxName) && within(m.Node, maxName) && within(string(m.Owner), maxUID) &&
		eni.IsInstanceID(m.InstanceID)
}

// CreatedAt returns the time of creation in the tags of an interface. It is not known if the tag is missing or
// unreadable; callers must not treat an unknown time as long ago.
func CreatedAt(tags map[string]string) (t time.Time, known bool) {
	seconds, err := strconv.ParseInt(tags[TagCreatedAt], 10, 64)
	if err != nil || seconds <= 0 || seconds > int64(MaxGeneration) {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// MinLeakAge is the minimum age of a leak. The creator of a younger interface may not have recorded it yet.
const MinLeakAge = 10 * time.Minute

// AttachedOrphanGrace is how long an interface stays attached to its instance after its NodeENI was first found
// missing. Workloads may use it, and the NodeENI may be missing because etcd was restored to an earlier time.
const AttachedOrphanGrace = 30 * time.Minute

// MassLossGrace replaces AttachedOrphanGrace while many interfaces in use have no NodeENI: then the NodeENIs were
// probably lost.
const MassLossGrace = 24 * time.Hour

// massLossThreshold is the number of orphans in use that means a loss of NodeENIs, in a cluster of any size.
const massLossThreshold = 10

// maxClockSkew bounds the difference between the clocks of the controller and of the API server.
const maxClockSkew = time.Minute

// IsAdopted reports whether an interface in use indicates a restore that may still be running: the interface is older
// than its NodeENI, and the NodeENI, created at the given time, is younger than [MassLossGrace]. The interface was
// created for a NodeENI that was lost. Other NodeENIs may have been lost with it and not be restored yet; a controller
// that starts later cannot know which.
func IsAdopted(tags map[string]string, nodeENI, now time.Time) bool {
	made, known := CreatedAt(tags)
	return known && made.Before(nodeENI.Add(-maxClockSkew)) && now.Sub(nodeENI) < MassLossGrace
}

// OrphanGrace returns how long interfaces without a NodeENI stay attached. The argument orphans is the number of the
// cluster's attached interfaces that have no NodeENI, or had none until now. A few orphans are leaks. Many at once mean
// that etcd was restored to an earlier time, or that the CRDs were deleted.
func OrphanGrace(orphans, attached int) time.Duration {
	if orphans >= massLossThreshold || orphans >= 2 && 2*orphans >= attached {
		return MassLossGrace
	}
	return AttachedOrphanGrace
}

// ConfirmInterval is the least time between the two reads that make an interface a leak.
const ConfirmInterval = 2 * time.Minute

// PastMinLeakAge reports whether an interface is old enough to be a leak. It is not without a readable time of creation
// in the past.
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
