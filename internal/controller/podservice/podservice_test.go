// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	discoveryclient "k8s.io/client-go/kubernetes/typed/discovery/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/core/connectivity"
)

const (
	subnet = "subnet-00000000000000001"
	eniA   = "eni-0000000000000000a"
)

// world is an API server with a Service over pod network n3, and with the states of two nodes.
type world struct {
	*testing.T
	api        client.WithWatch
	events     *events.FakeRecorder
	reconciler *podservice.Reconciler
	now        time.Time
	// writes is the number of writes of slices.
	writes int
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	w := &world{T: t, events: events.NewFakeRecorder(100), now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	scheme := controllertest.Scheme(t)
	w.must(discoveryv1.AddToScheme(scheme))
	objects = append(objects,
		&v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "n3"}, Spec: v1alpha1.NodeENISpec{Pods: &v1alpha1.NodeENIPods{}}},
		service(nil), node("node-a"), node("node-b"),
		on("node-a", eniA, v1alpha1.PodAttachmentIPVLAN, "10.0.64.16/28"),
		on("node-b", "eni-0000000000000000b", v1alpha1.PodAttachmentIPVLAN, "10.0.64.32/28"),
	)
	w.api = controllertest.Builder(t).WithScheme(scheme).WithObjects(objects...).Build()
	w.restart()
	return w
}

// restart starts a new process.
func (w *world) restart() {
	w.reconciler = podservice.New(podservice.Options{
		Client: w.api, Slices: slicesIn{w: w}, Events: w.events, Now: func() time.Time { return w.now }, Log: slog.New(slog.DiscardHandler),
	})
}

func (w *world) must(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// slicesIn writes slices into the API server of a world, which has no UIDs and generations of its own.
type slicesIn struct {
	discoveryclient.DiscoveryV1Interface
	discoveryclient.EndpointSliceInterface
	w *world
}

func (s slicesIn) EndpointSlices(string) discoveryclient.EndpointSliceInterface { return s }

func (s slicesIn) Create(ctx context.Context, slice *discoveryv1.EndpointSlice, _ metav1.CreateOptions) (*discoveryv1.EndpointSlice, error) {
	s.w.writes++
	slice.UID, slice.Generation = types.UID(fmt.Sprint(s.w.writes)), 1
	return slice, s.w.api.Create(ctx, slice)
}

func (s slicesIn) Update(ctx context.Context, slice *discoveryv1.EndpointSlice, _ metav1.UpdateOptions) (*discoveryv1.EndpointSlice, error) {
	s.w.writes++
	var stored discoveryv1.EndpointSlice // the API server accepts an update without a resource version
	if err := s.w.api.Get(ctx, client.ObjectKeyFromObject(slice), &stored); err != nil {
		return nil, err
	}
	slice.UID, slice.Generation, slice.ResourceVersion = stored.UID, stored.Generation+1, stored.ResourceVersion
	return slice, s.w.api.Update(ctx, slice)
}

func (s slicesIn) Delete(ctx context.Context, name string, _ metav1.DeleteOptions) error {
	s.w.writes++
	return s.w.api.Delete(ctx, &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: name}})
}

func node(name string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: "us-east-1a"}}}
}

// on returns the interface of network n3 on a node, with its attachment and the prefixes that pods have.
func on(node, eniID string, attachment v1alpha1.PodAttachment, prefixes ...string) *v1alpha1.NetworkInterface {
	return &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: "n3-" + node},
		Spec: v1alpha1.NetworkInterfaceSpec{
			InstanceID: "i-0000000000000000a", NodeName: node, NodeENI: v1alpha1.NodeENIReference{Name: "n3"},
			Pods: &v1alpha1.PodSettings{Attachment: attachment},
		},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: eniID, SubnetID: subnet, Pods: &v1alpha1.PodPrefixes{Prefixes: prefixes}},
	}
}

