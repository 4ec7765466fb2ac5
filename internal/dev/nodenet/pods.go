// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package nodenet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	current "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/namespace"
	"github.com/multieni/multieni/internal/core/netattach"
)

// The annotations of Multus (Kubernetes Network Plumbing Working Group, "Network Custom Resource Definition").
const (
	// networksAnnotation lists the networks that a pod requests.
	networksAnnotation = "k8s.v1.cni.cncf.io/networks"
	// StatusAnnotation has, as JSON, the networks that a pod got.
	StatusAnnotation = "k8s.v1.cni.cncf.io/network-status"
)

// pods gives pods their networks. It does the work of four programs that a simulated node does not have: the scheduler,
// by the node selector alone; the kubelet, without containers; the container runtime; and Multus, without a default
// network. It ignores pods without the annotation.
//
// macvlan replaces ipvlan, which some kernels lack; it differs only in the MAC addresses of pods.
type pods struct {
	api       client.Client
	nodes     map[string]*node
	dir       string
	sandboxes map[apitypes.UID]*sandbox
	log       *slog.Logger
}

// sandbox is the namespace of a pod.
type sandbox struct {
	pod       *corev1.Pod
	node      *node
	namespace *namespace.Namespace
	// networks are those that were added, completely or partially.
	networks []*libcni.NetworkConfigList
}

func newPods(o Options, nodes []*node) (*pods, error) {
	api, err := client.New(o.Config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client for pods: %w", err)
	}
	p := &pods{
		api: api, nodes: map[string]*node{}, dir: filepath.Join(o.Dir, "pods"), sandboxes: map[apitypes.UID]*sandbox{},
		log: o.Logger,
	}
	for _, nd := range nodes {
		p.nodes[nd.name] = nd
		nd.runtime = libcni.NewCNIConfigWithCacheDir(o.Programs.folders, filepath.Join(o.Dir, "cni-cache"),
			Execution(nd.pods, nil))
	}
	return p, nil
}

// pollPeriod is the delay until a new pod has its networks, and the time between attempts after a failure.
const pollPeriod = 200 * time.Millisecond

// run keeps the pods until the context ends, which ends all of them.
func (p *pods) run(ctx context.Context) error {
	ticks := time.NewTicker(pollPeriod)
	defer ticks.Stop()
	for {
		if err := p.sync(ctx); err != nil && ctx.Err() == nil {
			p.log.Warn("pods are behind their annotations", "error", err)
		}
		select {
		case <-ticks.C:
		case <-ctx.Done():
			var errs []error
			for _, s := range p.sandboxes {
				errs = append(errs, p.end(context.WithoutCancel(ctx), s))
			}
			return errors.Join(errs...)
		}
	}
}

// sync starts and ends pods after changes.
func (p *pods) sync(ctx context.Context) error {
	var list corev1.PodList
	if err := p.api.List(ctx, &list); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	var errs []error
	there := map[apitypes.UID]bool{}
	for i := range list.Items {
		pod := &list.Items[i]
		if pod.Annotations[networksAnnotation] == "" {
			continue
		}
		there[pod.UID] = pod.DeletionTimestamp.IsZero()
		errs = append(errs, p.syncPod(ctx, pod))
	}
	for uid, s := range p.sandboxes {
		if !there[uid] {
			errs = append(errs, p.end(ctx, s))
		}
	}
	return errors.Join(errs...)
}

func (p *pods) syncPod(ctx context.Context, pod *corev1.Pod) error {
	nd := p.nodes[pod.Spec.NodeName]
	switch {
	case pod.Spec.NodeName == "":
		return p.schedule(ctx, pod)
	case nd == nil:
		return nil
	case !pod.DeletionTimestamp.IsZero():
		if s := p.sandboxes[pod.UID]; s != nil {
			if err := p.end(ctx, s); err != nil {
				return err
			}
		}
		return client.IgnoreNotFound(p.api.Delete(ctx, pod, client.GracePeriodSeconds(0),
			client.Preconditions{UID: &pod.UID}))
	case p.sandboxes[pod.UID] == nil:
		return p.start(ctx, pod, nd)
	default:
		return nil
	}
}

// schedule binds a pod to the first of the nodes that has the labels of its node selector and no startup taint. It
// ignores the taint not-ready, which the API server sets and no node lifecycle controller removes here.
func (p *pods) schedule(ctx context.Context, pod *corev1.Pod) error {
	for _, name := range slices.Sorted(maps.Keys(p.nodes)) {
		var nd corev1.Node
		if err := p.api.Get(ctx, client.ObjectKey{Name: name}, &nd); err != nil {
			if client.IgnoreNotFound(err) == nil {
				continue
			}
			return err
		}
		starts := slices.ContainsFunc(nd.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint })
		if starts || !labels.SelectorFromSet(pod.Spec.NodeSelector).Matches(labels.Set(nd.Labels)) {
			continue
		}
		binding := &corev1.Binding{Target: corev1.ObjectReference{Kind: "Node", Name: name}}
		return p.api.SubResource("binding").Create(ctx, pod, binding)
	}
	return nil
}

// start gives a pod its namespace and networks. After a failure it removes them, and reports the reason on the pod.
func (p *pods) start(ctx context.Context, pod *corev1.Pod, nd *node) error {
	space, err := namespace.New()
	if err != nil {
		return err
	}
	s := &sandbox{pod: pod, node: nd, namespace: space}
	p.sandboxes[pod.UID] = s
	got, err := p.addNetworks(ctx, s)
	if err == nil {
		err = open(p.entrance(pod), space)
	}
	if err != nil {
		return errors.Join(p.report(ctx, pod, corev1.PodPending, err.Error()), p.end(ctx, s))
	}
	status, err := json.Marshal(got)
	if err != nil {
		return err
	}
	without := pod.DeepCopy()
	pod.Annotations[StatusAnnotation] = string(status)
	if err := p.api.Patch(ctx, pod, client.MergeFrom(without)); err != nil {
		return err
	}
	return p.report(ctx, pod, corev1.PodRunning, "")
}

