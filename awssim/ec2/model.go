// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/awssim/timeline"
)

// Model is one account's EC2 in one region. It has no clock, goroutine or lock, and the same options and calls give the
// same answers. Use it from one goroutine at a time.
type Model struct {
	region, account string
	world           World
	behavior        Behavior
	faults          *fault.Set
	seed            uint64
	source          *rand.PCG
	random          *rand.Rand // draws from source

	timeline      *timeline.Timeline
	events        eventKinds
	watchers      []func(*Instance)
	tombstones    []tombstone
	tokenExpiries []tokenExpiry

	zones        []AvailabilityZone
	tables       map[string]stored // those that follow, by name, except types
	vpcs         *table[VPC]
	subnets      *table[Subnet]
	groups       *table[SecurityGroup]
	groupRules   *table[SecurityGroupRule]
	interfaces   *table[NetworkInterface]
	instances    *table[Instance]
	images       *table[Image]
	templates    *table[LaunchTemplate]
	versions     *table[LaunchTemplateVersion]
	fleets       *table[Fleet]
	reservations *table[SubnetCIDRReservation]
	spotFleets   *table[Fleet]
	types        *table[InstanceType]         // filled at first use
	offerings    *table[InstanceTypeOffering] // likewise

	routeTables      *table[RouteTable]
	internetGateways *table[InternetGateway]
	networkACLs      *table[NetworkACL]

	pools           map[string]*pool        // by subnet ID
	attachments     map[string]string       // attachment ID -> interface ID
	tokens          map[string]*tokenRecord // action|token -> the created resource
	tokenOf         map[string]string       // resource ID -> key of tokens
	departures      map[string][]departure  // by instance ID
	lifecycleStates map[string]string       // by instance ID
	parameters      map[string]string       // of Systems Manager
	lastVersion     map[string]int          // by launch template ID, deleted versions included
	networkSource   *rand.PCG               // of networkIDs
	networkIDs      *rand.Rand              // of the IDs of parts of a network, apart from all else that is random
	ipv6Ranges      uint32                  // that Amazon provided for VPCs
	macs            uint32
	publics         uint32
	live            int // interfaces that exist
	revision        uint64
}

// Options are the initial state and the settings of a model.
type Options struct {
	World    World
	Behavior Behavior
	// Faults may be nil. A fault that is added to the set later also takes effect.
	Faults *fault.Set
	// Seed of everything random: IDs, latencies, lags.
	Seed uint64
	// Now is the initial time. It is not used with a Timeline.
	Now time.Time
	// Timeline is shared with the models of other services; nil means a new one.
	Timeline *timeline.Timeline
	// Saved is what the model goes on from. World and Seed are then those of the saved model, and the caller loads the
	// timeline.
	Saved *Saved
}

// Call has the properties of a request in addition to its parameters.
type Call struct {
	// Now is the time of the request.
	Now time.Time
}

// New returns a model of the world. Its instances already run, and everything in it is visible.
func New(o Options) (*Model, error) {
	if err := o.World.Validate(); err != nil {
		return nil, fmt.Errorf("world: %w", err)
	}
	m := &Model{
		region:          o.World.Region,
		account:         cmp.Or(o.World.AccountID, DefaultAccountID),
		world:           o.World,
		behavior:        o.Behavior,
		faults:          o.Faults,
		seed:            o.Seed,
		source:          rand.NewPCG(o.Seed, 0xec2),
		networkSource:   rand.NewPCG(o.Seed, 0xec2_4e7),
		timeline:        o.Timeline,
		tables:          map[string]stored{},
		pools:           map[string]*pool{},
		attachments:     map[string]string{},
		tokens:          map[string]*tokenRecord{},
		tokenOf:         map[string]string{},
		lastVersion:     map[string]int{},
		departures:      map[string][]departure{},
		lifecycleStates: map[string]string{},
	}
	m.random, m.networkIDs = rand.New(m.source), rand.New(m.networkSource)
	if m.timeline == nil {
		m.timeline = timeline.New(o.Now)
	}
	if m.faults == nil {
		m.faults = fault.NewSet(o.Seed)
	}
	m.vpcs = store(m, "vpcs", vpcKind())
	m.subnets = store(m, "subnets", m.subnetKind())
	m.groups = store(m, "securityGroups", m.groupKind())
	m.groupRules = store(m, "securityGroupRules", groupRuleKind())
	m.routeTables = store(m, "routeTables", m.routeTableKind())
	m.internetGateways = store(m, "internetGateways", internetGatewayKind())
	m.networkACLs = store(m, "networkAcls", m.networkACLKind())
	m.interfaces = store(m, "networkInterfaces", m.interfaceKind())
	m.instances = store(m, "instances", m.instanceKind())
	m.images = store(m, "images", m.imageKind())
	m.templates = store(m, "launchTemplates", templateKind())
	m.versions = store(m, "launchTemplateVersions", m.versionKind())
	m.fleets = store(m, "fleets", m.fleetKind())
	m.reservations = store(m, "subnetCidrReservations", reservationKind())
	m.spotFleets = store(m, "spotFleetRequests", m.spotFleetKind())
	m.defineEvents()
	m.Watch(m.followFleet)
	if o.Saved != nil {
		if err := m.load(*o.Saved); err != nil {
			return nil, fmt.Errorf("saved EC2: %w", err)
		}
		return m, nil
	}
	if err := m.build(); err != nil {
		return nil, fmt.Errorf("world: %w", err)
	}
	return m, nil
}

