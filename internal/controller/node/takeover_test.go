// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
)

// prepare gives the instance a pre-join interface for a network.
func (s *stage) prepare() {
	s.Helper()
	id := s.createPreJoin(nodeName)
	attachment, err := s.cloud.AttachInterface(s.Context(), id, instanceID, eni.Slot{Device: 1})
	s.must(err)
	s.must(s.cloud.SetDeleteOnTermination(s.Context(), id, attachment.ID, true))
	time.Sleep(time.Minute)
	s.ec2.ResetCalls()
}

// createPreJoin creates a pre-join interface of the instance, with the given name of its node, and returns its ID.
func (s *stage) createPreJoin(node string) string {
	s.Helper()
	member := identity.Member{
		Cluster: cluster, NodeENI: "multus", Node: node, InstanceID: instanceID,
		Key: identity.Key{Owner: identity.NetworkOwner("multus")}, Generation: identity.GenerationAt(time.Now()),
	}
	made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{
		Token: member.Token(), SubnetID: data, Groups: []string{group}, Tags: member.Tags(time.Now(), nil),
	})
	s.must(err)
	return made.ID
}

// TestATakeoverShowsWithoutACall makes EC2 never answer, or never allow, the call that writes the new owner of a
// pre-join interface. The node has the interface at once and is ready, without any other call.
func TestATakeoverShowsWithoutACall(t *testing.T) {
	for name, f := range map[string]fault.Fault{
		"the tags may not be written":   {Kind: fault.Error, Code: "UnauthorizedOperation", Status: http.StatusForbidden},
		"every request is one too many": {Kind: fault.Throttle},
		"nobody answers":                {Kind: fault.Hang, Delay: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, func(s *stage) {
				s.prepare()
				f.Action = "CreateTags"
				_, err := s.ec2.AddFault(f)
				s.must(err)
				s.must(s.observer.ResyncOnce(s.Context()))
				begun := time.Now()
				s.reconcile(nodeName)
				if took := time.Since(begun); took > 5*time.Second {
					t.Errorf("it took %s", took)
				}
				s.servedAndReady()
				s.must(s.play(time.Hour))
				s.servedAndReady()
				for action, calls := range s.ec2.Calls().Actions {
					if !strings.HasPrefix(action, "Describe") && action != "CreateTags" {
						t.Errorf("%s was called %d times", action, calls.Count)
					}
				}
				s.ec2.ClearFaults()
				s.must(s.play(time.Hour))
				s.servedAndReady()
				if tags := s.tagsOf(s.attached()[0]); tags[identity.TagNodeENIUID] != "uid-data" {
					t.Errorf("its tags are %v", tags)
				}
			})
		})
	}
}

// servedAndReady fails unless the node has its one interface and is ready.
func (s *stage) servedAndReady() {
	s.Helper()
	st := s.status(nodeName)
	if len(st.Interfaces) != 1 || st.Attached != 1 || st.Interfaces[0].Phase != v1alpha1.PhaseAttached || !meta.IsStatusConditionTrue(st.Conditions, v1alpha1.ConditionReady) {
		s.Errorf("its status is %+v", st)
	}
}

func (s *stage) tagsOf(id string) map[string]string {
	s.Helper()
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.NetworkInterfaceID == id {
			return i.Tags
		}
	}
	return nil
}

// TestADeletionWaitsForTheTagsOfATakeover deletes a NodeENI while a call writes its UID into the tags of an interface:
// the deletion must wait for that call.
func TestADeletionWaitsForTheTagsOfATakeover(t *testing.T) {
	onStage(t, func(s *stage) {
		s.prepare()
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Delay, Action: "CreateTags", Delay: 10 * time.Second})
		s.must(err)
		s.must(s.observer.ResyncOnce(s.Context()))
		s.reconcile(nodeName)
		seen := s.inFlight.Mark()
		if s.inFlight.Drained(seen) {
			t.Error("nothing is at work for the NodeENI although its tags are being written")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !s.inFlight.Drained(seen) {
			t.Error("it is never done")
		}
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.NodeSelector = map[string]v1alpha1.LabelValue{"eni": "off"} })
		})
		s.must(s.play(5 * time.Minute))
		if diff := cmp.Diff([]string(nil), s.attached()); diff != "" {
			t.Errorf("attached (-want +got):\n%s", diff)
		}
	})
}

// TestAPreparedNodeIsShownBeforeItsTakeover has another node occupy the only worker that writes tags.
func TestAPreparedNodeIsShownBeforeItsTakeover(t *testing.T) {
	onStage(t, func(s *stage) {
		s.join("newcomer")
		s.must(s.observer.ResyncOnce(s.Context()))
		s.reconcile("newcomer")
		time.Sleep(time.Minute)
		s.must(s.observer.ResyncOnce(s.Context()))
		s.reconcile("newcomer")
		s.prepare()
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Hang, Action: "CreateTags", Delay: time.Hour})
		s.must(err)
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.Tags = map[string]v1alpha1.TagValue{"team": "ran"} })
		})
		s.must(s.observer.ResyncOnce(s.Context()))
		s.reconcile("newcomer")
		synctest.Wait()
		s.reconcile(nodeName)
		s.servedAndReady()
	})
}
