// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"encoding/base64"
	"maps"
	"reflect"
	"slices"
)

// maxUserData is the limit of user data before it is encoded (EC2 user guide, "Run commands at launch").
const maxUserData = 16 << 10

// LaunchTemplateData are the settings of instances in a launch template. RunInstances has the same members, which
// override the template's. An unset member has no effect.
//
// Interfaces, tags of instances and interfaces, image, type, placement, user data, instance profile, metadata options
// and monitoring have an effect. Volumes and the members after them are only stored: the simulator has no disks, and no
// CPU options.
type LaunchTemplateData struct {
	ImageID            string                        `query:"ImageId" json:"imageId,omitempty"`
	InstanceType       string                        `query:"InstanceType" json:"instanceType,omitempty"`
	KeyName            string                        `query:"KeyName" json:"keyName,omitempty"`
	UserData           string                        `query:"UserData" json:"userData,omitempty"` // in base64
	IAMInstanceProfile *InstanceProfileSpecification `query:"IamInstanceProfile" json:"iamInstanceProfile,omitempty"`
	SecurityGroupIDs   []string                      `query:"SecurityGroupId" json:"securityGroupIds,omitempty" xml:"securityGroupIdSet"`
	NetworkInterfaces  []InterfaceSpecification      `query:"NetworkInterface" json:"networkInterfaces,omitempty" xml:"networkInterfaceSet"`
	MetadataOptions    *MetadataOptions              `query:"MetadataOptions" json:"metadataOptions,omitempty"`
	Monitoring         *MonitoringSpecification      `query:"Monitoring" json:"monitoring,omitempty"`
	Placement          *PlacementSpecification       `query:"Placement" json:"placement,omitempty"`
	TagSpecifications  []TagSpecification            `query:"TagSpecification" json:"tagSpecifications,omitempty" xml:"tagSpecificationSet"`

	BlockDeviceMappings               []BlockDeviceMapping `query:"BlockDeviceMapping" json:"blockDeviceMappings,omitempty" xml:"blockDeviceMappingSet"`
	EBSOptimized                      *bool                `query:"EbsOptimized" json:"ebsOptimized,omitempty"`
	DisableAPIStop                    *bool                `query:"DisableApiStop" json:"disableApiStop,omitempty"`
	DisableAPITermination             *bool                `query:"DisableApiTermination" json:"disableApiTermination,omitempty"`
	InstanceInitiatedShutdownBehavior string               `query:"InstanceInitiatedShutdownBehavior" json:"instanceInitiatedShutdownBehavior,omitempty"`
	CPUOptions                        *CPUOptions          `query:"CpuOptions" json:"cpuOptions,omitempty"`
	CreditSpecification               *CreditSpecification `query:"CreditSpecification" json:"creditSpecification,omitempty"`
	HibernationOptions                *HibernationOptions  `query:"HibernationOptions" json:"hibernationOptions,omitempty"`
	EnclaveOptions                    *EnclaveOptions      `query:"EnclaveOptions" json:"enclaveOptions,omitempty"`
}

// HibernationOptions must be off: awssim has no memory to keep.
type HibernationOptions struct {
	Configured bool `query:"Configured" json:"configured"`
}

// EnclaveOptions must be off: awssim has no enclaves.
type EnclaveOptions struct {
	Enabled bool `query:"Enabled" json:"enabled"`
}

// MetadataOptions are the settings of the instance metadata service, in requests and in answers.
type MetadataOptions struct {
	State                   string `json:"state,omitempty"`
	HTTPEndpoint            string `query:"HttpEndpoint" json:"httpEndpoint,omitempty"`
	HTTPTokens              string `query:"HttpTokens" json:"httpTokens,omitempty"`
	HTTPPutResponseHopLimit *int   `query:"HttpPutResponseHopLimit" json:"httpPutResponseHopLimit,omitempty"`
	HTTPProtocolIPv6        string `query:"HttpProtocolIpv6" json:"httpProtocolIpv6,omitempty"`
	InstanceMetadataTags    string `query:"InstanceMetadataTags" json:"instanceMetadataTags,omitempty"`
}

