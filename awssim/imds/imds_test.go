// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds_test

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

const instance = "i-0123456789abcdef0"

// Instance metadata lists an interface of the VPC CNI after ten seconds, and its slot after ten more.
func TestInterfaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := awssim.ExampleWorld()
		world.Instances = []ec2.WorldInstance{{
			InstanceID: instance, InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a", CNI: &ec2.CNI{WarmENIs: 1},
		}}
		sim, err := awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{
			CNI: ec2.Latency{Min: time.Second}, Metadata: ec2.Latency{Min: 10 * time.Second}, MetadataIndex: ec2.Latency{Min: 10 * time.Second},
		}})
		if err != nil {
			t.Fatal(err)
		}
		client := sdk.New(sdk.Options{Endpoint: "http://" + instance + "@awssim", HTTPClient: &http.Client{Transport: sim.Transport()}})
		get := func(path string) string {
			out, err := client.GetMetadata(t.Context(), &sdk.GetMetadataInput{Path: path})
			if refused, ok := errors.AsType[*smithyhttp.ResponseError](err); ok && refused.HTTPStatusCode() == http.StatusNotFound {
				return ""
			}
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(out.Content)
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(content))
		}
		const macs = "network/interfaces/macs/"
		for len(strings.Fields(get(macs))) < 2 {
			time.Sleep(time.Second)
		}
		for _, mac := range strings.Fields(get(macs)) {
			if device := get(macs + mac + "device-number"); device != "0" && device != "" {
				t.Errorf("the device number of %s is %s, and a new interface has none", mac, device)
			}
		}
		time.Sleep(time.Minute)
		for _, i := range sim.State().NetworkInterfaces {
			if i.Attachment == nil || i.Attachment.InstanceID != instance {
				continue
			}
			var addresses []string
			for _, a := range i.PrivateIPAddresses {
				addresses = append(addresses, a.PrivateIPAddress.String())
			}
			for name, want := range map[string]string{
				"interface-id": i.NetworkInterfaceID, "subnet-id": i.SubnetID,
				"device-number": strconv.Itoa(i.Attachment.DeviceIndex), "local-ipv4s": strings.Join(addresses, "\n"),
			} {
				if got := get(macs + i.MACAddress + "/" + name); got != want {
					t.Errorf("%s of %s is %q, want %q", name, i.NetworkInterfaceID, got, want)
				}
			}
		}
	})
}
