// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/identity"
)

// kindName is the name of the CustomResourceDefinition of the objects.
var kindName = "networkinterfaces." + v1alpha1.SchemeGroupVersion.Group

var definitionKind = schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1",
	Kind: "CustomResourceDefinition"}

// kindDeletion is the last read of the objects' CustomResourceDefinition.
type kindDeletion struct {
	// turn has a value while a read is under way, which also protects covers and deleting. A mutex would not end with
	// the context of who waits for the API server.
	turn chan struct{}
	// covers is the number of the last object that was seen being deleted before the read began, at the time at.
	covers   uint64
	at       time.Time
	deleting bool
}

// gatherLettingGo finds the objects that end without a call: those with the annotation, and those that are deleted
// because their kind is, unless their NodeENI is being deleted too. The API server marks the kind before its objects.
func (r *Reconciler) gatherLettingGo(ctx context.Context, g *gathered) error {
	for n := range g.objects {
		o := &g.objects[n]
		uid := identity.UID(o.UID)
		if o.DeletionTimestamp == nil {
			r.seeLive(uid)
			continue
		}
		if object.KeepsENI(o) {
			g.letGo[uid] = true
			continue
		}
		deleting, err := r.isKindDeleting(ctx, uid, g.awaitsTurn[uid])
		if err != nil {
			return err
		}
		if !deleting {
			continue
		}
		nodeENI, err := getNodeENI(ctx, r.Reader, o.Spec.NodeENI.Name)
		if err != nil {
			return err
		}
		g.letGo[uid] = nodeENI == nil || nodeENI.DeletionTimestamp == nil
	}
	return nil
}

func (r *Reconciler) seeLive(uid identity.UID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.Objects.SeeLive(uid)
}

// isKindDeleting reports whether the kind was being deleted when the deletion of an object was seen. One read, that
// began after the deletion was seen, answers for all objects seen by then. For an object that awaits its turn the read
// must be recent: no successor can be created while the kind is being deleted, so that no turn ends.
func (r *Reconciler) isKindDeleting(ctx context.Context, uid identity.UID, awaitsTurn bool) (bool, error) {
	r.mu.Lock()
	number := r.state.Objects.SeeDeleting(uid)
	r.mu.Unlock()
	select {
	case r.kind.turn <- struct{}{}:
		defer func() { <-r.kind.turn }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	now := r.Now()
	if r.kind.covers >= number && (!awaitsTurn || now.Sub(r.kind.at) < turnCheck) {
		return r.kind.deleting, nil
	}
	r.mu.Lock()
	covers := r.state.Objects.Seen()
	r.mu.Unlock()
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(definitionKind)
	err := r.Reader.Get(ctx, client.ObjectKey{Name: kindName}, definition)
	if err != nil && !apierrors.IsNotFound(err) {
		return false, fmt.Errorf("find out whether the kind NetworkInterface is being deleted: %w", err)
	}
	r.kind.covers, r.kind.at, r.kind.deleting = covers, now, err == nil && definition.DeletionTimestamp != nil
	return r.kind.deleting, nil
}
