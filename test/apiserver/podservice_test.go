// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/core/connectivity"
)

// published is a namespace with pods on network n3 of one node.
type published struct {
	*testing.T
	client.Client
	namespace, node string
	object          *anInterface
}

// publish makes a namespace of the name, and a node of the name whose interface has a prefix.
func publish(t *testing.T, name, prefix string) *published {
	t.Helper()
	scheme := runtime.NewScheme()
	must(t, errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)))
	admin, err := client.New(server.Config, client.Options{Scheme: scheme})
	must(t, err)
	p := &published{T: t, Client: admin, namespace: name, node: name}
	create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	create(t, admin, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default", Namespace: name}})
	create(t, admin, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}})
	p.object = makeInterface(t, everything(t, server.Config), name, name)
	p.object.now(granted([]string{prefix}, nil).WithSubnetID(addressSubnet))
	return p
}

// service creates a Service over network n3.
func (p *published) service(name, clusterIP string) *corev1.Service {
	p.Helper()
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Annotations: map[string]string{
			v1alpha1.PodNetworkAnnotation: "n3", v1alpha1.PodSelectorAnnotation: "app=upf",
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: clusterIP, IPFamilyPolicy: ptr.To(corev1.IPFamilyPolicySingleStack),
			Ports: []corev1.ServicePort{{Name: "pfcp", Port: 8805, Protocol: corev1.ProtocolUDP}},
		},
	}
	create(p.T, p.Client, s)
	return s
}

// pod creates a pod of a StatefulSet that Multus has attached.
func (p *published) pod(name, address string) *corev1.Pod {
	p.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name, Labels: map[string]string{"app": "upf"}, Annotations: map[string]string{
			connectivity.StatusAnnotation: p.attached(address),
		}},
		Spec: corev1.PodSpec{NodeName: p.node, Hostname: name, Subdomain: "upf", TerminationGracePeriodSeconds: ptr.To[int64](0),
			Containers: []corev1.Container{{Name: "upf", Image: "upf"}}},
	}
	must(p.T, p.Create(p.Context(), pod))
	return pod
}

func (p *published) attached(address string) string {
	return fmt.Sprintf(`[{"name":"aws-cni","ips":["10.0.1.7"],"default":true},{"name":"%s/n3","interface":"net1","ips":["%s"]}]`, p.namespace, address)
}

// runs has the kubelet report that a pod runs.
func (p *published) runs(name string, ready corev1.ConditionStatus) {
	p.Helper()
	var pod corev1.Pod
	must(p.T, p.Get(p.Context(), client.ObjectKey{Namespace: p.namespace, Name: name}, &pod))
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.0.1.7", PodIPs: []corev1.PodIP{{IP: "10.0.1.7"}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}},
	}
	must(p.T, p.Status().Update(p.Context(), &pod))
}

// slices returns the slices of a Service.
func (p *published) slices(service string) []discoveryv1.EndpointSlice {
	p.Helper()
	var list discoveryv1.EndpointSliceList
	must(p.T, p.List(p.Context(), &list, client.InNamespace(p.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}))
	return list.Items
}

