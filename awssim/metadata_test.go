// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
)

const (
	hostA    = instanceA
	networkA = subnetA
)

// metadataOf returns the SDK's client of an instance, which needs only the endpoint.
func metadataOf(sim *awssim.Simulator, instance string) *imds.Client {
	return imds.New(imds.Options{Endpoint: "http://" + instance + "@awssim", HTTPClient: &http.Client{Transport: sim.Transport()}})
}

func simulate(t *testing.T, behavior ec2.Behavior) *awssim.Simulator {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: &behavior, Limits: map[string]awssim.Bucket{}})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

func metadata(t *testing.T, client *imds.Client, path string) string {
	t.Helper()
	out, err := client.GetMetadata(t.Context(), &imds.GetMetadataInput{Path: path})
	if failed, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && failed.HTTPStatusCode() == http.StatusNotFound {
		return "(404)"
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	text, err := io.ReadAll(out.Content)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestInstanceMetadata(t *testing.T) {
	sim := simulate(t, ec2.Behavior{})
	client := metadataOf(sim, hostA)
	var instance *ec2.Instance
	for _, i := range sim.State().Instances {
		if i.InstanceID == hostA {
			instance = i
		}
	}
	mac := instance.NetworkInterfaces[0].MACAddress
	for path, want := range map[string]string{
		"instance-id":                        hostA,
		"instance-type":                      "m5.xlarge",
		"mac":                                mac,
		"placement":                          "availability-zone\navailability-zone-id\nregion",
		"placement/availability-zone":        "us-east-1a",
		"network/interfaces/macs/":           mac + "/",
		"autoscaling/target-lifecycle-state": "(404)",
		"tags/instance":                      "(404)",
		"network/interfaces/macs/" + mac + "/device-number":          "0",
		"network/interfaces/macs/" + mac + "/interface-id":           instance.NetworkInterfaces[0].NetworkInterfaceID,
		"network/interfaces/macs/" + mac + "/subnet-ipv4-cidr-block": "10.0.0.0/20",
		"network/interfaces/macs/" + mac + "/network-card":           "(404)",
		"network/interfaces/macs/" + mac + "/local-ipv4s":            instance.PrivateIPAddress.String(),
	} {
		if got := metadata(t, client, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	document, err := client.GetInstanceIdentityDocument(t.Context(), nil)
	if err != nil || document.InstanceID != hostA || document.Region != "us-east-1" || document.AccountID != "123456789012" {
		t.Errorf("identity document %+v, %v", document, err)
	}
}

// TestInstanceMetadataLags: an attached interface appears later, and its device number later still.
func TestInstanceMetadataLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulate(t, ec2.Behavior{
			Metadata: ec2.Latency{Min: 5 * time.Second}, MetadataIndex: ec2.Latency{Min: 2 * time.Second},
		})
		time.Sleep(time.Hour)
		client := metadataOf(sim, hostA)
		eni := attachSecond(t, sim)
		macs := func() int { return len(strings.Fields(metadata(t, client, "network/interfaces/macs/"))) }
		device := func() string {
			return metadata(t, client, "network/interfaces/macs/"+eni.MACAddress+"/device-number")
		}
		if got := macs(); got != 1 {
			t.Errorf("at once it tells of %d interfaces", got)
		}
		time.Sleep(5 * time.Second)
		if got := macs(); got != 2 || device() != "0" {
			t.Errorf("after 5 s: %d interfaces, device number %s", got, device())
		}
		time.Sleep(2 * time.Second)
		if got := device(); got != "2" {
			t.Errorf("after 7 s: device number %s", got)
		}
		detach(t, sim, eni)
		if got := macs(); got != 2 {
			t.Errorf("right after detaching: %d interfaces", got)
		}
		time.Sleep(5 * time.Second)
		if got := macs(); got != 1 {
			t.Errorf("5 s after detaching: %d interfaces", got)
		}
	})
}

func TestInstanceMetadataTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulate(t, ec2.Behavior{})
		hosts := launchWith(t, sim, &ec2.MetadataOptions{HTTPTokens: ec2.Required, InstanceMetadataTags: ec2.Enabled})
		browser := &http.Client{Transport: sim.Transport()}
		get := func(method, token, ttl, path string) (int, string) {
			request, err := http.NewRequestWithContext(t.Context(), method, "http://"+hosts+"@awssim"+path, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("X-aws-ec2-metadata-token", token)
			request.Header.Set("X-aws-ec2-metadata-token-ttl-seconds", ttl)
			response, err := browser.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			text, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(text)
		}
		const path = "/latest/meta-data/tags/instance/Name"
		if status, _ := get(http.MethodGet, "", "", path); status != http.StatusUnauthorized {
			t.Errorf("without a token: %d", status)
		}
		for ttl, want := range map[string]int{"": http.StatusBadRequest, "0": http.StatusBadRequest, "21601": http.StatusBadRequest} {
			if status, _ := get(http.MethodPut, "", ttl, "/latest/api/token"); status != want {
				t.Errorf("a token for %q seconds: %d", ttl, status)
			}
		}
		if status, _ := get(http.MethodPut, "", "60", "/2021-07-15/api/token"); status != http.StatusForbidden {
			t.Errorf("a token at a dated version: %d", status)
		}
		_, token := get(http.MethodPut, "", "60", "/latest/api/token")
		if status, text := get(http.MethodGet, token, "", path); status != http.StatusOK || text != "node" {
			t.Errorf("with a token: %d %q", status, text)
		}
		time.Sleep(time.Minute)
		if status, _ := get(http.MethodGet, token, "", path); status != http.StatusUnauthorized {
			t.Errorf("with an expired token: %d", status)
		}
	})
}

