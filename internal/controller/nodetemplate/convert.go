// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package nodetemplate converts AWSNodeTemplates into values of package launchtemplate, for the controller and for the
// command line. Its callers resolve the selectors.
package nodetemplate

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/launchtemplate"
	"github.com/multieni/multieni/internal/core/selector"
	"github.com/multieni/multieni/internal/core/userdata"
)

// IDsKey is the key of a selector that lists IDs, as in Karpenter's v1alpha1 API.
const IDsKey = "aws-ids"

// Convert returns the node template as a value with unresolved selectors. It does not check the override against EC2's
// schema; an override that is not a JSON object is an error.
func Convert(object *v1alpha1.AWSNodeTemplate, cluster string) (launchtemplate.NodeTemplate, error) {
	spec := object.Spec
	t := launchtemplate.NodeTemplate{
		Name: object.Name, UID: string(object.UID), Cluster: cluster,
		Layout: launchtemplate.Layout(spec.Layout), UserData: spec.UserData, InstanceProfile: spec.InstanceProfile,
		Monitoring: spec.DetailedMonitoring, Tags: v1alpha1.Strings(spec.Tags),
		Image: launchtemplate.Image{Family: launchtemplate.Family(spec.AMIFamily),
			ID: ImageID(spec.AMISelector), Architecture: string(spec.Architecture)},
		Types:           launchtemplate.TypeFilter{Include: spec.InstanceTypes.Include, Exclude: spec.InstanceTypes.Exclude},
		RejectConflicts: spec.ConflictPolicy == v1alpha1.ConflictReject,
	}
	if m := spec.MetadataOptions; m != nil {
		t.Metadata = &launchtemplate.MetadataOptions{
			HTTPEndpoint: m.HTTPEndpoint, HTTPTokens: m.HTTPTokens, HTTPProtocolIPv6: m.HTTPProtocolIPv6,
			HopLimit: int(m.HTTPPutResponseHopLimit),
		}
	}
	if c := spec.Cluster; c != nil {
		t.Bootstrap = userdata.Cluster{
			ClusterName: c.Name, Endpoint: c.Endpoint, CA: c.CertificateAuthority, ServiceCIDR: c.ServiceCIDR, ClusterDNS: c.DNS,
		}
		t.Image.KubernetesVersion = c.Version
	}
	for _, d := range spec.BlockDeviceMappings {
		t.BlockDevices = append(t.BlockDevices, blockDevice(d))
	}
	for _, i := range spec.NetworkInterfaces {
		t.Interfaces = append(t.Interfaces, convertInterface(i))
	}
	if raw := spec.LaunchTemplateOverride; raw != nil && len(raw.Raw) > 0 {
		if err := json.Unmarshal(raw.Raw, &t.Override); err != nil {
			return t, launchtemplate.Problem{Reason: launchtemplate.InvalidOverride,
				Path:    "spec.launchTemplateOverride",
				Message: "it must be an object with members of RequestLaunchTemplateData: " + err.Error()}
		}
	}
	return t, nil
}

func convertInterface(i v1alpha1.LaunchInterface) launchtemplate.Interface {
	timeouts, _ := object.ConnectionTracking(i.ConnectionTracking)
	return launchtemplate.Interface{
		Name: i.Name, Slot: eni.Slot{Card: int(i.NetworkCardIndex), Device: int(i.DeviceIndex)},
		Type:        eni.Type(i.InterfaceType),
		Description: i.Description, DeleteOnTermination: i.DeleteOnTermination == nil || *i.DeleteOnTermination,
		PublicIP: i.AssociatePublicIPAddress, CarrierIP: i.AssociateCarrierIPAddress,
		IPv4Prefixes: int(i.IPv4PrefixCount), IPv6Prefixes: int(i.IPv6PrefixCount),
		ConnectionTracking: timeouts, ENAExpress: eni.ENAExpress(i.ENAExpress),
		Management: launchtemplate.Management(i.Management),
	}
}

func blockDevice(d v1alpha1.BlockDeviceMapping) launchtemplate.BlockDevice {
	b := launchtemplate.BlockDevice{DeviceName: d.DeviceName}
	if e := d.EBS; e != nil {
		b.EBS = &launchtemplate.EBS{
			DeleteOnTermination: e.DeleteOnTermination, Encrypted: e.Encrypted, SizeGiB: gib(e.VolumeSize), IOPS: int(e.IOPS),
			Throughput: int(e.Throughput), VolumeType: e.VolumeType, KMSKeyID: e.KMSKeyID, SnapshotID: e.SnapshotID,
		}
	}
	return b
}

// gib parses sizes such as 100Gi and 1Ti, the only units that the schema allows.
func gib(size string) int {
	number, unit := strings.TrimRight(size, "GTi"), 1
	if strings.HasSuffix(size, "Ti") {
		unit = 1024
	}
	n, err := strconv.Atoi(number)
	if err != nil {
		return 0
	}
	return n * unit
}

// AsItIs reports whether nodes are launched from another program's unchanged launch template.
func AsItIs(spec v1alpha1.AWSNodeTemplateSpec) bool {
	return spec.LaunchTemplateRef != nil && (spec.Autofill == nil || !*spec.Autofill)
}

// ImageID returns the image that a selector names by ID, and "" for a selector by tags.
func ImageID(selector map[string]v1alpha1.TagValue) string { return string(selector[IDsKey]) }

// SubnetTerms returns how a selector chooses subnets.
func SubnetTerms(terms map[string]v1alpha1.TagValue) selector.SubnetTerms {
	if ids, by := byID(terms); by {
		return selector.SubnetTerms{IDs: ids}
	}
	return selector.SubnetTerms{Tags: v1alpha1.Strings(terms)}
}

// GroupTerms returns how a selector chooses security groups.
func GroupTerms(terms map[string]v1alpha1.TagValue) selector.GroupTerms {
	if ids, by := byID(terms); by {
		return selector.GroupTerms{IDs: ids}
	}
	return selector.GroupTerms{Tags: v1alpha1.Strings(terms)}
}

func byID(selector map[string]v1alpha1.TagValue) ([]string, bool) {
	list, by := selector[IDsKey]
	if !by {
		return nil, false
	}
	var ids []string
	for id := range strings.SplitSeq(string(list), ",") {
		ids = append(ids, strings.TrimSpace(id))
	}
	return ids, true
}
