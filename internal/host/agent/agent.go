// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/panics"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/core/podaddress"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podlease"
)

// Host is the network of the node.
type Host interface {
	// Facts returns a snapshot, with those of the devices that have their link in another network namespace.
	Facts(devices []string) (hostnet.Facts, error)
	// Apply executes an operation. It succeeds if the state is already as desired.
	Apply(hostnet.Operation) error
	// Events sends a value after changes. It is closed when the host reports no more events.
	Events() <-chan struct{}
}

// PCI is the PCI bus with the devices of interfaces.
type PCI interface {
	// Facts returns the state of the network devices.
	Facts() (hostpci.Facts, error)
	// Bind binds a device to a driver.
	Bind(hostpci.Binding) error
}

// Options configure an Agent.
type Options struct {
	// Node is the name of the node.
	Node string
	// API is the API server that the agent reads from and reports to. Addresses is the part for FloatingAddresses; that of
	// API if nil.
	API       *API
	Addresses AddressAPI
	Host      Host
	PCI       PCI
	// Metadata reads instance metadata; nil if there is none.
	Metadata func(context.Context) (eni.Metadata, error)
	// DefaultMTU is the MTU of interfaces whose NodeENI sets none, in bytes.
	DefaultMTU int
	// Resync is the interval between passes over the host if there are no events.
	Resync time.Duration
	// NetworkdDir, if set, gets a file for each interface that makes systemd-networkd ignore its link.
	NetworkdDir string
	// PluginConfig, if set, is the file of the SR-IOV network device plugin that lists devices for pods.
	PluginConfig string
	// StateDir, if set, is the agent's own folder, for the checkpoint that it uses while the API server is unreachable.
	// Checkpoints stores the checkpoint if the caller keeps it elsewhere.
	StateDir    string
	Checkpoints Checkpoints
	// Process is this process, with the boot of the node; of this program and kernel if zero.
	Process podnet.Process
	// PodsDir, if set, is the folder of the files of pod networks. PodFiles are the files if the caller keeps them
	// elsewhere. An agent without either lets no interface go that an earlier agent held.
	PodsDir  string
	PodFiles PodFiles
	// PodsDisabled closes all pod networks. The agent still answers for them, and lets them go when no pod uses them.
	PodsDisabled bool
	// LeaseEvents reports changes of leases; nil if the agent reads them only periodically.
	LeaseEvents LeaseEvents
	// PodAddresses observes the addresses of pods; nil if the agent may not observe them.
	PodAddresses PodAddresses
	// MaxHolds is how many FloatingAddresses the agent writes at the same time; 8 if 0.
	MaxHolds int
	// CNIDir, if set, is the folder that must have our CNI plugins before pods attach.
	CNIDir string
	// CNIConfigDir, if set, is the folder whose first CNI configuration the container runtime uses. The startup taint
	// waits for that of Multus.
	CNIConfigDir string
	// Now tells the time; [time.Now] if nil.
	Now func() time.Time
	Log *slog.Logger
}

