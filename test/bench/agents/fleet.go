// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agents

import (
	"context"
	_ "embed"
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
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/test/bench/scenario"
)

const (
	instanceLabel = "bench.multieni.dev/instance"
	bootID        = "6f1c2f3e-0000-4000-8000-000000000000"
	readiness     = "MultiENIReady"
	// objectsAnnotation of a Node has the names of the node's objects, separated by spaces.
	objectsAnnotation = "bench.multieni.dev/interfaces"
	// settled is how many interfaces each node has at the beginning.
	settled = 2
	// interval is the time for each attachment: EC2 attaches five per second for an account.
	interval = 200 * time.Millisecond
	// atOnce is how many nodes are made at a time.
	atOnce = 16
)

//go:embed networkinterfaces.yaml
var definition []byte

// Load is what the API server works for.
type Load struct {
	Nodes int
	// Joining is how many nodes get two interfaces, one write of the Node for both. Added is how many get one more later.
	Joining, Added int
	// Quiet is how long the bench measures the API server before the attachments.
	Quiet time.Duration
}

// Full is the load of the scenario: 80 seconds of attachments.
func Full(nodes int) Load {
	return Load{Nodes: nodes, Joining: min(100, nodes), Added: min(200, nodes), Quiet: 20 * time.Second}
}

// fleet is an API server with nodes, their agents and a controller.
type fleet struct {
	kube    kubernetes.Interface
	objects dynamic.ResourceInterface
	server  procfs.Proc
	nodes   []*node
	show    func(scenario.Progress)

	running *errgroup.Group
	mu      sync.Mutex
	// ready are the times from a link to the ready Node.
	ready []time.Duration
}

// node is a node as the controller sees it.
type node struct {
	*agent
	// declared is the number of its interfaces.
	declared int
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
	var crd apiextensionsv1.CustomResourceDefinition
	if err := yaml.UnmarshalStrict(definition, &crd); err != nil {
		return nil, err
	}
	if _, err := envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{&crd}}); err != nil {
		return nil, err
	}
	access := rest.CopyConfig(config)
	access.QPS = -1
	kube, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	objects, err := dynamic.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	server, err := apiServer()
	return &fleet{
		kube: kube, server: server, show: show,
		objects: objects.Resource(schema.GroupVersionResource{Group: crd.Spec.Group, Version: crd.Spec.Versions[0].Name,
			Resource: crd.Spec.Names.Plural}),
	}, err
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
	if err := f.join(ctx, l.Nodes); err != nil {
		return nil, err
	}
	if err := f.control(ctx); err != nil {
		return nil, err
	}
	idle, err := f.load(func() error { return sleep(ctx, l.Quiet) })
	if err != nil {
		return nil, err
	}
	joining, err := f.load(func() error { return f.attach(ctx, l.Joining, 2) })
	if err != nil {
		return nil, err
	}
	added, err := f.load(func() error { return f.attach(ctx, l.Added, 1) })
	if err != nil {
		return nil, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	slices.Sort(f.ready)
	return map[string]float64{
		scenario.IdleServer:        1000 * idle.processors(),
		scenario.ServerPerENI:      1000 * joining.beyond(idle) / float64(2*l.Joining),
		scenario.ServerPerAddedENI: 1000 * added.beyond(idle) / float64(l.Added),
		scenario.LinkToReadyP50:    milliseconds(f.ready[len(f.ready)/2]),
		scenario.LinkToReadyP99:    milliseconds(f.ready[len(f.ready)*99/100]),
	}, nil
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
func (f *fleet) join(ctx context.Context, nodes int) error {
	group, making := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	f.nodes = make([]*node, nodes)
	for n := range nodes {
		f.nodes[n] = &node{agent: f.newAgent(n), declared: settled, linked: map[string]time.Time{}}
		group.Go(func() error {
			for ordinal := range settled {
				if _, err := f.declare(making, n, ordinal); err != nil {
					return err
				}
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(n),
				Annotations: map[string]string{objectsAnnotation: objectNames(n, settled)}}}
			if _, err := f.kube.CoreV1().Nodes().Create(making, node, metav1.CreateOptions{}); err != nil {
				return err
			}
			return f.nodes[n].start(ctx)
		})
		f.show(scenario.Progress{Phase: "nodes join", Ready: n, Done: float64(n) / float64(nodes)})
	}
	return group.Wait()
}

// declare creates the object of an interface.
func (f *fleet) declare(ctx context.Context, node, ordinal int) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("bench.multieni.dev/v1alpha1")
	object.SetKind("NetworkInterface")
	object.SetName(objectName(node, ordinal))
	object.SetLabels(map[string]string{instanceLabel: instanceID(node), "bench.multieni.dev/nodeeni": "storage"})
	object.SetFinalizers([]string{"bench.multieni.dev/eni"})
	var subnets []any
	for n := range 3 {
		subnets = append(subnets, map[string]any{
			"id": fmt.Sprintf("subnet-%017x", n), "cidr": fmt.Sprintf("10.%d.0.0/16", n),
		})
	}
	object.Object["spec"] = map[string]any{
		"instanceID": instanceID(node), "zone": "us-east-1a", "ordinal": int64(ordinal), "nodeName": nodeName(node),
		"revision": "3b5d5c3712955042", "description": "interface of a bench", "subnets": subnets,
		"securityGroupIDs": []any{"sg-00000000000000001", "sg-00000000000000002"},
		"slot":             map[string]any{"networkCardIndex": int64(0), "deviceIndex": int64(ordinal + 1)},
		"tags":             map[string]any{"team": "storage", "stage": "production", "cost-center": "4711"},
	}
	return f.objects.Create(ctx, object, metav1.CreateOptions{FieldManager: "multieni"})
}

