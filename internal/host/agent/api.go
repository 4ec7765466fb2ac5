// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/base/revision"
	"github.com/multieni/multieni/internal/core/podaddress"
)

// writeTimeout is the time limit of a write: the agent does not reconcile links meanwhile.
const writeTimeout = 10 * time.Second

// API is the part of the Kubernetes API that an agent needs: its Node, the NetworkInterfaces of its instance, and the
// addresses that its pods bring up. It is small because the memory is used on every node.
type API struct {
	node       string
	nodes      object
	interfaces *followers[*v1alpha1.NetworkInterface]
	addresses  *followers[*v1alpha1.FloatingAddress]
	// names finds the NetworkInterfaces of the instance.
	names names
	ended endings
	// before has the addresses that the node held when this process started, by interface ID; nil until they are known.
	before map[string][]podaddress.Presence
	// changed has something to receive after a change that the agent may have to act on.
	changed chan struct{}
	log     *slog.Logger
}

// endpoint is a resource of the API server.
type endpoint struct {
	rest.Interface
	resource string
}

// object is one watched object of the API server.
type object struct {
	endpoint
	store    cache.Store
	informer cache.Controller
}

// Connect returns an API for the agent of a node. It sends no request.
func Connect(access *rest.Config, node string) (*API, error) {
	a := &API{node: node, changed: make(chan struct{}, 1), names: names{wanted: make(chan struct{}, 1)}}
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		return nil, err
	}
	scheme.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.Node{}, &corev1.NodeList{}) // no other types of Kubernetes
	metav1.AddToGroupVersion(scheme, corev1.SchemeGroupVersion)
	access = rest.CopyConfig(access)
	access.QPS = -1 // the agent limits its passes instead
	access.NegotiatedSerializer = serializer.NewCodecFactory(scheme).WithoutConversion()
	connections, err := rest.HTTPClientFor(access) // both clients share it
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	connect := func(path string, version schema.GroupVersion) (rest.Interface, error) {
		c := rest.CopyConfig(access)
		c.APIPath, c.GroupVersion = path, &version
		return rest.RESTClientForConfigAndClient(c, connections)
	}
	ours, err := connect("/apis", v1alpha1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	access.ContentType, access.AcceptContentTypes = runtime.ContentTypeProtobuf,
		runtime.ContentTypeProtobuf+","+runtime.ContentTypeJSON
	nodes, err := connect("/api", corev1.SchemeGroupVersion)
	if err != nil {
		return nil, fmt.Errorf("connect to the Kubernetes API: %w", err)
	}
	a.nodes = a.object(nodes, "nodes", node, &corev1.Node{})
	a.interfaces = newFollowers(a, ours, interfaceResource,
		func() *v1alpha1.NetworkInterface { return &v1alpha1.NetworkInterface{} })
	a.addresses = newFollowers(a, ours, addressResource,
		func() *v1alpha1.FloatingAddress { return &v1alpha1.FloatingAddress{} })
	return a, nil
}

func (a *API) object(client rest.Interface, of, name string, kind runtime.Object) object {
	o := object{endpoint: endpoint{client, of}}
	byName := fields.OneTermEqualSelector("metadata.name", name)
	source := revision.Guard(cache.NewListWatchFromClient(client, of, "", byName), func(err error) {
		a.log.Warn("the agent reads its objects from the API server again", "resource", of, "err", err)
	})
	o.store, o.informer = cache.NewInformerWithOptions(cache.InformerOptions{
		ListerWatcher: source, ObjectType: kind, Transform: trim,
		Handler: cache.ResourceEventHandlerFuncs{
			AddFunc: func(is any) {
				a.ended.see(is)
				a.Wake()
			},
			DeleteFunc: func(was any) {
				a.ended.see(was)
				a.Wake()
			},
			UpdateFunc: func(was, is any) {
				a.ended.see(is)
				if isRelevant(was, is) {
					a.Wake()
				}
			},
		},
	})
	return o
}

// Wake is part of [AddressAPI].
func (a *API) Wake() {
	select {
	case a.changed <- struct{}{}:
	default: // a signal is pending already
	}
}

// watch follows the Node, and lists the NetworkInterfaces of its instance on request, until the context ends. While the
// API server is unreachable it retries with growing backoff, and the last known objects stay.
func (a *API) watch(ctx context.Context, log *slog.Logger) {
	a.log = log
	var both sync.WaitGroup
	both.Go(func() { a.nodes.informer.RunWithContext(ctx) })
	both.Go(func() { a.keepNames(ctx) })
	select {
	case <-a.nodes.informer.HasSyncedChecker().Done():
		a.Wake() // a missing object is a change, too
	case <-ctx.Done():
	}
	both.Wait()
	a.interfaces.running.Wait()
	a.addresses.running.Wait()
}

// Synced reports whether the Node has been read from the API server, or is known not to exist, and the names of the
// NetworkInterfaces are known.
func (a *API) Synced() bool { return a.nodes.informer.HasSynced() && a.names.known() }

// nodeObject returns the Node, or nil if there is none. Callers must not change it.
func (a *API) nodeObject() *corev1.Node {
	known, _, _ := a.nodes.store.GetByKey(a.node)
	node, _ := known.(*corev1.Node)
	return node
}

// trim removes fields that the agent never reads. The status of a Node keeps only the capacity that agents write.
func trim(known any) (any, error) {
	if object, err := meta.Accessor(known); err == nil {
		object.SetManagedFields(nil)
	}
	if node, ok := known.(*corev1.Node); ok {
		node.Status = corev1.NodeStatus{Capacity: ownCapacity(node)}
	}
	return known, nil
}

// isRelevant reports whether the agent may have to act on a change: of a Node, only on one of its identity, its
// capacity and the names of its NetworkInterfaces.
func isRelevant(was, is any) bool {
	before, ok := was.(*corev1.Node)
	now, _ := is.(*corev1.Node)
	return !ok || before.UID != now.UID || !equality.Semantic.DeepEqual(before.Status.Capacity, now.Status.Capacity) ||
		before.Spec.ProviderID != now.Spec.ProviderID ||
		before.Annotations[v1alpha1.NetworkInterfacesAnnotation] != now.Annotations[v1alpha1.NetworkInterfacesAnnotation]
}

// patch sends a change of an object, or of one of its subresources, and fills in the changed object.
func (o endpoint) patch(ctx context.Context, name string, change change, became runtime.Object) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	request := o.Patch(change.kind).Resource(o.resource).Name(name).SubResource(change.of...).Body(change.content)
	for parameter, value := range change.parameters {
		request.Param(parameter, value)
	}
	return request.Do(ctx).Into(became)
}

// change is the content of a patch.
type change struct {
	kind       types.PatchType
	of         []string
	content    []byte
	parameters map[string]string
}