// Agent reconciles the links of one node.
type Agent struct {
	Options
	// devices is the PCI address of each MAC address, so that it is known while the link is in the namespace of a pod.
	devices map[string]string
	// failed are the bindings that failed, each with the time of the failure.
	failed map[hostpci.Binding]failure
	// metadata is nil if there is no metadata service.
	metadata *metadata
	pace     *rate.Limiter
	// present are the addresses that pods brought up, by interface ID; arrivals numbers them.
	present  map[string][]podaddress.Presence
	arrivals podaddress.Arrivals
	// budget bounds those that come up; waiting is the number of addresses that wait for it, by interface ID.
	budget  addressBudget
	waiting map[string]int
	// found are the addresses that pods have on links of the interfaces, as of the last pass. foundAll is set if the
	// observer read the namespaces of all pods.
	interfaces []podaddress.Interface
	found      map[string][]podaddress.Address
	foundAll   bool
	// leased are the addresses that pods asked for, by interface ID; an interface whose leases were not read has none.
	leased map[string][]podaddress.Presence
	// granted is set once the process saw the file of a network whose pods may ask for addresses.
	granted bool
	// claims lets one goroutine at a time write a claim: those that wait for the lock of the leases would poll.
	claims chan struct{}
	// saved is the checkpoint, and recalled has the pod networks of it that instance metadata confirms, by ENI, while the
	// API server is unreachable. loaded is set once the checkpoint was read, and unread if that failed and it was not
	// replaced since.
	saved          Checkpoint
	recalled       map[string]*podnet.Network
	loaded, unread bool
	// mayBind are the devices that may be bound to a driver for user space: the API server has the hold.
	mayBind map[string]bool
	// unanswered are the objects with a write without an answer, firstSeen and reportedAt the times of the first
	// observation and of the last report.
	unanswered            map[types.UID]bool
	firstSeen, reportedAt map[types.UID]time.Time
	// seenLinks are the MAC addresses of the physical links of the node, and unexplained those of links that may belong to
	// an object that waits for its MAC address, each with the time at which the agent first saw the link.
	seenLinks   map[string]bool
	unexplained map[string]time.Time
}

const (
	// reconcilesPerSecond and reconcileBurst bound the work if another program reverts the agent's changes again and
	// again.
	reconcilesPerSecond = 10
	reconcileBurst      = 40
	// rounds is the maximum number of times that one reconciliation reads and changes the host: operations have side
	// effects in the kernel, so one round may not be enough.
	rounds = 4
	// unexplainedPause is how long a link may belong to an object that waits for its MAC address.
	unexplainedPause = 10 * time.Second
)

// New returns an agent.
func New(o Options) *Agent {
	a := &Agent{Options: o, devices: map[string]string{}, present: map[string][]podaddress.Presence{},
		leased: map[string][]podaddress.Presence{}, claims: make(chan struct{}, 1),
		budget: newAddressBudget(), waiting: map[string]int{},
		unanswered: map[types.UID]bool{}, firstSeen: map[types.UID]time.Time{}, reportedAt: map[types.UID]time.Time{},
		seenLinks: map[string]bool{}, unexplained: map[string]time.Time{}, failed: map[hostpci.Binding]failure{},
		pace: rate.NewLimiter(reconcilesPerSecond, reconcileBurst)}
	if a.Now == nil {
		a.Now = time.Now
	}
	if a.Addresses == nil {
		a.Addresses = o.API
	}
	if a.Process == (podnet.Process{}) {
		a.Process = thisProcess(a.Now())
	}
	if a.Checkpoints == nil && o.StateDir != "" {
		a.Checkpoints = &checkpointFolder{dir: o.StateDir}
	}
	if a.PodFiles == nil && o.PodsDir != "" {
		a.PodFiles = podFolder(o.PodsDir)
	}
	if o.Metadata != nil {
		a.metadata = newMetadata(o.Metadata)
	}
	return a
}

// thisProcess identifies the process. If the kernel does not say which boot this is, leases cannot be read either.
func thisProcess(now time.Time) podnet.Process {
	id := rand.Text()
	boot, err := podlease.ThisBoot(now)
	if err != nil {
		boot.ID = id
	}
	return podnet.Process{Boot: boot.ID, ID: id}
}

// snapshot is the state that one pass works with.
type snapshot struct {
	// instance is the EC2 instance of the node; "" if it is not known.
	instance string
	// read says that the objects are known from the API server. Otherwise they are from a checkpoint.
	read bool
	// objects are those of the instance, by name. Neither they nor the Node, which is nil if there is none, must be
	// changed.
	objects []*v1alpha1.NetworkInterface
	node    *corev1.Node
	// ended are the MAC addresses of interfaces whose deletion the agent has seen.
	ended map[string]bool
	// links are those of the kernel, devices those of programs in user space.
	links   []hostnet.Link
	devices []hostpci.Device
	records []hostpci.OriginalBinding
	// metadata is the last answer of instance metadata, or nil; facts is the last observed state of the kernel, and bus
	// that of the PCI bus.
	metadata *eni.Metadata
	facts    hostnet.Facts
	bus      hostpci.Facts
	// readAt is a time before the facts were read.
	readAt time.Time
	// observed has an observation for each link and device, and for each device that the agent binds back to its network
	// driver.
	observed []hostnet.Observation
	// served are the interfaces with what package podnet decided about their use.
	served []*served
	// unrecalled is why the addresses of the process before are not known.
	unrecalled error
}

