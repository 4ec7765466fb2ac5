// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package imds_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	ec2sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/imds"
	"github.com/multieni/multieni/internal/core/eni"
)

const instance = "i-0123456789abcdef0"

// simulate starts an EC2 with one instance, to which the VPC CNI soon attaches a second interface. Instance metadata
// lists an interface after ten seconds.
func simulate(t *testing.T) *awssim.Simulator {
	t.Helper()
	world := awssim.ExampleWorld()
	world.Instances = []ec2.WorldInstance{{
		InstanceID: instance, InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a", CNI: &ec2.CNI{WarmENIs: 1},
	}}
	behavior := ec2.Behavior{CNI: ec2.Latency{Min: time.Second}, Metadata: ec2.Latency{Min: 10 * time.Second}}
	sim, err := awssim.New(awssim.Options{World: world, Behavior: &behavior})
	if err != nil {
		t.Fatal(err)
	}
	return sim
}

func clientOf(sim *awssim.Simulator, options ...func(*sdk.Options)) *imds.Client {
	return imds.Of(sdk.New(sdk.Options{
		Endpoint: "http://" + instance + "@awssim", HTTPClient: &http.Client{Transport: sim.Transport()},
	}, options...))
}

func TestRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulate(t)
		client := clientOf(sim)
		read := func() eni.Metadata {
			m, err := client.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return m
		}
		for len(read().Interfaces) < 2 {
			time.Sleep(time.Second)
		}
		want := eni.Metadata{InstanceID: instance}
		for _, i := range sim.State().NetworkInterfaces {
			if i.Attachment == nil || i.Attachment.InstanceID != instance {
				continue
			}
			if i.Attachment.DeviceIndex == 0 {
				want.PrimaryMAC = i.MACAddress
			}
			want.Interfaces = append(want.Interfaces, eni.Interface{ID: i.NetworkInterfaceID, MAC: i.MACAddress})
		}
		options := cmp.Options{
			cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty(),
			cmpopts.SortSlices(func(a, b eni.Interface) bool { return a.MAC < b.MAC }),
		}
		if diff := cmp.Diff(want, read(), options); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

// TestReadPrefixes: the agent lets pods use only prefixes that instance metadata lists, while it has no API server.
func TestReadPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sim := simulate(t)
		cloud := ec2sdk.New(ec2sdk.Options{
			Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), HTTPClient: &http.Client{Transport: sim.Transport()},
			Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
				return aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "secret"}, nil
			}),
		})
		client := clientOf(sim)
		m, err := client.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		out, err := cloud.AssignPrivateIpAddresses(t.Context(), &ec2sdk.AssignPrivateIpAddressesInput{
			NetworkInterfaceId: &m.ByMAC(m.PrimaryMAC).ID, Ipv4PrefixCount: aws.Int32(2),
		})
		if err != nil {
			t.Fatal(err)
		}
		var want []netip.Prefix
		for _, p := range out.AssignedIpv4Prefixes {
			want = append(want, netip.MustParsePrefix(*p.Ipv4Prefix))
		}
		time.Sleep(time.Minute) // instance metadata is behind EC2
		if m, err = client.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := m.ByMAC(m.PrimaryMAC).IPv4Prefixes
		slices.SortFunc(want, netip.Prefix.Compare)
		slices.SortFunc(got, netip.Prefix.Compare)
		if !slices.Equal(got, want) || len(want) != 2 {
			t.Errorf("metadata lists %v, and EC2 assigned %v", got, want)
		}
	})
}

// Instances that refuse requests without a token receive none.
func TestEveryQuestionCarriesAToken(t *testing.T) {
	sim := simulate(t)
	asked := &tokens{RoundTripper: sim.Transport()}
	client := imds.Of(sdk.New(sdk.Options{Endpoint: "http://" + instance + "@awssim", HTTPClient: &http.Client{Transport: asked}}))
	if _, err := client.Read(t.Context()); err != nil {
		t.Error(err)
	}
	if asked.with == 0 || asked.without > 0 {
		t.Errorf("%d questions with a token and %d without", asked.with, asked.without)
	}
}

// If the client gets no token, it sends no request without one.
func TestVersion1IsNotAsked(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		asked++
	}))
	defer server.Close()
	t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.URL)
	client, err := imds.New()
	if err != nil {
		t.Fatal(err)
	}
	if m, err := client.Read(t.Context()); err == nil || asked > 0 {
		t.Errorf("it asked %d times without a token, and read %+v", asked, m)
	}
}

// tokens counts requests with and without a token.
type tokens struct {
	http.RoundTripper
	with, without int
}

func (c *tokens) RoundTrip(r *http.Request) (*http.Response, error) {
	switch {
	case r.Method == http.MethodPut:
	case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "":
		c.with++
	default:
		c.without++
	}
	return c.RoundTripper.RoundTrip(r)
}

func TestNobodyAnswers(t *testing.T) {
	sim := simulate(t)
	client := clientOf(sim, func(o *sdk.Options) {
		o.Retryer, o.Endpoint = aws.NopRetryer{}, "http://i-00000000000000000@awssim"
	})
	if got, err := client.Read(t.Context()); err == nil {
		t.Errorf("an instance that does not exist says %v", got)
	}
}
