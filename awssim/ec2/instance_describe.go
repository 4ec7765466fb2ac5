// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import "strings"

// filterInstance is the filter with which controllers read single instances.
const filterInstance = "instance-id"

// DescribeInstancesInput is the request of DescribeInstances.
type DescribeInstancesInput struct {
	Page
	InstanceIDs []string `query:"InstanceId"`
}

// DescribeInstancesOutput is its answer.
type DescribeInstancesOutput struct {
	Reservations []*Reservation `json:"reservations" xml:"reservationSet"`
	NextToken    string         `json:"nextToken,omitempty"`
}

// DescribeInstances lists instances. A page counts instances; those of one reservation may be on several pages.
func (m *Model) DescribeInstances(c Call, in *DescribeInstancesInput) (*DescribeInstancesOutput, error) {
	found, next, err := describe(m, c, m.instances, in.InstanceIDs, in.Page)
	if err != nil {
		return nil, err
	}
	out := &DescribeInstancesOutput{NextToken: next}
	byID := map[string]*Reservation{}
	for _, instance := range found {
		r := byID[instance.ReservationID]
		if r == nil {
			r = &Reservation{ReservationID: instance.ReservationID, OwnerID: m.account}
			byID[instance.ReservationID] = r
			out.Reservations = append(out.Reservations, r)
		}
		r.Instances = append(r.Instances, instance)
	}
	return out, nil
}

func (m *Model) instanceKind() kind[Instance] {
	return kind[Instance]{
		action:          "DescribeInstances",
		id:              func(i *Instance) string { return i.InstanceID },
		filters:         instanceFilters(),
		tags:            func(i *Instance) Tags { return i.Tags },
		internal:        func(i *Instance) any { return &i.internal },
		notFound:        instanceNotFound,
		minResults:      5,
		maxResults:      1000,
		idsExcludePages: true,
		present:         m.presentInstance,
		keys: func(i *Instance) []string {
			keys := []string{indexKey(filterInstance, i.InstanceID)}
			for key, value := range i.Tags {
				keys = append(keys, indexKey("tag:"+key, value))
			}
			return keys
		},
		isIndexed: func(filter string) bool { return filter == filterInstance || strings.HasPrefix(filter, "tag:") },
	}
}

// presentInstance adds the interfaces as the reader sees them.
func (m *Model) presentInstance(instance *Instance, l look) *Instance {
	filter := Filter{Name: filterAttachedTo, Values: []string{instance.InstanceID}}
	var seen []*NetworkInterface
	for _, id := range m.interfaces.candidates([]Filter{filter}, l.age > 0) {
		eni := m.interfaces.view(id, l.at(id))
		if eni != nil && eni.Attachment != nil && eni.Attachment.InstanceID == instance.InstanceID {
			seen = append(seen, eni)
		}
	}
	return withInterfaces(instance, bySlot(seen))
}

func withInterfaces(instance *Instance, enis []*NetworkInterface) *Instance {
	complete := *instance
	complete.NetworkInterfaces, complete.InstanceNetworkInterfaces = enis, shownWithInstance(enis)
	complete.InstanceConstants = constants
	if len(enis) > 0 {
		complete.SourceDestCheck = enis[0].SourceDestCheck
		complete.Groups = enis[0].Groups
		if public := enis[0].Association; public.isAmazons() {
			complete.PublicIPAddress, complete.PublicDNSName = public.PublicIP, public.PublicDNSName
		}
	}
	return &complete
}

func instanceFilters() map[string]func(*Instance) []string {
	filters := map[string]func(*Instance) []string{
		"architecture":         func(i *Instance) []string { return one(i.Architecture) },
		"availability-zone":    func(i *Instance) []string { return one(i.Placement.AvailabilityZone) },
		"availability-zone-id": func(i *Instance) []string { return one(i.Placement.AvailabilityZoneID) },
		"client-token":         func(i *Instance) []string { return one(i.ClientToken) },
		"hypervisor":           func(i *Instance) []string { return one(i.Hypervisor) },
		"image-id":             func(i *Instance) []string { return one(i.ImageID) },
		filterInstance:         func(i *Instance) []string { return one(i.InstanceID) },
		"instance-state-code":  func(i *Instance) []string { return number(i.State.Code) },
		"instance-state-name":  func(i *Instance) []string { return one(i.State.Name) },
		"instance-type":        func(i *Instance) []string { return one(i.InstanceType) },
		"instance.group-id":    func(i *Instance) []string { return groupIDs(i.Groups) },
		"instance.group-name": func(i *Instance) []string {
			return each(i.Groups, func(g GroupIdentifier) string { return g.GroupName })
		},
		"key-name":           func(i *Instance) []string { return one(i.KeyName) },
		"launch-index":       func(i *Instance) []string { return number(i.AMILaunchIndex) },
		"launch-time":        func(i *Instance) []string { return one(i.LaunchTime.UTC().Format(filterTime)) },
		"private-dns-name":   func(i *Instance) []string { return one(i.PrivateDNSName) },
		"private-ip-address": func(i *Instance) []string { return one(i.PrivateIPAddress.String()) },
		"reservation-id":     func(i *Instance) []string { return one(i.ReservationID) },
		"source-dest-check":  func(i *Instance) []string { return truth(i.SourceDestCheck) },
		filterSubnet:         func(i *Instance) []string { return one(i.SubnetID) },
		"tenancy":            func(i *Instance) []string { return one(i.Placement.Tenancy) },
		filterVPC:            func(i *Instance) []string { return one(i.VPCID) },
		"iam-instance-profile.arn": func(i *Instance) []string {
			if i.IAMInstanceProfile == nil {
				return nil
			}
			return one(i.IAMInstanceProfile.ARN)
		},
	}
	// The filters on the interfaces of an instance have the names of the filters of interfaces, after a prefix.
	for name, get := range interfaceFilters() {
		filters["network-interface."+name] = func(i *Instance) []string {
			var values []string
			for _, eni := range i.NetworkInterfaces {
				values = append(values, get(eni)...)
			}
			return values
		}
	}
	return filters
}
