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

// InterfaceSpecification is an interface of a new instance: an existing one, or the settings of a new one.
type InterfaceSpecification struct {
	InterfaceSettings
	NetworkInterfaceID        string  `query:"NetworkInterfaceId" json:"networkInterfaceId,omitempty"`
	DeviceIndex               *int    `query:"DeviceIndex" json:"deviceIndex,omitempty"`
	NetworkCardIndex          *int    `query:"NetworkCardIndex" json:"networkCardIndex,omitempty"`
	DeleteOnTermination       *bool   `query:"DeleteOnTermination" json:"deleteOnTermination,omitempty"`
	AssociatePublicIPAddress  *bool   `query:"AssociatePublicIpAddress" json:"associatePublicIpAddress,omitempty"`
	AssociateCarrierIPAddress *bool   `query:"AssociateCarrierIpAddress" json:"associateCarrierIpAddress,omitempty"`
	ENASRD                    *ENASRD `query:"EnaSrdSpecification" json:"enaSrdSpecification,omitempty"`
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
	LaunchTemplateData
	LaunchTemplate   *LaunchTemplateSpecification `query:"LaunchTemplate" json:"launchTemplate,omitempty"`
	MinCount         *int                         `query:"MinCount" json:"minCount"`
	MaxCount         *int                         `query:"MaxCount" json:"maxCount"`
	SubnetID         string                       `query:"SubnetId" json:"subnetId,omitempty"`
	PrivateIPAddress string                       `query:"PrivateIpAddress" json:"privateIpAddress,omitempty"`
	ClientToken      string                       `query:"ClientToken" json:"clientToken,omitempty"`
	DryRun           bool                         `query:"DryRun" json:"dryRun,omitempty"`
}

// PlacementSpecification says where an instance should run.
type PlacementSpecification struct {
	AvailabilityZone string `query:"AvailabilityZone" json:"availabilityZone,omitempty"`
	Tenancy          string `query:"Tenancy" json:"tenancy,omitempty"`
}

// InstanceProfileSpecification names the role of an instance, which need not exist.
type InstanceProfileSpecification struct {
	ARN  string `query:"Arn" json:"arn,omitempty"`
	Name string `query:"Name" json:"name,omitempty"`
}

// Reservation has the instances that were launched together.
type Reservation struct {
	ReservationID string `json:"reservationId"`
	OwnerID       string `json:"ownerId"`
	// Groups is empty: EC2 lists groups here for EC2-Classic only.
	Groups    []GroupIdentifier `json:"groups,omitempty" xml:"groupSet" wire:"always"`
	Instances []*Instance       `json:"instances" xml:"instancesSet"`
}

// launch has the common settings of the instances of one request.
type launch struct {
	reservationID string
	imageID       string
	count         int
	instanceID    string // for a single instance; empty: drawn
	zone          string // empty: wherever the interfaces are
	tenancy       string
	userData      string
	instanceType  instancetypes.Type
	interfaces    []InterfaceSpecification // the primary first
	instanceTags  Tags
	interfaceTags Tags
	keyName       string
	profile       *IAMInstanceProfile
	metadata      *MetadataOptions
	monitoring    bool
	protected     bool // from TerminateInstances
	stopProtected bool // from StopInstances
	shutdown      string
	lifecycle     string
	clientToken   string
	cni           *CNI
}

// RunInstances launches instances, each with its interfaces, from the request and its launch template, if any. The same
// token and parameters return the same reservation.
func (m *Model) RunInstances(c Call, in *RunInstancesInput) (*Reservation, error) {
	m.Advance(c.Now)
	const action = "RunInstances"
	request := *in
	request.ClientToken, request.DryRun = "", false
	if _, strikes := m.faults.Draw(fault.ForgetToken, m.now(), action); !strikes {
		known, err := m.replay(action, in.ClientToken, request)
		if err != nil {
			return nil, err
		}
		if known != nil {
			return m.replayReservation(known.IDs)
		}
	}
	l, err := m.plan(in, launchedBy{})
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
	ids := each(instances, func(i *Instance) string { return i.InstanceID })
	for _, id := range ids {
		m.hide(action, id)
	}
	m.remember(action, in.ClientToken, request, ids)
	return m.reservation(instances), nil
}