// service returns a headless Service for the pods of network n3 with the label app=upf.
func service(change func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "upf-n3", UID: "service", Annotations: map[string]string{
			v1alpha1.PodNetworkAnnotation: "n3", v1alpha1.PodSelectorAnnotation: "app=upf",
		}},
		Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "pfcp", Port: 8805, TargetPort: intstr.FromInt32(8805), Protocol: corev1.ProtocolUDP}},
		},
	}
	if change != nil {
		change(s)
	}
	return s
}

// pod returns a ready pod with an address on network n3.
func pod(name, node, address string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": "upf"}, Annotations: map[string]string{
			connectivity.StatusAnnotation: fmt.Sprintf(`[{"name":"aws-cni","ips":["10.0.1.7"],"default":true},{"name":"upf/n3","interface":"net1","ips":["%s"]}]`, address),
		}},
		Spec: corev1.PodSpec{NodeName: node, Hostname: name, Subdomain: "upf"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: "10.0.1.7", PodIPs: []corev1.PodIP{{IP: "10.0.1.7"}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if change != nil {
		change(p)
	}
	return p
}

// reconcile reconciles the Service, and returns when to do so again.
func (w *world) reconcile() time.Duration {
	w.Helper()
	result, err := w.reconciler.Reconcile(w.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "upf", Name: "upf-n3"}})
	w.must(err)
	return result.RequeueAfter
}

// slices returns the slices of the Service.
func (w *world) slices() []discoveryv1.EndpointSlice {
	w.Helper()
	var list discoveryv1.EndpointSliceList
	w.must(w.api.List(w.Context(), &list, client.InNamespace("upf")))
	return list.Items
}

// publishes asserts the addresses of the endpoints of the Service.
func (w *world) publishes(want ...string) {
	w.Helper()
	var got []string
	for _, slice := range w.slices() {
		for _, endpoint := range slice.Endpoints {
			got = append(got, endpoint.Addresses...)
		}
	}
	slices.Sort(got)
	if diff := gocmp.Diff(want, got); diff != "" {
		w.Errorf("the endpoints (-want +got):\n%s", diff)
	}
}

// reported asserts the reasons of the Events since the last time.
func (w *world) reported(want ...string) {
	w.Helper()
	var got []string
	for {
		select {
		case event := <-w.events.Events:
			got = append(got, strings.Fields(event)[1])
			continue
		default:
		}
		break
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		w.Errorf("Events (-want +got):\n%s", diff)
	}
}

// TestTheEndpointsOfAPodNetwork looks at all that an endpoint has.
func TestTheEndpointsOfAPodNetwork(t *testing.T) {
	w := newWorld(t, pod("upf-0", "node-a", "10.0.64.17", nil),
		pod("other", "node-a", "10.0.64.18", func(p *corev1.Pod) { p.Labels = nil }),
		pod("done", "node-a", "10.0.64.19", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }),
		pod("elsewhere", "node-a", "10.0.64.20", func(p *corev1.Pod) { p.Namespace = "smf" }))
	w.reconcile()
	all := w.slices()
	if len(all) != 1 {
		t.Fatalf("there are %d slices", len(all))
	}
	want := discoveryv1.EndpointSlice{
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("pfcp"), Port: ptr.To[int32](8805), Protocol: ptr.To(corev1.ProtocolUDP)}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.64.17"}, Hostname: ptr.To("upf-0"), NodeName: ptr.To("node-a"), Zone: ptr.To("us-east-1a"),
			Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true), Serving: ptr.To(true), Terminating: ptr.To(false)},
			TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "upf", Name: "upf-0", UID: "uid-upf-0"},
		}},
	}
	want.ObjectMeta = all[0].ObjectMeta
	want.Labels = map[string]string{
		discoveryv1.LabelServiceName: "upf-n3", discoveryv1.LabelManagedBy: v1alpha1.EndpointSliceManager, corev1.IsHeadlessService: "",
	}
	if diff := gocmp.Diff(want, all[0]); diff != "" {
		t.Errorf("the slice (-want +got):\n%s", diff)
	}
	if owner := metav1.GetControllerOf(&all[0]); owner == nil || owner.UID != "service" {
		t.Errorf("its owner is %+v", owner)
	}
	written := w.writes
	w.reconcile()
	w.restart()
	w.reconcile()
	if w.writes != written {
		t.Errorf("a further reconciliation writes %d slices", w.writes-written)
	}
	w.reported()
}

