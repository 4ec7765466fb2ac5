// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// NodeENIPods makes the interfaces of a NodeENI a network that pods attach to
// with Multus.
//
// +kubebuilder:validation:AtMostOneOf=namespaces;namespaceSelector
// +kubebuilder:validation:XValidation:rule="self.attachment != 'IPVLAN' || has(self.ipv4) || has(self.ipv6)",message="pods.ipv4 or pods.ipv6 is required with attachment IPVLAN: the addresses of pods come from prefixes of the interface"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'HostDevice' || !has(self.ipv4) && !has(self.ipv6)",message="pods.ipv4 and pods.ipv6 must not be set with attachment HostDevice: the pod gets the interface together with its primary address"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Observed' || !has(self.ipv4) && !has(self.ipv6)",message="pods.ipv4 and pods.ipv6 must not be set with attachment Observed: pods bring their own addresses; declare the ranges with pods.floating or a SubnetReservation of type Explicit"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Observed' || !has(self.namespaces) && !has(self.namespaceSelector) && !has(self.routes)",message="pods.namespaces, pods.namespaceSelector and pods.routes must not be set with attachment Observed: the NetworkAttachmentDefinition is yours"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Observed' || self.onRemoval != 'Evict'",message="pods.onRemoval must be Wait with attachment Observed: multieni sees the addresses of pods and not which pods have them, so it can evict none"
// +kubebuilder:validation:XValidation:rule="self.attachment != 'Observed' || !has(self.igmpVersion)",message="pods.igmpVersion must not be set with attachment Observed: the NetworkAttachmentDefinition is yours; call the CNI plugin tuning in it, with the sysctl net.ipv4.conf.IFNAME.force_igmp_version"
type NodeENIPods struct {
	// namespaces are the namespaces that get a NetworkAttachmentDefinition with
	// the name of the NodeENI. Without namespaces and namespaceSelector the
	// controller generates none; kubectl eni nads prints it.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:items:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespaces []string `json:"namespaces,omitempty"`

	// namespaceSelector selects these namespaces by labels: those that have all
	// of these labels with these values.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() <= 317 && k.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="every key of pods.namespaceSelector must be a label key such as team or kubernetes.io/metadata.name"
	NamespaceSelector map[string]LabelValue `json:"namespaceSelector,omitempty"`

	// attachment says how a pod attaches to the interface. With IPVLAN pods
	// share it, each with addresses from its prefixes. With HostDevice one pod
	// gets the interface itself and its addresses. With Observed the attachment
	// and the addresses are yours: multieni assigns the addresses that pods bring
	// up on links of the interface. Default: IPVLAN.
	// +optional
	// +kubebuilder:default=IPVLAN
	Attachment PodAttachment `json:"attachment,omitempty"`

	// ipv4 configures the IPv4 addresses of pods. Not together with
	// secondaryPrivateIPAddressCount and ipv4PrefixCount.
	// +optional
	IPv4 *PodIPv4 `json:"ipv4,omitempty"`

	// ipv6 configures the IPv6 addresses of pods. The subnet must have an IPv6
	// range. Not together with ipv6AddressCount and ipv6PrefixCount.
	// +optional
	IPv6 *PodIPv6 `json:"ipv6,omitempty"`

	// routes are routes in the pod by the router of the interface's subnet, in
	// addition to the route to the subnet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="self.all(a, !isCIDR(a.to) || self.exists_one(b, isCIDR(b.to) && (cidr(a.to).containsCIDR(b.to) || cidr(b.to).containsCIDR(a.to))))",message="pods.routes must not overlap: each destination must be outside of all others"
	Routes []PodRoute `json:"routes,omitempty"`

	// igmpVersion is the version of IGMP that the kernel speaks on the pods' links,
	// instead of version 3. Transit gateways understand version 2 only (Amazon VPC
	// guide of transit gateways, "Multicast"). Pods that started before an edit
	// keep theirs. Default: the kernel's.
	// +optional
	// +kubebuilder:validation:Minimum=2
	// +kubebuilder:validation:Maximum=2
	IGMPVersion int32 `json:"igmpVersion,omitempty"`

	// floating are IPv4 ranges of addresses that pods bring up themselves, and that
	// may move between nodes: virtual addresses of keepalived, or addresses of
	// another IPAM plugin. The controller assigns one to the interface of the node
	// where a pod has it, and unassigns it from any other interface. It moves no
	// address outside these ranges. With attachment Observed and without floating,
	// the ranges are the blocks of the subnet's SubnetReservations of type
	// Explicit. A range must not contain primary addresses or prefixes of
	// interfaces: EC2 does not move them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.all(r, isCIDR(r) && cidr(r).ip().family() == 4 && cidr(r) == cidr(r).masked() && cidr(r).prefixLength() >= 16)",message="pods.floating must have IPv4 ranges from /16 to /32 without bits beyond the prefix length, such as 10.0.4.192/28; EC2 cannot reassign IPv6 addresses"
	Floating []string `json:"floating,omitempty"`

	// onRemoval says what happens to pods that use an interface that will be
	// detached, replaced or deleted. With Wait the interface stays until they are
	// gone. With Evict the controller evicts them by the Eviction API, which
	// respects PodDisruptionBudgets, on maxUnavailable nodes at a time; the chart
	// value pods.eviction gives it the permission. Not with attachment Observed,
	// which does not tell the names of pods. Default: Wait.
	// +optional
	// +kubebuilder:default=Wait
	OnRemoval PodsOnRemoval `json:"onRemoval,omitempty"`
}

