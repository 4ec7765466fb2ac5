// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

const (
	instance   = "i-0123456789abcdef0"
	providerID = "aws:///us-east-1a/" + instance
)

// apiServer is the API server of a test, with one Node and NetworkInterfaces. Its FloatingAddresses are those of bookOf.
type apiServer struct {
	*testing.T
	*httptest.Server
	node *corev1.Node
	// patched may answer a patch, and reports whether it did; nil answers none.
	patched func(http.ResponseWriter, *http.Request, []byte) bool

	// mu guards the rest: the lists by label, the objects, their last version, and the open watches by the name of the
	// object.
	mu      sync.Mutex
	listed  int
	objects map[string]*v1alpha1.NetworkInterface
	version int
	watches map[chan string]string
	// written receives each status.node that an agent writes.
	written chan v1alpha1.NodeReport
}

func serve(t *testing.T, objects ...*v1alpha1.NetworkInterface) *apiServer {
	t.Helper()
	s := &apiServer{T: t, objects: map[string]*v1alpha1.NetworkInterface{}, watches: map[chan string]string{},
		written: make(chan v1alpha1.NodeReport, 1000), node: aNode()}
	s.Server = httptest.NewServer(http.HandlerFunc(s.answer))
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	for _, one := range objects {
		s.put(one)
	}
	return s
}

// aNode is the Node of the agent.
func aNode() *corev1.Node {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", ResourceVersion: "1"}, Spec: corev1.NodeSpec{ProviderID: providerID}}
}

// put stores a version of an object, and sends it to the watches.
func (s *apiServer) put(object *v1alpha1.NetworkInterface) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.store(object.DeepCopy())
}

func (s *apiServer) store(object *v1alpha1.NetworkInterface) {
	s.version++
	object.ResourceVersion = strconv.Itoa(s.version)
	object.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NetworkInterface"}
	s.objects[object.Name] = object
	for watch, name := range s.watches {
		if name == object.Name {
			watch <- s.changed(object)
		}
	}
}

// name writes the names of NetworkInterfaces into the Node, and sends it to the watches.
func (s *apiServer) name(names string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.version++
	s.node.ResourceVersion = strconv.Itoa(s.version)
	s.node.Annotations = map[string]string{v1alpha1.NetworkInterfacesAnnotation: names}
	for watch, name := range s.watches {
		if name == s.node.Name {
			watch <- s.changed(s.node)
		}
	}
}

// changed is the event of a watch about a version of an object.
func (s *apiServer) changed(object any) string {
	content, err := json.Marshal(map[string]any{"type": "MODIFIED", "object": object})
	if err != nil {
		s.Error(err)
	}
	return string(content)
}

// next waits for the next status.node that an agent writes.
func (s *apiServer) next() {
	s.Helper()
	select {
	case <-s.written:
	case <-time.After(20 * time.Second):
		s.Fatal("nothing is reported")
	}
}

// lists returns how often an agent listed NetworkInterfaces by label.
func (s *apiServer) lists() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.listed
}

func (s *apiServer) get(name string) *v1alpha1.NetworkInterface {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[name].DeepCopy()
}

func (s *apiServer) answer(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", runtime.ContentTypeJSON)
	switch {
	case strings.Contains(r.URL.Path, "/floatingaddresses"):
		bookOf(s.T).ServeHTTP(w, r)
	case r.URL.Query().Has("sendInitialEvents"): // the client then requests a list
		w.WriteHeader(http.StatusUnprocessableEntity)
	case r.Method == http.MethodPatch:
		s.patch(w, r)
	case r.URL.Query().Has("watch"):
		s.watch(w, r)
	case strings.Contains(r.URL.Path, "/nodes"):
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(&corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"},
			ListMeta: metav1.ListMeta{ResourceVersion: s.node.ResourceVersion}, Items: []corev1.Node{*s.node}})
	default:
		s.read(w, r)
	}
}

func (s *apiServer) watch(w http.ResponseWriter, r *http.Request) {
	events := make(chan string, 1000)
	name := strings.TrimPrefix(r.URL.Query().Get("fieldSelector"), "metadata.name=")
	after, _ := strconv.Atoi(r.URL.Query().Get("resourceVersion"))
	s.mu.Lock()
	var now client.Object
	if object := s.objects[name]; object != nil {
		now = object
	} else if name == s.node.Name {
		now = s.node
	}
	if now != nil {
		if version, _ := strconv.Atoi(now.GetResourceVersion()); version > after {
			events <- s.changed(now)
		}
	}
	s.watches[events] = name
	s.mu.Unlock()
	w.WriteHeader(http.StatusOK)
	w.(http.Flusher).Flush()
	for {
		select {
		case event := <-events:
			_, _ = fmt.Fprintln(w, event)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			s.mu.Lock()
			delete(s.watches, events)
			s.mu.Unlock()
			return
		}
	}
}

const interfaces = "/networkinterfaces"

func (s *apiServer) read(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.URL.Query().Has("labelSelector") {
		s.listed++
	}
	if name := path.Base(r.URL.Path); !strings.HasSuffix(interfaces, name) {
		if object := s.objects[name]; object != nil {
			_ = json.NewEncoder(w).Encode(object)
		} else {
			refuse(w, apierrors.NewNotFound(resourceOf(), name))
		}
		return
	}
	list := &v1alpha1.NetworkInterfaceList{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.SchemeGroupVersion.String(), Kind: "NetworkInterfaceList"},
		ListMeta: metav1.ListMeta{ResourceVersion: strconv.Itoa(max(1, s.version))},
	}
	for _, object := range s.objects {
		query := r.URL.Query()
		if query.Get("fieldSelector") == "metadata.name="+object.Name ||
			query.Get("labelSelector") == v1alpha1.InstanceLabel+"="+object.Spec.InstanceID {
			list.Items = append(list.Items, *object)
		}
	}
	_ = json.NewEncoder(w).Encode(list)
}

func resourceOf() schema.GroupResource {
	return schema.GroupResource{Group: v1alpha1.SchemeGroupVersion.Group, Resource: "networkinterfaces"}
}

func refuse(w http.ResponseWriter, err *apierrors.StatusError) {
	w.WriteHeader(int(err.ErrStatus.Code))
	_ = json.NewEncoder(w).Encode(err.Status())
}

func (s *apiServer) patch(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent ended
	}
	switch {
	case s.patched != nil && s.patched(w, r, content):
	case strings.Contains(r.URL.Path, "/nodes"):
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = json.NewEncoder(w).Encode(s.node)
	default:
		s.apply(w, path.Base(strings.TrimSuffix(r.URL.Path, "/status")), content)
	}
}

// apply writes status.node over the version that the patch names.
func (s *apiServer) apply(w http.ResponseWriter, name string, content []byte) {
	var applied v1alpha1.NetworkInterface
	if err := json.Unmarshal(content, &applied); err != nil {
		s.Error(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	object := s.objects[name].DeepCopy()
	switch {
	case s.objects[name] == nil:
		refuse(w, apierrors.NewNotFound(resourceOf(), name))
	case applied.ResourceVersion != object.ResourceVersion || applied.UID != object.UID:
		refuse(w, apierrors.NewConflict(resourceOf(), name, nil))
	default:
		object.Status.Node = applied.Status.Node
		s.store(object)
		s.written <- *applied.Status.Node
		_ = json.NewEncoder(w).Encode(object)
	}
}
