// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AWSNodeTemplate declares what nodes are launched with, their network
// interfaces above all. The controller keeps EC2 launch templates that say the
// same; Auto Scaling groups and fleets launch from these by ID and version.
// Interfaces that are born with an instance cost no API call, are deleted with
// it, can be EFA, and exist before the kubelet starts.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:path=awsnodetemplates,singular=awsnodetemplate,scope=Cluster,shortName=ant,categories=multieni
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`,description="True when the launch templates in EC2 are as declared"
// +kubebuilder:printcolumn:name="Types",type=integer,JSONPath=`.status.instanceTypes.eligible`,description="Instance types that can carry the interfaces"
// +kubebuilder:printcolumn:name="Nodes",type=integer,JSONPath=`.status.nodes`,description="Nodes that were launched from the node template"
// +kubebuilder:printcolumn:name="Drifted",type=integer,JSONPath=`.status.drifted`,description="Nodes that differ from the node template as it is now"
// +kubebuilder:printcolumn:name="Template",type=string,JSONPath=`.status.launchTemplates[0].id`,priority=1,description="The first launch template"
// +kubebuilder:printcolumn:name="Version",type=integer,JSONPath=`.status.launchTemplates[0].version`,priority=1,description="The version of it to launch from"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1,description="Why Ready is what it is"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must have at most 63 characters: it becomes a node label"
type AWSNodeTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what nodes are to be launched with. All of it may be changed at
	// any time; status says what that means for nodes that run.
	// +required
	Spec AWSNodeTemplateSpec `json:"spec"`

	// status is what came of it.
	// +optional
	Status AWSNodeTemplateStatus `json:"status,omitempty"`
}

// AWSNodeTemplateList is a list of AWSNodeTemplates.
//
// +kubebuilder:object:root=true
type AWSNodeTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []AWSNodeTemplate `json:"items"`
}

// AWSNodeTemplateSpec is what nodes are to be launched with.
//
// +kubebuilder:validation:XValidation:rule="has(self.launchTemplateRef) && !(has(self.autofill) && self.autofill) || has(self.subnetSelector) && has(self.securityGroupSelector)",message="subnetSelector and securityGroupSelector are required, unless launchTemplateRef is used as it is (autofill: false)"
// +kubebuilder:validation:XValidation:rule="has(self.launchTemplateRef) || !(has(self.autofill) && self.autofill)",message="autofill: true fills in what a launch template leaves open: say which one with launchTemplateRef"
// +kubebuilder:validation:XValidation:rule="has(self.layout) && self.layout != 'None' || !has(self.networkInterfaces) || self.networkInterfaces.size() == 0 || self.networkInterfaces.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0) || (has(self.launchTemplateRef) && has(self.autofill) && self.autofill)",message="networkInterfaces must have one with networkCardIndex: 0 and deviceIndex: 0: every instance has this primary interface"
// +kubebuilder:validation:XValidation:rule="!has(self.networkInterfaces) || self.networkInterfaces.size() <= 1 || !self.networkInterfaces.exists(i, has(i.associatePublicIPAddress) && i.associatePublicIPAddress)",message="associatePublicIPAddress: true is possible only with a single network interface: EC2 gives public addresses to no other instances"
type AWSNodeTemplateSpec struct {
	// subnetSelector chooses subnets by tags: those that carry all of these tags
	// with exactly these values. The key aws-ids chooses by ID instead, several
	// separated by commas. Interfaces without a subnetSelector of their own are
	// in one of these subnets. Required, unless launchTemplateRef is used as it
	// is.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of subnetSelector must be a tag key of 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="!('aws-ids' in self) || self.size() == 1",message="aws-ids in subnetSelector names the subnets themselves: it stands alone"
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// securityGroupSelector chooses security groups by tags, with the meaning of
	// subnetSelector. Every chosen group is applied to interfaces without a
	// securityGroupSelector of their own. Required, unless launchTemplateRef is
	// used as it is.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of securityGroupSelector must be a tag key of 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="!('aws-ids' in self) || self.size() == 1",message="aws-ids in securityGroupSelector names the groups themselves: it stands alone"
	SecurityGroupSelector map[string]TagValue `json:"securityGroupSelector,omitempty"`

	// instanceProfile is the name or ARN of the IAM instance profile of the
	// nodes.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	InstanceProfile string `json:"instanceProfile,omitempty"`

	// amiFamily says how an image is told which cluster to join, and resolves
	// the image of the family when there is no amiSelector: AL2023,
	// Bottlerocket, or Custom for an image that takes userData as it is.
	// Default: AL2023 without, and Custom with an amiSelector.
	// +optional
	AMIFamily AMIFamily `json:"amiFamily,omitempty"`

	// amiSelector chooses the image by tags, the newest of several; the key
	// aws-ids chooses it by ID.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="!('aws-ids' in self) || self.size() == 1 && self['aws-ids'].matches('^ami-[0-9a-f]{8,17}$')",message="aws-ids in amiSelector names the image itself, such as ami-0123456789abcdef0: it stands alone"
	AMISelector map[string]TagValue `json:"amiSelector,omitempty"`

	// architecture is that of the image, and so of the instance types: amd64 or
	// arm64. It is read from the image that amiSelector chooses. Default: amd64
	// for the image of the family.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// userData is merged with what the family of the image needs to join the
	// cluster, and has the last word. For a Custom image it is taken as it is.
	// EC2 takes 16 KiB of it in the end (EC2 user guide, "User data").
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	UserData string `json:"userData,omitempty"`

	// cluster is what user data must say of the cluster. Where it is not set,
	// userData must say it.
	// +optional
	Cluster *ClusterAccess `json:"cluster,omitempty"`

	// tags are put on the instances, volumes and interfaces that are launched.
	// +optional
	// +kubebuilder:validation:MaxProperties=35
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of tags must have 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('aws:') && !k.startsWith('AWS:'))",message="tags must not use keys beginning with aws: they are reserved by AWS"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('networking.k8s.aws/'))",message="tags must not use keys beginning with networking.k8s.aws/: they record who owns what and are set by the controller"
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.startsWith('node.k8s.amazonaws.com/') && !k.startsWith('cluster.k8s.amazonaws.com/'))",message="tags must not use keys of the VPC CNI, beginning with node.k8s.amazonaws.com/ or cluster.k8s.amazonaws.com/: use management of an interface"
	Tags map[string]TagValue `json:"tags,omitempty"`

	// metadataOptions configure the instance metadata service. Default: IMDSv2
	// only, with a hop limit of 1.
	// +optional
	MetadataOptions *MetadataOptions `json:"metadataOptions,omitempty"`

	// blockDeviceMappings configure the volumes of the instances. Default: those
	// of the image.
	// +optional
	// +listType=map
	// +listMapKey=deviceName
	// +kubebuilder:validation:MaxItems=50
	BlockDeviceMappings []BlockDeviceMapping `json:"blockDeviceMappings,omitempty"`

	// detailedMonitoring has CloudWatch collect figures every minute.
	// +optional
	DetailedMonitoring *bool `json:"detailedMonitoring,omitempty"`

	// networkInterfaces are the network interfaces of an instance; one of them
	// is the primary one, at networkCardIndex 0 and deviceIndex 0. Default: the
	// primary one alone.
	// +optional
	// +listType=map
	// +listMapKey=networkCardIndex
	// +listMapKey=deviceIndex
	// +kubebuilder:validation:MaxItems=150
	NetworkInterfaces []LaunchInterface `json:"networkInterfaces,omitempty"`

	// layout adds the EFA interfaces that an instance type takes to the declared
	// ones, type by type. IPOptimized uses no IP addresses for them.
	// BandwidthOptimized adds the IP interfaces it takes to use all of the
	// instance's IP bandwidth. Default: None.
	// +optional
	// +kubebuilder:default=None
	Layout Layout `json:"layout,omitempty"`

	// instanceTypes narrows the instance types to choose from. Those that cannot
	// carry the interfaces are left out by themselves.
	// +optional
	InstanceTypes InstanceTypeSelector `json:"instanceTypes,omitempty"`

	// driftPolicy says what is done about nodes that differ from the node
	// template as it is now.
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// launchTemplateRef is a launch template that somebody else keeps.
	// +optional
	LaunchTemplateRef *LaunchTemplateRef `json:"launchTemplateRef,omitempty"`

	// autofill says what to do with launchTemplateRef. With false, nodes are
	// launched from it as it is. With true, what it leaves open is filled in
	// from this spec, and what it says wins over this spec. Default: false.
	// +optional
	// +kubebuilder:default=false
	Autofill *bool `json:"autofill,omitempty"`

	// launchTemplateOverride is laid over everything else: members of EC2's
	// RequestLaunchTemplateData under their own names, userData as plain text.
	// null takes a member away. It is refused unless the controller runs with
	// the feature gate LaunchTemplateOverride.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	LaunchTemplateOverride *runtime.RawExtension `json:"launchTemplateOverride,omitempty"`

	// conflictPolicy says what happens when launchTemplateRef or
	// launchTemplateOverride hides what is said elsewhere. Warn reports it in
	// status.shadowedFields, Reject refuses it. Default: Warn.
	// +optional
	// +kubebuilder:default=Warn
	ConflictPolicy ConflictPolicy `json:"conflictPolicy,omitempty"`
}

// ClusterAccess has the values that a node needs to join the cluster. Empty
// fields take the values of nodeCluster in the chart, unless name is that of
// another cluster.
type ClusterAccess struct {
	// name is the name of the EKS cluster.
	// +optional
	// +kubebuilder:validation:MaxLength=100
	Name string `json:"name,omitempty"`

	// endpoint is the URL of the API server.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Endpoint string `json:"endpoint,omitempty"`

	// certificateAuthority is the certificate authority of the API server, as
	// base64 of PEM.
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	CertificateAuthority string `json:"certificateAuthority,omitempty"`

	// serviceCIDR is the range of the cluster's services.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	ServiceCIDR string `json:"serviceCIDR,omitempty"`

	// dns is the address of the cluster's DNS service, for kubelets that are not
	// to derive it. It needs user data that can be merged.
	// +optional
	// +kubebuilder:validation:MaxLength=45
	DNS string `json:"dns,omitempty"`

	// version is the Kubernetes version of the image of the family, such as
	// 1.35. Default: that of the API server.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^1\.[0-9]+$`
	Version string `json:"version,omitempty"`
}

