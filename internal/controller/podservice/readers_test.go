// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package podservice_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/podservice"
	"github.com/multieni/multieni/internal/core/connectivity"
)

// targets are what a reader of slices sends packets to, as ADDRESS:PORT.
type targets []string

func (t targets) add(endpoint discoveryv1.Endpoint, ports []discoveryv1.EndpointPort) targets {
	for _, port := range ports {
		t = append(t, netip.AddrPortFrom(netip.MustParseAddr(endpoint.Addresses[0]), uint16(*port.Port)).String())
	}
	return t
}

// kubeProxy has the rules of kube-proxy for one family (Kubernetes, cmd/kube-proxy/app/server.go, pkg/proxy/topology.go
// and pkg/proxy/endpointslicecache.go): it ignores headless Services and those of another proxy, takes the first
// address of ready endpoints, and without one that of endpoints that still serve while they terminate.
func kubeProxy(all []discoveryv1.EndpointSlice, family discoveryv1.AddressType) targets {
	var ready, serving targets
	for _, slice := range all {
		_, headless := slice.Labels[corev1.IsHeadlessService]
		_, other := slice.Labels["service.kubernetes.io/service-proxy-name"]
		if headless || other || slice.AddressType != family {
			continue
		}
		for _, endpoint := range slice.Endpoints {
			switch conditions := endpoint.Conditions; {
			case ptr.Deref(conditions.Ready, true):
				ready = ready.add(endpoint, slice.Ports)
			case ptr.Deref(conditions.Serving, true) && ptr.Deref(conditions.Terminating, false):
				serving = serving.add(endpoint, slice.Ports)
			}
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return serving
}

// loadBalancer has the rules of the AWS Load Balancer Controller for targets by address (v3, pkg/backend,
// endpoint_resolver.go): the first address of each ready endpoint of a pod in the namespace of the Service, for the port
// of that name. A pod that is not ready and has ready containers is a target too while its node is ready.
func loadBalancer(all []discoveryv1.EndpointSlice, port string, pods map[string]bool) targets {
	var found targets
	for _, slice := range all {
		named := slices.DeleteFunc(slices.Clone(slice.Ports), func(p discoveryv1.EndpointPort) bool { return ptr.Deref(p.Name, "") != port })
		for _, endpoint := range slice.Endpoints {
			ref := endpoint.TargetRef
			if ref == nil || ref.Kind != "Pod" || len(endpoint.Addresses) == 0 {
				continue
			}
			containersReady, exists := pods[ref.Name]
			terminating := ptr.Deref(endpoint.Conditions.Terminating, false)
			if exists && (ptr.Deref(endpoint.Conditions.Ready, false) || containersReady && !terminating) {
				found = found.add(endpoint, named)
			}
		}
	}
	return found
}

// externalDNS has the rule of external-dns for headless Services (source/service.go): the first address of each ready
// endpoint of a pod, under the name of the Service and, with a hostname, under that in front of it.
func externalDNS(all []discoveryv1.EndpointSlice) (records []string) {
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			if endpoint.TargetRef == nil || endpoint.TargetRef.Kind != "Pod" || !ptr.Deref(endpoint.Conditions.Ready, true) {
				continue
			}
			records = append(records, "@ "+endpoint.Addresses[0])
			if name := ptr.Deref(endpoint.Hostname, ""); name != "" {
				records = append(records, name+" "+endpoint.Addresses[0])
			}
		}
	}
	return records
}