// TestAddressesThatCount has a pod with an address that another source than a prefix gave.
func TestAddressesThatCount(t *testing.T) {
	held := func(node, eni string) *v1alpha1.FloatingAddress {
		return &v1alpha1.FloatingAddress{
			ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnet, "10.0.64.200")},
			Status:     v1alpha1.FloatingAddressStatus{Holder: &v1alpha1.AddressHolder{NodeName: node, ENIID: eni}},
		}
	}
	observed := on("node-c", eniA, v1alpha1.PodAttachmentObserved)
	observed.Status.Addresses.PrivateIP = "10.0.64.200"
	device := observed.DeepCopy()
	device.Spec.Pods.Attachment = v1alpha1.PodAttachmentHostDevice
	second := on("node-c", eniA, v1alpha1.PodAttachmentIPVLAN, "10.0.64.192/28")
	former := second.DeepCopy()
	former.Spec.InstanceID = "i-00000000000000fff"
	none := second.DeepCopy()
	none.Spec.Pods = nil
	for name, c := range map[string]struct {
		network string
		has     *v1alpha1.NetworkInterface
		ordinal int32
		address *v1alpha1.FloatingAddress
		counts  bool
	}{
		"a FloatingAddress that a pod of the node holds": {"n3", observed, 0, held("node-c", eniA), true},
		"one that a pod of another node holds":           {"n3", observed, 0, held("node-a", eniA), false},
		"one that is held on another interface":          {"n3", observed, 0, held("node-c", "eni-0000000000000000b"), false},
		"no FloatingAddress":                             {"n3", observed, 0, nil, false},
		"the interface that a pod has":                   {"n3", device, 0, nil, true},
		"the prefix of the second interface":             {"n3--1", second, 1, nil, true},
		"the prefix of another interface":                {"n3", second, 1, nil, false},
		"the prefix of the instance before":              {"n3", former, 0, nil, false},
		"an interface without pods":                      {"n3", none, 0, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			has, of := c.has.DeepCopy(), node("node-c")
			has.Spec.Ordinal, of.Spec.ProviderID = c.ordinal, "aws:///us-east-1a/i-0000000000000000a"
			objects := []client.Object{has, of, pod("upf-0", "node-c", "10.0.64.200", nil)}
			if c.address != nil {
				objects = append(objects, c.address)
			}
			w := newWorld(t, objects...)
			w.must(w.api.Update(t.Context(), service(func(s *corev1.Service) { s.Annotations[v1alpha1.PodNetworkAnnotation] = c.network })))
			w.reconcile()
			if c.counts {
				w.publishes("10.0.64.200")
			} else {
				w.publishes()
			}
		})
	}
}

// TestNothingIsLostToAMistake has edits and losses that must not end the endpoints of pods that serve.
func TestNothingIsLostToAMistake(t *testing.T) {
	selected := func(selector string) func(*world) {
		return func(w *world) {
			w.must(w.api.Update(w.Context(), service(func(s *corev1.Service) { s.Annotations[v1alpha1.PodSelectorAnnotation] = selector })))
		}
	}
	for name, mistake := range map[string]func(*world){
		"a selector that does not parse": selected("app=(upf"),
		"an empty selector":              selected(""),
		"the selector is gone": func(w *world) {
			w.must(w.api.Update(w.Context(), service(func(s *corev1.Service) { delete(s.Annotations, v1alpha1.PodSelectorAnnotation) })))
		},
		"the interface of the node is gone": func(w *world) {
			w.must(w.api.Delete(w.Context(), &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: "n3-node-a"}}))
		},
		"the interface has no status yet": func(w *world) {
			w.must(w.api.Status().Patch(w.Context(), on("node-a", "", ""), client.RawPatch(types.MergePatchType, []byte(`{"status":{"eniID":null,"pods":null}}`))))
		},
		"the NodeENI is gone": func(w *world) {
			w.must(w.api.Delete(w.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "n3"}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, pod("upf-0", "node-a", "10.0.64.17", nil))
			w.reconcile()
			w.publishes("10.0.64.17")
			mistake(w)
			w.must(w.api.Create(t.Context(), pod("other", "node-b", "10.0.64.33", func(p *corev1.Pod) { p.Labels = nil })))
			w.reconcile()
			w.publishes("10.0.64.17")
			w.must(w.api.Delete(t.Context(), pod("upf-0", "", "", nil)))
			w.reconcile()
			w.publishes()
		})
	}
}