// reconcile configures the desired links, reports their state, and returns when to run again without an event. A
// failure of one link neither keeps the others from being configured nor the report from being written.
func (a *Agent) reconcile(ctx context.Context) (next time.Duration, err error) {
	s, err := a.gather(ctx)
	if err != nil {
		return a.Resync, err
	}
	failure := a.configure(s)
	if s.observed == nil && failure != nil {
		return a.Resync, failure
	}
	a.findLinks(s)
	// other programs read these files; the interfaces do not depend on them
	if err = errors.Join(a.serve(ctx, s), a.writeFiles(s)); err != nil {
		a.Log.Warn("files could not be written", "err", err)
	}
	return a.next(s), errors.Join(failure, a.publish(ctx, s))
}

// publish reports the state of the interfaces on both kinds of objects, and the addresses that pods brought up. No
// write waits for another: a pod may be waiting for this node.
func (a *Agent) publish(ctx context.Context, s *snapshot) error {
	if !s.read {
		return nil // there is no API server to report to
	}
	var reported, counted, held error
	var writes sync.WaitGroup
	writes.Go(func() {
		reported = panics.AsError("the reports of node "+a.Node, func() error { return a.report(ctx, s) })
	})
	writes.Go(func() {
		counted = panics.AsError("the capacity of node "+a.Node, func() error { return a.updateCapacity(ctx, s) })
	})
	writes.Go(func() {
		held = panics.AsError("the addresses of node "+a.Node, func() error { return a.hold(ctx, s) })
	})
	writes.Wait()
	return errors.Join(reported, counted, held)
}

// gather collects the desired state, and the last answer of instance metadata.
func (a *Agent) gather(ctx context.Context) (*snapshot, error) {
	s := &snapshot{}
	if a.metadata != nil {
		s.metadata = a.metadata.known()
	}
	s.node = a.API.nodeObject()
	s.instance = instanceOf(s.metadata, s.node)
	var err error
	if s.objects, s.read, err = a.API.networkInterfaces(ctx, s.instance); err != nil {
		return nil, err
	}
	s.read = s.read && s.instance != ""
	s.ended = a.API.endedInterfaces()
	a.desire(s)
	if !s.read && s.metadata == nil && a.metadata != nil {
		a.metadata.want()
	}
	return s, nil
}

// desire sets the desired links and devices. Without the API server they are those of the checkpoint.
func (a *Agent) desire(s *snapshot) {
	a.recall()
	a.recalled = map[string]*podnet.Network{}
	if !s.read {
		var open []podnet.Network
		s.objects, open = a.saved.Confirmed(a.Node, s.metadata)
		for _, network := range open {
			a.recalled[network.ENI] = &network
		}
	}
	s.links, s.devices = DesiredLinks(s.objects, a.DefaultMTU)
	s.records = records(s.objects, a.saved.Held)
	for n, link := range s.links {
		s.links[n].Device = cmp.Or(a.devices[link.MAC], link.Device)
	}
	for n, device := range s.devices {
		s.devices[n].Link.Device = cmp.Or(a.devices[device.Link.MAC], device.Link.Device)
	}
}

// instanceOf returns the EC2 instance of the node: as instance metadata says, or the Node; "" if neither does.
func instanceOf(metadata *eni.Metadata, node *corev1.Node) string {
	if metadata != nil {
		return metadata.InstanceID
	}
	if node == nil {
		return ""
	}
	instance, err := eni.ParseProviderID(node.Spec.ProviderID)
	if err != nil {
		return ""
	}
	return instance.ID
}

