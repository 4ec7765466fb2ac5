// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate

import (
	"maps"
	"strings"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// defaults are the values that hold when no layer sets them: instance metadata requires a session and is not reachable
// from a pod's network (AWS, "EKS best practices", restrict access to the instance profile).
func defaults() Document {
	return Document{mMetadata: map[string]any{"HttpEndpoint": "enabled", "HttpTokens": "required",
		"HttpPutResponseHopLimit": 1}}
}

// inline turns the declared fields, with the interfaces a shape has, into a document. User data, subnets and multieni's
// own tags are added later, when all layers are known.
func (t NodeTemplate) inline(interfaces []Interface) Document {
	d := Document{}
	if t.Image.ID != "" {
		d[mImageID] = t.Image.ID
	}
	if t.InstanceProfile != "" {
		d[mProfile] = profile(t.InstanceProfile)
	}
	if t.Monitoring != nil {
		d[mMonitoring] = map[string]any{"Enabled": *t.Monitoring}
	}
	if t.Metadata != nil {
		d[mMetadata] = t.Metadata.members()
	}
	if len(t.BlockDevices) > 0 {
		d[mDevices] = list(t.BlockDevices, BlockDevice.members)
	}
	if len(t.Network.Groups) > 0 {
		d[mGroupIDs] = textValues(t.Network.Groups)
	}
	d[mInterfaces] = list(interfaces, Interface.members)
	if len(t.Tags) > 0 {
		d[mTags] = []any{
			tagsFor("instance", t.Tags), tagsFor("volume", t.Tags), tagsFor("network-interface", t.Tags),
		}
	}
	return d
}

// tagsFor returns the tag specification of the resources of one kind.
func tagsFor(kind string, tags map[string]string) map[string]any {
	return map[string]any{"ResourceType": kind, "Tags": tagList(tags)}
}

func profile(name string) map[string]any {
	if strings.HasPrefix(name, "arn:") {
		return map[string]any{"Arn": name}
	}
	return map[string]any{"Name": name}
}

func (m MetadataOptions) members() map[string]any {
	d := map[string]any{}
	put(d, "HttpEndpoint", m.HTTPEndpoint)
	put(d, "HttpTokens", m.HTTPTokens)
	put(d, "HttpProtocolIpv6", m.HTTPProtocolIPv6)
	put(d, "HttpPutResponseHopLimit", m.HopLimit)
	return d
}

func (b BlockDevice) members() map[string]any {
	d := map[string]any{"DeviceName": b.DeviceName}
	if b.EBS == nil {
		return d
	}
	e := map[string]any{}
	putBool(e, "DeleteOnTermination", b.EBS.DeleteOnTermination)
	putBool(e, "Encrypted", b.EBS.Encrypted)
	put(e, "VolumeSize", b.EBS.SizeGiB)
	put(e, "Iops", b.EBS.IOPS)
	put(e, "Throughput", b.EBS.Throughput)
	put(e, "VolumeType", b.EBS.VolumeType)
	put(e, "KmsKeyId", b.EBS.KMSKeyID)
	put(e, "SnapshotId", b.EBS.SnapshotID)
	d["Ebs"] = e
	return d
}

// members always sets the slot, the type and the termination of the interface: EC2's defaults for them depend on how
// the instance is launched.
func (i Interface) members() map[string]any {
	d := map[string]any{
		"NetworkCardIndex": i.Slot.Card, "DeviceIndex": i.Slot.Device, "InterfaceType": string(i.kind()),
		"DeleteOnTermination": i.DeleteOnTermination,
	}
	put(d, "Description", i.Description)
	put(d, "Ipv4PrefixCount", i.IPv4Prefixes)
	put(d, "Ipv6PrefixCount", i.IPv6Prefixes)
	putBool(d, mPublicIP, i.PublicIP)
	putBool(d, "AssociateCarrierIpAddress", i.CarrierIP)
	if i.Groups != nil {
		d["Groups"] = textValues(i.Groups)
	}
	if t := i.ConnectionTracking; !t.IsZero() {
		timeouts := map[string]any{}
		put(timeouts, "TcpEstablishedTimeout", t.TCPEstablished)
		put(timeouts, "UdpStreamTimeout", t.UDPStream)
		put(timeouts, "UdpTimeout", t.UDP)
		d[mTracking] = timeouts
	}
	if i.ENAExpress != "" {
		d[mExpress] = map[string]any{"EnaSrdEnabled": i.ENAExpress.IsOn(),
			"EnaSrdUdpSpecification": map[string]any{"EnaSrdUdpEnabled": i.ENAExpress == eni.ENAExpressTCPAndUDP}}
	}
	return d
}

// tracking reads the timeouts of an interface's members.
func tracking(member any) eni.ConnectionTracking {
	d, _ := member.(map[string]any)
	return eni.ConnectionTracking{
		TCPEstablished: number(d["TcpEstablishedTimeout"]), UDPStream: number(d["UdpStreamTimeout"]),
		UDP: number(d["UdpTimeout"]),
	}
}

// express reads ENA Express of an interface's members.
func express(member any) eni.ENAExpress {
	d, is := member.(map[string]any)
	on, udp := boolean(d["EnaSrdEnabled"]), (*bool)(nil)
	if inner, has := d["EnaSrdUdpSpecification"].(map[string]any); has {
		udp = boolean(inner["EnaSrdUdpEnabled"])
	}
	switch {
	case !is:
		return ""
	case on == nil || !*on:
		return eni.ENAExpressNone
	case udp == nil || !*udp:
		return eni.ENAExpressTCP
	default:
		return eni.ENAExpressTCPAndUDP
	}
}

func (i Interface) kind() eni.Type {
	if i.Type == "" {
		return eni.Standard
	}
	return i.Type
}

// tags returns multieni's own tags, which identify the resources that are launched from the template.
// All interfaces of a template have the same ones. The tags that tell the VPC CNI which interfaces to manage differ
// per interface, so the controller sets them after launch: the VPC CNI reads tags when it starts.
func (t NodeTemplate) tags(interfaces []Interface) []any {
	ours := map[string]string{
		identity.TagCluster: t.Cluster, identity.TagNodeTemplate: t.Name, identity.TagNodeTemplateUID: t.UID,
	}
	ofInterfaces := maps.Clone(ours)
	for _, i := range interfaces {
		if i.unmanaged() {
			ofInterfaces[identity.TagNoManage] = "true"
		}
	}
	return []any{tagsFor("instance", ours), tagsFor("volume", ours), tagsFor("network-interface", ofInterfaces)}
}

func put[V string | int](d map[string]any, key string, value V) {
	var none V
	if value != none {
		d[key] = value
	}
}

func putBool(d map[string]any, key string, value *bool) {
	if value != nil {
		d[key] = *value
	}
}

func list[T any](all []T, members func(T) map[string]any) []any {
	var objects []any
	for _, one := range all {
		objects = append(objects, members(one))
	}
	return objects
}

func textValues(texts []string) []any {
	values := []any{}
	for _, s := range texts {
		values = append(values, s)
	}
	return values
}