// endpoints returns the endpoints of a Service as NAME ADDRESS, with a + if ready.
func (p *published) endpoints(service string) (all []string) {
	p.Helper()
	for _, slice := range p.slices(service) {
		for _, e := range slice.Endpoints {
			text := ptr.Deref(e.Hostname, "") + " " + strings.Join(e.Addresses, ",")
			if *e.Conditions.Ready {
				text += " +"
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}

// become waits until the endpoints of Services are as given.
func (p *published) become(want []string, services ...string) {
	p.Helper()
	for _, service := range services {
		p.eventually(func() string { return cmp.Diff(want, p.endpoints(service)) }, "endpoints of Service "+service)
	}
}

// eventually waits until a difference is empty.
func (p *published) eventually(difference func() string, what string) {
	p.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		diff := difference()
		if diff == "" {
			return
		}
		if time.Now().After(deadline) {
			p.Fatalf("%s after a minute (-want +got):\n%s", what, diff)
		}
	}
}

// run runs the controller in a manager of its own with the permissions of the chart, until the returned function is
// called.
func (p *published) run() (stop func()) {
	p.Helper()
	for _, file := range []string{"config/rbac/namespace.yaml", "config/rbac/controller.yaml", "config/pods/services.yaml"} {
		applyFile(p.T, p.Client, file)
	}
	access := rest.CopyConfig(server.Config)
	access.Impersonate.UserName = "system:serviceaccount:eni-controller-system:eni-controller"
	access.Impersonate.Groups = []string{"system:serviceaccounts", "system:authenticated"}
	mgr, err := ctrl.NewManager(access, ctrl.Options{
		Scheme: p.Scheme(), Cache: cache.Options{ByObject: podservice.Caches()}, Metrics: metricsserver.Options{BindAddress: "0"},
		Controller: ctrlconfig.Controller{SkipNameValidation: ptr.To(true)},
	})
	must(p.T, err)
	must(p.T, object.Index(p.Context(), mgr.GetFieldIndexer()))
	writer, err := discoveryclient.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	must(p.T, err)
	must(p.T, podservice.New(podservice.Options{
		Client: mgr.GetClient(), Slices: writer, Events: mgr.GetEventRecorder("multieni"), Concurrency: 2, Now: time.Now, Log: slog.New(slog.DiscardHandler),
	}).SetupWithManager(p.Context(), mgr))
	ctx, cancel := context.WithCancel(p.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			p.Error(err)
		}
	})
	stop = sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
	p.Cleanup(stop)
	return stop
}

// versions returns the resource versions of the slices of Services.
func (p *published) versions(services ...string) map[string]string {
	p.Helper()
	versions := map[string]string{}
	for _, service := range services {
		for _, slice := range p.slices(service) {
			versions[slice.Name] = slice.ResourceVersion
		}
	}
	return versions
}

// TestServicesOverAPodNetwork follows the endpoints of a headless Service and of one with a cluster IP.
func TestServicesOverAPodNetwork(t *testing.T) {
	p := publish(t, "services", "10.0.64.16/28")
	stop := p.run()
	const headless, virtual = "upf-n3", "upf-n3-vip"
	p.service(headless, corev1.ClusterIPNone)
	p.service(virtual, "")
	p.pod("upf-0", "10.0.64.17")
	p.become([]string{"upf-0 10.0.64.17"}, headless, virtual)
	p.runs("upf-0", corev1.ConditionTrue)
	p.pod("upf-1", "10.0.64.18")
	p.runs("upf-1", corev1.ConditionFalse)
	p.become([]string{"upf-0 10.0.64.17 +", "upf-1 10.0.64.18"}, headless, virtual)
	for service, want := range map[string]bool{headless: true, virtual: false} {
		slice := p.slices(service)[0]
		if _, is := slice.Labels[corev1.IsHeadlessService]; is != want || *slice.Endpoints[0].NodeName != p.node || *slice.Endpoints[0].Zone != "us-east-1a" {
			t.Errorf("the slice of %s is %+v", service, slice)
		}
	}

	p.runs("upf-0", corev1.ConditionFalse)
	p.runs("upf-1", corev1.ConditionTrue)
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, headless, virtual)

	forged := func(status string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, connectivity.StatusAnnotation, status)
		must(t, p.Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "upf-1"}}, client.RawPatch(types.MergePatchType, []byte(patch))))
	}
	forged(p.attached("10.0.0.2"))
	p.become([]string{"upf-0 10.0.64.17"}, headless, virtual)
	forged(p.attached("10.0.64.18"))
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, headless, virtual)

	before := p.slices(headless)[0]
	must(t, p.Delete(t.Context(), &before)) // as a user may
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, headless)
	before = p.slices(headless)[0]
	before.Endpoints = before.Endpoints[:1]
	must(t, p.Update(t.Context(), &before))
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, headless)

	// A controller that starts again writes nothing: it handles the Service that is created then after what exists.
	versions := p.versions(headless, virtual)
	stop()
	stop = p.run()
	other := p.service("upf-n3-other", corev1.ClusterIPNone)
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, other.Name)
	if diff := cmp.Diff(versions, p.versions(headless, virtual)); diff != "" {
		t.Errorf("a second process writes slices (-before +after):\n%s", diff)
	}

	before = p.slices(headless)[0]
	must(t, p.Delete(t.Context(), &before)) // which the first process wrote
	p.become([]string{"upf-0 10.0.64.17", "upf-1 10.0.64.18 +"}, headless)

	must(t, p.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "upf-0"}}))
	p.become([]string{"upf-1 10.0.64.18 +"}, headless, virtual)
	// The object of the network has another interface, whose pods bring up their addresses.
	tear(p.Client, p.node)
	p.object = makeInterface(t, everything(t, server.Config), p.node, p.node)
	must(t, p.object.render(p.object.uid, "/spec/pods", `{"attachment":"Observed","floating":["10.0.64.16/28"]}`))
	p.object.now(observed(eniB).WithSubnetID(addressSubnet))
	p.become(nil, headless, virtual)
	address := newAddress("10.0.64.18")
	must(t, p.Create(t.Context(), address))
	t.Cleanup(func() { removeAddress(t, p.Client, address.Name) })
	must(t, writeAddress(t, p.Client, address.Name, strings.NewReplacer("node-a", p.node, "000a", "000b").Replace(holdA)))
	p.become([]string{"upf-1 10.0.64.18 +"}, headless, virtual)
	must(t, writeAddress(t, p.Client, address.Name, letGo))
	p.become(nil, headless, virtual)

	unannotated := other.DeepCopy()
	unannotated.Annotations = nil
	must(t, p.Update(t.Context(), unannotated))
	p.eventually(func() string { return cmp.Diff(0, len(p.slices(other.Name))) }, "slices of a Service without the annotation")
	stop()
}

