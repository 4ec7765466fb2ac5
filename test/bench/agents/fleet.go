// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/render"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/test/bench/scenario"
)

const (
	nodeENI = "storage"
	bootID  = "6f1c2f3e-0000-4000-8000-000000000000"
	// settled is how many interfaces each node has at the beginning.
	settled = 2
	// interval is the time for each attachment: EC2 attaches five per second for an account.
	interval = 200 * time.Millisecond
	// atOnce is how many nodes are made at a time.
	atOnce = 16
)

// Load is what the API server works for.
type Load struct {
	Nodes int
	// Joining is how many nodes get two interfaces, one write of the Node for both. Added is how many get one more later.
	// As many nodes again, which have no agent, get the same.
	Joining, Added int
	// Quiet is how long the bench measures the API server before the attachments.
	Quiet time.Duration
}

// Full is the load of the scenario: 160 seconds of attachments.
func Full(nodes int) Load {
	return Load{Nodes: nodes, Joining: min(100, nodes), Added: min(200, nodes), Quiet: 20 * time.Second}
}

// fleet is an API server with nodes, their agents and a controller.
type fleet struct {
	client client.WithWatch
	server procfs.Proc
	// nodes have agents. unwatched nodes have none: the bench writes the reports of theirs.
	nodes, unwatched []*node
	show             func(scenario.Progress)

	running *errgroup.Group
	mu      sync.Mutex
	// ready are the times from a link to the ready Node.
	ready []time.Duration
}

// node is a node as the controller sees it.
type node struct {
	*agent
	// watched is set if the agent runs.
	watched bool
	// names are those of its objects.
	names []string
	// linked is when the links of its unready interfaces appeared, by ID. opened are those that the agent has reported.
	linked map[string]time.Time
	opened []time.Time
}

// Run measures a fleet. It writes files into a folder, which must exist.
func Run(ctx context.Context, l Load, dir string, show func(scenario.Progress)) (o *scenario.Outcome, err error) {
	servers, err := cluster.Start(ctx, cluster.Options{Dir: dir})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, servers.Stop()) }()
	ctx, cancel := context.WithCancel(ctx)
	f, err := connect(servers.Config, show)
	if err != nil {
		cancel()
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	f.running = group
	values, err := f.measure(ctx, l)
	cancel()
	if err = errors.Join(f.running.Wait(), err); err != nil {
		return nil, err
	}
	return &scenario.Outcome{Measured: values}, nil
}

func connect(config *rest.Config, show func(scenario.Progress)) (*fleet, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	access := rest.CopyConfig(config)
	access.QPS = -1
	c, err := client.NewWithWatch(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	server, err := apiServer()
	return &fleet{client: c, server: server, show: show}, err
}

// apiServer returns the process of the API server, a child of this one.
func apiServer() (procfs.Proc, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return procfs.Proc{}, err
	}
	at := slices.IndexFunc(all, func(p procfs.Proc) bool {
		stat, err := p.Stat()
		return err == nil && stat.PPID == os.Getpid() && stat.Comm == assets.APIServer
	})
	if at < 0 {
		return procfs.Proc{}, fmt.Errorf("no child of this process is a %s", assets.APIServer)
	}
	return all[at], nil
}

