// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds

import (
	"encoding/base64"
	"encoding/json"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/ec2"
)

// Tree has all values of the service, by path below latest/.
type Tree map[string]string

// NewTree returns the tree of an instance at the present time.
func NewTree(md *ec2.Metadata, now time.Time) Tree {
	t := Tree{}
	t.addInstance(md)
	t.addPlacement(md)
	t.addIdentity(md)
	t.addTags(md)
	t.addCredentials(md, now)
	for _, eni := range md.Interfaces {
		t.addInterface(md, eni)
	}
	if plain, err := base64.StdEncoding.DecodeString(md.Instance.UserData); err == nil && len(plain) > 0 {
		t["user-data"] = string(plain)
	}
	if md.LifecycleState != "" {
		t["meta-data/autoscaling/target-lifecycle-state"] = md.LifecycleState
	}
	return t
}

// put adds a value, unless it is empty: a missing value answers 404.
func (t Tree) put(path, value string) {
	if value != "" {
		t[path] = value
	}
}

func (t Tree) addInstance(md *ec2.Metadata) {
	i := md.Instance
	lifecycle := "on-demand"
	if i.InstanceLifecycle != "" {
		lifecycle = i.InstanceLifecycle
	}
	for name, value := range map[string]string{
		"ami-id": i.ImageID, "ami-launch-index": strconv.Itoa(i.AMILaunchIndex), "hostname": i.PrivateDNSName,
		"instance-id": i.InstanceID, "instance-life-cycle": lifecycle, "instance-type": i.InstanceType,
		"local-hostname": i.PrivateDNSName, "local-ipv4": address(i.PrivateIPAddress), "ipv6": address(i.IPv6Address),
		"public-ipv4": address(i.PublicIPAddress), "public-hostname": i.PublicDNSName, "reservation-id": i.ReservationID,
		"security-groups": lines(i.Groups, func(g ec2.GroupIdentifier) string { return g.GroupName }),
		"services/domain": "amazonaws.com", "services/partition": "aws",
	} {
		t.put("meta-data/"+name, value)
	}
	if len(md.Interfaces) > 0 {
		t.put("meta-data/mac", md.Interfaces[0].MACAddress)
	}
}

func (t Tree) addPlacement(md *ec2.Metadata) {
	t.put("meta-data/placement/availability-zone", md.Instance.Placement.AvailabilityZone)
	t.put("meta-data/placement/availability-zone-id", md.Instance.Placement.AvailabilityZoneID)
	t.put("meta-data/placement/region", md.Region)
}

// addIdentity adds the identity document, unsigned: it has no signature in the simulator.
func (t Tree) addIdentity(md *ec2.Metadata) {
	i := md.Instance
	// A struct of strings: Marshal cannot fail.
	document, _ := json.MarshalIndent(map[string]any{
		"accountId": md.AccountID, "architecture": i.Architecture, "availabilityZone": i.Placement.AvailabilityZone,
		"imageId": i.ImageID, "instanceId": i.InstanceID, "instanceType": i.InstanceType, "kernelId": nil, "ramdiskId": nil,
		"pendingTime": i.LaunchTime.UTC().Format(time.RFC3339), "privateIp": address(i.PrivateIPAddress), "region": md.Region,
		"version": "2017-09-30",
	}, "", "  ")
	t["dynamic/instance-identity/document"] = string(document)
}

func (t Tree) addTags(md *ec2.Metadata) {
	if md.Instance.MetadataOptions.InstanceMetadataTags != ec2.Enabled {
		return
	}
	for key, value := range md.Instance.Tags {
		if !strings.HasPrefix(key, "aws:") {
			t["meta-data/tags/instance/"+key] = value
		}
	}
}

// addCredentials adds credentials that any simulator accepts, for an instance with a role.
func (t Tree) addCredentials(md *ec2.Metadata, now time.Time) {
	profile := md.Instance.IAMInstanceProfile
	if profile == nil {
		return
	}
	role := path.Base(profile.ARN)
	// Maps of strings: Marshal cannot fail.
	info, _ := json.Marshal(map[string]string{
		"Code": "Success", "LastUpdated": now.UTC().Format(time.RFC3339), "InstanceProfileArn": profile.ARN,
		"InstanceProfileId": profile.ID,
	})
	credentials, _ := json.Marshal(map[string]string{
		"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": now.UTC().Format(time.RFC3339),
		"Expiration":  now.Add(6 * time.Hour).UTC().Format(time.RFC3339),
		"AccessKeyId": "ASIAAWSSIM", "SecretAccessKey": "any", "Token": "any",
	})
	t["meta-data/iam/info"] = string(info)
	t["meta-data/iam/security-credentials/"+role] = string(credentials)
}

