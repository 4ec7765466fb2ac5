// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package identity says which network interfaces belong to the cluster, and which object each one is for.
//
// Each interface has one NetworkInterface in the cluster. The UID of that object is the client token of the call that
// creates the interface, so that one object has at most one interface. The call also sets tags. They name the cluster
// and the object, so that people, IAM policies and a controller after the loss of its objects find the interface.
// [Interface] is that identity as a value. [Interface.Tags] and [Read] convert it to and from tags.
package identity

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Prefix begins every tag key that only multieni writes. The tags of a NodeENI must not have it.
const Prefix = "networking.k8s.aws/"

// The tag keys of an interface we own.
const (
	TagCluster = Prefix + "cluster"
	// TagUID is the key of the UID, and TagInterface that of the name of the interface's object.
	TagUID        = Prefix + "uid"
	TagInterface  = Prefix + "interface"
	TagNodeENI    = Prefix + "nodeeni"
	TagNode       = Prefix + "node"
	TagInstanceID = Prefix + "instance-id"
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
	// MaxOrdinal is the highest ordinal of an interface of a NodeENI on one instance.
	MaxOrdinal = 127
	// maxName is the maximum length of the name of a Kubernetes object, and maxUID that of a UID, both in bytes.
	maxName, maxUID = 253, 128
	// maxToken is the maximum length of a client token in ASCII characters (EC2 API reference, "Ensuring idempotency").
	maxToken = 64
	// maxSeconds is the last second that a Kubernetes time can express (RFC 3339 has years of four digits).
	maxSeconds = 253402300799
)

// UID identifies an interface for ever. It is the UID of the interface's NetworkInterface. An interface that a
// lifecycle hook or the boot of an instance creates has no object yet, and a UID from [NetworkUID].
type UID string

// network is the prefix of the UID of a network's interface. No UID of Kubernetes has a slash.
const network = "network/"

// NetworkUID returns the UID of an interface that an instance gets for a network before it joins a cluster. Those
// interfaces belong to their instance. A NetworkInterface takes them over after the instance joined. The time is when
// the program decided to create the interface: a later one in its place has another client token.
func NetworkUID(name string, ordinal int, decided time.Time) UID {
	return UID(fmt.Sprintf("%s%s/%d/%d", network, name, ordinal, decided.Unix()))
}

// IsNetwork reports whether the UID is that of a network's interface.
func (u UID) IsNetwork() bool { return strings.HasPrefix(string(u), network) }

// Interface is the identity that an interface has in its tags.
type Interface struct {
	// Cluster distinguishes clusters that share a VPC: the UID of the kube-system namespace, or the value of
	// --cluster-name.
	Cluster string
	UID     UID
	// Name is the name of the NetworkInterface; see [ObjectName].
	Name string
	// NodeENI is the name of the NodeENI or, with the UID of a network, that of the network.
	NodeENI string
	// Node is the name of the Kubernetes node, for people; InstanceID identifies the instance.
	Node       string
	InstanceID string
	// Ordinal distinguishes the interfaces of one NodeENI on one instance.
	Ordinal int
}

// The lengths of a changed name's first characters and of its hash in [ObjectName], in bytes.
const (
	maxObjectPrefix = 220
	hashLength      = 8
)

// ObjectName returns the name of the NetworkInterface of a NodeENI, or of a network, on an instance. No two interfaces
// have one name, because the last two parts have a fixed form. A name that is too long, or that Kubernetes does not
// accept, is changed and gets a hash.
func ObjectName(nodeENI, instanceID string, ordinal int) string {
	if name := objectPrefix(nodeENI); name != nodeENI {
		sum := sha256.Sum256([]byte(nodeENI))
		nodeENI = name + hex.EncodeToString(sum[:])[:hashLength]
	}
	return fmt.Sprintf("%s-%s-%d", nodeENI, instanceID, ordinal)
}

// objectPrefix returns a name with the characters that the name of an object can have, and not too many.
func objectPrefix(name string) string {
	name = strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' || c == '.' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	return name[:min(len(name), maxObjectPrefix)]
}