// measure makes the fleet, and then attaches interfaces.
func (f *fleet) measure(ctx context.Context, l Load) (map[string]float64, error) {
	if err := f.join(ctx, l); err != nil {
		return nil, err
	}
	if err := f.control(ctx); err != nil {
		return nil, err
	}
	idle, err := f.load(func() error { return sleep(ctx, l.Quiet) })
	if err != nil {
		return nil, err
	}
	values := map[string]float64{scenario.IdleServer: 1000 * idle.processors()}
	phases := []struct {
		key   string
		nodes []*node
		each  int
	}{
		{scenario.ServerPerENI, f.nodes[:l.Joining], 2},
		{scenario.ServerPerAddedENI, f.nodes[:l.Added], 1},
		{scenario.ServerPerENI + scenario.LimitSuffix, f.unwatched[:l.Joining], 2},
		{scenario.ServerPerAddedENI + scenario.LimitSuffix, f.unwatched[:l.Added], 1},
	}
	for _, phase := range phases {
		busy, err := f.load(func() error { return f.attach(ctx, phase.nodes, phase.each) })
		if err != nil {
			return nil, err
		}
		values[phase.key] = 1000 * busy.beyond(idle) / float64(len(phase.nodes)*phase.each)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	reported := f.ready[:2*l.Joining+l.Added] // by agents
	slices.Sort(reported)
	values[scenario.LinkToReadyP50] = milliseconds(reported[len(reported)/2])
	values[scenario.LinkToReadyP99] = milliseconds(reported[len(reported)*99/100])
	return values, nil
}

func milliseconds(d time.Duration) float64 { return 1000 * d.Seconds() }

// use is how much processor time, in seconds, the API server used in a time by the clock.
type use struct {
	cpu   float64
	clock time.Duration
}

func (u use) processors() float64 { return u.cpu / u.clock.Seconds() }

// beyond returns the processor time, in seconds, beyond that of the API server at rest.
func (u use) beyond(idle use) float64 { return u.cpu - idle.processors()*u.clock.Seconds() }

// load measures the API server during work.
func (f *fleet) load(work func() error) (use, error) {
	before, err := f.server.Stat()
	if err != nil {
		return use{}, err
	}
	begun := time.Now()
	if err := work(); err != nil {
		return use{}, err
	}
	after, err := f.server.Stat()
	return use{after.CPUTime() - before.CPUTime(), time.Since(begun)}, err
}

// join makes the Nodes and objects, and starts the agents.
func (f *fleet) join(ctx context.Context, l Load) error {
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	all := make([]*node, l.Nodes+max(l.Joining, l.Added))
	f.nodes, f.unwatched = all[:l.Nodes], all[l.Nodes:]
	for n := range all {
		all[n] = &node{agent: f.newAgent(n), watched: n < l.Nodes, linked: map[string]time.Time{}}
		group.Go(func() error { return f.joinOne(ctx, making, all[n]) })
		f.show(scenario.Progress{Phase: "nodes join", Ready: n, Done: float64(n) / float64(len(all))})
	}
	return group.Wait()
}

// joinOne makes a Node and its objects. Its agent runs until the first context ends.
func (f *fleet) joinOne(ctx, making context.Context, n *node) error {
	for range settled {
		if _, err := f.declare(making, n); err != nil {
			return err
		}
	}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name, Annotations: n.annotation()}}
	if err := f.client.Create(making, node); err != nil || !n.watched {
		return err
	}
	return n.start(ctx)
}

// declare creates the object of the next interface of a node.
func (f *fleet) declare(ctx context.Context, n *node) (*v1alpha1.NetworkInterface, error) {
	ordinal := len(n.names)
	spec := render.Spec{
		InstanceID: n.instance, Zone: "us-east-1a", Ordinal: ordinal, Origin: render.OriginDeclared,
		NodeName: n.name, NodeENI: render.Reference{Name: nodeENI, UID: bootID, Generation: 1},
		Revision: "3b5d5c3712955042", Slot: eni.Slot{Device: ordinal + 1},
		Template: render.Template{
			InterfaceType: string(v1alpha1.InterfaceTypeInterface), Required: true,
			Link: &render.Link{AddressMode: string(v1alpha1.AddressNone)},
			EC2: eni.Spec{
				Description: "interface of a bench", SourceDestCheck: true, DeleteOnTermination: true,
				Groups: []string{"sg-00000000000000001", "sg-00000000000000002"},
				Tags:   map[string]string{"team": "storage", "stage": "production", "cost-center": "4711"},
			},
		},
	}
	for n := range 3 {
		spec.Subnets = append(spec.Subnets, render.Subnet{
			ID: fmt.Sprintf("subnet-%017x", n), CIDR: fmt.Sprintf("10.%d.0.0/16", n),
		})
	}
	made := object.New(identity.ObjectName(nodeENI, spec.InstanceID, ordinal), spec)
	n.names = append(n.names, made.Name)
	return made, object.Create(ctx, f.client, made)
}

// control makes Nodes ready whose objects an agent has answered, as the controller does.
func (f *fleet) control(ctx context.Context) error {
	var list v1alpha1.NetworkInterfaceList
	if err := f.client.List(ctx, &list, client.Limit(1)); err != nil {
		return err
	}
	since := &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}}
	changes, err := f.client.Watch(ctx, &v1alpha1.NetworkInterfaceList{}, since)
	if err != nil {
		return err
	}
	f.run(ctx, func() error {
		defer changes.Stop()
		for event := range changes.ResultChan() {
			o, is := event.Object.(*v1alpha1.NetworkInterface)
			if !is {
				return fmt.Errorf("watch of all objects: %v", event.Object)
			}
			if o.Status.Node != nil && o.Status.Node.Open {
				f.run(ctx, func() error { return f.becomesReady(ctx, o) })
			}
		}
		return errors.New("the watch of all objects ended")
	})
	return nil
}

// becomesReady reports a Node as ready once its agent has reported the last of its interfaces.
func (f *fleet) becomesReady(ctx context.Context, o *v1alpha1.NetworkInterface) error {
	all := slices.Concat(f.nodes, f.unwatched)
	node := all[slices.IndexFunc(all, func(n *node) bool { return n.name == o.Spec.NodeName })]
	opened := f.opens(node, o.Status.ENIID)
	if len(opened) == 0 {
		return nil
	}
	if err := f.setReady(ctx, node, corev1.ConditionTrue); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, since := range opened {
		f.ready = append(f.ready, time.Since(since))
	}
	return nil
}