func (t Tree) addInterface(md *ec2.Metadata, eni ec2.MetadataInterface) {
	at := "meta-data/network/interfaces/macs/" + eni.MACAddress + "/"
	device := strconv.Itoa(eni.Attachment.DeviceIndex)
	if !eni.IndexKnown {
		device = "0"
	}
	for name, value := range map[string]string{
		"device-number": device, "interface-id": eni.NetworkInterfaceID, "local-hostname": eni.PrivateDNSName,
		"mac":      eni.MACAddress,
		"owner-id": eni.OwnerID, "subnet-id": eni.SubnetID, "vpc-id": eni.VPCID,
		"security-groups":    lines(eni.Groups, func(g ec2.GroupIdentifier) string { return g.GroupName }),
		"security-group-ids": lines(eni.Groups, func(g ec2.GroupIdentifier) string { return g.GroupID }),
		"local-ipv4s": lines(eni.PrivateIPAddresses, func(a ec2.PrivateIPAddress) string {
			return a.PrivateIPAddress.String()
		}),
		"ipv4-prefix":             lines(eni.IPv4Prefixes, func(p ec2.IPv4Prefix) string { return p.IPv4Prefix.String() }),
		"ipv6s":                   lines(eni.IPv6Addresses, func(a ec2.IPv6Address) string { return a.IPv6Address.String() }),
		"ipv6-prefix":             lines(eni.IPv6Prefixes, func(p ec2.IPv6Prefix) string { return p.IPv6Prefix.String() }),
		"subnet-ipv4-cidr-block":  cidr4(eni.Subnet.CIDRBlock),
		"subnet-ipv6-cidr-blocks": lines(eni.Subnet.IPv6CIDRBlockAssociations, cidr6),
		"vpc-ipv4-cidr-block":     eni.VPC.CIDRBlock.String(),
		"vpc-ipv4-cidr-blocks": lines(eni.VPC.CIDRBlockAssociations, func(a ec2.IPv4Association) string {
			return a.CIDRBlock.String()
		}),
		"vpc-ipv6-cidr-blocks": lines(eni.VPC.IPv6CIDRBlockAssociations, cidr6),
	} {
		t.put(at+name, value)
	}
	if association := eni.Association; association != nil && association.PublicIP.IsValid() {
		t[at+"public-ipv4s"], t[at+"public-hostname"] = association.PublicIP.String(), association.PublicDNSName
		t[at+"ipv4-associations/"+association.PublicIP.String()] = eni.PrivateIPAddress.String()
	}
	if md.IsMultiCard() && eni.IndexKnown {
		// EC2's documentation has one name, the clients of Amazon read the other.
		card := strconv.Itoa(eni.Attachment.NetworkCardIndex)
		t[at+"network-card"], t[at+"network-card-index"] = card, card
	}
}

// cidr4 returns the IPv4 range of a subnet; an IPv6-only subnet has none.
func cidr4(p netip.Prefix) string {
	if !p.IsValid() {
		return ""
	}
	return p.String()
}

func cidr6(a ec2.IPv6Association) string { return a.IPv6CIDRBlock.String() }

func address(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

func lines[E any](list []E, text func(E) string) string {
	var all []string
	for _, element := range list {
		all = append(all, text(element))
	}
	return strings.Join(all, "\n")
}

// Look returns the value at a path, or the list of its children, and false if there is neither.
func (t Tree) Look(at string) (string, bool) {
	at = strings.TrimSuffix(at, "/")
	if value, ok := t[at]; ok {
		return value, true
	}
	below := map[string]bool{}
	for name := range t {
		rest, ok := strings.CutPrefix(name, at+"/")
		if at == "" {
			rest, ok = name, true
		}
		if !ok {
			continue
		}
		child, _, isFolder := strings.Cut(rest, "/")
		if isFolder {
			child += "/"
		}
		below[child] = true
	}
	names := make([]string, 0, len(below))
	for name := range below {
		names = append(names, name)
	}
	slices.Sort(names)
	return strings.Join(names, "\n"), len(names) > 0
}