// Values of the metadata options.
const (
	Enabled  = "enabled"
	Disabled = "disabled"
	Required = "required"
	Optional = "optional"
)

// orDefault completes the options with EC2's defaults for an image without its own.
func (o *MetadataOptions) orDefault() *MetadataOptions {
	all := MetadataOptions{}
	if o != nil {
		all = *o
	}
	all.State = "applied"
	all.HTTPEndpoint = cmp.Or(all.HTTPEndpoint, Enabled)
	all.HTTPTokens = cmp.Or(all.HTTPTokens, Optional)
	all.HTTPProtocolIPv6 = cmp.Or(all.HTTPProtocolIPv6, Disabled)
	all.InstanceMetadataTags = cmp.Or(all.InstanceMetadataTags, Disabled)
	if all.HTTPPutResponseHopLimit == nil {
		all.HTTPPutResponseHopLimit = new(1)
	}
	return &all
}

func (o *MetadataOptions) validate() error {
	if o == nil {
		return nil
	}
	for _, word := range []struct{ name, value, one, other string }{
		{"HttpEndpoint", o.HTTPEndpoint, Enabled, Disabled},
		{"HttpTokens", o.HTTPTokens, Optional, Required},
		{"HttpProtocolIpv6", o.HTTPProtocolIPv6, Enabled, Disabled},
		{"InstanceMetadataTags", o.InstanceMetadataTags, Enabled, Disabled},
	} {
		if word.value != "" && word.value != word.one && word.value != word.other {
			return invalidValue("Invalid value '%s' for %s", word.value, word.name)
		}
	}
	if hops := o.HTTPPutResponseHopLimit; hops != nil && (*hops < 1 || *hops > 64) {
		return invalidValue("The value '%d' for HttpPutResponseHopLimit is not valid. It must be between 1 and 64.", *hops)
	}
	return nil
}

// MonitoringSpecification requests detailed monitoring.
type MonitoringSpecification struct {
	Enabled bool `query:"Enabled" json:"enabled"`
}

// BlockDeviceMapping is a volume of a launch. The simulator stores the settings and creates no volume.
type BlockDeviceMapping struct {
	DeviceName  string                  `query:"DeviceName" json:"deviceName,omitempty"`
	VirtualName string                  `query:"VirtualName" json:"virtualName,omitempty"`
	NoDevice    string                  `query:"NoDevice" json:"noDevice,omitempty"`
	EBS         *EBSVolumeSpecification `query:"Ebs" json:"ebs,omitempty"`
}

// EBSVolumeSpecification has the settings of a volume.
type EBSVolumeSpecification struct {
	DeleteOnTermination *bool  `query:"DeleteOnTermination" json:"deleteOnTermination,omitempty"`
	Encrypted           *bool  `query:"Encrypted" json:"encrypted,omitempty"`
	IOPS                *int   `query:"Iops" json:"iops,omitempty"`
	KMSKeyID            string `query:"KmsKeyId" json:"kmsKeyId,omitempty"`
	SnapshotID          string `query:"SnapshotId" json:"snapshotId,omitempty"`
	Throughput          *int   `query:"Throughput" json:"throughput,omitempty"`
	VolumeSize          *int   `query:"VolumeSize" json:"volumeSize,omitempty"`
	VolumeType          string `query:"VolumeType" json:"volumeType,omitempty"`
}

// CPUOptions are stored and have no effect.
type CPUOptions struct {
	AMDSEVSNP      string `query:"AmdSevSnp" json:"amdSevSnp,omitempty"`
	CoreCount      *int   `query:"CoreCount" json:"coreCount,omitempty"`
	ThreadsPerCore *int   `query:"ThreadsPerCore" json:"threadsPerCore,omitempty"`
}

