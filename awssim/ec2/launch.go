// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/instancetypes"
)

// InterfaceSpecification is an interface of a new instance: an existing one, or the settings of one to be made.
type InterfaceSpecification struct {
	InterfaceSettings
	NetworkInterfaceID       string  `query:"NetworkInterfaceId"`
	DeviceIndex              *int    `query:"DeviceIndex"`
	NetworkCardIndex         *int    `query:"NetworkCardIndex"`
	DeleteOnTermination      *bool   `query:"DeleteOnTermination"`
	AssociatePublicIPAddress *bool   `query:"AssociatePublicIpAddress"`
	ENASRD                   *ENASRD `query:"EnaSrdSpecification"`
}

func (s InterfaceSpecification) slot() slot {
	var where slot
	if s.DeviceIndex != nil {
		where.device = *s.DeviceIndex
	}
	if s.NetworkCardIndex != nil {
		where.card = *s.NetworkCardIndex
	}
	return where
}

// RunInstancesInput is the request of RunInstances.
type RunInstancesInput struct {
	ImageID            string                       `query:"ImageId"`
	InstanceType       string                       `query:"InstanceType"`
	MinCount           *int                         `query:"MinCount"`
	MaxCount           *int                         `query:"MaxCount"`
	SubnetID           string                       `query:"SubnetId"`
	SecurityGroupIDs   []string                     `query:"SecurityGroupId"`
	PrivateIPAddress   string                       `query:"PrivateIpAddress"`
	NetworkInterfaces  []InterfaceSpecification     `query:"NetworkInterface"`
	Placement          PlacementSpecification       `query:"Placement"`
	KeyName            string                       `query:"KeyName"`
	UserData           string                       `query:"UserData"`
	IAMInstanceProfile InstanceProfileSpecification `query:"IamInstanceProfile"`
	TagSpecifications  []TagSpecification           `query:"TagSpecification"`
	ClientToken        string                       `query:"ClientToken"`
	DryRun             bool                         `query:"DryRun"`
}

// PlacementSpecification says where an instance should run.
type PlacementSpecification struct {
	AvailabilityZone string `query:"AvailabilityZone"`
}

// InstanceProfileSpecification names the role of an instance. It is not looked up.
type InstanceProfileSpecification struct {
	ARN  string `query:"Arn"`
	Name string `query:"Name"`
}

// Reservation is instances that were launched together.
type Reservation struct {
	ReservationID string      `json:"reservationId"`
	OwnerID       string      `json:"ownerId"`
	Instances     []*Instance `json:"instances" xml:"instancesSet"`
}

// launch is what the instances of one request have in common.
type launch struct {
	reservationID string
	imageID       string
	count         int
	instanceID    string // for a single instance; empty: drawn
	zone          string // empty: wherever the interfaces are
	userData      string
	instanceType  instancetypes.Type
	interfaces    []InterfaceSpecification // the primary first
	instanceTags  Tags
	interfaceTags Tags
	keyName       string
	profile       *IAMInstanceProfile
	clientToken   string
	cni           *CNI
}

// RunInstances launches instances, each with its interfaces. The same token and parameters return the same reservation.
func (m *Model) RunInstances(c Call, in *RunInstancesInput) (*Reservation, error) {
	m.Advance(c.Now)
	const action = "RunInstances"
	request := *in
	request.ClientToken, request.DryRun = "", false
	if _, strikes := m.faults.Draw(fault.ForgetToken, m.now, action); !strikes {
		known, err := m.replay(action, in.ClientToken, request)
		if err != nil {
			return nil, err
		}
		if known != nil {
			return m.replayReservation(known.ids)
		}
	}
	l, err := m.plan(in)
	if err != nil {
		return nil, err
	}
	if err := m.canLaunch(l); err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	instances, err := m.launch(l)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, instance := range instances {
		ids = append(ids, instance.InstanceID)
		m.hide(action, instance.InstanceID)
	}
	m.remember(action, in.ClientToken, request, ids)
	return m.reservation(instances), nil
}

func (m *Model) replayReservation(ids []string) (*Reservation, error) {
	var instances []*Instance
	for _, id := range ids {
		instance := m.instances.get(id)
		if instance == nil || instance.State.Name == Terminated {
			return nil, refuse("IdempotentInstanceTerminated", "The client token belongs to the instance '%s', which is terminated", id)
		}
		instances = append(instances, instance)
	}
	return m.reservation(instances), nil
}

func (m *Model) reservation(instances []*Instance) *Reservation {
	r := &Reservation{ReservationID: instances[0].ReservationID, OwnerID: m.account}
	for _, instance := range instances {
		r.Instances = append(r.Instances, withInterfaces(instance, m.interfacesOf(instance.InstanceID)))
	}
	return r
}