// DefaultAccountID is the owner of a world without an AccountID.
const DefaultAccountID = "123456789012"

// Account is the ID of the account.
func (m *Model) Account() string { return m.account }

// id returns a new ID in EC2's form: 17 hexadecimal digits.
func (m *Model) id(prefix string) string {
	return fmt.Sprintf("%s-0%016x", prefix, m.random.Uint64())
}

// networkID returns a new ID of a part of a network. Parts that a world does not name have such IDs, so that their
// number changes no other ID.
func (m *Model) networkID(prefix string) string {
	return fmt.Sprintf("%s-0%016x", prefix, m.networkIDs.Uint64())
}

// hexID matches the part of an ID after its prefix, in both lengths that EC2 has issued.
var hexID = regexp.MustCompile(`^([0-9a-f]{8}|[0-9a-f]{17})$`)

// isWellFormed reports whether an ID could exist.
func isWellFormed(id, prefix string) bool {
	digits, ok := strings.CutPrefix(id, prefix+"-")
	return ok && hexID.MatchString(digits)
}

// mac returns a new, locally administered MAC address.
func (m *Model) mac() string {
	m.macs++
	n := m.macs * 0x9e3779b1 // odd, so that the first 2^32 addresses differ
	return fmt.Sprintf("02:a5:%02x:%02x:%02x:%02x", byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

// dnsName is the private name of an IPv4 address.
func (m *Model) dnsName(a netip.Addr) string {
	return "ip-" + strings.ReplaceAll(a.String(), ".", "-") + "." + m.domain()
}

// domain is the domain of private names.
func (m *Model) domain() string {
	if m.region == "us-east-1" {
		return "ec2.internal"
	}
	return m.region + ".compute.internal"
}

// ARN is the Amazon resource name of an EC2 resource of a kind such as "instance".
func (m *Model) ARN(kind, id string) string {
	return fmt.Sprintf("arn:aws:ec2:%s:%s:%s/%s", m.region, m.account, kind, id)
}

// putInterface replaces an interface (nil: deletes it); describe calls see it after a lag.
func (m *Model) putInterface(id string, eni *NetworkInterface) { put(m, m.interfaces, id, eni) }

func (m *Model) putInstance(id string, instance *Instance) {
	before := m.instances.get(id)
	put(m, m.instances, id, instance)
	m.tell(before, instance)
}

func put[T any](m *Model, t *table[T], id string, value *T) {
	m.revision++
	visible := m.now().Add(m.behavior.Visibility.Draw(m.random))
	t.put(id, value, m.now(), visible)
	if visible.After(m.now()) {
		m.events.settled.At(visible, resource{t.name, id})
	}
	if value == nil {
		m.tombstones = append(m.tombstones, tombstone{m.now().Add(2 * fault.MaxReadAge), resource{t.name, id}})
	}
}

// changeInterface replaces an interface with a changed copy. The change must replace, not modify, lists and pointers of
// the copy.
func (m *Model) changeInterface(id string, change func(*NetworkInterface)) {
	changed := *m.interfaces.get(id)
	change(&changed)
	m.putInterface(id, &changed)
}

func (m *Model) changeInstance(id string, change func(*Instance)) {
	changed := *m.instances.get(id)
	change(&changed)
	m.putInstance(id, &changed)
}

// changeAttachment replaces an interface with one whose attachment is changed.
func (m *Model) changeAttachment(id string, change func(*Attachment)) {
	m.changeInterface(id, func(eni *NetworkInterface) {
		attachment := *eni.Attachment
		change(&attachment)
		eni.Attachment = &attachment
	})
}