// TestReadersOfSlices applies the rules of other programs to the slices.
func TestReadersOfSlices(t *testing.T) {
	clusterIP := func(s *corev1.Service) { s.Spec.ClusterIP = "10.100.0.9" }
	unready := func(p *corev1.Pod) { p.Status.Conditions = nil }
	leaving := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.Finalizers = ptr.To(metav1.NewTime(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))), []string{"example.com/stay"}
	}
	one := targets{"10.0.64.17:8805"}
	for name, c := range map[string]struct {
		service             func(*corev1.Service)
		pod                 func(*corev1.Pod)
		second              bool // a second pod is ready
		proxy, proxy6, load targets
		dns                 []string
	}{
		"a cluster IP":            {clusterIP, nil, false, one, nil, one, []string{"@ 10.0.64.17", "upf-0 10.0.64.17"}},
		"headless":                {nil, nil, false, nil, nil, one, []string{"@ 10.0.64.17", "upf-0 10.0.64.17"}},
		"a pod of a Deployment":   {nil, func(p *corev1.Pod) { p.Spec.Hostname, p.Spec.Subdomain = "", "" }, false, nil, nil, one, []string{"@ 10.0.64.17"}},
		"a pod that is not ready": {clusterIP, unready, false, nil, nil, nil, nil},
		"unready, published": {func(s *corev1.Service) { clusterIP(s); s.Spec.PublishNotReadyAddresses = true }, unready, false, one, nil, one,
			[]string{"@ 10.0.64.17", "upf-0 10.0.64.17"}},
		"the last pod terminates":    {clusterIP, leaving, false, one, nil, nil, nil},
		"one of two pods terminates": {clusterIP, leaving, true, targets{"10.0.64.33:8805"}, nil, targets{"10.0.64.33:8805"}, []string{"@ 10.0.64.33", "upf-1 10.0.64.33"}},
		"the proxy of another vendor": {func(s *corev1.Service) {
			clusterIP(s)
			s.Labels = map[string]string{"service.kubernetes.io/service-proxy-name": "x"}
		}, nil, false, nil, nil, one, []string{"@ 10.0.64.17", "upf-0 10.0.64.17"}},
		"both families": {func(s *corev1.Service) {
			clusterIP(s)
			s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv6Protocol)
		}, func(p *corev1.Pod) {
			p.Annotations[connectivity.StatusAnnotation] = `[{"name":"upf/n3","ips":["10.0.64.17","2600:1f18::5"]}]`
		}, false, one, targets{"[2600:1f18::5]:8805"}, targets{"10.0.64.17:8805", "[2600:1f18::5]:8805"}, []string{"@ 10.0.64.17", "@ 2600:1f18::5", "upf-0 10.0.64.17", "upf-0 2600:1f18::5"}},
		"a port by its name": {func(s *corev1.Service) { clusterIP(s); s.Spec.Ports[0].TargetPort = intstr.FromString("n4") }, func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "n4", Protocol: corev1.ProtocolUDP, ContainerPort: 9000}}}}
		}, false, targets{"10.0.64.17:9000"}, nil, targets{"10.0.64.17:9000"}, []string{"@ 10.0.64.17", "upf-0 10.0.64.17"}},
		"a forged address": {clusterIP, func(p *corev1.Pod) {
			p.Annotations[connectivity.StatusAnnotation] = `[{"name":"upf/n3","ips":["10.0.0.2"]}]`
		}, false, nil, nil, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			first := trimmed(t, pod("upf-0", "node-a", "10.0.64.17", c.pod))
			objects := []client.Object{first}
			if c.second {
				objects = append(objects, pod("upf-1", "node-b", "10.0.64.33", nil))
			}
			w := newWorld(t, objects...)
			of := on("node-a", eniA, v1alpha1.PodAttachmentIPVLAN, "10.0.64.16/28", "2600:1f18::/80")
			var stored v1alpha1.NetworkInterface
			w.must(w.api.Get(t.Context(), client.ObjectKeyFromObject(of), &stored))
			stored.Status = of.Status
			w.must(w.api.Status().Update(t.Context(), &stored))
			w.must(w.api.Update(t.Context(), service(c.service)))
			w.reconcile()

			all := w.slices()
			load := loadBalancer(all, "pfcp", map[string]bool{"upf-0": false, "upf-1": true})
			dns := externalDNS(all)
			slices.Sort(load)
			slices.Sort(dns)
			type read struct {
				Proxy, Proxy6, Load targets
				DNS                 []string
			}
			want := read{c.proxy, c.proxy6, c.load, c.dns}
			got := read{kubeProxy(all, discoveryv1.AddressTypeIPv4), kubeProxy(all, discoveryv1.AddressTypeIPv6), load, dns}
			if diff := gocmp.Diff(want, got); diff != "" {
				t.Errorf("what the readers find (-want +got):\n%s", diff)
			}
		})
	}
}

// trimmed returns an object as the cache of the manager keeps it, with the finalizers that the API server in memory needs.
func trimmed[T client.Object](t *testing.T, object T) T {
	t.Helper()
	kept, err := transform(t, object)(object.DeepCopyObject())
	if err != nil {
		t.Fatal(err)
	}
	kept.(client.Object).SetFinalizers(object.GetFinalizers())
	return kept.(T)
}

// transform returns the cache's transform of the kind of an object.
func transform(t *testing.T, object client.Object) func(any) (any, error) {
	t.Helper()
	for kind, by := range podservice.Caches() {
		if fmt.Sprintf("%T", kind) == fmt.Sprintf("%T", object) {
			return by.Transform
		}
	}
	t.Fatalf("the cache has no %T", object)
	return nil
}

// TestTheCacheKeepsLittle compares objects with what the cache keeps of them.
func TestTheCacheKeepsLittle(t *testing.T) {
	large := func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		p.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = "{}"
		p.Spec.Volumes = []corev1.Volume{{Name: "data"}}
		p.Spec.Containers = []corev1.Container{
			{Name: "upf", Image: "upf", Ports: []corev1.ContainerPort{{Name: "n4", ContainerPort: 9000}, {ContainerPort: 1}}},
			{Name: "sidecar", Image: "sidecar", Env: []corev1.EnvVar{{Name: "SECRET", Value: "x"}}},
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "upf"}}
	}
	kept := trimmed(t, pod("upf-0", "node-a", "10.0.64.17", large))
	want := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "upf-0", UID: "uid-upf-0", Labels: map[string]string{"app": "upf"}, Annotations: map[string]string{
			connectivity.StatusAnnotation: `[{"name":"upf/n3","ips":["10.0.64.17"]}]`,
		}},
		Spec: corev1.PodSpec{NodeName: "node-a", Hostname: "upf-0", Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "n4", ContainerPort: 9000}}}}},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
		},
	}
	if diff := gocmp.Diff(want, kept); diff != "" {
		t.Errorf("a pod on the network (-want +got):\n%s", diff)
	}
	other := trimmed(t, pod("web", "node-a", "", func(p *corev1.Pod) {
		large(p)
		p.Annotations[connectivity.StatusAnnotation] = `[{"name":"aws-cni","ips":["10.0.1.7"],"default":true}]`
	}))
	want = &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "web", UID: "uid-web", Labels: map[string]string{"app": "upf"}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if diff := gocmp.Diff(want, other); diff != "" {
		t.Errorf("a pod of the network of the cluster (-want +got):\n%s", diff)
	}
	plain := trimmed(t, service(func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }))
	if diff := gocmp.Diff(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "upf-n3", UID: "service"}}, plain); diff != "" {
		t.Errorf("a Service without a pod network (-want +got):\n%s", diff)
	}
	if tombstone, err := transform(t, &corev1.Pod{})(cache.ByObject{}); err != nil || tombstone == nil {
		t.Errorf("another object becomes %v: %v", tombstone, err)
	}
}
