// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	astypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/rogpeppe/go-internal/testscript"
	corev1 "k8s.io/api/core/v1"
	k8stypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
)

// sdk returns AWS's own client of EC2, for the calls that an Auto Scaling group makes.
func (s *stage) sdk() *ec2sdk.Client {
	return ec2sdk.New(ec2sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
}

// launchFrom launches an instance from the launch template in the status of an AWSNodeTemplate, in the given zone. As a
// fleet does, it chooses the nodes' subnet of the zone unless the launch template names one.
func launchFrom(ts *testscript.TestScript, neg bool, args []string) {
	name, instance, instanceType, zone := args[0], args[1], args[2], args[3]
	s, ctx := on(ts), context.Background()
	var object v1alpha1.AWSNodeTemplate
	ts.Check(s.api.Get(ctx, client.ObjectKey{Name: name}, &object))
	at := slices.IndexFunc(object.Status.LaunchTemplates, func(p v1alpha1.PublishedTemplate) bool { return p.Zone == "" || p.Zone == zone })
	if at < 0 {
		ts.Fatalf("AWSNodeTemplate %s offers no launch template for %s", name, zone)
	}
	p := object.Status.LaunchTemplates[at]
	in := &ec2sdk.CreateFleetInput{
		Type: types.FleetTypeInstant, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: types.DefaultTargetCapacityTypeOnDemand},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(p.ID), Version: aws.String(strconv.FormatInt(p.Version, 10))},
			Overrides:                   []types.FleetLaunchTemplateOverridesRequest{{InstanceType: types.InstanceType(instanceType), SubnetId: s.subnetIn(p, zone)}},
		}},
		TagSpecifications: []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String(instance)}}}},
	}
	out, err := s.sdk().CreateFleet(ctx, in)
	if err == nil && len(out.Errors) > 0 {
		err = fmt.Errorf("%s: %s", aws.ToString(out.Errors[0].ErrorCode), aws.ToString(out.Errors[0].ErrorMessage))
	}
	if (err != nil) != neg {
		ts.Fatalf("launch from %s: %v, and failure was expected: %t", name, err, neg)
	}
}

// subnetIn is the subnet for nodes of a zone; nil if the launch template names one.
func (s *stage) subnetIn(p v1alpha1.PublishedTemplate, zone string) *string {
	for _, subnet := range s.Simulator.State().Subnets {
		if p.Zone == "" && subnet.AvailabilityZone == zone && subnet.Tags["network"] == "nodes" {
			return aws.String(subnet.SubnetID)
		}
	}
	return nil
}

// born prints the attached interfaces of an instance, one per line: slot, type, subnet, groups, description and more.
func born(ts *testscript.TestScript, _ bool, args []string) {
	state := on(ts).Simulator.State()
	at := slices.IndexFunc(state.Instances, func(i *ec2.Instance) bool {
		return i.Tags[identity.TagName] == args[0] && i.State.Name != ec2.Terminated
	})
	if at < 0 {
		ts.Fatalf("there is no instance %s", args[0])
	}
	var lines []string
	for _, i := range state.NetworkInterfaces {
		if i.Attachment == nil || i.Attachment.InstanceID != state.Instances[at].InstanceID {
			continue
		}
		var groups []string
		for _, g := range i.Groups {
			groups = append(groups, g.GroupID)
		}
		line := fmt.Sprintf("card %d device %d: %s in %s, %s, %q", i.Attachment.NetworkCardIndex, i.Attachment.DeviceIndex, i.InterfaceType, i.SubnetID, strings.Join(groups, " "), i.Description)
		if n := len(i.IPv4Prefixes); n > 0 {
			line += fmt.Sprintf(", %d prefixes", n)
		}
		if !i.Attachment.DeleteOnTermination {
			line += ", stays"
		}
		if i.Tags[identity.TagNoManage] == "true" {
			line += ", unmanaged"
		}
		lines = append(lines, line+"\n")
	}
	slices.Sort(lines)
	fmt.Fprint(ts.Stdout(), strings.Join(lines, ""))
}

// showUserData prints the user data of the first launch template of a status.
func showUserData(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx := on(ts), context.Background()
	var object v1alpha1.AWSNodeTemplate
	ts.Check(s.api.Get(ctx, client.ObjectKey{Name: args[0]}, &object))
	if len(object.Status.LaunchTemplates) == 0 {
		ts.Fatalf("AWSNodeTemplate %s offers no launch template", args[0])
	}
	p := object.Status.LaunchTemplates[0]
	versions := s.Simulator.State().LaunchTemplateVersions
	at := slices.IndexFunc(versions, func(v *ec2.LaunchTemplateVersion) bool {
		return v.LaunchTemplateID == p.ID && int64(v.VersionNumber) == p.Version
	})
	if at < 0 {
		ts.Fatalf("EC2 has no version %d of launch template %s", p.Version, p.ID)
	}
	text, err := base64.StdEncoding.DecodeString(versions[at].LaunchTemplateData.UserData)
	ts.Check(err)
	fmt.Fprintf(ts.Stdout(), "%s\n", text)
}