// TestInstanceMetadataHops: a token does not reach a container behind a bridge while the hop limit is 1.
func TestInstanceMetadataHops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulate(t, ec2.Behavior{})
		for hops, want := range map[int]bool{1: false, 2: true} {
			host := launchWith(t, sim, &ec2.MetadataOptions{HTTPTokens: ec2.Required, HTTPPutResponseHopLimit: &hops})
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			_, err := metadataOf(sim, host+":2").GetMetadata(ctx, &imds.GetMetadataInput{Path: "instance-id"})
			cancel()
			if (err == nil) != want {
				t.Errorf("hop limit %d: %v", hops, err)
			}
		}
	})
}

func TestInstanceMetadataFaults(t *testing.T) {
	sim := simulate(t, ec2.Behavior{})
	if _, err := sim.AddFault(fault.Fault{Kind: fault.Error, Action: "InstanceMetadata", Resource: hostA, Status: 404, Count: 1}); err != nil {
		t.Fatal(err)
	}
	got := []int{}
	for range 2 {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://awssim/_imds/"+hostA+"/latest/meta-data/instance-id", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		response, err := sim.Transport().RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		got = append(got, response.StatusCode)
	}
	if diff := cmp.Diff([]int{404, 200}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// sdkOf returns the SDK's client of a simulator, without a network.
func sdkOf(sim *awssim.Simulator) *sdk.Client {
	return sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), HTTPClient: &http.Client{Transport: sim.Transport()},
	})
}

// attachSecond attaches an interface at device index 2.
func attachSecond(t *testing.T, sim *awssim.Simulator) *ec2.NetworkInterface {
	t.Helper()
	client := sdkOf(sim)
	made, err := client.CreateNetworkInterface(t.Context(), &sdk.CreateNetworkInterfaceInput{SubnetId: aws.String(networkA)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.AttachNetworkInterface(t.Context(), &sdk.AttachNetworkInterfaceInput{
		NetworkInterfaceId: made.NetworkInterface.NetworkInterfaceId, InstanceId: aws.String(hostA), DeviceIndex: aws.Int32(2),
	}); err != nil {
		t.Fatal(err)
	}
	for _, eni := range sim.State().NetworkInterfaces {
		if eni.NetworkInterfaceID == *made.NetworkInterface.NetworkInterfaceId {
			return eni
		}
	}
	t.Fatal("the interface is gone")
	return nil
}

func detach(t *testing.T, sim *awssim.Simulator, eni *ec2.NetworkInterface) {
	t.Helper()
	if _, err := sdkOf(sim).DetachNetworkInterface(t.Context(), &sdk.DetachNetworkInterfaceInput{AttachmentId: &eni.Attachment.AttachmentID}); err != nil {
		t.Fatal(err)
	}
}

// launchWith launches an instance named node and returns its ID.
func launchWith(t *testing.T, sim *awssim.Simulator, o *ec2.MetadataOptions) string {
	t.Helper()
	in := &sdk.RunInstancesInput{
		ImageId: aws.String("ami-0123456789abcdef0"), InstanceType: types.InstanceTypeM5Large, SubnetId: aws.String(networkA),
		MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
		MetadataOptions: &types.InstanceMetadataOptionsRequest{
			HttpTokens: types.HttpTokensState(o.HTTPTokens), InstanceMetadataTags: types.InstanceMetadataTagsState(o.InstanceMetadataTags),
		},
		TagSpecifications: []types.TagSpecification{{
			ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{{Key: aws.String("Name"), Value: aws.String("node")}},
		}},
	}
	if o.HTTPPutResponseHopLimit != nil {
		in.MetadataOptions.HttpPutResponseHopLimit = aws.Int32(int32(*o.HTTPPutResponseHopLimit))
	}
	out, err := sdkOf(sim).RunInstances(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return *out.Instances[0].InstanceId
}

// A port of its own serves clients that cannot name the instance in a URL.
func TestListenMetadata(t *testing.T) {
	sim := simulate(t, ec2.Behavior{})
	server, err := awssim.ListenMetadata(t.Context(), "127.0.0.1:0", sim, hostA)
	if err != nil {
		t.Fatal(err)
	}
	client := imds.New(imds.Options{Endpoint: server.URL(), HTTPClient: &http.Client{}})
	if got := metadata(t, client, "instance-id"); got != hostA {
		t.Errorf("instance-id %q, want %s", got, hostA)
	}
	if err := server.Close(); err != nil {
		t.Error(err)
	}
}