func (m *Model) replayReservation(ids []string) (*Reservation, error) {
	var instances []*Instance
	for _, id := range ids {
		instance := m.instances.get(id)
		if instance == nil || instance.State.Name == Terminated {
			return nil, refuse("IdempotentInstanceTerminated",
				"The client token belongs to the instance '%s', which is terminated", id)
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

// subnetOfLaunch returns the named subnet, or that of the default VPC in the zone.
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
	if !slices.ContainsFunc(m.vpcs.all(), func(v *VPC) bool { return v.IsDefault }) {
		return "", refuse("VPCIdNotSpecified", "No default VPC for this user")
	}
	return "", refuse("MissingInput", "No subnets found for the default VPC. Please specify a subnet.")
}

// launch creates all instances or none: after a failure it removes those that it created.
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
		after(m, m.behavior.Start, m.events.running, instance.InstanceID)
	}
	return instances, nil
}

func (m *Model) launchOne(l launch, index int) (*Instance, error) {
	id := cmp.Or(l.instanceID, m.id("i"))
	var primary *NetworkInterface
	for _, spec := range l.interfaces {
		eni, err := m.launchInterface(spec, id, l)
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
		State: state(Pending), LaunchTime: m.now(), AMILaunchIndex: index, ClientToken: l.clientToken, KeyName: l.keyName,
		Placement: Placement{
			AvailabilityZone: primary.AvailabilityZone, AvailabilityZoneID: primary.AvailabilityZoneID,
			Tenancy: cmp.Or(l.tenancy, "default"),
		},
		SubnetID: primary.SubnetID, VPCID: primary.VPCID, PrivateIPAddress: primary.PrivateIPAddress,
		PrivateDNSName: primary.PrivateDNSName, IPv6Address: primary.IPv6Address, SourceDestCheck: true,
		Hypervisor:         "xen", // EC2 returns this for Nitro, too
		VirtualizationType: "hvm", RootDeviceType: "ebs", InstanceLifecycle: l.lifecycle,
		MetadataOptions: l.metadata.orDefault(), Monitoring: Monitoring{monitoringState(l.monitoring)},
		IAMInstanceProfile: l.profile, UserData: l.userData, Groups: primary.Groups, Tags: maps.Clone(l.instanceTags),
		CPUOptions: cpuOptions(l.instanceType),
		internal: instanceInternals{
			CNI: l.cni, Protected: l.protected, StopProtected: l.stopProtected, Shutdown: l.shutdown,
			HadPublicAddress: primary.Association.isAmazons(),
		},
	}
	if instance.PrivateDNSName == "" {
		// EC2 names instances of IPv6-only subnets by their ID (EC2 user guide, "EC2 instance hostnames and domains").
		instance.PrivateDNSName = id + "." + m.domain()
	}
	if len(l.instanceType.Architectures) > 0 {
		instance.Architecture = l.instanceType.Architectures[0]
	}
	m.putInstance(id, instance)
	return instance, nil
}

// launchInterface creates an interface for a new instance, or uses the one that the specification names.
func (m *Model) launchInterface(spec InterfaceSpecification, instanceID string, l launch) (*NetworkInterface, error) {
	eni := m.interfaces.get(spec.NetworkInterfaceID)
	// By default, EC2 deletes an interface that it created at termination, and keeps an existing one.
	deletes := eni == nil
	if eni == nil {
		made, err := m.create(spec.InterfaceSettings, "", maps.Clone(l.interfaceTags))
		if err != nil {
			return nil, err
		}
		eni = m.associate(made, spec, l)
	}
	if spec.DeleteOnTermination != nil {
		deletes = *spec.DeleteOnTermination
	}
	m.attach(eni, spec.slot(), Attachment{InstanceID: instanceID, DeleteOnTermination: deletes, ENASRD: spec.ENASRD})
	return m.interfaces.get(eni.NetworkInterfaceID), nil
}

// removeLaunched undoes a launch that failed after some resources were created.
func (m *Model) removeLaunched(instanceID string) {
	m.releaseInterfaces(instanceID)
	if m.instances.get(instanceID) != nil {
		m.putInstance(instanceID, nil)
	}
}

// Launch creates instances without a call of the EC2 API, as a world file does.
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

// subnetOfSpec returns the named subnet, or the first of the zone in the world's order.
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
