// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// The IDs of the example world that the tests use.
const (
	subnetA   = "subnet-0f59b4f14737be9ad"
	subnetB   = "subnet-0bb0000000000000b"
	group     = "sg-05da196f3314d4af8"
	instanceA = "i-0a10000000000000a"
	smallA    = "i-0a20000000000000a"
)

// plainBodies sends the body of a request as a plain reader. The SDK closes the body when the head of a response is
// here, maybe before net/http looks for its end; the WriteTo of a closed body of smithy-go then returns io.EOF, which
// net/http takes for an error, and it closes the connection during the response. The SDK calls again; a client that
// makes each call once cannot.
type plainBodies struct{ http.RoundTripper }

func (p plainBodies) RoundTrip(request *http.Request) (*http.Response, error) {
	plain := *request
	if plain.Body != nil {
		plain.Body = struct{ io.ReadCloser }{plain.Body}
	}
	return p.RoundTripper.RoundTrip(&plain)
}

// serve starts a simulator and returns it with a client that makes each call once.
func serve(t *testing.T, options awssim.Options) (*awssim.Simulator, *sdk.Client, string) {
	t.Helper()
	if options.World.Region == "" {
		options.World = awssim.ExampleWorld()
	}
	sim, err := awssim.New(options)
	if err != nil {
		t.Fatal(err)
	}
	server, err := awssim.Listen(context.Background(), "127.0.0.1:0", sim)
	if err != nil {
		t.Fatal(err)
	}
	network := &http.Transport{}
	t.Cleanup(func() {
		network.CloseIdleConnections()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return sim, sdk.New(sdk.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(server.URL()),
		Credentials:      credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:       &http.Client{Transport: plainBodies{network}},
		RetryMaxAttempts: 1,
	}), server.URL()
}

func TestInterfaceLife(t *testing.T) {
	sim, client, _ := serve(t, awssim.Options{Behavior: &ec2.Behavior{}})
	ctx := t.Context()
	created, err := client.CreateNetworkInterface(ctx, &sdk.CreateNetworkInterfaceInput{
		SubnetId: aws.String(subnetA), Groups: []string{group}, Description: aws.String(`a <"b"> & é`),
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeNetworkInterface,
			Tags:         []types.Tag{{Key: aws.String("team"), Value: aws.String("network")}},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	id := created.NetworkInterface.NetworkInterfaceId
	attached, err := client.AttachNetworkInterface(ctx, &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: id, InstanceId: aws.String(instanceA), DeviceIndex: aws.Int32(1), NetworkCardIndex: aws.Int32(0),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.ModifyNetworkInterfaceAttribute(ctx, &sdk.ModifyNetworkInterfaceAttributeInput{
		NetworkInterfaceId: id,
		Attachment: &types.NetworkInterfaceAttachmentChanges{
			AttachmentId: attached.AttachmentId, DeleteOnTermination: aws.Bool(true),
		},
	}); err != nil {
		t.Fatal(err)
	}
	found, err := client.DescribeNetworkInterfaces(ctx, &sdk.DescribeNetworkInterfacesInput{
		Filters: []types.Filter{{Name: aws.String("tag:team"), Values: []string{"net*"}}}, MaxResults: aws.Int32(5),
	})
	if err != nil {
		t.Fatal(err)
	}
	eni := found.NetworkInterfaces[0]
	if *eni.Description != `a <"b"> & é` || eni.Attachment.Status != types.AttachmentStatusAttached ||
		!*eni.Attachment.DeleteOnTermination || time.Since(*eni.Attachment.AttachTime) > time.Minute {
		t.Errorf("found %+v", eni)
	}
	described, err := client.DescribeInstances(ctx, &sdk.DescribeInstancesInput{InstanceIds: []string{instanceA}})
	if err != nil {
		t.Fatal(err)
	}
	if got := described.Reservations[0].Instances[0]; len(got.NetworkInterfaces) != 2 || got.State.Name != types.InstanceStateNameRunning {
		t.Errorf("instance %+v", got)
	}
	if calls := sim.Calls(); calls.Mutating.Count != 3 || calls.NonMutating.Count != 2 {
		t.Errorf("calls %+v", calls)
	}
}
