// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"net/http"
	"net/netip"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/plan"
)

// TestNamesMeanTheVPCOfTheNode has a subnet and a security group of the same names in another VPC of the account.
func TestNamesMeanTheVPCOfTheNode(t *testing.T) {
	const name, otherVPC = "data", "vpc-00000000000000002"
	w := world()
	cidr, tags := netip.MustParsePrefix("10.0.1.0/24"), ec2.Tags{"Name": name}
	w.Subnets[1].Tags = tags
	w.VPCs = append(w.VPCs, ec2.WorldVPC{VPCID: otherVPC, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")})
	w.Subnets = append(w.Subnets, ec2.WorldSubnet{SubnetID: "subnet-00000000000000003", VPCID: otherVPC, AvailabilityZone: zone, CIDRBlock: cidr, Tags: tags})
	w.SecurityGroups = append(w.SecurityGroups, ec2.WorldSecurityGroup{GroupID: "sg-00000000000000002", GroupName: name, VPCID: otherVPC})
	onStageIn(t, w, func(s *stage) {
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) {
				n.Spec.SubnetIDs, n.Spec.SubnetNames = nil, []string{name}
				n.Spec.SecurityGroupIDs, n.Spec.SecurityGroupNames = nil, []string{name}
			})
		})
		s.must(s.play(time.Minute))
		ids := s.attached()
		if len(ids) != 1 {
			t.Fatalf("%d interfaces are attached, want 1", len(ids))
		}
		i := s.networkInterface(ids[0])
		if i.SubnetID != data || len(i.Groups) != 1 || i.Groups[0].GroupID != group {
			t.Errorf("the interface is in %s with the groups %v, want %s and %s", i.SubnetID, i.Groups, data, group)
		}
	})
}

// TestAPauseHoldsRepairs pauses a node before an in-place update of a launch interface.
func TestAPauseHoldsRepairs(t *testing.T) {
	onStage(t, func(s *stage) {
		id := s.launched(eni.Slot{Device: 2})
		s.with(func(o *node.Options) { o.Repairs = &controller.InPlaceUpdates{} })
		s.must(s.play(time.Minute))

		pause := func(annotations map[string]string) {
			s.both(func(c client.Client) { s.node(c, func(n *corev1.Node) { n.Annotations = annotations }) })
		}
		pause(map[string]string{v1alpha1.PausedAnnotation: ""})
		want := "as the template says"
		s.reconciler.Repairs.Set("uid-template", map[string][]plan.InPlaceUpdate{
			instanceID: {{InterfaceID: id, Owner: "default", OwnerUID: "uid-template", Description: &want}},
		})
		s.must(s.play(time.Minute))
		if got := s.networkInterface(id).Description; got == want {
			t.Error("the node is paused, and the interface is repaired")
		}
		pause(nil)
		s.must(s.play(time.Minute))
		if got := s.networkInterface(id).Description; got != want {
			t.Errorf("the node is not paused any more, and the description is %q, want %q", got, want)
		}
	})
}

// TestCreationStopsAtTheUnattachedLimit declares a second interface while one cannot be attached, in a cluster with an
// unattached limit of one.
func TestCreationStopsAtTheUnattachedLimit(t *testing.T) {
	onStage(t, func(s *stage) {
		s.with(func(o *node.Options) { o.MaxUnattached = 1 })
		_, err := s.ec2.AddFault(fault.Fault{Kind: fault.Error, Action: "AttachNetworkInterface", Code: "InvalidParameterValue", Status: http.StatusBadRequest})
		s.must(err)
		s.must(s.play(time.Minute))
		s.both(func(c client.Client) {
			s.nodeENI(c, func(n *v1alpha1.NodeENI) { n.Spec.SubnetIDs = []string{data, hosts} })
		})
		s.must(s.play(time.Minute))
		if n := s.observer.Count(); n != 1 || !s.reconciler.CreationBlocked() {
			t.Errorf("%d interfaces were made, want 1; blocked: %t, want true", n, s.reconciler.CreationBlocked())
		}
		s.ec2.ClearFaults()
		s.must(s.play(time.Hour))
		if n := len(s.attached()); n != 2 || s.reconciler.CreationBlocked() {
			t.Errorf("%d interfaces are attached in the end, want 2; blocked: %t, want false", n, s.reconciler.CreationBlocked())
		}
	})
}

// launched gives the instance a launch interface, and returns its ID.
func (s *stage) launched(at eni.Slot) string {
	s.Helper()
	made, err := s.cloud.CreateInterface(s.Context(), executor.CreateRequest{SubnetID: data, Groups: []string{group}, Token: "launched", Tags: map[string]string{
		identity.TagCluster: cluster, identity.TagNodeTemplate: "default", identity.TagNodeTemplateUID: "uid-template", identity.TagNoManage: "true",
	}})
	s.must(err)
	_, err = s.cloud.AttachInterface(s.Context(), made.ID, instanceID, at)
	s.must(err)
	return made.ID
}

// with replaces the reconciler with one that has other options.
func (s *stage) with(change func(*node.Options)) {
	options := s.reconciler.Options
	change(&options)
	s.reconciler = node.New(options)
	s.start()
}

// networkInterface returns an interface from EC2.
func (s *stage) networkInterface(id string) *ec2.NetworkInterface {
	s.Helper()
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.NetworkInterfaceID == id {
			return i
		}
	}
	s.Fatalf("there is no interface %s", id)
	return nil
}