// plan reads a request.
func (m *Model) plan(in *RunInstancesInput) (launch, error) {
	switch {
	case in.ImageID == "":
		return launch{}, missing("ImageId")
	case in.MinCount == nil:
		return launch{}, missing("MinCount")
	case in.MaxCount == nil:
		return launch{}, missing("MaxCount")
	case *in.MinCount < 1:
		return launch{}, invalidValue("Value (%d) for parameter minCount is invalid. It must be at least 1.", *in.MinCount)
	case *in.MaxCount < *in.MinCount:
		return launch{}, invalidValue("Value (%d) for parameter maxCount is invalid. It cannot be less than minCount.", *in.MaxCount)
	}
	limits, ok := instancetypes.Lookup(cmp.Or(in.InstanceType, "m1.small"))
	if !ok {
		return launch{}, invalidValue("Invalid value '%s' for InstanceType.", in.InstanceType)
	}
	l := launch{
		imageID: in.ImageID, count: *in.MaxCount, zone: in.Placement.AvailabilityZone, userData: in.UserData,
		instanceType: limits, keyName: in.KeyName, clientToken: in.ClientToken, profile: m.instanceProfile(in.IAMInstanceProfile),
	}
	var err error
	if l.instanceTags, l.interfaceTags, err = launchTags(in.TagSpecifications); err != nil {
		return launch{}, err
	}
	l.interfaces, err = m.planInterfaces(in)
	return l, err
}

func (m *Model) instanceProfile(p InstanceProfileSpecification) *IAMInstanceProfile {
	if p == (InstanceProfileSpecification{}) {
		return nil
	}
	arn := cmp.Or(p.ARN, fmt.Sprintf("arn:aws:iam::%s:instance-profile/%s", m.account, p.Name))
	return &IAMInstanceProfile{ARN: arn, ID: "AIPA" + arn[len(arn)-min(len(arn), 12):]}
}

// planInterfaces returns what the request says of interfaces, or the one that it implies, the primary first.
func (m *Model) planInterfaces(in *RunInstancesInput) ([]InterfaceSpecification, error) {
	if len(in.NetworkInterfaces) == 0 {
		subnet, err := m.subnetOfLaunch(in.SubnetID, in.Placement.AvailabilityZone)
		if err != nil {
			return nil, err
		}
		return []InterfaceSpecification{{InterfaceSettings: InterfaceSettings{
			SubnetID: subnet, Groups: in.SecurityGroupIDs, PrivateIPAddress: in.PrivateIPAddress,
		}}}, nil
	}
	switch {
	case in.SubnetID != "":
		return nil, invalidCombination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
	case len(in.SecurityGroupIDs) > 0:
		return nil, invalidCombination("Network interfaces and instance-level security groups may not be specified on the same request")
	case in.PrivateIPAddress != "":
		return nil, invalidCombination("Network interfaces and an instance-level private IP address may not be specified on the same request")
	}
	specs := slices.Clone(in.NetworkInterfaces)
	for i := range specs {
		if specs[i].DeviceIndex == nil {
			return nil, invalidValue("Each network interface requires a device index.")
		}
		if specs[i].SubnetID == "" && specs[i].NetworkInterfaceID == "" {
			subnet, err := m.subnetOfLaunch("", in.Placement.AvailabilityZone)
			if err != nil {
				return nil, err
			}
			specs[i].SubnetID = subnet
		}
	}
	slices.SortStableFunc(specs, func(a, b InterfaceSpecification) int {
		x, y := a.slot(), b.slot()
		return cmp.Or(cmp.Compare(x.card, y.card), cmp.Compare(x.device, y.device))
	})
	return specs, nil
}

