// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubeapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/multieni/multieni/test/schema"
)

// history is how many changes of a kind the server keeps. The client of a watch from an older version must list again.
const history = 1000

// Server keeps the objects of one cluster, which begins with the namespaces default and kube-system. It is safe for
// concurrent use.
type Server struct {
	schemas     *schema.Schemas
	mu          sync.Mutex
	collections []*collection
	version     int64
	uids        int64
}

// collection is the objects of one kind.
type collection struct {
	kind
	objects map[key]*object
	changes []change
	// forgotten is the resource version of the last change that the server does not keep any more.
	forgotten int64
	watches   map[*stream]bool
	// applied are the members of an object's status that each field manager applied last.
	applied map[key]map[string][]string
}

type key struct{ namespace, name string }

// object is one version of an object. It is never modified.
type object struct {
	*unstructured.Unstructured
	encoded []byte
}

// schemas are those of the definitions that ship.
var schemas = sync.OnceValues(schema.Load)

// New returns a server. It refuses objects of our kinds whose content a real one refuses.
func New() *Server {
	known, err := schemas()
	if err != nil {
		panic(err) // the definitions are part of the program
	}
	s := &Server{schemas: known}
	for _, k := range kinds() {
		s.collections = append(s.collections, &collection{kind: k, objects: map[key]*object{}, watches: map[*stream]bool{},
			applied: map[key]map[string][]string{}})
	}
	for _, name := range []string{"default", "kube-system"} {
		namespace := &unstructured.Unstructured{Object: map[string]any{}}
		namespace.SetName(name)
		// No object of that name can exist yet.
		_, _ = s.create(s.collections[0], "", namespace)
	}
	return s
}

func (s *Server) get(c *collection, k key) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.find(k)
}

func (c *collection) find(k key) (*object, error) {
	if o := c.objects[k]; o != nil {
		return o, nil
	}
	return nil, apierrors.NewNotFound(c.groupResource(), k.name)
}

// list returns the objects of a namespace, or of all if it is empty, by name, and the version of the list.
func (s *Server) list(c *collection, namespace string) ([]*object, int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.in(namespace), s.version
}

func (c *collection) in(namespace string) []*object {
	var found []*object
	for k, o := range c.objects {
		if namespace == "" || k.namespace == namespace {
			found = append(found, o)
		}
	}
	slices.SortFunc(found, func(a, b *object) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return found
}

func (s *Server) create(c *collection, namespace string, after *unstructured.Unstructured) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids++
	if after.GetName() == "" {
		after.SetName(after.GetGenerateName() + strconv.FormatInt(s.uids, 36))
	}
	k := key{namespace, after.GetName()}
	if c.objects[k] != nil {
		return nil, apierrors.NewAlreadyExists(c.groupResource(), k.name)
	}
	after.SetNamespace(namespace)
	after.SetUID(types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", s.uids)))
	after.SetCreationTimestamp(metav1.Now().Rfc3339Copy())
	if c.isCustom {
		after.SetGeneration(1)
		delete(after.Object, "status")
	}
	return s.put(c, k, after)
}

// update stores an object as a function changes it. It removes an object that is being deleted and has no finalizer. A
// refused change leaves all as it was, what each field manager applied among it.
func (s *Server) update(c *collection, k key, change func(*unstructured.Unstructured) error) (_ *object, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := c.find(k)
	if err != nil {
		return nil, err
	}
	applied := maps.Clone(c.applied[k])
	defer func() {
		if err != nil {
			c.applied[k] = applied
		}
	}()
	after := before.DeepCopy()
	if err := change(after); err != nil {
		return nil, err
	}
	if err := c.agrees(before, after); err != nil {
		return nil, err
	}
	keepIdentity(before, after)
	if equality.Semantic.DeepEqual(before.Object, after.Object) {
		return before, nil
	}
	if c.isCustom && !equality.Semantic.DeepEqual(before.Object["spec"], after.Object["spec"]) {
		after.SetGeneration(before.GetGeneration() + 1)
	}
	if after.GetDeletionTimestamp() != nil && len(after.GetFinalizers()) == 0 {
		return s.remove(c, k, after)
	}
	return s.put(c, k, after)
}

// agrees refuses a change for another version, or for another object of the same name.
func (c *collection) agrees(before *object, after *unstructured.Unstructured) error {
	var why string
	switch {
	case after.GetUID() != "" && after.GetUID() != before.GetUID():
		why = "the UID in the request is not the object's"
	case after.GetResourceVersion() != "" && after.GetResourceVersion() != before.GetResourceVersion():
		why = "the object has been modified"
	default:
		return nil
	}
	return apierrors.NewConflict(c.groupResource(), before.GetName(), fmt.Errorf("%s", why))
}

// keepIdentity reverts changes of immutable fields.
func keepIdentity(before *object, after *unstructured.Unstructured) {
	after.SetAPIVersion(before.GetAPIVersion())
	after.SetKind(before.GetKind())
	after.SetName(before.GetName())
	after.SetNamespace(before.GetNamespace())
	after.SetUID(before.GetUID())
	after.SetResourceVersion(before.GetResourceVersion())
	after.SetCreationTimestamp(before.GetCreationTimestamp())
	after.SetDeletionTimestamp(before.GetDeletionTimestamp())
	if before.GetGeneration() != 0 {
		after.SetGeneration(before.GetGeneration())
	}
}

// delete requests the deletion of an object. An object without finalizers is removed at once.
func (s *Server) delete(c *collection, k key, uid types.UID, version string) (*object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, err := c.find(k)
	switch {
	case err != nil:
		return nil, err
	case uid != "" && uid != before.GetUID(), version != "" && version != before.GetResourceVersion():
		return nil, apierrors.NewConflict(c.groupResource(), k.name,
			fmt.Errorf("the UID or the version in the precondition is not the object's"))
	case len(before.GetFinalizers()) == 0:
		return s.remove(c, k, before.DeepCopy())
	case before.GetDeletionTimestamp() != nil:
		return before, nil
	}
	after := before.DeepCopy()
	now := metav1.NewTime(time.Now()).Rfc3339Copy()
	after.SetDeletionTimestamp(&now)
	return s.put(c, k, after)
}

// put stores the next version of an object, and sends it to watches.
func (s *Server) put(c *collection, k key, after *unstructured.Unstructured) (*object, error) {
	happened, stored := added, map[string]any(nil)
	if before := c.objects[k]; before != nil {
		happened, stored = modified, before.Object
	}
	if err := s.schemas.CheckRules(after.Object, stored); err != nil {
		return nil, err
	}
	o, err := s.next(c, after)
	if err != nil {
		return nil, err
	}
	c.objects[k] = o
	c.tell(change{happened, k.namespace, s.version, o})
	return o, nil
}

func (s *Server) remove(c *collection, k key, last *unstructured.Unstructured) (*object, error) {
	o, err := s.next(c, last)
	if err != nil {
		return nil, err
	}
	delete(c.objects, k)
	delete(c.applied, k)
	c.tell(change{deleted, k.namespace, s.version, o})
	return o, nil
}

// next makes an object the next version.
func (s *Server) next(c *collection, after *unstructured.Unstructured) (*object, error) {
	s.version++
	after.SetResourceVersion(strconv.FormatInt(s.version, 10))
	after.SetAPIVersion(c.GroupVersion.String())
	after.SetKind(c.name)
	if err := s.schemas.Check(after.Object); err != nil {
		return nil, err
	}
	encoded, err := json.Marshal(after.Object)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	return &object{after, encoded}, nil
}