// TestAnUnparsableSelectorIsAnEvent reads the Event as kubectl describe does.
func TestAnUnparsableSelectorIsAnEvent(t *testing.T) {
	p := publish(t, "selectors", "10.0.64.16/28")
	service := p.service("upf-n3", corev1.ClusterIPNone)
	p.run()
	service.Annotations[v1alpha1.PodSelectorAnnotation] = "app=(upf"
	must(t, p.Update(t.Context(), service))
	p.eventually(func() string {
		var list corev1.EventList
		must(t, p.List(t.Context(), &list, client.InNamespace(p.namespace)))
		var reasons []string
		for _, e := range list.Items {
			if e.InvolvedObject.UID == service.UID && strings.Contains(e.Message, `"app=(upf"`) {
				reasons = append(reasons, e.Type+" "+e.Reason)
			}
		}
		return cmp.Diff([]string{"Warning InvalidPodSelector"}, reasons)
	}, "Events of the Service")
}

// indexed lists the interfaces of a node, as a cache does that has an index of them.
type indexed struct{ client.Client }

func (c indexed) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	interfaces, is := list.(*v1alpha1.NetworkInterfaceList)
	if !is {
		return c.Client.List(ctx, list, options...)
	}
	wanted := (&client.ListOptions{}).ApplyOptions(options).FieldSelector
	err := c.Client.List(ctx, interfaces)
	interfaces.Items = slices.DeleteFunc(interfaces.Items, func(n v1alpha1.NetworkInterface) bool {
		return !wanted.Matches(fields.Set{"nodeName": n.Spec.NodeName})
	})
	return err
}

// TestThousandsOfEndpoints has more pods than a slice has endpoints.
func TestThousandsOfEndpoints(t *testing.T) {
	const pods = 2500
	p := publish(t, "thousands", "10.64.0.0/16")
	p.service("upf-n3", corev1.ClusterIPNone)
	var creators sync.WaitGroup
	for part := range 8 {
		creators.Go(func() {
			for n := part; n < pods; n += 8 {
				p.pod(fmt.Sprintf("upf-%d", n), fmt.Sprintf("10.64.%d.%d", n/250, n%250+1))
			}
		})
	}
	creators.Wait()
	writer, err := discoveryclient.NewForConfig(server.Config)
	must(t, err)
	reconcileOnce := func() {
		t.Helper()
		r := podservice.New(podservice.Options{
			Client: indexed{p.Client}, Slices: writer, Events: events.NewFakeRecorder(10), Now: time.Now, Log: slog.New(slog.DiscardHandler),
		})
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: p.namespace, Name: "upf-n3"}})
		must(t, err)
	}
	reconcileOnce()
	sizes := map[int]int{}
	for _, slice := range p.slices("upf-n3") {
		sizes[len(slice.Endpoints)]++
	}
	if diff := cmp.Diff(map[int]int{1000: 2, 500: 1}, sizes); diff != "" {
		t.Errorf("slices by number of endpoints (-want +got):\n%s", diff)
	}
	versions := p.versions("upf-n3")
	reconcileOnce()
	must(t, p.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "upf-7"}}))
	if diff := cmp.Diff(versions, p.versions("upf-n3")); diff != "" {
		t.Errorf("a second reconciliation writes slices (-before +after):\n%s", diff)
	}
	reconcileOnce()
	changed := 0
	for name, version := range p.versions("upf-n3") {
		if versions[name] != version {
			changed++
		}
	}
	if changed != 1 {
		t.Errorf("the end of one pod changes %d slices", changed)
	}
}

