// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/test/size"
)

// TestByHand lets people detach an interface in the EC2 console, remove tags from another, the cluster's tag from a third,
// and move a fourth to an instance outside the cluster, for which they pause its node. The controller reacts to each
// change, changes no other interface, and does not repeat itself.
func TestByHand(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node", "other"), speed, nil), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.run("--resync-period=1s")
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)
	before := len(s.calls())

	detached, retagged, moved, foreign := s.of("node-0"), s.of("node-1"), s.of("node-2"), s.of("node-3")
	s.console("DetachNetworkInterface", "AttachmentId", detached.Attachment.AttachmentID)
	s.console("DeleteTags", "ResourceId.1", retagged.NetworkInterfaceID, "Tag.1.Key", "Name", "Tag.2.Key", identity.TagNodeENI)
	s.console("DeleteTags", "ResourceId.1", foreign.NetworkInterfaceID, "Tag.1.Key", identity.TagCluster)
	s.pause("node-2", `"somebody looks into it"`)
	s.rests() // a ready interface does not say that it is paused
	s.move(moved, instanceID(1, 0))
	s.eventually(afterwards, "the interface that is away waits for the end of the pause", func() string {
		return s.lacks("node-2", v1alpha1.ReasonPaused)
	})
	s.pause("node-2", "null")

	s.eventually(afterwards, "what was detached is attached, what was done to the others is told", func() string {
		now := s.now(detached)
		if now == nil || now.Attachment == nil || now.Attachment.Status != ec2.Attached || now.Attachment.AttachmentID == detached.Attachment.AttachmentID {
			return detached.NetworkInterfaceID + " is not attached"
		}
		if now := s.now(retagged); now == nil || now.Tags["Name"] == "" || now.Tags[identity.TagNodeENI] == "" {
			return retagged.NetworkInterfaceID + " lacks its tags"
		}
		return cmp.Or(s.lacks("node-3", plan.RemovedExternally), s.lacks("node-2", plan.AttachedElsewhere))
	})
	s.rests()
	// The interface without the tag of the cluster is not ours any more and stays as it is. It was so young that the
	// controller does not create its successor at once.
	for _, i := range []*ec2.NetworkInterface{retagged, foreign} {
		if now := s.now(i); now == nil || now.Attachment == nil || now.Attachment.AttachmentID != i.Attachment.AttachmentID {
			t.Errorf("%s was touched after somebody had changed its tags: %+v", i.NetworkInterfaceID, now)
		}
	}
	if now := s.now(moved); now == nil || now.Attachment == nil || now.Attachment.InstanceID != instanceID(1, 0) {
		t.Errorf("%s was taken from where people use it: %+v", moved.NetworkInterfaceID, now)
	}
	for _, c := range s.calls()[before:] {
		if c.removes() {
			t.Errorf("%s because of what people did by hand", c.action)
		}
	}
	if made := len(s.calls()) - before; made != 3 {
		t.Errorf("%d calls, want an attach and a change for the one that was detached, and the tags of another", made)
	}
}

// pause sets or removes the annotation of a node that stops all changes to its interfaces.
func (s *stage) pause(node, value string) {
	s.Helper()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.PausedAnnotation, value)
	s.must(s.kube.Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, patch)))
}

// move detaches an interface and attaches it to another instance, as a person does who waits for the detach.
func (s *stage) move(i *ec2.NetworkInterface, instance string) {
	s.Helper()
	s.console("DetachNetworkInterface", "AttachmentId", i.Attachment.AttachmentID)
	s.eventually(afterwards, i.NetworkInterfaceID+" is detached", func() string {
		if a := s.now(i).Attachment; a != nil {
			return a.Status
		}
		return ""
	})
	s.console("AttachNetworkInterface", "NetworkInterfaceId", i.NetworkInterfaceID, "InstanceId", instance, "DeviceIndex", "1")
}

// now returns the present state of an interface; nil if EC2 does not have it any more.
func (s *stage) now(i *ec2.NetworkInterface) *ec2.NetworkInterface {
	return s.interfaces([]string{i.NetworkInterfaceID})[i.NetworkInterfaceID]
}

// lacks returns "" if one of the node's interfaces has the reason, else what they say instead.
func (s *stage) lacks(node string, reason plan.Reason) string {
	var said []string
	for _, n := range s.objects(node) {
		for _, c := range n.Status.Conditions {
			if c.Reason == string(reason) {
				return ""
			}
			said = append(said, n.Status.ENIID+" "+c.Type+" "+c.Reason)
		}
	}
	return fmt.Sprintf("%s says %q", node, said)
}

// of returns one of the node's interfaces.
func (s *stage) of(node string) *ec2.NetworkInterface {
	s.Helper()
	all := s.cloud.State().NetworkInterfaces
	n := slices.IndexFunc(all, func(i *ec2.NetworkInterface) bool { return i.Tags[identity.TagNode] == node && i.Attachment != nil })
	if n < 0 {
		s.Fatalf("%s has no interface", node)
	}
	return all[n]
}

// console calls EC2 as a person does. The parameters are alternating names and values.
func (s *stage) console(action string, parameters ...string) {
	s.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for n := 0; n < len(parameters); n += 2 {
		form.Set(parameters[n], parameters[n+1])
	}
	s.byHand(form)
}

// byHand makes a call to EC2 past the controller, and returns the answer.
func (s *stage) byHand(form url.Values) string {
	s.Helper()
	request := httptest.NewRequestWithContext(s.Context(), http.MethodPost, "/", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	answer := httptest.NewRecorder()
	s.cloud.ServeHTTP(answer, request)
	if answer.Code != http.StatusOK {
		s.Fatalf("%s by hand: %d %s", form.Get("Action"), answer.Code, answer.Body)
	}
	return answer.Body.String()
}