// CreditSpecification is stored and has no effect.
type CreditSpecification struct {
	CPUCredits string `query:"CpuCredits" json:"cpuCredits,omitempty"`
}

// over returns base with its members overridden by those of d, as for a new version from a source version. Lists are
// replaced as a whole.
func (d LaunchTemplateData) over(base LaunchTemplateData) LaunchTemplateData {
	merged := reflect.ValueOf(&base).Elem()
	own := reflect.ValueOf(d)
	for i := range own.NumField() {
		if !own.Field(i).IsZero() {
			merged.Field(i).Set(own.Field(i))
		}
	}
	return base
}

// launchOver is over for a launch: an interface replaces the one in its slot, and a tag the one with its key. EC2
// documents this for tags; for interfaces it follows from EC2's advice to add a missing primary one in the request.
func (d LaunchTemplateData) launchOver(base LaunchTemplateData) LaunchTemplateData {
	merged := d.over(base)
	merged.NetworkInterfaces = slices.Clone(base.NetworkInterfaces)
	for _, spec := range d.NetworkInterfaces {
		sameSlot := func(other InterfaceSpecification) bool { return other.slot() == spec.slot() }
		merged.NetworkInterfaces = append(slices.DeleteFunc(merged.NetworkInterfaces, sameSlot), spec)
	}
	merged.TagSpecifications = mergeTagSpecifications(base.TagSpecifications, d.TagSpecifications)
	return merged
}

func mergeTagSpecifications(base, over []TagSpecification) []TagSpecification {
	merged := []TagSpecification{}
	for _, spec := range slices.Concat(base, over) {
		at := slices.IndexFunc(merged, func(other TagSpecification) bool { return other.ResourceType == spec.ResourceType })
		if at < 0 {
			merged = append(merged, TagSpecification{ResourceType: spec.ResourceType, Tags: slices.Clone(spec.Tags)})
			continue
		}
		for _, tag := range spec.Tags {
			sameKey := func(other Tag) bool { return other.Key == tag.Key }
			merged[at].Tags = append(slices.DeleteFunc(merged[at].Tags, sameKey), tag)
		}
	}
	return merged
}

// validate returns an error for settings that are invalid in every launch template and launch.
func (d LaunchTemplateData) validate() error {
	if err := d.MetadataOptions.validate(); err != nil {
		return err
	}
	for _, spec := range d.TagSpecifications {
		if _, err := readTags(spec.Tags); err != nil {
			return err
		}
	}
	if d.HibernationOptions != nil && d.HibernationOptions.Configured {
		return notModelled("hibernation")
	}
	if d.EnclaveOptions != nil && d.EnclaveOptions.Enabled {
		return notModelled("enclaves")
	}
	return validateUserData(d.UserData)
}

func validateUserData(encoded string) error {
	plain, err := base64.StdEncoding.DecodeString(encoded)
	switch {
	case err != nil:
		return refuse("InvalidUserData.Malformed", "Invalid BASE64 encoding of user data.")
	case len(plain) > maxUserData:
		return invalidValue("User data is limited to %d bytes", maxUserData)
	}
	return nil
}

// launchTags returns the tags for new instances and for their new interfaces. Tags for resources that the simulator
// does not create have no effect.
func launchTags(specs []TagSpecification) (instance, eni Tags, err error) {
	instance, eni = Tags{}, Tags{}
	for _, spec := range specs {
		tags, err := readTags(spec.Tags)
		if err != nil {
			return nil, nil, err
		}
		switch spec.ResourceType {
		case "instance":
			maps.Copy(instance, tags)
		case "network-interface":
			maps.Copy(eni, tags)
		case "volume", "spot-instances-request":
		default:
			return nil, nil, invalidValue("'%s' is not a valid taggable resource type for this operation.", spec.ResourceType)
		}
	}
	return instance, eni, nil
}
