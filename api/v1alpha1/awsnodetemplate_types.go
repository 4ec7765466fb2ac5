// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// AWSNodeTemplate declares how nodes are launched, mainly their network
// interfaces. The controller publishes it as EC2 launch templates; Auto Scaling
// groups and fleets launch from these by ID and version. Interfaces that are
// created together with an instance cost no API call, are deleted with it, can
// be EFA, and exist before the kubelet starts.
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

	// spec is the desired state. Every field may be changed at any time; status
	// says which running nodes differ.
	// +required
	Spec AWSNodeTemplateSpec `json:"spec"`

	// status is the last observed state.
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

// AWSNodeTemplateSpec says how nodes are launched.
//
// +kubebuilder:validation:XValidation:rule="has(self.launchTemplateRef) && !(has(self.autofill) && self.autofill) || has(self.subnetSelector) && has(self.securityGroupSelector)",message="subnetSelector and securityGroupSelector are required, unless launchTemplateRef is used as it is (autofill: false)"
// +kubebuilder:validation:XValidation:rule="has(self.launchTemplateRef) || !(has(self.autofill) && self.autofill)",message="autofill: true fills in what a launch template leaves open: say which one with launchTemplateRef"
// +kubebuilder:validation:XValidation:rule="has(self.layout) && self.layout != 'None' || !has(self.networkInterfaces) || self.networkInterfaces.size() == 0 || self.networkInterfaces.exists(i, i.networkCardIndex == 0 && i.deviceIndex == 0) || (has(self.launchTemplateRef) && has(self.autofill) && self.autofill)",message="networkInterfaces must have one with networkCardIndex: 0 and deviceIndex: 0: every instance has this primary interface"
// +kubebuilder:validation:XValidation:rule="!has(self.networkInterfaces) || self.networkInterfaces.size() <= 1 || !self.networkInterfaces.exists(i, has(i.associatePublicIPAddress) && i.associatePublicIPAddress)",message="associatePublicIPAddress: true is possible only with a single network interface: EC2 gives public addresses to no other instances"
type AWSNodeTemplateSpec struct {
	// subnetSelector selects subnets by tags: those that have all of these tags
	// with exactly these values. The key aws-ids selects by ID instead, several
	// separated by commas. Interfaces without a subnetSelector of their own are
	// in one of these subnets. Required, unless nodes are launched from
	// launchTemplateRef without autofill.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, k.size() >= 1 && k.size() <= 128)",message="every key of subnetSelector must be a tag key of 1 to 128 characters"
	// +kubebuilder:validation:XValidation:rule="!('aws-ids' in self) || self.size() == 1",message="aws-ids in subnetSelector names the subnets themselves: it stands alone"
	SubnetSelector map[string]TagValue `json:"subnetSelector,omitempty"`

	// securityGroupSelector selects security groups by tags, in the same way as
	// subnetSelector. Interfaces without a securityGroupSelector of their own
	// get every selected group. Required, unless nodes are launched from
	// launchTemplateRef without autofill.
	// +optional
	// +mapType=atomic
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

	// amiFamily is the way in which the image receives the values of the
	// cluster, and selects the image of the family if there is no amiSelector:
	// AL2023, Bottlerocket, or Custom for an image that needs userData
	// unchanged. Default: AL2023 without, and Custom with an amiSelector.
	// +optional
	AMIFamily AMIFamily `json:"amiFamily,omitempty"`

	// amiSelector selects the image by tags, the newest of those that EC2 can
	// launch with the instance types; the key aws-ids selects it by ID.
	// +optional
	// +mapType=atomic
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="!('aws-ids' in self) || self.size() == 1 && self['aws-ids'].matches('^ami-[0-9a-f]{8,17}$')",message="aws-ids in amiSelector names the image itself, such as ami-0123456789abcdef0: it stands alone"
	AMISelector map[string]TagValue `json:"amiSelector,omitempty"`

	// architecture is that of the image, and so of the instance types: amd64 or
	// arm64. amiSelector then selects among images of this architecture. Without
	// it, the controller reads the architecture from the image. Default: amd64
	// for the image of the family.
	// +optional
	Architecture Architecture `json:"architecture,omitempty"`

	// userData is merged with the user data that an image of the family needs
	// to join the cluster, and overrides it. A Custom image gets it unchanged.
	// EC2 accepts 16 KiB after the merge (EC2 user guide, "User data").
	// +optional
	// +kubebuilder:validation:MaxLength=16384
	UserData string `json:"userData,omitempty"`

	// cluster has the values of the cluster for the user data. If it is not
	// set, userData must have them.
	// +optional
	Cluster *ClusterAccess `json:"cluster,omitempty"`

	// tags are the tags of the launched instances, volumes and interfaces.
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

	// detailedMonitoring makes CloudWatch collect metrics every minute.
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

	// layout adds the EFA interfaces that an instance type supports to the
	// declared ones, for each type. IPOptimized uses no IP addresses for them.
	// BandwidthOptimized adds the IP interfaces that are necessary for all of
	// the instance's IP bandwidth. Default: None.
	// +optional
	// +kubebuilder:default=None
	Layout Layout `json:"layout,omitempty"`

	// instanceTypes restricts the instance types. The controller itself excludes
	// types that do not support the interfaces.
	// +optional
	InstanceTypes InstanceTypeSelector `json:"instanceTypes,omitempty"`

	// driftPolicy says what happens to running nodes that differ from the node
	// template.
	// +optional
	DriftPolicy DriftPolicy `json:"driftPolicy,omitempty"`

	// launchTemplateRef is a launch template that the user or another program
	// maintains.
	// +optional
	LaunchTemplateRef *LaunchTemplateRef `json:"launchTemplateRef,omitempty"`

	// autofill says how launchTemplateRef is used. With false, nodes are
	// launched from it as it is. With true, this spec supplies the fields that
	// it does not set, and its own fields override this spec. Default: false.
	// +optional
	// +kubebuilder:default=false
	Autofill *bool `json:"autofill,omitempty"`

	// launchTemplateOverride overrides everything else: members of EC2's
	// RequestLaunchTemplateData under their own names, userData as plain text.
	// null removes a member. It needs the feature gate LaunchTemplateOverride.
	// +optional
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	LaunchTemplateOverride *runtime.RawExtension `json:"launchTemplateOverride,omitempty"`

	// conflictPolicy says what happens when launchTemplateRef or
	// launchTemplateOverride overrides a field that another layer sets. Warn
	// reports it in status.shadowedFields, Reject refuses it. Default: Warn.
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

	// dns is the address of the cluster's DNS service, if kubelets must not
	// derive it. It needs user data that can be merged.
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

	// httpPutResponseHopLimit is the number of hops that a response with a
	// session token travels: with 1 pods do not receive it, with 2 they do.
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

	// encrypted makes EC2 encrypt the volume.
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

	// snapshotID is the snapshot from which EC2 creates the volume.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SnapshotID string `json:"snapshotID,omitempty"`

	// throughput is in MiB per second.
	// +optional
	// +kubebuilder:validation:Minimum=125
	// +kubebuilder:validation:Maximum=2000
	Throughput int32 `json:"throughput,omitempty"`

	// volumeSize is the size in whole Gi or Ti, for example 100Gi or 1Ti.
	// +optional
	// +kubebuilder:validation:MaxLength=8
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,4}(Gi|Ti)$')",message="volumeSize must be a whole number of Gi or Ti, for example 100Gi or 1Ti: EC2 takes whole GiB"
	VolumeSize string `json:"volumeSize,omitempty"`

	// volumeType is the type, for example gp3.
	// +optional
	// +kubebuilder:validation:Enum=standard;io1;io2;gp2;sc1;st1;gp3
	VolumeType string `json:"volumeType,omitempty"`
}

