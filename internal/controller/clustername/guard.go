// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clustername keeps the name that the cluster has in tags of EC2 in a ConfigMap, and stops a controller with
// another name: it would find none of the cluster's interfaces, and create each again.
package clustername

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
)

const (
	// RecordName is the name of the ConfigMap, in the namespace of the leader lease.
	RecordName = "multieni-cluster"
	// DefaultNamespace is the namespace of the ConfigMap of a controller without a namespace: outside of a pod, and
	// without a lease. Every cluster has it.
	DefaultNamespace = metav1.NamespaceSystem
	// key is the key of the name in the ConfigMap.
	key = "clusterName"
)

// EC2 is the part of EC2 that a Guard reads.
type EC2 interface {
	ListTagged(ctx context.Context, tags map[string]string) ([]eni.Interface, error)
	ListByUIDs(ctx context.Context, uids []identity.UID) ([]eni.Interface, error)
}

// Guard compares the configured name with the one in use. It is safe for concurrent use.
type Guard struct {
	// Reader reads from the API server itself, not from a cache.
	Reader client.Reader
	Writer client.Writer
	EC2    EC2
	// Namespace is that of the ConfigMap, and Name the configured name.
	Namespace, Name string
	Log             *slog.Logger

	// mu guards confirmed and failure.
	mu        sync.Mutex
	confirmed bool
	// failure is the result of the last Confirm.
	failure error
}

// ErrUnconfirmed says that the configured name was not compared with the one in use yet.
var ErrUnconfirmed = errors.New("the controller has not yet compared its cluster name with the one in use")

// Permit returns an error until Confirm has succeeded: that of the last Confirm, or [ErrUnconfirmed].
func (g *Guard) Permit() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.confirmed:
		return nil
	case g.failure != nil:
		return g.failure
	default:
		return ErrUnconfirmed
	}
}

// Confirm returns an error if the cluster has another name in use, an [identity.OtherNameError], or if that is not
// known. Else it records the configured name. Only the leader may call it.
func (g *Guard) Confirm(ctx context.Context) error {
	if g.Permit() == nil {
		return nil
	}
	record, err := g.Check(ctx)
	if err == nil {
		err = g.record(ctx, record)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.confirmed, g.failure = err == nil, err
	return err
}

// Check is [Guard.Confirm] without a change. It returns the record, nil if there is none.
func (g *Guard) Check(ctx context.Context) (*corev1.ConfigMap, error) {
	record, err := Read(ctx, g.Reader, g.Namespace)
	if err != nil {
		return nil, err
	}
	evidence := identity.NameEvidence{Recorded: Recorded(record)}
	switch evidence.Recorded {
	case g.Name:
		return record, nil
	case "":
		evidence.ByName, err = g.byName(ctx)
	default:
		evidence.Objects, evidence.Interfaces, err = g.underName(ctx, evidence.Recorded)
	}
	if err != nil {
		return nil, fmt.Errorf("find the name that the cluster has in tags: %w", err)
	}
	return record, identity.CheckName(g.Name, evidence)
}

// Read reads the record of the name; nil if there is none.
func Read(ctx context.Context, reader client.Reader, namespace string) (*corev1.ConfigMap, error) {
	var record corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: RecordName}, &record)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read ConfigMap %s/%s, which has the name of the cluster in tags: %w", namespace, RecordName,
			err)
	}
	return &record, nil
}

// Recorded returns the name in a record; empty without one.
func Recorded(record *corev1.ConfigMap) string {
	if record == nil {
		return ""
	}
	return record.Data[key]
}

// record stores the configured name. A conflict with another process is an error: the caller checks again.
func (g *Guard) record(ctx context.Context, record *corev1.ConfigMap) (err error) {
	switch was := Recorded(record); {
	case record == nil:
		err = g.Writer.Create(ctx, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: RecordName}, Data: map[string]string{key: g.Name}})
	case was != g.Name:
		record = record.DeepCopy()
		record.Data = map[string]string{key: g.Name}
		err = g.Writer.Update(ctx, record)
		if err == nil && was != "" {
			g.Log.LogAttrs(ctx, slog.LevelWarn, "the cluster has another name in tags from now on; nothing was left under the "+
				"former one", slog.String("name", g.Name), slog.String("former", was))
		}
	}
	if err != nil {
		return fmt.Errorf("record the name of the cluster in ConfigMap %s/%s: %w", g.Namespace, RecordName, err)
	}
	return nil
}

