// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	k8sschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/test/schema"
)

// kind is a kind of object the API server keeps.
type kind int

const (
	nodes kind = iota
	nodeENIs
	netInterfaces
	subnetReservations
	floatingAddresses
	kinds
)

var kindNames = [kinds]string{"Node", "NodeENI", "NetworkInterface", "SubnetReservation", "FloatingAddress"}

func (k kind) String() string { return kindNames[k] }

func (k kind) resource() k8sschema.GroupResource {
	if k == nodes {
		return k8sschema.GroupResource{Resource: "nodes"}
	}
	return k8sschema.GroupResource{Group: v1alpha1.SchemeGroupVersion.Group, Resource: kindNames[k]}
}

func (k kind) empty() client.Object {
	switch k {
	case nodes:
		return &corev1.Node{}
	case nodeENIs:
		return &v1alpha1.NodeENI{}
	case subnetReservations:
		return &v1alpha1.SubnetReservation{}
	case floatingAddresses:
		return &v1alpha1.FloatingAddress{}
	default:
		return &v1alpha1.NetworkInterface{}
	}
}

func kindOf(object any) kind {
	switch object.(type) {
	case *corev1.Node, *corev1.NodeList:
		return nodes
	case *v1alpha1.NodeENI, *v1alpha1.NodeENIList:
		return nodeENIs
	case *v1alpha1.NetworkInterface, *v1alpha1.NetworkInterfaceList:
		return netInterfaces
	case *v1alpha1.SubnetReservation:
		return subnetReservations
	case *v1alpha1.FloatingAddress, *v1alpha1.FloatingAddressList:
		return floatingAddresses
	default:
		panic(fmt.Sprintf("the simulated API server has no %T", object))
	}
}

// change is one entry of the log: an object before and after, nil where it did not exist. Objects in the log are never
// modified.
type change struct {
	before, after client.Object
	version       int
	// owned are the fields of the owners of the object before.
	owned map[string]ownedFields
}

func (c change) name() string {
	if c.after != nil {
		return c.after.GetName()
	}
	return c.before.GetName()
}

// apiServer keeps the objects of one cluster.
type apiServer struct {
	now     func() time.Time
	objects [kinds]map[string]client.Object
	log     [kinds][]change
	version int
	// uids numbers the UIDs of the cluster, which are unlike those of other clusters by uidSpace.
	uids     int
	uidSpace uint16
	// byENI has the names of the NetworkInterfaces that record an ENI, and owned the fields of statuses that each field
	// owner has, by UID of the object.
	byENI map[string]string
	owned map[types.UID]map[string]ownedFields
	// interfaceKind is what the API server has of the definition of NetworkInterface.
	interfaceKind definition
	// changed is called after every change, refused for every write that does not fit its schema.
	changed func(kind, change)
	refused func(error)
}

func newAPIServer(now func() time.Time) *apiServer {
	s := &apiServer{now: now, changed: func(kind, change) {}, refused: func(error) {}, byENI: map[string]string{},
		owned: map[types.UID]map[string]ownedFields{}}
	for k := range s.objects {
		s.objects[k] = map[string]client.Object{}
	}
	return s
}

func (s *apiServer) get(k kind, name string) client.Object { return s.objects[k][name] }

// all returns the objects of a kind by name.
func (s *apiServer) all(k kind) []client.Object {
	list := make([]client.Object, 0, len(s.objects[k]))
	for _, name := range slices.Sorted(maps.Keys(s.objects[k])) {
		list = append(list, s.objects[k][name])
	}
	return list
}

// put stores the next version of an object; nil with the name of an existing one deletes it.
func (s *apiServer) put(k kind, name string, after client.Object) {
	before := s.objects[k][name]
	s.version++
	s.index(before, after)
	if after == nil {
		delete(s.objects[k], name)
	} else {
		after.SetResourceVersion(strconv.Itoa(s.version))
		s.objects[k][name] = after
	}
	c := change{before: before, after: after, version: s.version}
	if before != nil {
		c.owned = maps.Clone(s.owned[before.GetUID()])
	}
	s.log[k] = append(s.log[k], c)
	s.changed(k, c)
	s.endKind()
}