// MetadataOptions configure the instance metadata service.
type MetadataOptions struct {
	// httpEndpoint is enabled or disabled.
	// +optional
	// +kubebuilder:validation:Enum=enabled;disabled
	HTTPEndpoint string `json:"httpEndpoint,omitempty"`

	// httpProtocolIPv6 is enabled or disabled.
	// +optional
	// +kubebuilder:validation:Enum=enabled;disabled
	HTTPProtocolIPv6 string `json:"httpProtocolIPv6,omitempty"`

	// httpPutResponseHopLimit is how many hops an answer with a session token
	// travels: 1 keeps it from pods, 2 lets pods have it.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=64
	HTTPPutResponseHopLimit int32 `json:"httpPutResponseHopLimit,omitempty"`

	// httpTokens is required for IMDSv2 only, or optional.
	// +optional
	// +kubebuilder:validation:Enum=required;optional
	HTTPTokens string `json:"httpTokens,omitempty"`
}

// BlockDeviceMapping configures one volume.
type BlockDeviceMapping struct {
	// deviceName is the device, for example /dev/xvda.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	DeviceName string `json:"deviceName"`

	// ebs is the EBS volume.
	// +optional
	EBS *BlockDevice `json:"ebs,omitempty"`
}

// BlockDevice is an EBS volume.
type BlockDevice struct {
	// deleteOnTermination deletes the volume with its instance.
	// +optional
	DeleteOnTermination *bool `json:"deleteOnTermination,omitempty"`

	// encrypted has the volume encrypted.
	// +optional
	Encrypted *bool `json:"encrypted,omitempty"`

	// iops is the number of I/O operations per second.
	// +optional
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=256000
	IOPS int32 `json:"iops,omitempty"`

	// kmsKeyID is the key of an encrypted volume.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	KMSKeyID string `json:"kmsKeyID,omitempty"`

	// snapshotID is the snapshot that the volume is made from.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SnapshotID string `json:"snapshotID,omitempty"`

	// throughput is in MiB per second.
	// +optional
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=2000
	Throughput int32 `json:"throughput,omitempty"`

	// volumeSize is the size, for example 100Gi or 1Ti.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]{0,4}(Gi|Ti)$`
	VolumeSize string `json:"volumeSize,omitempty"`

	// volumeType is the type, for example gp3.
	// +optional
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	VolumeType string `json:"volumeType,omitempty"`
}

