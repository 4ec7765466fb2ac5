// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/dev/nodekeeper"
	"github.com/multieni/multieni/internal/dev/nodenet"
)

// startSimulator puts the simulated AWS on a free port of the loopback interface.
func (c *Cluster) startSimulator(ctx context.Context, opts Options) error {
	simulator, err := awssim.New(*opts.AWS)
	if err != nil {
		return err
	}
	server, err := awssim.Listen(context.WithoutCancel(ctx), "127.0.0.1:0", simulator)
	if err != nil {
		return err
	}
	c.onStop(server.Close)
	c.Simulator, c.Endpoint, c.Region = simulator, server.URL(), simulator.State().Region
	return nil
}

// instances returns the simulator's instances for the keeper of their nodes.
func (c *Cluster) instances() []nodekeeper.Instance {
	state := c.Simulator.State()
	instances := make([]nodekeeper.Instance, len(state.Instances))
	for i, instance := range state.Instances {
		instances[i] = fromEC2(instance, state.Region)
		if _, has := nodenet.Nodes()[instances[i].Name]; has && c.NoNetworks == nil {
			instances[i].Taint = v1alpha1.NotReadyTaint
		}
	}
	return instances
}

// Nodes returns the names of the instances' nodes, sorted, and of those that have a network namespace and an agent.
func (c *Cluster) Nodes() (all, withAgent []string) {
	for _, instance := range c.instances() {
		all = append(all, instance.Name)
		if instance.Taint == v1alpha1.NotReadyTaint {
			withAgent = append(withAgent, instance.Name)
		}
	}
	slices.Sort(all)
	slices.Sort(withAgent)
	return all, withAgent
}

func fromEC2(instance *ec2.Instance, region string) nodekeeper.Instance {
	result := nodekeeper.Instance{
		ID:             instance.InstanceID,
		Name:           instance.Tags["Name"],
		State:          instance.State.Name,
		Type:           instance.InstanceType,
		Architecture:   architecture(instance.Architecture),
		Region:         region,
		Zone:           instance.Placement.AvailabilityZone,
		PrivateDNSName: instance.PrivateDNSName,
	}
	if instance.PrivateIPAddress.IsValid() {
		result.PrivateIP = instance.PrivateIPAddress.String()
	}
	return result
}

// architecture returns Kubernetes' name for EC2's x86_64 or arm64.
func architecture(ec2Name string) string {
	if ec2Name == "x86_64" {
		return "amd64"
	}
	return ec2Name
}
