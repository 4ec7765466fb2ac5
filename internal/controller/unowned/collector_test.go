// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package unowned_test

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/unowned"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/inventory"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const instance = "i-0123456789abcdef0"

// ec2 has interfaces, and what was deleted.
type ec2 struct {
	records []inventory.Record
	deleted []string
}

func (e *ec2) All() []inventory.Record { return e.records }

func (e *ec2) Deleted(_ time.Time, id string) {
	e.records = slices.DeleteFunc(e.records, func(r inventory.Record) bool { return r.ID == id })
}

func (e *ec2) DeleteInterface(_ context.Context, id string) error {
	e.deleted = append(e.deleted, id)
	return nil
}

// leak is an interface, attached or not, of an object that does not exist.
func leak(attached bool) inventory.Record {
	is := identity.Interface{Cluster: "c", UID: "uid", Name: identity.ObjectName("net", instance, 0), NodeENI: "net",
		Node: "node", InstanceID: instance}
	r := inventory.Record{Tagged: is, Interface: eni.Interface{ID: "eni-1", Tags: is.Tags(start.Add(-time.Hour), nil)}}
	if attached {
		r.Attachment = &eni.Attachment{ID: "attach-1", InstanceID: instance, Status: eni.AttachmentAttached}
	}
	return r
}

func node(annotations map[string]string) client.Object {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", Annotations: annotations},
		Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + instance}}
}

func object(uid, name, eniID string) client.Object {
	return &v1alpha1.NetworkInterface{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(uid),
			Labels: map[string]string{v1alpha1.InstanceLabel: instance}},
		Spec:   v1alpha1.NetworkInterfaceSpec{InstanceID: instance, NodeENI: v1alpha1.NodeENIReference{Name: "net"}},
		Status: v1alpha1.NetworkInterfaceStatus{ENIID: eniID},
	}
}

// TestWhatNoObjectHas makes three passes: two find the interface, and a later one may delete it.
func TestWhatNoObjectHas(t *testing.T) {
	paused := map[string]string{v1alpha1.PausedAnnotation: "by a user"}
	name := identity.ObjectName("net", instance, 0)
	for what, tc := range map[string]struct {
		attached bool
		objects  []client.Object
		deleted  bool
	}{
		"an unattached one":                       {deleted: true},
		"an unattached one of a node":             {objects: []client.Object{node(nil)}, deleted: true},
		"one of a paused node":                    {objects: []client.Object{node(paused)}},
		"an attached one":                         {attached: true},
		"one that an object records":              {objects: []client.Object{object("other", "other", "eni-1")}},
		"one that an object can take over":        {objects: []client.Object{object("other", name, "")}},
		"one whose name another object of it has": {objects: []client.Object{object("other", name, "eni-2")}, deleted: true},
	} {
		t.Run(what, func(t *testing.T) {
			api, cloud, now := controllertest.API(t, tc.objects...), &ec2{records: []inventory.Record{leak(tc.attached)}}, start
			c := unowned.New(unowned.Options{Client: api, Reader: api, EC2: cloud, Period: 5 * time.Minute,
				Era: func() era.Era { return era.Era{Since: start.Add(-time.Hour)} },
				Now: func() time.Time { return now }, Log: slog.New(slog.DiscardHandler)})
			for range 3 {
				c.Run(t.Context(), cloud)
				now = now.Add(identity.ConfirmInterval)
			}
			if got := len(cloud.deleted) > 0; got != tc.deleted {
				t.Errorf("deleted %v", cloud.deleted)
			}
			if tc.attached && c.Attached() != 1 {
				t.Error("it is not reported")
			}
		})
	}
}