// subnetOfLaunch is the subnet named, or the default VPC's in the zone.
func (m *Model) subnetOfLaunch(id, zone string) (string, error) {
	if id != "" {
		subnet := m.subnets.get(id)
		switch {
		case subnet == nil:
			return "", subnetNotFound(id)
		case zone != "" && subnet.AvailabilityZone != zone:
			return "", invalidValue("The availability zone '%s' does not contain the subnet '%s'", zone, id)
		}
		return id, nil
	}
	for _, subnet := range m.world.Subnets {
		if subnet.DefaultForAZ && (zone == "" || subnet.AvailabilityZone == zone) {
			return subnet.SubnetID, nil
		}
	}
	return "", refuse("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
}

// launch makes instances. Either all or none: what was made before a failure is removed.
func (m *Model) launch(l launch) ([]*Instance, error) {
	l.reservationID = m.id("r")
	var instances []*Instance
	for i := range l.count {
		instance, err := m.launchOne(l, i)
		if err != nil {
			for _, made := range instances {
				m.removeLaunched(made.InstanceID)
			}
			return nil, err
		}
		instances = append(instances, instance)
	}
	for _, instance := range instances {
		m.after(m.behavior.Start, func() { m.enterRunning(instance.InstanceID) })
	}
	return instances, nil
}

func (m *Model) launchOne(l launch, index int) (*Instance, error) {
	id := cmp.Or(l.instanceID, m.id("i"))
	var primary *NetworkInterface
	for _, spec := range l.interfaces {
		eni, err := m.launchInterface(spec, id, l.interfaceTags)
		if err != nil {
			m.removeLaunched(id)
			return nil, err
		}
		if primary == nil {
			primary = eni
		}
	}
	instance := &Instance{
		InstanceID: id, ReservationID: l.reservationID, ImageID: l.imageID, InstanceType: l.instanceType.Name,
		State: state(Pending), LaunchTime: m.now, AMILaunchIndex: index, ClientToken: l.clientToken, KeyName: l.keyName,
		Placement: Placement{AvailabilityZone: primary.AvailabilityZone, AvailabilityZoneID: primary.AvailabilityZoneID, Tenancy: "default"},
		SubnetID:  primary.SubnetID, VPCID: primary.VPCID, PrivateIPAddress: primary.PrivateIPAddress,
		PrivateDNSName: primary.PrivateDNSName, IPv6Address: primary.IPv6Address, SourceDestCheck: true,
		Hypervisor:         "xen", // EC2 calls Nitro so, too
		VirtualizationType: "hvm", RootDeviceType: "ebs",
		IAMInstanceProfile: l.profile, UserData: l.userData, Groups: primary.Groups, Tags: maps.Clone(l.instanceTags), cni: l.cni,
	}
	if len(l.instanceType.Architectures) > 0 {
		instance.Architecture = l.instanceType.Architectures[0]
	}
	m.putInstance(id, instance)
	return instance, nil
}

// launchInterface makes an interface for a new instance, or takes the one that the specification names.
func (m *Model) launchInterface(spec InterfaceSpecification, instanceID string, tags Tags) (*NetworkInterface, error) {
	eni := m.interfaces.get(spec.NetworkInterfaceID)
	// EC2 deletes what it made itself unless told otherwise, and keeps what it was given.
	deletes := eni == nil
	if eni == nil {
		made, err := m.create(spec.InterfaceSettings, "", maps.Clone(tags))
		if err != nil {
			return nil, err
		}
		eni = made
	}
	if spec.DeleteOnTermination != nil {
		deletes = *spec.DeleteOnTermination
	}
	m.attach(eni, spec.slot(), Attachment{InstanceID: instanceID, DeleteOnTermination: deletes, ENASRD: spec.ENASRD})
	return m.interfaces.get(eni.NetworkInterfaceID), nil
}

// removeLaunched takes back a launch that failed half way.
func (m *Model) removeLaunched(instanceID string) {
	m.releaseInterfaces(instanceID)
	if m.instances.get(instanceID) != nil {
		m.putInstance(instanceID, nil)
	}
}

// Launch makes instances beside the EC2 API, as a world file does.
func (m *Model) Launch(c Call, spec WorldInstance) ([]*Instance, error) {
	m.Advance(c.Now)
	return m.launchSpec(spec)
}

func (m *Model) launchSpec(spec WorldInstance) ([]*Instance, error) {
	limits, ok := instancetypes.Lookup(spec.InstanceType)
	if !ok {
		return nil, invalidValue("Invalid value '%s' for InstanceType.", spec.InstanceType)
	}
	subnet, err := m.subnetOfSpec(spec)
	if err != nil {
		return nil, err
	}
	l := launch{
		imageID:      cmp.Or(spec.ImageID, "ami-0123456789abcdef0"),
		count:        max(spec.Count, 1),
		instanceID:   spec.InstanceID,
		instanceType: limits,
		instanceTags: spec.Tags,
		cni:          spec.CNI,
		interfaces: []InterfaceSpecification{{
			InterfaceSettings: InterfaceSettings{SubnetID: subnet, Groups: spec.SecurityGroupIDs},
		}},
	}
	if m.instances.get(spec.InstanceID) != nil {
		return nil, invalidValue("There is an instance '%s' already", spec.InstanceID)
	}
	instances, err := m.launch(l)
	if err != nil {
		return nil, err
	}
	for i := range instances {
		id := instances[i].InstanceID
		if spec.Name != "" {
			name := spec.Name
			if spec.Count > 1 {
				name = fmt.Sprintf("%s-%d", spec.Name, i+1)
			}
			m.changeInstance(id, func(made *Instance) { made.Tags = made.Tags.with(Tags{"Name": name}) })
		}
		instances[i] = withInterfaces(m.instances.get(id), m.interfacesOf(id))
	}
	return instances, nil
}

// subnetOfSpec is the subnet named, or the first of the zone in the world's order.
func (m *Model) subnetOfSpec(spec WorldInstance) (string, error) {
	if spec.SubnetID != "" {
		if m.subnets.get(spec.SubnetID) == nil {
			return "", subnetNotFound(spec.SubnetID)
		}
		return spec.SubnetID, nil
	}
	for _, subnet := range m.world.Subnets {
		if subnet.AvailabilityZone == spec.AvailabilityZone {
			return subnet.SubnetID, nil
		}
	}
	return "", invalidValue("There is no subnet in the zone '%s'", spec.AvailabilityZone)
}