// control makes Nodes ready whose objects an agent has answered, as the controller of the design does.
func (f *fleet) control(ctx context.Context) error {
	list, err := f.objects.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return err
	}
	changes, err := f.objects.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		return err
	}
	f.run(ctx, func() error {
		defer changes.Stop()
		for event := range changes.ResultChan() {
			object, is := event.Object.(*unstructured.Unstructured)
			if !is {
				return fmt.Errorf("watch of all objects: %v", event.Object)
			}
			if open, _, _ := unstructured.NestedBool(object.Object, "status", "node", "open"); open {
				f.run(ctx, func() error { return f.becomesReady(ctx, object) })
			}
		}
		return errors.New("the watch of all objects ended")
	})
	return nil
}

// becomesReady reports a Node as ready once its agent has reported the last of its interfaces.
func (f *fleet) becomesReady(ctx context.Context, object *unstructured.Unstructured) error {
	name, _, _ := unstructured.NestedString(object.Object, "spec", "nodeName")
	id, _, _ := unstructured.NestedString(object.Object, "status", "eniID")
	opened := f.opens(f.nodes[slices.IndexFunc(f.nodes, func(n *node) bool { return n.name == name })], id)
	if len(opened) == 0 {
		return nil
	}
	if err := f.setReady(ctx, name, corev1.ConditionTrue, nil); err != nil {
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
func (f *fleet) attach(ctx context.Context, nodes, each int) error {
	ticks := time.NewTicker(time.Duration(each) * interval)
	defer ticks.Stop()
	f.mu.Lock()
	expected := len(f.ready) + nodes*each
	f.mu.Unlock()
	for n := range nodes {
		f.run(ctx, func() error { return f.attachTo(ctx, n, each) })
		f.show(scenario.Progress{Phase: "interfaces are attached", Ready: n, Done: float64(n) / float64(nodes)})
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

// attachTo makes the API server's writes for interfaces of one node: the objects, the Node that is not ready and names
// them, and each status once EC2 has attached the interface. The link appears at that time.
func (f *fleet) attachTo(ctx context.Context, n, each int) error {
	node := f.nodes[n]
	objects := make([]*unstructured.Unstructured, each)
	for i := range objects {
		var err error
		if objects[i], err = f.declare(ctx, n, node.declared+i); err != nil {
			return err
		}
	}
	node.declared += each
	names := map[string]string{objectsAnnotation: objectNames(n, node.declared)}
	if err := f.setReady(ctx, node.name, corev1.ConditionFalse, names); err != nil {
		return err
	}
	f.mu.Lock()
	for _, object := range objects {
		node.linked[interfaceID(object)] = time.Now()
	}
	f.mu.Unlock()
	for _, object := range objects {
		if err := f.attachOne(ctx, node, object); err != nil {
			return err
		}
	}
	return nil
}

// attachOne lets the link of an interface appear, and writes that EC2 has attached it.
func (f *fleet) attachOne(ctx context.Context, n *node, object *unstructured.Unstructured) error {
	id := interfaceID(object)
	select {
	case n.links <- id:
	case <-ctx.Done():
		return ctx.Err()
	}
	_, err := f.applyStatus(ctx, object, "multieni", map[string]any{
		"eniID": id, "attachmentID": "eni-attach-0123456789abcdef0", "macAddress": "02:00:00:00:00:01",
		"privateIP": "10.0.0.7",
		"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Attached", "message": "attached",
			"lastTransitionTime": time.Now().UTC().Format(time.RFC3339), "observedGeneration": object.GetGeneration()}},
	})
	return err
}

// interfaceID returns the ID of the interface of an object, which EC2 would choose.
func interfaceID(object *unstructured.Unstructured) string {
	return "eni-" + strings.ReplaceAll(string(object.GetUID()), "-", "")[:17]
}

// applyStatus applies a part of a status over the version that was read.
func (f *fleet) applyStatus(
	ctx context.Context, read *unstructured.Unstructured, manager string, status map[string]any,
) (*unstructured.Unstructured, error) {
	applied := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	applied.SetAPIVersion(read.GetAPIVersion())
	applied.SetKind(read.GetKind())
	applied.SetName(read.GetName())
	applied.SetResourceVersion(read.GetResourceVersion())
	return f.objects.ApplyStatus(ctx, read.GetName(), applied, metav1.ApplyOptions{FieldManager: manager, Force: true})
}

// setReady writes the condition of a Node, and annotations in the same patch.
func (f *fleet) setReady(
	ctx context.Context, node string, is corev1.ConditionStatus, annotations map[string]string,
) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"annotations": annotations},
		"status":   map[string]any{"conditions": []corev1.NodeCondition{{Type: readiness, Status: is, Reason: "Bench"}}},
	})
	if err != nil {
		return err
	}
	_, err = f.kube.CoreV1().Nodes().Patch(
		ctx, node, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	return err
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

// objectNames returns the names of the first objects of a node.
func objectNames(node, number int) string {
	var names []string
	for ordinal := range number {
		names = append(names, objectName(node, ordinal))
	}
	return strings.Join(names, " ")
}

func objectName(node, ordinal int) string {
	return fmt.Sprintf("storage-%s-%d", instanceID(node), ordinal)
}

func nodeName(n int) string   { return fmt.Sprintf("node-%04d", n) }
func instanceID(n int) string { return fmt.Sprintf("i-%017x", n+1) }
