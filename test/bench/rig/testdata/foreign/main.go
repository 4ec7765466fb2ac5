// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command foreign is the simplest controller of NodeENIs other than multieni that the bench can measure: it reads
// everything all the time and makes the missing changes, one call after the other.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"path"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
)

// place is the place of one desired interface: its subnet and instance. It is also the value of the tag that identifies
// the interface.
type place struct{ instance, subnet string }

func (p place) String() string { return p.instance + "/" + p.subnet }

type controller struct {
	kube  client.Client
	ec2   *ec2.Client
	tag   string
	zones map[string]string // of subnets
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c, err := connect(ctx)
	if err != nil {
		log.Fatal(err)
	}
	for ctx.Err() == nil {
		if err := c.look(ctx); err != nil && ctx.Err() == nil {
			log.Print(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(200 * time.Millisecond):
		}
	}
}

func connect(ctx context.Context) (*controller, error) {
	access, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		return nil, err
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	kube, err := client.New(access, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	cloud, err := config.LoadDefaultConfig(ctx)
	return &controller{kube: kube, ec2: ec2.NewFromConfig(cloud), tag: "cluster/" + os.Getenv("CLUSTER_NAME"),
		zones: map[string]string{}}, err
}

// look compares the declared interfaces with the existing ones.
func (c *controller) look(ctx context.Context) error {
	wanted, err := c.wanted(ctx)
	if err != nil {
		return err
	}
	out, err := c.ec2.DescribeNetworkInterfaces(ctx, &ec2.DescribeNetworkInterfacesInput{
		MaxResults: aws.Int32(1000), Filters: []types.Filter{{Name: aws.String("tag-key"), Values: []string{c.tag}}},
	})
	if err != nil {
		return err
	}
	there, taken := map[place]types.NetworkInterface{}, map[string]int32{}
	for _, i := range out.NetworkInterfaces {
		instance := path.Dir(valueOf(i.TagSet, c.tag))
		at := place{instance, aws.ToString(i.SubnetId)}
		there[at] = i
		if i.Attachment != nil {
			taken[instance] = max(taken[instance], aws.ToInt32(i.Attachment.DeviceIndex))
		}
		if !wanted[at] {
			err = errors.Join(err, c.remove(ctx, i))
		}
	}
	for at := range wanted {
		i, is := there[at]
		if is && i.Attachment != nil {
			continue
		}
		taken[at.instance]++
		err = errors.Join(err, c.give(ctx, at, aws.ToString(i.NetworkInterfaceId), taken[at.instance]))
	}
	return err
}

func (c *controller) wanted(ctx context.Context) (map[place]bool, error) {
	var nodes corev1.NodeList
	var nodeENIs v1alpha1.NodeENIList
	if err := errors.Join(c.kube.List(ctx, &nodes), c.kube.List(ctx, &nodeENIs)); err != nil {
		return nil, err
	}
	wanted := map[place]bool{}
	for _, n := range nodeENIs.Items {
		for _, node := range nodes.Items {
			zone, instance := path.Split(strings.TrimPrefix(node.Spec.ProviderID, "aws:///"))
			for _, subnet := range n.Spec.SubnetIDs {
				at, err := c.zoneOf(ctx, subnet)
				if err != nil {
					return nil, err
				}
				if at == strings.Trim(zone, "/") && matches(n.Spec.NodeSelector, node.Labels) {
					wanted[place{instance, subnet}] = true
				}
			}
		}
	}
	return wanted, nil
}

func (c *controller) zoneOf(ctx context.Context, subnet string) (string, error) {
	if c.zones[subnet] == "" {
		out, err := c.ec2.DescribeSubnets(ctx, &ec2.DescribeSubnetsInput{SubnetIds: []string{subnet}})
		if err != nil {
			return "", err
		}
		c.zones[subnet] = aws.ToString(out.Subnets[0].AvailabilityZone)
	}
	return c.zones[subnet], nil
}

func (c *controller) give(ctx context.Context, at place, id string, device int32) error {
	if id == "" {
		out, err := c.ec2.CreateNetworkInterface(ctx, &ec2.CreateNetworkInterfaceInput{
			SubnetId: &at.subnet, ClientToken: aws.String(at.String()),
			TagSpecifications: []types.TagSpecification{{
				ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: &c.tag, Value: aws.String(at.String())}},
			}},
		})
		if err != nil {
			return fmt.Errorf("create for %s: %w", at, err)
		}
		id = aws.ToString(out.NetworkInterface.NetworkInterfaceId)
	}
	attached, err := c.ec2.AttachNetworkInterface(ctx, &ec2.AttachNetworkInterfaceInput{
		NetworkInterfaceId: &id, InstanceId: &at.instance, DeviceIndex: &device,
	})
	if err != nil {
		return fmt.Errorf("attach for %s: %w", at, err)
	}
	_, err = c.ec2.ModifyNetworkInterfaceAttribute(ctx, &ec2.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: &id,
		Attachment: &types.NetworkInterfaceAttachmentChanges{AttachmentId: attached.AttachmentId,
			DeleteOnTermination: aws.Bool(true)},
	})
	return err
}

func (c *controller) remove(ctx context.Context, i types.NetworkInterface) error {
	if a := i.Attachment; a != nil {
		if a.Status != types.AttachmentStatusAttached {
			return nil
		}
		_, err := c.ec2.DetachNetworkInterface(ctx, &ec2.DetachNetworkInterfaceInput{AttachmentId: a.AttachmentId})
		return err
	}
	_, err := c.ec2.DeleteNetworkInterface(ctx, &ec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: i.NetworkInterfaceId})
	return err
}

func valueOf(tags []types.Tag, key string) string {
	for _, t := range tags {
		if aws.ToString(t.Key) == key {
			return aws.ToString(t.Value)
		}
	}
	return ""
}

func matches(selector map[string]v1alpha1.LabelValue, labels map[string]string) bool {
	for key, value := range selector {
		if labels[key] != string(value) {
			return false
		}
	}
	return true
}
