// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	networkingv1alpha1ac "github.com/multieni/multieni/api/applyconfiguration/api/v1alpha1"
	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/synctest/bubble"
)

const (
	pool = "fleet"
	// atOnce is how many requests of the rig are in flight at the same time.
	atOnce = 16
	// images is how many images a Node lists, which are most of its size: kubelets report up to 50.
	images = 50
)

// launch creates the fleet and its Nodes, and starts the programs on them.
func (r *Rig) launch(ctx context.Context) error {
	fmt.Fprintf(r.Progress, "      %d Nodes are made …\n", r.Nodes)
	nodes, err := r.join(ctx, r.Nodes)
	if err != nil {
		return err
	}
	r.nodes = nodes
	return r.playAgents(ctx)
}

// join launches instances and creates their Nodes, with the size that a kubelet gives them.
func (r *Rig) join(ctx context.Context, count int) ([]*corev1.Node, error) {
	var nodes []*corev1.Node
	// An instance takes a while to run, which is short with a fast clock.
	before := r.clock.speed
	for range count {
		n := len(r.nodes) + len(nodes)
		launched, err := r.cloud.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: bubble.ZoneAt(n)})
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, bubble.Node(fmt.Sprintf("node-%05d", n), pool, launched[0]))
	}
	r.clock.set(1000)
	err := r.clock.Sleep(ctx, bubble.Booting)
	r.clock.set(before)
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, node := range nodes {
		group.Go(func() error {
			if err := r.kube.Create(ctx, node); err != nil {
				return err
			}
			for n := range images {
				name := fmt.Sprintf("registry.example.com/team/application-%02d@sha256:%s", n,
					strings.Repeat("0123456789abcdef", 4))
				node.Status.Images = append(node.Status.Images, corev1.ContainerImage{Names: []string{name}, SizeBytes: 123456789})
			}
			return r.kube.Status().Update(ctx, node)
		})
	}
	return nodes, group.Wait()
}

// declare creates the NodeENIs of the fleet.
func (r *Rig) declare(ctx context.Context) error {
	for _, use := range []string{"data", "storage"} {
		if err := r.kube.Create(ctx, bubble.NodeENI(use, pool, use)); err != nil {
			return err
		}
	}
	return nil
}

// playAgents reports the links of interfaces as soon as they are attached, as the agents of all nodes do. A controller
// without NetworkInterfaces has none.
func (r *Rig) playAgents(ctx context.Context) error {
	watching, stop := context.WithCancel(context.WithoutCancel(ctx))
	w, err := r.kube.Watch(watching, &v1alpha1.NetworkInterfaceList{})
	if err != nil {
		stop()
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			if n, ok := e.Object.(*v1alpha1.NetworkInterface); ok {
				r.reportLink(watching, n)
			}
		}
	}()
	r.stops = append(r.stops, func() error {
		stop()
		<-ended
		return nil
	})
	return nil
}

func (r *Rig) reportLink(ctx context.Context, n *v1alpha1.NetworkInterface) {
	if n.Status.AttachmentID == "" || n.Status.Node != nil || n.DeletionTimestamp != nil {
		return
	}
	report := networkingv1alpha1ac.NodeReport().WithObservedGeneration(n.Generation).
		WithAgent(networkingv1alpha1ac.AgentProcess().WithBootID("boot").WithProcessID("process")).
		WithLink(networkingv1alpha1ac.LinkReport().WithState(v1alpha1.LinkReady).WithReason("LinkReady").WithMTU(9001))
	apply := networkingv1alpha1ac.NetworkInterface(n.Name).WithResourceVersion(n.ResourceVersion).
		WithStatus(networkingv1alpha1ac.NetworkInterfaceStatus().WithNode(report))
	// An object that changed meanwhile has another event, and one that is gone needs no report.
	_ = r.kube.Status().Apply(ctx, apply, client.FieldOwner(v1alpha1.FieldOwnerAgent), client.ForceOwnership)
}

// holding counts, from the true state of EC2, the nodes with all their interfaces and the interfaces that are not as
// declared: attached to a node in a wrong subnet, missing, or unattached.
func (r *Rig) holding(declared bool) (ready, strays int) {
	state := r.cloud.State()
	unattached := 0
	have := map[string]map[string]int{} // by instance and subnet
	for _, i := range state.NetworkInterfaces {
		switch a := i.Attachment; {
		case a == nil:
			unattached++
		case a.DeviceIndex > 0 || a.NetworkCardIndex > 0:
			if have[a.InstanceID] == nil {
				have[a.InstanceID] = map[string]int{}
			}
			if a.Status == ec2.Attached {
				have[a.InstanceID][i.SubnetID]++
			} else {
				strays++
			}
		}
	}
	for n, node := range r.nodes {
		off := 0
		got := have[bubble.InstanceOf(node)]
		if declared {
			for _, use := range []string{"data", "storage"} {
				subnet := bubble.SubnetIDs(use)[n%2]
				off += max(1-got[subnet], got[subnet]-1)
				delete(got, subnet)
			}
		}
		for _, count := range got {
			off += count
		}
		if off == 0 {
			ready++
		}
		strays += off
	}
	return ready, strays + unattached
}