// PodsOnRemoval says what happens to pods that use an interface that will be
// removed.
//
// +kubebuilder:validation:Enum=Wait;Evict
type PodsOnRemoval string

const (
	// PodsWait keeps the interface until no pod uses it.
	PodsWait PodsOnRemoval = "Wait"
	// PodsEvict evicts the pods that use the interface.
	PodsEvict PodsOnRemoval = "Evict"
)

// PodAttachment says how a pod attaches to an interface. It is not an enum: for
// MACVLAN a CEL rule names the reason and the alternative.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self != 'MACVLAN'",message="pods.attachment MACVLAN does not work on EC2: the VPC delivers frames to the MAC address of the interface only, and every MACVLAN link has another one; use IPVLAN"
// +kubebuilder:validation:XValidation:rule="self in ['IPVLAN', 'HostDevice', 'Observed', 'MACVLAN']",message="pods.attachment must be IPVLAN, HostDevice or Observed"
type PodAttachment string

const (
	// PodAttachmentIPVLAN gives each pod an IPVLAN link on the interface.
	PodAttachmentIPVLAN PodAttachment = "IPVLAN"
	// PodAttachmentHostDevice gives one pod the link of the interface.
	PodAttachmentHostDevice PodAttachment = "HostDevice"
	// PodAttachmentObserved leaves the attachment to the user, and assigns the
	// addresses that the agent observes on links of pods.
	PodAttachmentObserved PodAttachment = "Observed"
)

// PodIPv4 configures the IPv4 addresses of pods.
type PodIPv4 struct {
	// prefixes is the number of /28 prefixes of each interface.
	// +optional
	// +kubebuilder:default={min: 1}
	Prefixes PodIPv4Prefixes `json:"prefixes,omitempty"`

	// spare is the number of free addresses on a node below which the
	// controller assigns another prefix to the interface, up to the maximum.
	// Default: 8.
	// +optional
	// +kubebuilder:default=8
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1008
	Spare *int32 `json:"spare,omitempty"`
}

// PodIPv4Prefixes is a number of /28 prefixes that depends on use.
//
// +kubebuilder:validation:XValidation:rule="!has(self.max) || self.min <= self.max",message="pods.ipv4.prefixes.min must not be larger than pods.ipv4.prefixes.max"
type PodIPv4Prefixes struct {
	// min is the number of prefixes that an interface always has, from its
	// creation on. Each counts as one address against the limit of the instance
	// type, as the primary address does; the largest limit is 64 (EC2 user
	// guide, "Maximum IP addresses per network interface"). Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63
	Min int32 `json:"min,omitempty"`

	// max is the number of prefixes that an interface has at most. Default:
	// min.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63
	Max int32 `json:"max,omitempty"`
}

// Most returns the number of prefixes that an interface has at most.
func (p PodIPv4Prefixes) Most() int32 { return max(p.Min, p.Max) }

// PodIPv6 configures the IPv6 addresses of pods.
type PodIPv6 struct {
	// prefixes is the number of /80 prefixes of each interface. One has more
	// addresses than pods need. Default: 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=63
	Prefixes int32 `json:"prefixes,omitempty"`
}

// PodRoute is a route in a pod.
type PodRoute struct {
	// to is the destination, for example 10.60.0.0/16. 0.0.0.0/0 and ::/0 make
	// the interface the pod's default route.
	// +required
	// +kubebuilder:validation:MaxLength=43
	// +kubebuilder:validation:XValidation:rule="isCIDR(self)",message="pods.routes[].to must be a range such as 10.60.0.0/16"
	// +kubebuilder:validation:XValidation:rule="!isCIDR(self) || cidr(self) == cidr(self).masked()",message="pods.routes[].to must not have bits beyond its prefix length: write 10.60.0.0/16, not 10.60.0.1/16"
	To string `json:"to"`
}

// PodReference names a pod.
type PodReference struct {
	// namespace is the namespace of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace"`

	// name is the name of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// uid distinguishes the pod from others of its name. It is empty if the
	// container runtime does not pass it to CNI plugins. The controller evicts
	// only the pod with this UID.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	UID string `json:"uid,omitempty"`
}

// PodNetworkCounts summarizes the pod networks of a NodeENI on all nodes.
type PodNetworkCounts struct {
	// networks is the number of interfaces whose pod network an agent reports.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Networks int32 `json:"networks"`

	// ready is the number of these interfaces that pods can attach to.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Ready int32 `json:"ready"`

	// prefixes is the number of prefixes of these interfaces.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Prefixes int32 `json:"prefixes"`

	// draining is the number of prefixes that new pods get no addresses from.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Draining int32 `json:"draining"`

	// used is the number of addresses that pods have.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Used int32 `json:"used"`

	// free is the number of addresses that pods can get now.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Free int32 `json:"free"`
}
