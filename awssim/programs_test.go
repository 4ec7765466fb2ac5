// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"context"
	"encoding/xml"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	asg "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	queue "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/sqs"
)

// call calls an action as a form over HTTP, without an SDK, and returns the names of the elements of the answer, with their
// path from the root.
func call(t *testing.T, endpoint string, form url.Values, signedFor string) (status int, elements []string, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, endpoint, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential=any/20260101/us-east-1/"+signedFor+"/aws4_request")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var path []string
	for decoder := xml.NewDecoder(strings.NewReader(string(content))); ; {
		token, err := decoder.Token()
		switch token := token.(type) {
		case xml.StartElement:
			path = append(path, token.Name.Local)
			elements = append(elements, strings.Join(path, "."))
		case xml.EndElement:
			path = path[:len(path)-1]
		}
		if err != nil {
			return response.StatusCode, elements, string(content)
		}
	}
}

// Programs in Python read lists of an answer without checking that they exist: EC2 sends empty lists.
func TestListsAreSentEmpty(t *testing.T) {
	_, client, endpoint := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	for name, c := range map[string]struct {
		action        string
		want, without []string
	}{
		"interfaces": {
			action: "DescribeNetworkInterfaces",
			want:   []string{"networkInterfaceSet.item.ipv6AddressesSet", "networkInterfaceSet.item.privateIpAddressesSet", "networkInterfaceSet.item.groupSet", "networkInterfaceSet.item.tagSet"},
		},
		"subnets": {action: "DescribeSubnets", want: []string{"subnetSet.item.ipv6CidrBlockAssociationSet"}},
		"VPCs":    {action: "DescribeVpcs", want: []string{"vpcSet.item.ipv6CidrBlockAssociationSet"}},
		"instances": {
			action: "DescribeInstances",
			want: []string{
				"reservationSet.item.groupSet", "reservationSet.item.instancesSet.item.productCodes", "reservationSet.item.instancesSet.item.reason",
				"reservationSet.item.instancesSet.item.dnsName", "reservationSet.item.instancesSet.item.placement.groupName",
				"reservationSet.item.instancesSet.item.clientToken", "reservationSet.item.instancesSet.item.networkInterfaceSet.item.ipv6AddressesSet",
			},
			without: []string{
				"reservationSet.item.instancesSet.item.networkInterfaceSet.item.tagSet",
				"reservationSet.item.instancesSet.item.networkInterfaceSet.item.availabilityZone",
				"reservationSet.item.instancesSet.item.networkInterfaceSet.item.attachment.instanceId",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, elements, body := call(t, endpoint, url.Values{"Action": {c.action}, "Version": {"2016-11-15"}}, "ec2")
			for _, path := range c.want {
				if !slices.Contains(elements, c.action+"Response."+path) {
					t.Errorf("no element %s in\n%.2000s", path, body)
				}
			}
			for _, path := range c.without {
				if slices.Contains(elements, c.action+"Response."+path) {
					t.Errorf("EC2 has no element %s", path)
				}
			}
		})
	}
	out, err := client.DescribeInstances(t.Context(), &sdk.DescribeInstancesInput{InstanceIds: []string{instanceA}})
	if err != nil || len(out.Reservations[0].Instances[0].NetworkInterfaces) == 0 {
		t.Errorf("the SDK reads no interfaces of the instance: %v", err)
	}
}

// A read right after a create call nearly always returns the resource.
func TestNewInterfacesAreKnownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		client := inBubble(sim)
		known := 0
		const made = 100
		for range made {
			created, err := client.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(subnetA)})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(200 * time.Millisecond) // a request's round trip
			id := *created.NetworkInterface.NetworkInterfaceId
			if _, err := client.DescribeNetworkInterfaces(t.Context(), &sdk.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{id}}); err == nil {
				known++
			}
			time.Sleep(time.Second) // so that EC2 throttles no call
		}
		if known < made-5 {
			t.Errorf("%d of %d new interfaces are known after 200 ms", known, made)
		}
	})
}

func inBubble(sim *awssim.Simulator) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://simulated"), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("any", "any", ""), HTTPClient: &http.Client{Transport: sim.Transport()},
	})
}

// A function that is called when a launch hook begins can attach an interface at once.
func TestLaunchHooksBeginWhenTheInstanceRuns(t *testing.T) {
	for name, c := range map[string]struct {
		whilePending bool
		want         types.InstanceStateName
	}{
		"by default":    {want: types.InstanceStateNameRunning},
		"while pending": {whilePending: true, want: types.InstanceStateNamePending},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				world := workers(1)
				services := awssim.ServiceBehavior{AutoScaling: autoscaling.Behavior{Hook: 2 * time.Second, HookWhilePending: c.whilePending}}
				behavior := ec2.Behavior{Start: ec2.Latency{Min: 10 * time.Second}}
				sim, clients := simulateServices(t, awssim.Options{World: world, Behavior: &behavior, ServiceBehavior: &services})
				var ids []string
				for len(ids) == 0 {
					ids = clients.receive(t, 20)
				}
				out, err := inBubble(sim).DescribeInstances(t.Context(), &sdk.DescribeInstancesInput{InstanceIds: ids})
				if err != nil {
					t.Fatal(err)
				}
				if got := out.Reservations[0].Instances[0].State.Name; got != c.want {
					t.Errorf("the hook begins while the instance is %s, want %s", got, c.want)
				}
			})
		})
	}
}