// create stores a new object and returns it as stored.
func (s *apiServer) create(object client.Object) (client.Object, error) {
	k := kindOf(object)
	if err := s.takesNone(k, object.GetName()); err != nil {
		return nil, err
	}
	if s.objects[k][object.GetName()] != nil {
		return nil, apierrors.NewAlreadyExists(k.resource(), object.GetName())
	}
	stored := object.DeepCopyObject().(client.Object)
	s.uids++
	stored.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-%04x-%012d", s.uidSpace, s.uids)))
	stored.SetCreationTimestamp(metav1.NewTime(s.now()))
	if k != nodes {
		stored.SetGeneration(1)
	}
	if n, is := stored.(*v1alpha1.NetworkInterface); is {
		n.Status = v1alpha1.NetworkInterfaceStatus{}
	}
	if err := s.check(k, nil, stored); err != nil {
		return nil, err
	}
	s.put(k, stored.GetName(), stored)
	return stored, nil
}

// update stores an object as changed by a function, as the API server does: a new spec gets a new generation, and an
// object without finalizers whose deletion was requested is removed.
func (s *apiServer) update(k kind, name, resourceVersion string,
	change func(client.Object) (client.Object, error)) (client.Object, error) {
	before := s.objects[k][name]
	if before == nil {
		return nil, apierrors.NewNotFound(k.resource(), name)
	}
	if resourceVersion != "" && resourceVersion != before.GetResourceVersion() {
		return nil, apierrors.NewConflict(k.resource(), name, fmt.Errorf("the object has been modified"))
	}
	after, err := change(before.DeepCopyObject().(client.Object))
	if err != nil {
		return nil, err
	}
	after.SetResourceVersion(before.GetResourceVersion())
	if equality.Semantic.DeepEqual(before, after) {
		return before, nil
	}
	if k != nodes && !sameSpec(before, after) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	if !after.GetDeletionTimestamp().IsZero() && len(after.GetFinalizers()) == 0 {
		s.put(k, name, nil)
		return after, nil
	}
	if err := s.check(k, before, after); err != nil {
		return nil, err
	}
	s.put(k, name, after)
	return after, nil
}

// schemas are those of the definitions that ship.
var schemas = sync.OnceValues(schema.Load)

// check returns the error with which a real API server refuses the content of an object of our kinds.
func (s *apiServer) check(k kind, before, object client.Object) error {
	if k == nodes {
		return nil
	}
	if k == netInterfaces {
		if err := checkRules(before, object.(*v1alpha1.NetworkInterface)); err != nil {
			return err
		}
	}
	known, err := schemas()
	if err != nil {
		return err
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	content["kind"] = kindNames[k]
	if err := known.Check(content); err != nil {
		s.refused(err)
		return err
	}
	return nil
}

func sameSpec(a, b client.Object) bool {
	switch a := a.(type) {
	case *v1alpha1.NodeENI:
		return equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.NodeENI).Spec)
	case *v1alpha1.NetworkInterface:
		return equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.NetworkInterface).Spec)
	case *v1alpha1.SubnetReservation:
		return equality.Semantic.DeepEqual(a.Spec, b.(*v1alpha1.SubnetReservation).Spec)
	default:
		return true
	}
}

// delete requests the deletion of an object. An object without finalizers is removed at once.
func (s *apiServer) delete(k kind, name string, uid types.UID) error {
	object := s.objects[k][name]
	switch {
	case object == nil:
		return apierrors.NewNotFound(k.resource(), name)
	case uid != "" && uid != object.GetUID():
		return apierrors.NewConflict(k.resource(), name, fmt.Errorf("the UID in the precondition is another"))
	case len(object.GetFinalizers()) == 0:
		s.put(k, name, nil)
		return nil
	case !object.GetDeletionTimestamp().IsZero():
		return nil
	}
	after := object.DeepCopyObject().(client.Object)
	now := metav1.NewTime(s.now())
	after.SetDeletionTimestamp(&now)
	if k != nodes {
		after.SetGeneration(after.GetGeneration() + 1)
	}
	s.put(k, name, after)
	return nil
}

// merge applies a JSON merge patch (RFC 7386) to an object.
func merge(object client.Object, patch []byte) (client.Object, error) {
	var changes, content map[string]any
	if err := json.Unmarshal(patch, &changes); err != nil {
		return nil, err
	}
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(before, &content); err != nil {
		return nil, err
	}
	after, err := json.Marshal(merged(content, changes))
	if err != nil {
		return nil, err
	}
	result := kindOf(object).empty()
	return result, json.Unmarshal(after, result)
}

func merged(content, changes map[string]any) map[string]any {
	if content == nil {
		content = map[string]any{}
	}
	for key, value := range changes {
		inner, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(content, key)
		case isObject:
			have, _ := content[key].(map[string]any)
			content[key] = merged(have, inner)
		default:
			content[key] = value
		}
	}
	return content
}
