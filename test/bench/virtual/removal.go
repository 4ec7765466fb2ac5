// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package virtual

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/bench/scenario"
	"github.com/multieni/multieni/test/synctest/bubble"
)

// undeclare deletes the NodeENIs of nodes that continue to run.
func undeclare(s *stage) {
	s.fleet()
	begun, writes := time.Now(), s.controller.Writes()
	for _, name := range []string{"data", "storage"} {
		s.Must(s.User.Delete(s.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	s.enter("interfaces are removed", func() float64 { return 1 - s.readyPart() })
	s.await(6*time.Hour, "an end of the NodeENIs and NetworkInterfaces", func() bool {
		_, objects := s.readyNow()
		return objects == 0 && s.isGone("data") && s.isGone("storage")
	})
	s.measured[scenario.Makespan] = time.Since(begun).Seconds()
	time.Sleep(settle)
	calls := s.EC2.Calls()
	deletes := calls.Actions["DeleteNetworkInterface"]
	s.measured[scenario.CallsPerENI] = float64(calls.Mutating.Count) / float64(s.Nodes*scenario.MembersPerNode)
	s.measured[scenario.Throttled] = part(calls.Mutating.Throttled, calls.Mutating.Count)
	s.measured[scenario.APIWritesENI] = float64(s.controller.Writes()-writes) / float64(s.Nodes*scenario.MembersPerNode)
	s.measured[scenario.FailedDeletes] = part(deletes.Failed, deletes.Count)
	s.compare(scenario.Strays)
}

func (s *stage) isGone(nodeENI string) bool {
	s.Helper()
	err := s.User.Get(s.Context(), client.ObjectKey{Name: nodeENI}, &v1alpha1.NodeENI{})
	if !apierrors.IsNotFound(err) {
		s.Must(err)
	}
	return err != nil
}

// terminate terminates the whole fleet, and removes each Node once EC2 reports that its instance is terminated, as a
// cloud provider does.
func terminate(s *stage) {
	s.fleet()
	fleet := map[string]*corev1.Node{}
	for _, node := range s.nodes() {
		fleet[bubble.InstanceOf(&node)] = &node
		s.Must(s.EC2.Terminate(bubble.InstanceOf(&node)))
	}
	s.enter("everything goes", func() float64 {
		_, objects := s.readyNow()
		return 1 - float64(objects)/float64(s.Nodes*scenario.MembersPerNode)
	})
	for len(fleet) > 0 {
		time.Sleep(2 * time.Second)
		s.bury(fleet)
	}
	terminated := time.Now()
	s.await(6*time.Hour, "an end of the NetworkInterfaces", func() bool {
		_, objects := s.readyNow()
		return objects == 0
	})
	s.mu.Lock()
	s.measured[scenario.ObjectsGone] = max(0, s.lastGone.Sub(terminated).Seconds())
	s.mu.Unlock()
	time.Sleep(settle)
	s.measured[scenario.Mutating] = float64(s.EC2.Calls().Mutating.Count)
	s.compare(scenario.Strays)
}

// nodes returns the existing Nodes.
func (s *stage) nodes() []corev1.Node {
	s.Helper()
	var list corev1.NodeList
	s.Must(s.User.List(s.Context(), &list))
	return list.Items
}

// bury removes the Nodes of terminated instances from the cluster and from the map, whose keys are instances.
func (s *stage) bury(dying map[string]*corev1.Node) {
	s.Helper()
	for _, instance := range s.EC2.State().Instances {
		node := dying[instance.InstanceID]
		if node == nil || instance.State.Name != ec2.Terminated {
			continue
		}
		delete(dying, instance.InstanceID)
		s.Must(client.IgnoreNotFound(s.User.Delete(s.Context(), node)))
	}
}