// InstanceTypeSelector narrows instance types by patterns, in which * stands
// for any characters.
type InstanceTypeSelector struct {
	// include are the types to choose from, for example m5.*. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=64
	Include []string `json:"include,omitempty"`

	// exclude are types that are not to be used.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=64
	Exclude []string `json:"exclude,omitempty"`
}

// DriftPolicy says what is done about nodes that have drifted. What only a new
// node can mend is reported and left to whoever replaces nodes.
type DriftPolicy struct {
	// inPlace says what is done about differences that can be mended on a
	// running node: Repair mends them, Report only reports. Default: Repair.
	// +optional
	// +kubebuilder:default=Repair
	InPlace InPlacePolicy `json:"inPlace,omitempty"`
}

// LaunchTemplateRef names a version of a launch template.
//
// +kubebuilder:validation:ExactlyOneOf=id;name
type LaunchTemplateRef struct {
	// id is the ID, for example lt-0123456789abcdef0.
	// +optional
	// +kubebuilder:validation:MaxLength=24
	// +kubebuilder:validation:Pattern=`^lt-[0-9a-f]{8,17}$`
	ID string `json:"id,omitempty"`

	// name is the name.
	// +optional
	// +kubebuilder:validation:MinLength=3
	// +kubebuilder:validation:MaxLength=128
	Name string `json:"name,omitempty"`

	// version is a number, $Latest or $Default. The latter two are followed:
	// what they stand for is read every minute.
	// +required
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]*|\\\\$Latest|\\\\$Default)$')",message="version must be a number, $Latest or $Default, spelt like this"
	Version string `json:"version"`
}