// TestServicesThatCannotPublishAPodNetwork tries what the policy of the chart refuses.
func TestServicesThatCannotPublishAPodNetwork(t *testing.T) {
	p := publish(t, "refusals", "10.0.64.16/28")
	older := p.service("older", corev1.ClusterIPNone)
	older.Spec.Selector = map[string]string{"app": "upf"}
	must(t, p.Update(t.Context(), older)) // before the policy
	applyFile(t, p.Client, "config/admission/services.yaml")
	annotated := func(annotations map[string]string, change func(*corev1.ServiceSpec)) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "upf-n3", Annotations: annotations},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 8805}}},
		}
		if change != nil {
			change(&s.Spec)
		}
		return s
	}
	on := func(network string) map[string]string {
		return map[string]string{v1alpha1.PodNetworkAnnotation: network, v1alpha1.PodSelectorAnnotation: "app=upf"}
	}
	selects := func(s *corev1.ServiceSpec) { s.Selector = map[string]string{"app": "upf"} }
	p.eventually(func() string {
		if err := p.Create(t.Context(), annotated(on("n3"), selects), client.DryRunAll); err != nil {
			return ""
		}
		return "a Service with a selector is accepted"
	}, "the policy")
	for name, c := range map[string]struct {
		service *corev1.Service
		says    string // "" if it is accepted
	}{
		"both annotations":               {annotated(on("n3"), nil), ""},
		"the second interface":           {annotated(on("n3--1"), nil), ""},
		"a load balancer":                {annotated(on("n3"), func(s *corev1.ServiceSpec) { s.Type = corev1.ServiceTypeLoadBalancer }), ""},
		"no annotation, with a selector": {annotated(nil, selects), ""},
		"with a selector":                {annotated(on("n3"), selects), "must not have spec.selector"},
		"an external name": {annotated(on("n3"), func(s *corev1.ServiceSpec) {
			s.Type, s.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}), "must not have type ExternalName"},
		"no name":             {annotated(on(""), nil), "must be the name of a pod network"},
		"upper case":          {annotated(on("N3"), nil), `is "N3" and must be the name of a pod network`},
		"a definition":        {annotated(on("upf/n3"), nil), "must be the name of a pod network"},
		"a dot":               {annotated(on("n3.upf"), nil), "must be the name of a pod network"},
		"a hyphen at the end": {annotated(on("n3-"), nil), "must be the name of a pod network"},
		"too long":            {annotated(on(strings.Repeat("n", 65)), nil), "must be the name of a pod network"},
		"no pod selector":     {annotated(map[string]string{v1alpha1.PodNetworkAnnotation: "n3"}, nil), "must have the annotation networking.k8s.aws/pod-selector"},
		"an empty pod selector": {annotated(map[string]string{v1alpha1.PodNetworkAnnotation: "n3", v1alpha1.PodSelectorAnnotation: ""}, nil),
			"must have the annotation networking.k8s.aws/pod-selector"},
	} {
		t.Run(name, func(t *testing.T) {
			err := p.Create(t.Context(), c.service, client.DryRunAll)
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("the API server says %v, want %q", err, c.says)
			}
		})
	}
	fine := p.service("fine", corev1.ClusterIPNone)
	fine.Spec.Selector = map[string]string{"app": "upf"}
	if err := p.Update(t.Context(), fine); !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err) {
		t.Errorf("an edit that adds spec.selector ends with %v", err)
	}
	older.Labels = map[string]string{"team": "core"} // a Service that is older than the policy can change in all else
	must(t, p.Update(t.Context(), older))
	older.Spec.Selector = nil
	must(t, p.Update(t.Context(), older))
}