// InstanceTypeSelector restricts instance types by patterns, in which * matches
// any characters.
type InstanceTypeSelector struct {
	// include are the allowed types, for example m5.*. Default: all.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=64
	Include []string `json:"include,omitempty"`

	// exclude are the types that are not allowed.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=64
	Exclude []string `json:"exclude,omitempty"`
}

// DriftPolicy says what happens to nodes that have drifted. Differences that
// need a new node are reported; the user or another program replaces nodes.
type DriftPolicy struct {
	// inPlace says what happens to differences that can be updated in place on
	// a running node: Repair updates them, Report only reports them. Default:
	// Repair.
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

	// version is a number, $Latest or $Default. The controller resolves the
	// latter two every minute.
	// +required
	// +kubebuilder:validation:MaxLength=10
	// +kubebuilder:validation:XValidation:rule="self.matches('^([1-9][0-9]*|\\\\$Latest|\\\\$Default)$')",message="version must be a number, $Latest or $Default, spelt like this"
	Version string `json:"version"`
}

// AMIFamily is the way in which an image receives the values of the cluster.
// AL2 is not supported, because AWS publishes no new EKS image of it. Images
// that AWS does not publish, for example those of Ubuntu, are Custom.
//
// +kubebuilder:validation:MaxLength=16
// +kubebuilder:validation:XValidation:rule="self in ['AL2023', 'Bottlerocket', 'Custom']",message="amiFamily must be AL2023, Bottlerocket or Custom; AWS publishes no new EKS image of AL2; for AL2, Ubuntu and any other image set Custom, choose the image by amiSelector, and say in userData how it joins the cluster"
type AMIFamily string

// Architecture is the architecture of an image, with the names of Kubernetes.
//
// +kubebuilder:validation:Enum=amd64;arm64
type Architecture string

// Layout says which EFA interfaces are added.
//
// +kubebuilder:validation:Enum=None;IPOptimized;BandwidthOptimized
type Layout string

// ConflictPolicy says what happens when one layer overrides another.
//
// +kubebuilder:validation:Enum=Warn;Reject
type ConflictPolicy string

// ConflictReject refuses a template in which a layer overrides another.
const ConflictReject ConflictPolicy = "Reject"

// InPlacePolicy says what happens to differences that can be updated in place
// on a running node.
//
// +kubebuilder:validation:Enum=Repair;Report
type InPlacePolicy string

// InPlaceReport only reports.
const InPlaceReport InPlacePolicy = "Report"
