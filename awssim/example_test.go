// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fault"
)

// An interface is created and attached through the SDK, on a clock that runs a thousand times as fast as ours. A fault
// throttles the first call, and the SDK repeats it.
func Example() {
	ctx := context.Background()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Clock: awssim.ScaledClock(1000)})
	if err != nil {
		log.Fatal(err)
	}
	server, err := awssim.Listen(ctx, "127.0.0.1:0", sim)
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	if _, err := sim.AddFault(fault.Fault{Kind: fault.Throttle, Action: "CreateNetworkInterface", Count: 1}); err != nil {
		log.Fatal(err)
	}

	client := sdk.New(sdk.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(server.URL()),
		Credentials:  credentials.NewStaticCredentialsProvider("any", "any", ""),
		HTTPClient:   &http.Client{Transport: sim.Transport()}, // or leave it out, and use the network
	})
	created, err := client.CreateNetworkInterface(ctx, &sdk.CreateNetworkInterfaceInput{
		SubnetId: aws.String("subnet-0f59b4f14737be9ad"),
	})
	if err != nil {
		log.Fatal(err)
	}
	id := *created.NetworkInterface.NetworkInterfaceId
	if _, err := client.AttachNetworkInterface(ctx, &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: &id, InstanceId: aws.String("i-0a10000000000000a"), DeviceIndex: aws.Int32(1),
	}); err != nil {
		log.Fatal(err)
	}
	time.Sleep(20 * time.Millisecond) // 20 s for EC2

	for _, eni := range sim.State().NetworkInterfaces {
		if eni.NetworkInterfaceID == id {
			fmt.Println(eni.Status, eni.Attachment.Status, "at device", eni.Attachment.DeviceIndex)
		}
	}
	calls := sim.Calls()
	fmt.Println(calls.Mutating.Count, "mutating calls,", calls.Mutating.Throttled, "throttled")
	// Output:
	// in-use attached at device 1
	// 3 mutating calls, 1 throttled
}