// Some SDKs send a message to the address in the queue's URL: it must be the simulator's.
func TestQueueURLsAreTheSimulators(t *testing.T) {
	world := awssim.ExampleWorld()
	world.Queues = []sqs.WorldQueue{{QueueName: "events"}, {QueueName: "hooks"}, {QueueName: "hooks-dead"}}
	_, _, endpoint := serve(t, awssim.Options{World: world, Behavior: &ec2.Behavior{}})
	c := clientsAt(endpoint, http.DefaultTransport).queue
	got, err := c.GetQueueUrl(t.Context(), &queue.GetQueueUrlInput{QueueName: aws.String("hooks")})
	if err != nil {
		t.Fatal(err)
	}
	if want := endpoint + "/" + ec2.DefaultAccountID + "/hooks"; *got.QueueUrl != want {
		t.Errorf("the queue is at %s, want %s", *got.QueueUrl, want)
	}
	listed, err := c.ListQueues(t.Context(), &queue.ListQueuesInput{QueueNamePrefix: aws.String("hooks"), MaxResults: aws.Int32(1)})
	if err != nil || len(listed.QueueUrls) != 1 || listed.QueueUrls[0] != *got.QueueUrl || listed.NextToken == nil {
		t.Fatalf("the first page is %+v, %v", listed, err)
	}
	listed, err = c.ListQueues(t.Context(), &queue.ListQueuesInput{QueueNamePrefix: aws.String("hooks"), MaxResults: aws.Int32(1), NextToken: listed.NextToken})
	if err != nil || !slices.Equal(listed.QueueUrls, []string{*got.QueueUrl + "-dead"}) || listed.NextToken != nil {
		t.Errorf("the second page is %+v, %v", listed, err)
	}
}

// A call to a service that is not modelled gets no answer of EC2, and STS returns the account.
func TestOtherServices(t *testing.T) {
	_, _, endpoint := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	status, _, body := call(t, endpoint, url.Values{"Action": {"GetCallerIdentity"}, "Version": {"2011-06-15"}}, "sts")
	if status != http.StatusOK || !strings.Contains(body, "<Account>"+ec2.DefaultAccountID+"</Account>") {
		t.Errorf("STS answers %d %s", status, body)
	}
	status, _, body = call(t, endpoint, url.Values{"Action": {"ListUsers"}, "Version": {"2010-05-08"}}, "iam")
	if status != http.StatusBadRequest || !strings.Contains(body, "InvalidAction") || !strings.Contains(body, "iam") {
		t.Errorf("IAM answers %d %s", status, body)
	}
}

// Typical requests of users and scripts about instances, interfaces and tags.
func TestDescriptionsForPeople(t *testing.T) {
	_, client, _ := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	ctx := context.Background()
	statuses, err := client.DescribeInstanceStatus(ctx, &sdk.DescribeInstanceStatusInput{InstanceIds: []string{instanceA}})
	if err != nil || len(statuses.InstanceStatuses) != 1 || statuses.InstanceStatuses[0].InstanceStatus.Status != types.SummaryStatusOk {
		t.Errorf("the status of a running instance is %+v, %v", statuses, err)
	}
	if _, err := client.StopInstances(ctx, &sdk.StopInstancesInput{InstanceIds: []string{smallA}}); err != nil {
		t.Fatal(err)
	}
	for all, want := range map[bool]int{false: 0, true: 1} {
		statuses, err := client.DescribeInstanceStatus(ctx, &sdk.DescribeInstanceStatusInput{InstanceIds: []string{smallA}, IncludeAllInstances: &all})
		if err != nil || len(statuses.InstanceStatuses) != want {
			t.Errorf("of a stopped instance, with all=%t: %+v, %v", all, statuses, err)
		}
	}
	created, err := client.CreateNetworkInterface(ctx, &sdk.CreateNetworkInterfaceInput{
		SubnetId: aws.String(subnetA), Description: aws.String("for people"), TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeNetworkInterface, Tags: []types.Tag{{Key: aws.String("team"), Value: aws.String("network")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := created.NetworkInterface.NetworkInterfaceId
	attribute, err := client.DescribeNetworkInterfaceAttribute(ctx, &sdk.DescribeNetworkInterfaceAttributeInput{
		NetworkInterfaceId: id, Attribute: types.NetworkInterfaceAttributeDescription,
	})
	if err != nil || aws.ToString(attribute.Description.Value) != "for people" || attribute.SourceDestCheck != nil {
		t.Errorf("the description is %+v, %v", attribute, err)
	}
	tags, err := client.DescribeTags(ctx, &sdk.DescribeTagsInput{Filters: []types.Filter{
		{Name: aws.String("resource-type"), Values: []string{"network-interface"}}, {Name: aws.String("key"), Values: []string{"team"}},
	}})
	if err != nil || len(tags.Tags) != 1 || *tags.Tags[0].ResourceId != *id || *tags.Tags[0].Value != "network" {
		t.Errorf("the tags are %+v, %v", tags, err)
	}
}

// A group that names its template by name shows ID and name.
func TestGroupsShowBothNamesOfTheirTemplate(t *testing.T) {
	_, c := simulateServices(t, awssim.Options{World: workers(0), Behavior: &ec2.Behavior{}})
	found, err := c.DescribeAutoScalingGroups(t.Context(), &asg.DescribeAutoScalingGroupsInput{})
	if err != nil || len(found.AutoScalingGroups) != 1 {
		t.Fatalf("%+v, %v", found, err)
	}
	template := found.AutoScalingGroups[0].LaunchTemplate
	if !strings.HasPrefix(aws.ToString(template.LaunchTemplateId), "lt-") || aws.ToString(template.LaunchTemplateName) != "workers" {
		t.Errorf("the template is %+v, want ID and name", template)
	}
}