// findLinks lists the objects again after a link appeared that belongs to none of them. While an object waits for its
// MAC address, the link is probably that one's, and a list costs the API server work: so the agent waits for a while.
func (a *Agent) findLinks(s *snapshot) {
	awaits := func(n *v1alpha1.NetworkInterface) bool { return n.Status.MACAddress == "" }
	for _, link := range s.facts.Links {
		if link.Device == "" || a.seenLinks[link.MAC] {
			continue
		}
		if _, known := a.unexplained[link.MAC]; !known {
			a.unexplained[link.MAC] = s.readAt
		}
		is := func(n *v1alpha1.NetworkInterface) bool { return n.Status.MACAddress == link.MAC }
		switch {
		case link.Index == s.facts.PrimaryLink, slices.ContainsFunc(s.objects, is):
		case slices.ContainsFunc(s.objects, awaits) && s.readAt.Sub(a.unexplained[link.MAC]) < unexplainedPause:
			continue
		default:
			a.API.names.want()
		}
		a.seenLinks[link.MAC] = true
		delete(a.unexplained, link.MAC)
	}
	for mac := range a.seenLinks {
		if !slices.ContainsFunc(s.facts.Links, func(l hostnet.LinkFacts) bool { return l.MAC == mac }) {
			delete(a.seenLinks, mac) // it may come again
		}
	}
}

// wake lets the agent run again soon.
func (a *Agent) wake() {
	if a.API != nil {
		a.API.Wake()
	}
}

// configure executes operations until none are left, and stores the last observation.
func (a *Agent) configure(s *snapshot) error {
	failures := map[string]error{}
	for range rounds {
		operations, bindings, err := a.decide(s)
		if err != nil {
			return err
		}
		if len(operations)+len(bindings) == 0 || len(failures) > 0 {
			break
		}
		for _, op := range operations {
			a.Log.Debug("operation", "what", op.String())
			if err := a.Host.Apply(op); err != nil {
				failures[op.String()] = err
			}
		}
		for _, b := range bindings {
			a.bind(b)
		}
	}
	a.remember(s.observed)
	if explainMissing(s.observed, s.metadata) && a.metadata != nil {
		a.metadata.want()
	}
	return s.attachErrors(failures)
}

// decide reads the host, and returns the operations that its links and devices need.
func (a *Agent) decide(s *snapshot) (operations []hostnet.Operation, bindings []hostpci.Binding, err error) {
	var devices []string
	for _, link := range s.links {
		if link.Device != "" {
			devices = append(devices, link.Device)
		}
	}
	s.readAt = a.Now()
	if s.facts, err = a.Host.Facts(devices); err != nil {
		return nil, nil, fmt.Errorf("read the network of the node: %w", err)
	}
	markPrimary(&s.facts, s.metadata)
	s.observed = hostnet.Observe(s.links, s.facts)
	operations = hostnet.Diff(hostnet.Configure(s.links, s.facts), s.facts)
	operations = slices.DeleteFunc(operations, s.changesPreserved)
	bindings, err = a.decideBindings(s)
	return operations, bindings, err
}

// remember stores the PCI addresses of the links' devices.
func (a *Agent) remember(observed []hostnet.Observation) {
	devices := map[string]string{}
	for _, o := range observed {
		devices[o.Link.MAC] = o.Link.Device
		if o.Facts != nil {
			devices[o.Link.MAC] = o.Facts.Device
		}
	}
	a.devices = devices
}

// attachErrors sets the failures as the message of each link that is not configured, and returns them.
func (s *snapshot) attachErrors(failures map[string]error) error {
	var all []error
	for _, operation := range slices.Sorted(maps.Keys(failures)) {
		all = append(all, failures[operation])
	}
	failure := errors.Join(all...)
	for n, o := range s.observed {
		if o.State == hostnet.Configuring && failure != nil {
			s.observed[n].Message = failure.Error()
		}
	}
	return failure
}