// byName counts the interfaces in EC2 of the cluster, by the cluster's name in their tags: those of its objects, and
// the imported ones of its instances. An import can come before the first controller, when nothing has an object yet.
func (g *Guard) byName(ctx context.Context) (map[string]int, error) {
	var objects v1alpha1.NetworkInterfaceList
	var nodes corev1.NodeList
	if err := errors.Join(g.Reader.List(ctx, &objects), g.Reader.List(ctx, &nodes)); err != nil {
		return nil, err
	}
	var uids []identity.UID
	for i := range objects.Items {
		uids = append(uids, identity.UID(objects.Items[i].UID))
	}
	count, err := CountByName(ctx, g.EC2, uids)
	if err != nil {
		return nil, err
	}
	instances := map[string]bool{}
	for i := range nodes.Items {
		if ref, err := eni.ParseProviderID(nodes.Items[i].Spec.ProviderID); err == nil {
			instances[ref.ID] = true
		}
	}
	imported, err := g.imported(ctx, instances)
	for _, i := range imported {
		if !slices.Contains(uids, identity.UID(i.Tags[identity.TagUID])) { // else it is counted already
			count[i.Tags[identity.TagCluster]]++
		}
	}
	return count, err
}

// imported lists the interfaces of instances that kubectl eni import gave the name of a cluster.
func (g *Guard) imported(ctx context.Context, instances map[string]bool) ([]eni.Interface, error) {
	var all []eni.Interface
	if len(instances) == 0 {
		return nil, nil
	}
	for _, from := range []string{importer.FromController, importer.FromFunction} {
		some, err := g.EC2.ListTagged(ctx, map[string]string{identity.TagImportedFrom: from})
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return slices.DeleteFunc(all, func(i eni.Interface) bool {
		return !instances[i.Tags[identity.TagInstanceID]] || i.Tags[identity.TagCluster] == ""
	}), nil
}

// CountByName counts the interfaces of objects by the name of the cluster in their tags.
func CountByName(ctx context.Context, ec2 EC2, uids []identity.UID) (map[string]int, error) {
	count := map[string]int{}
	if len(uids) == 0 {
		return count, nil
	}
	all, err := ec2.ListByUIDs(ctx, uids)
	if err != nil {
		return nil, err
	}
	for _, i := range all {
		if name := i.Tags[identity.TagCluster]; name != "" {
			count[name]++
		}
	}
	return count, nil
}

// underName counts what may exist under a name: the objects for which the controller creates something in EC2, and the
// interfaces with the name in their tags.
func (g *Guard) underName(ctx context.Context, name string) (objects, interfaces int, err error) {
	for _, list := range []client.ObjectList{
		&v1alpha1.NodeENIList{}, &v1alpha1.NetworkInterfaceList{}, &v1alpha1.SubnetReservationList{},
		&v1alpha1.AWSNodeTemplateList{},
	} {
		if err := g.Reader.List(ctx, list); err != nil {
			return 0, 0, err
		}
		objects += served(list)
	}
	if objects > 0 {
		return objects, 0, nil
	}
	all, err := g.EC2.ListTagged(ctx, map[string]string{identity.TagCluster: name})
	return 0, len(all), err
}

// served counts the objects in a list that the controller has taken up: NetworkInterfaces, and objects with its
// finalizer.
func served(list client.ObjectList) int {
	n := 0
	_ = meta.EachListItem(list, func(object runtime.Object) error {
		if _, own := object.(*v1alpha1.NetworkInterface); own ||
			controllerutil.ContainsFinalizer(object.(client.Object), v1alpha1.Finalizer) {
			n++
		}
		return nil
	})
	return n
}