// drifts changes an AWSNodeTemplate as each line of a table says, waits until the node reports drift in the field and
// the class of the line, and reverts the change. A line is: FIELD CLASS JSON-PATCH.
func drifts(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx := on(ts), context.Background()
	for line := range strings.Lines(ts.ReadFile(args[2])) {
		field, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		class, patch, _ := strings.Cut(strings.TrimSpace(rest), " ")
		if field == "" {
			continue
		}
		var object v1alpha1.AWSNodeTemplate
		ts.Check(s.api.Get(ctx, client.ObjectKey{Name: args[0]}, &object))
		before := object.Spec
		ts.Check(s.api.Patch(ctx, object.DeepCopy(), client.RawPatch(k8stypes.JSONPatchType, []byte(patch))))
		s.awaitDrift(ts, args[1], class, field)
		ts.Check(s.api.Get(ctx, client.ObjectKey{Name: args[0]}, &object))
		object.Spec = before
		ts.Check(s.api.Update(ctx, &object))
		s.awaitDrift(ts, args[1], v1alpha1.ReasonAsDeclared, "")
	}
}

// awaitDrift waits until a node's condition has the reason and names the field, and no other.
func (s *stage) awaitDrift(ts *testscript.TestScript, name, reason, field string) {
	eventually(ts, func() string {
		var n corev1.Node
		ts.Check(s.api.Get(context.Background(), client.ObjectKey{Name: name}, &n))
		for _, c := range n.Status.Conditions {
			if c.Type == v1alpha1.NodeConditionDrifted && c.Reason == reason && strings.Contains(c.Message, field) && strings.Count(c.Message, "; ") <= 1 {
				return ""
			}
		}
		return fmt.Sprintf("node %s has %v, and should have reason %s for %s", name, n.Status.Conditions, reason, field)
	})
}

// foreignTemplate creates a launch template of another program, or a new version of it, which becomes the latest.
func foreignTemplate(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx := on(ts), context.Background()
	var data types.RequestLaunchTemplateData
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[1])), &data))
	data.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte("#!/bin/sh\n/etc/eks/join\n")))
	for _, t := range s.Simulator.State().LaunchTemplates {
		if t.LaunchTemplateName == args[0] {
			_, err := s.sdk().CreateLaunchTemplateVersion(ctx, &ec2sdk.CreateLaunchTemplateVersionInput{LaunchTemplateName: aws.String(args[0]), LaunchTemplateData: &data})
			ts.Check(err)
			return
		}
	}
	_, err := s.sdk().CreateLaunchTemplate(ctx, &ec2sdk.CreateLaunchTemplateInput{LaunchTemplateName: aws.String(args[0]), LaunchTemplateData: &data})
	ts.Check(err)
}

// group creates an Auto Scaling group that uses the launch template in the status of an AWSNodeTemplate, with no
// instances, or deletes one.
func group(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx := on(ts), context.Background()
	api := autoscaling.New(autoscaling.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	})
	if args[0] == "delete" {
		_, err := api.DeleteAutoScalingGroup(ctx, &autoscaling.DeleteAutoScalingGroupInput{AutoScalingGroupName: aws.String(args[1])})
		ts.Check(err)
		return
	}
	var object v1alpha1.AWSNodeTemplate
	ts.Check(s.api.Get(ctx, client.ObjectKey{Name: args[2]}, &object))
	p := object.Status.LaunchTemplates[0]
	_, err := api.CreateAutoScalingGroup(ctx, &autoscaling.CreateAutoScalingGroupInput{
		AutoScalingGroupName: aws.String(args[1]), MinSize: aws.Int32(0), MaxSize: aws.Int32(3), DesiredCapacity: aws.Int32(0), AvailabilityZones: []string{"us-east-1a"},
		LaunchTemplate: &astypes.LaunchTemplateSpecification{LaunchTemplateId: aws.String(p.ID), Version: aws.String(strconv.FormatInt(p.Version, 10))},
	})
	ts.Check(err)
}

// fleet creates an EC2 Fleet of type maintain without instances from the launch template in the status of an
// AWSNodeTemplate, and stores its ID in $FLEET; or it deletes all fleets.
func fleet(ts *testscript.TestScript, _ bool, args []string) {
	s, ctx := on(ts), context.Background()
	if args[0] == "delete" {
		for _, f := range s.Simulator.State().Fleets {
			_, err := s.sdk().DeleteFleets(ctx, &ec2sdk.DeleteFleetsInput{FleetIds: []string{f.FleetID}, TerminateInstances: aws.Bool(true)})
			ts.Check(err)
		}
		return
	}
	var object v1alpha1.AWSNodeTemplate
	ts.Check(s.api.Get(ctx, client.ObjectKey{Name: args[1]}, &object))
	p := object.Status.LaunchTemplates[0]
	out, err := s.sdk().CreateFleet(ctx, &ec2sdk.CreateFleetInput{
		Type: types.FleetTypeMaintain, TargetCapacitySpecification: &types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0)},
		LaunchTemplateConfigs: []types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: aws.String(p.ID), Version: aws.String(strconv.FormatInt(p.Version, 10))},
		}},
	})
	ts.Check(err)
	ts.Setenv("FLEET", *out.FleetId)
}

// putParameter writes a parameter, as AWS does when it patches an image.
func putParameter(ts *testscript.TestScript, _ bool, args []string) {
	body, err := json.Marshal(map[string]any{"Name": args[0], "Value": args[1], "Type": "String", "Overwrite": true})
	ts.Check(err)
	request, err := http.NewRequestWithContext(context.Background(), http.MethodPost, on(ts).Endpoint, bytes.NewReader(body))
	ts.Check(err)
	request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	request.Header.Set("X-Amz-Target", "AmazonSSM.PutParameter")
	response, err := http.DefaultClient.Do(request)
	ts.Check(err)
	defer func() { _ = response.Body.Close() }()
	if said, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		ts.Fatalf("put parameter %s: %s: %s", args[0], response.Status, said)
	}
}