// TestASliceOfAServiceThatPublishesNothing ends what the Service declared.
func TestASliceOfAServiceThatPublishesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(*corev1.Service)
		events []string
	}{
		"the annotation is gone": {func(s *corev1.Service) { s.Annotations = nil }, nil},
		"a selector of its own":  {func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "upf"} }, []string{"ServiceNotSupported"}},
		"an external name":       {func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName }, []string{"ServiceNotSupported"}},
	} {
		t.Run(name, func(t *testing.T) {
			foreign := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
				Namespace: "upf", Name: "by-hand", UID: "by-hand",
				Labels: map[string]string{discoveryv1.LabelServiceName: "upf-n3", discoveryv1.LabelManagedBy: "me"},
			}, AddressType: discoveryv1.AddressTypeIPv4}
			w := newWorld(t, pod("upf-0", "node-a", "10.0.64.17", nil), foreign)
			w.reconcile()
			w.publishes("10.0.64.17")
			w.must(w.api.Update(t.Context(), service(c.edit)))
			w.reconcile()
			if left := w.slices(); len(left) != 1 || left[0].Name != "by-hand" {
				t.Errorf("these slices are left: %+v", left)
			}
			w.reported(c.events...)
			w.must(w.api.Update(t.Context(), service(nil)))
			w.reconcile()
			w.publishes("10.0.64.17")
		})
	}
}

// TestEventsOfAService has problems that last, that pass, and that come back.
func TestEventsOfAService(t *testing.T) {
	w := newWorld(t, pod("upf-0", "node-a", "10.0.9.9", nil))
	wait := func(passed time.Duration) {
		t.Helper()
		w.now = w.now.Add(passed)
		w.reconcile()
	}
	if after := w.reconcile(); after != 15*time.Second {
		t.Errorf("the problem is looked at again after %s, want 15s", after)
	}
	w.publishes()
	w.reported() // the state of the node may follow
	wait(15 * time.Second)
	w.reported("AddressNotOfTheNetwork")
	wait(10 * time.Minute)
	w.reported()
	wait(20 * time.Minute)
	w.reported("AddressNotOfTheNetwork")

	w.must(w.api.Delete(t.Context(), pod("upf-0", "", "", nil)))
	w.must(w.api.Create(t.Context(), pod("upf-1", "node-a", "10.0.64.17", nil)))
	if after := w.reconcile(); after != 0 {
		t.Errorf("without a problem the Service is looked at again after %s", after)
	}
	w.must(w.api.Delete(t.Context(), pod("upf-1", "", "", nil)))
	w.reconcile()
	wait(15 * time.Second)
	w.reported("NoPodOnNetwork")

	w.must(w.api.Create(t.Context(), pod("upf-2", "node-a", "10.0.64.17", nil)))
	w.must(w.api.Update(t.Context(), service(func(s *corev1.Service) { s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol} })))
	w.reconcile()
	wait(15 * time.Second)
	w.reported("NoPodOnNetwork") // the network has no addresses of the only family

	w.must(w.api.Update(t.Context(), service(func(s *corev1.Service) { s.Annotations[v1alpha1.PodSelectorAnnotation] = "app in upf" })))
	w.reconcile()
	w.reported("InvalidPodSelector")

	w.must(w.api.Delete(t.Context(), pod("upf-2", "", "", nil)))
	w.must(w.api.Update(t.Context(), service(func(s *corev1.Service) { s.Annotations[v1alpha1.PodNetworkAnnotation] = "n33" })))
	w.reconcile()
	wait(15 * time.Second)
	w.reported("PodNetworkNotFound")
}