// report writes the phase of a pod, and why it has no networks.
func (p *pods) report(ctx context.Context, pod *corev1.Pod, phase corev1.PodPhase, failure string) error {
	networks := corev1.PodCondition{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionTrue}
	if failure != "" {
		networks.Status, networks.Reason, networks.Message = corev1.ConditionFalse, "FailedCreatePodSandBox", failure
	}
	if phase == pod.Status.Phase && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == networks.Type && c.Message == networks.Message
	}) {
		return nil
	}
	networks.LastTransitionTime = metav1.Now()
	without := pod.DeepCopy()
	pod.Status.Phase = phase
	pod.Status.Conditions = append(slices.DeleteFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == networks.Type
	}), networks)
	return p.api.Status().Patch(ctx, pod, client.MergeFrom(without))
}

// networkStatus is one element of the status annotation.
type networkStatus struct {
	Name      string       `json:"name"`
	Interface string       `json:"interface"`
	IPs       []netip.Addr `json:"ips"`
	MAC       string       `json:"mac,omitempty"`
}

func (p *pods) addNetworks(ctx context.Context, s *sandbox) ([]networkStatus, error) {
	var all []networkStatus
	for n, name := range strings.Split(s.pod.Annotations[networksAnnotation], ",") {
		key := client.ObjectKey{Namespace: s.pod.Namespace, Name: strings.TrimSpace(name)}
		if namespace, name, qualified := strings.Cut(key.Name, "/"); qualified {
			key = client.ObjectKey{Namespace: namespace, Name: name}
		}
		network, err := p.network(ctx, key)
		if err != nil {
			return nil, err
		}
		s.networks = append(s.networks, network)
		got, err := p.addNetwork(ctx, s, n)
		if err != nil {
			return nil, fmt.Errorf("network %s: %w", key, err)
		}
		got.Name = key.String()
		all = append(all, got)
	}
	return all, nil
}

// network returns the definition of a network.
func (p *pods) network(ctx context.Context, key client.ObjectKey) (*libcni.NetworkConfigList, error) {
	definition := &unstructured.Unstructured{}
	definition.SetGroupVersionKind(schema.GroupVersionKind{Group: netattach.Group, Version: netattach.Version,
		Kind: netattach.Kind})
	if err := p.api.Get(ctx, key, definition); err != nil {
		return nil, err
	}
	config, _, err := unstructured.NestedString(definition.Object, "spec", "config")
	if err != nil {
		return nil, err
	}
	var list map[string]any
	if err := json.Unmarshal([]byte(config), &list); err != nil {
		return nil, fmt.Errorf("%s %s: %w", netattach.Kind, key, err)
	}
	plugins, _ := list["plugins"].([]any)
	for _, element := range plugins {
		plugin, _ := element.(map[string]any)
		if plugin["type"] == "ipvlan" {
			plugin["type"], plugin["mode"] = "macvlan", "bridge"
		}
	}
	text, err := json.Marshal(list)
	if err != nil {
		return nil, err
	}
	return libcni.NetworkConfFromBytes(text)
}

// entrance returns the path of a pod's namespace file.
func (p *pods) entrance(pod *corev1.Pod) string { return filepath.Join(p.dir, pod.Namespace, pod.Name) }

// runtimeConf returns the parameters of plugins for the n-th network of a pod.
func (s *sandbox) runtimeConf(n int) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: string(s.pod.UID), NetNS: s.namespace.Path(), IfName: fmt.Sprintf("net%d", n+1),
		Args: [][2]string{
			{"IgnoreUnknown", "1"}, {"K8S_POD_NAMESPACE", s.pod.Namespace}, {"K8S_POD_NAME", s.pod.Name},
			{"K8S_POD_UID", string(s.pod.UID)},
		},
	}
}

// addNetwork adds the n-th network. Plugins run in the namespace of the node, as on a node.
func (p *pods) addNetwork(ctx context.Context, s *sandbox, n int) (networkStatus, error) {
	conf := s.runtimeConf(n)
	var added types.Result
	var failure error
	err := s.node.namespace.Do(func() { added, failure = s.node.runtime.AddNetworkList(ctx, s.networks[n], conf) })
	if err := errors.Join(err, failure); err != nil {
		return networkStatus{}, err
	}
	result, err := current.NewResultFromResult(added)
	if err != nil {
		return networkStatus{}, err
	}
	got := networkStatus{Interface: conf.IfName}
	for _, ip := range result.IPs {
		address, _ := netip.AddrFromSlice(ip.Address.IP)
		got.IPs = append(got.IPs, address.Unmap())
	}
	for _, link := range result.Interfaces {
		if link.Sandbox != "" {
			got.MAC = link.Mac
		}
	}
	return got, nil
}

// end removes the networks of a pod, the last one first.
func (p *pods) end(ctx context.Context, s *sandbox) error {
	for n := len(s.networks) - 1; n >= 0; n-- {
		var failure error
		err := s.node.namespace.Do(func() { failure = s.node.runtime.DelNetworkList(ctx, s.networks[n], s.runtimeConf(n)) })
		if err := errors.Join(err, failure); err != nil {
			return fmt.Errorf("take network %s of pod %s back: %w", s.networks[n].Name, s.pod.Name, err)
		}
		s.networks = s.networks[:n]
	}
	delete(p.sandboxes, s.pod.UID)
	if err := os.Remove(p.entrance(s.pod)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return s.namespace.Close()
}