// Token returns the client token of the call that creates the interface. It is the same for every attempt.
func (i Interface) Token() string {
	if !i.UID.IsNetwork() && len(i.UID) <= maxToken {
		return string(i.UID)
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%s", i.Cluster, i.UID, i.Name))
	return hex.EncodeToString(sum[:])
}

// Tags returns all tags of the interface. Our tags take precedence over the user's, except for the user's Name.
func (i Interface) Tags(createdAt time.Time, user map[string]string) map[string]string {
	tags := map[string]string{TagName: clip(i.NodeENI + "/" + i.Node)}
	maps.Copy(tags, user)
	maps.Copy(tags, map[string]string{
		TagCluster:    i.Cluster,
		TagUID:        string(i.UID),
		TagInterface:  i.Name,
		TagNodeENI:    i.NodeENI,
		TagNode:       i.Node,
		TagInstanceID: i.InstanceID,
		TagCreatedAt:  strconv.FormatInt(createdAt.Unix(), 10),
		TagNoManage:   "true",
	})
	return tags
}

// Verdict classifies an interface by its owner.
type Verdict int

const (
	// Foreign interfaces lack the identity of this cluster. multieni never changes them.
	Foreign Verdict = iota
	// Malformed interfaces carry our cluster's tag but no complete identity: a user or another program edited or copied
	// tags.
	Malformed
	// Owned interfaces name an object of this cluster. That is no evidence that the object is theirs: any program can
	// write tags.
	Owned
	// Launched interfaces come from a launch template of ours, together with their instance. multieni may change them, but
	// never detaches or deletes them: EC2 deletes them with the instance.
	Launched
)

// Read finds the identity that an interface's tags name, as seen by the given cluster.
func Read(cluster string, tags map[string]string) (Interface, Verdict) {
	if cluster == "" || tags[TagCluster] != cluster {
		return Interface{}, Foreign
	}
	if tags[TagNodeTemplate] != "" && tags[TagUID] == "" {
		return Interface{}, Launched
	}
	i := Interface{
		Cluster:    cluster,
		UID:        UID(tags[TagUID]),
		Name:       tags[TagInterface],
		NodeENI:    tags[TagNodeENI],
		Node:       tags[TagNode],
		InstanceID: tags[TagInstanceID],
	}
	if !i.readOrdinal() || !i.isValid() {
		return i, Malformed
	}
	return i, Owned
}

// readOrdinal reads the ordinal from the name.
func (i *Interface) readOrdinal() bool {
	n := strings.LastIndexByte(i.Name, '-')
	ordinal, err := strconv.Atoi(i.Name[n+1:])
	i.Ordinal = ordinal
	return err == nil
}

// HasNoOwner reports whether tags keep an interface from the VPC CNI and name no cluster. The interfaces of the
// published Multus functions have such tags. They are foreign, and a user can import them.
func HasNoOwner(tags map[string]string) bool {
	return tags[TagNoManage] == "true" && tags[TagCluster] == ""
}

// isValid reports whether multieni can have written the identity.
func (i Interface) isValid() bool {
	within := func(text string, most int) bool { return text != "" && len(text) <= most }
	return i.Ordinal >= 0 && i.Ordinal <= MaxOrdinal && i.Name == ObjectName(i.NodeENI, i.InstanceID, i.Ordinal) &&
		within(i.NodeENI, maxName) && within(i.Node, maxName) && within(string(i.UID), maxUID) &&
		eni.IsInstanceID(i.InstanceID)
}

// CreatedAt returns the time of creation in the tags of an interface. It is not known if the tag is missing or
// unreadable; callers must not treat an unknown time as long ago.
func CreatedAt(tags map[string]string) (t time.Time, known bool) {
	seconds, err := strconv.ParseInt(tags[TagCreatedAt], 10, 64)
	if err != nil || seconds <= 0 || seconds > maxSeconds {
		return time.Time{}, false
	}
	return time.Unix(seconds, 0).UTC(), true
}

// MinLeakAge is the minimum age of a leak. The creator of a younger interface may not have recorded it yet.
const MinLeakAge = 10 * time.Minute

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
