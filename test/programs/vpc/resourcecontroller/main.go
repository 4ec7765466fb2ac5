// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command resourcecontroller drives the EC2 client of AWS's VPC resource controller as that controller does for a node:
// it gives an instance an interface, addresses and prefixes, and removes all of them. Usage: resourcecontroller
// INSTANCE GROUP
package main

import (
	"fmt"
	"log"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/ec2"
	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/ec2/api"
	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/ec2/api/cleanup"
	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/config"
	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/go-logr/logr"
)

// Requests per second and burst, by the defaults of the controller's flags.
const (
	requestRate  = 12
	requestBurst = 18
)

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: resourcecontroller INSTANCE GROUP")
	}
	wrapper, err := api.NewEC2Wrapper("", "demo", "us-east-1", requestRate, requestBurst, requestRate, requestBurst,
		logr.Discard())
	if err != nil {
		log.Fatal(err)
	}
	p := &program{wrapper: wrapper, helper: api.NewEC2APIHelper(wrapper, "demo"), group: os.Args[2]}
	p.node = ec2.NewEC2Instance("node", os.Args[1], "linux", logr.Discard())
	for _, step := range []struct {
		name string
		run  func() error
	}{
		{"load the instance", func() error { return p.node.LoadDetails(p.helper) }},
		{"create and attach", p.attach},
		{"addresses", func() error { return p.assign(config.ResourceTypeIPv4Address) }},
		{"prefixes", func() error { return p.assign(config.ResourceTypeIPv4Prefix) }},
		{"detach", p.detach},
		{"collect what is attached to nothing", p.collect},
	} {
		if err := step.run(); err != nil {
			log.Fatalf("%s: %v", step.name, err)
		}
		fmt.Println(step.name)
	}
}

type program struct {
	wrapper api.EC2Wrapper
	helper  api.EC2APIHelper
	node    ec2.EC2Instance
	group   string
	eni     string // the interface that it creates
}

// tags are those of a node's interfaces: the controller finds them when the node has ended.
func (p *program) tags() []ec2types.Tag {
	return []ec2types.Tag{{Key: aws.String(config.NetworkInterfaceNodeIDKey), Value: aws.String(p.node.InstanceID())}}
}

// attach creates an interface in the highest free slot, and checks that the instance has it.
func (p *program) attach() error {
	index, err := p.node.GetHighestUnusedDeviceIndex()
	if err != nil {
		return err
	}
	made, err := p.helper.CreateAndAttachNetworkInterface(aws.String(p.node.InstanceID()), aws.String(p.node.SubnetID()),
		[]string{p.group}, p.tags(), &index, aws.String("secondary"), nil, nil, nil)
	if err != nil {
		return err
	}
	p.eni = *made.NetworkInterfaceId
	attached, err := p.attached()
	if err != nil {
		return err
	}
	if attached == nil || *attached.Attachment.DeviceIndex != index || !*attached.Attachment.DeleteOnTermination {
		return fmt.Errorf("the instance has %+v, not %s at index %d that ends with it", attached, p.eni, index)
	}
	return nil
}

// attached returns the interface as the instance has it; nil if it does not.
func (p *program) attached() (*ec2types.InstanceNetworkInterface, error) {
	all, err := p.helper.GetInstanceNetworkInterface(aws.String(p.node.InstanceID()))
	if err != nil {
		return nil, err
	}
	for _, eni := range all {
		if *eni.NetworkInterfaceId == p.eni {
			return &eni, nil
		}
	}
	return nil, nil
}

// assign gives the interface two addresses or prefixes, and removes them.
func (p *program) assign(kind config.ResourceType) error {
	assigned, err := p.helper.AssignIPv4ResourcesAndWaitTillReady(p.eni, kind, 2)
	if err != nil {
		return err
	}
	if len(assigned) != 2 {
		return fmt.Errorf("assigned: %v, not two", assigned)
	}
	if err := p.helper.UnassignIPv4Resources(p.eni, kind, assigned); err != nil {
		return err
	}
	left, err := p.helper.DescribeNetworkInterfaces([]string{p.eni})
	if err != nil {
		return err
	}
	for _, address := range left[0].PrivateIpAddresses {
		if slices.Contains(assigned, *address.PrivateIpAddress) {
			return fmt.Errorf("%s is still there", *address.PrivateIpAddress)
		}
	}
	if len(left[0].Ipv4Prefixes) > 0 {
		return fmt.Errorf("prefixes are still there: %+v", left[0].Ipv4Prefixes)
	}
	return nil
}

// detach detaches the interface from the instance.
func (p *program) detach() error {
	eni, err := p.attached()
	if err != nil || eni == nil {
		return fmt.Errorf("the instance does not have %s: %w", p.eni, err)
	}
	return p.helper.DetachNetworkInterfaceFromInstance(eni.Attachment.AttachmentId)
}

// collect creates another interface that nothing attaches, and runs the controller's collector for an ended node until
// both are deleted.
func (p *program) collect() error {
	made, err := p.helper.CreateNetworkInterface(aws.String("left over"), aws.String(p.node.SubnetID()),
		[]string{p.group}, p.tags(), nil, nil, nil)
	if err != nil {
		return err
	}
	cleaner := cleanup.NewNodeResourceCleaner(p.node.InstanceID(), p.wrapper, *made.VpcId)
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); time.Sleep(time.Second) {
		if err := cleaner.DeleteLeakedResources(); err != nil {
			return err
		}
		if p.gone(p.eni) && p.gone(*made.NetworkInterfaceId) {
			return nil
		}
	}
	return fmt.Errorf("%s or %s is still there after two minutes", p.eni, *made.NetworkInterfaceId)
}

// gone reports whether EC2 does not have the interface.
func (p *program) gone(eni string) bool {
	_, err := p.helper.DescribeNetworkInterfaces([]string{eni})
	return err != nil && strings.Contains(err.Error(), "InvalidNetworkInterfaceID.NotFound")
}