// opens notes that an interface of a node is open. After the last one it returns when the links appeared.
func (f *fleet) opens(n *node, id string) (opened []time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	since, waits := n.linked[id]
	if !waits {
		return nil
	}
	delete(n.linked, id)
	n.opened = append(n.opened, since)
	if len(n.linked) == 0 {
		opened, n.opened = n.opened, nil
	}
	return opened
}

// attach attaches interfaces to one node after the other, and waits until all these nodes are ready.
func (f *fleet) attach(ctx context.Context, nodes []*node, each int) error {
	ticks := time.NewTicker(time.Duration(each) * interval)
	defer ticks.Stop()
	f.mu.Lock()
	expected := len(f.ready) + len(nodes)*each
	f.mu.Unlock()
	for n, node := range nodes {
		f.run(ctx, func() error { return f.attachTo(ctx, node, each) })
		f.show(scenario.Progress{Phase: "interfaces are attached", Ready: n, Done: float64(n) / float64(len(nodes))})
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for begun := time.Now(); ; {
		f.mu.Lock()
		missing := expected - len(f.ready)
		f.mu.Unlock()
		if missing == 0 {
			return nil
		}
		if time.Since(begun) > time.Minute {
			return fmt.Errorf("%d interfaces have no ready Node a minute after the last attachment", missing)
		}
		if err := sleep(ctx, interval); err != nil {
			return err
		}
	}
}

// attachTo makes the API server's writes for interfaces of one node: the objects, the Node that is not ready, and each
// status once EC2 has attached the interface. The link appears at that time.
func (f *fleet) attachTo(ctx context.Context, n *node, each int) error {
	objects := make([]*v1alpha1.NetworkInterface, each)
	for i := range objects {
		var err error
		if objects[i], err = f.declare(ctx, n); err != nil {
			return err
		}
	}
	if err := f.setReady(ctx, n, corev1.ConditionFalse); err != nil {
		return err
	}
	f.mu.Lock()
	for _, o := range objects {
		n.linked[interfaceID(o)] = time.Now()
	}
	f.mu.Unlock()
	for _, o := range objects {
		if err := f.attachOne(ctx, n, o); err != nil {
			return err
		}
	}
	return nil
}

// attachOne lets the link of an interface appear, and writes that EC2 has attached it.
func (f *fleet) attachOne(ctx context.Context, n *node, o *v1alpha1.NetworkInterface) error {
	id := interfaceID(o)
	if n.watched {
		select {
		case n.links <- id:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	slot := o.Spec.Slot
	o.Status = v1alpha1.NetworkInterfaceStatus{
		ObservedGeneration: o.Generation, Phase: v1alpha1.PhaseAttached, ENIID: id, Evidence: v1alpha1.EvidenceCreated,
		AttachmentID: "eni-attach-0123456789abcdef0", MACAddress: "02:00:00:00:00:01", SubnetID: o.Spec.Subnets[0].ID,
		Slot: &slot, Addresses: v1alpha1.InterfaceAddresses{PrivateIP: "10.0.0.7"}, SecurityGroupIDs: o.Spec.SecurityGroupIDs,
		Conditions: []metav1.Condition{{
			Type: v1alpha1.ConditionReady, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonAttached, Message: "attached",
			LastTransitionTime: metav1.Now(), ObservedGeneration: o.Generation,
		}},
	}
	if err := object.WriteStatus(ctx, f.client, o); err != nil || n.watched {
		return err
	}
	n.present[id] = true
	return n.report(ctx, o)
}

// interfaceID returns the ID of the interface of an object, which EC2 would choose.
func interfaceID(o *v1alpha1.NetworkInterface) string {
	return "eni-" + strings.ReplaceAll(string(o.UID), "-", "")[:17]
}

// setReady writes the condition of a Node, with the names of its objects.
func (f *fleet) setReady(ctx context.Context, n *node, is corev1.ConditionStatus) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": n.annotation()},
		"status": map[string]any{
			"conditions": []corev1.NodeCondition{{Type: v1alpha1.NodeConditionInterfacesReady, Status: is, Reason: "Bench"}},
		},
	})
	if err != nil {
		return err
	}
	written := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.name}}
	return f.client.Status().Patch(ctx, written, client.RawPatch(types.StrategicMergePatchType, patch))
}

// annotation is what the controller writes for the agent.
func (n *node) annotation() map[string]string {
	return map[string]string{v1alpha1.NetworkInterfacesAnnotation: strings.Join(n.names, ",")}
}

// run runs a part of the fleet until the context ends. An error before that ends the measurement; one after it is an
// effect of the end.
func (f *fleet) run(ctx context.Context, part func() error) {
	f.running.Go(func() error {
		err := part()
		select {
		case <-ctx.Done():
			return nil
		default:
			return err
		}
	})
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func nodeName(n int) string   { return fmt.Sprintf("node-%04d", n) }
func instanceID(n int) string { return fmt.Sprintf("i-%017x", n+1) }