// AMIFamily says how an image is told which cluster to join. AL2 is none, since
// AWS publishes no new image of it for EKS, and neither are images that AWS does
// not publish, such as those of Ubuntu: they are Custom.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self in ['AL2023', 'Bottlerocket', 'Custom']",message="amiFamily must be AL2023, Bottlerocket or Custom; for AL2, of which AWS publishes no new image for EKS, for Ubuntu and any other image set Custom, choose the image by amiSelector, and say in userData how it joins the cluster"
type AMIFamily string

// Architecture is the architecture of an image, in Kubernetes' words.
//
// +kubebuilder:validation:Enum=amd64;arm64
type Architecture string

// Layout says which EFA interfaces are added.
//
// +kubebuilder:validation:Enum=None;IPOptimized;BandwidthOptimized
type Layout string

// ConflictPolicy says what happens when one layer hides another.
//
// +kubebuilder:validation:Enum=Warn;Reject
type ConflictPolicy string

// ConflictReject refuses what hides something.
const ConflictReject ConflictPolicy = "Reject"

// InPlacePolicy says what is done about what can be mended on a running node.
//
// +kubebuilder:validation:Enum=Repair;Report
type InPlacePolicy string

// InPlaceReport only reports.
const InPlaceReport InPlacePolicy = "Report"
