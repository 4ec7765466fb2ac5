// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2_test

import (
	"context"
	"net/netip"
	"net/url"
	"reflect"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/reservation"
	"github.com/multieni/multieni/internal/core/selector"
)

var createRequest = executor.CreateRequest{
	Token: "token-1", SubnetID: "subnet-1", Description: "data", Groups: []string{"sg-1", "sg-2"},
	Counts: eni.AddressCounts{SecondaryIPv4: 3, IPv6Prefixes: 1},
	Tags:   map[string]string{"b": "2", "a": "1"},
}

// calls is one call of every method that Client has.
var calls = map[string]func(context.Context, *awsec2.Client) error{
	"create": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.CreateInterface(ctx, createRequest)
		return err
	},
	"attach": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.AttachInterface(ctx, "eni-1", "i-1", eni.Slot{Card: 0, Device: 2})
		return err
	},
	"create with timeouts": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.CreateInterface(ctx, executor.CreateRequest{Token: "token-1", SubnetID: "subnet-1", ConnectionTracking: eni.ConnectionTracking{TCPEstablished: 3600}})
		return err
	},
	"attach with ENA Express": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.AttachInterfaceWith(ctx, eni.ENAExpressTCPAndUDP, "eni-1", "i-1", eni.Slot{Card: 0, Device: 2})
		return err
	},
	"timeouts": func(ctx context.Context, c *awsec2.Client) error {
		return c.SetConnectionTracking(ctx, "eni-1", eni.ConnectionTracking{TCPEstablished: 3600, UDPStream: 120, UDP: 45})
	},
	"ENA Express for TCP": func(ctx context.Context, c *awsec2.Client) error {
		return c.SetENAExpress(ctx, "eni-1", eni.ENAExpressTCP)
	},
	"no ENA Express": func(ctx context.Context, c *awsec2.Client) error {
		return c.SetENAExpress(ctx, "eni-1", eni.ENAExpressNone)
	},
	"detach": func(ctx context.Context, c *awsec2.Client) error {
		return c.DetachInterface(ctx, "eni-attach-1", false)
	},
	"reservations": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.SubnetReservations(ctx, "subnet-1")
		return err
	},
	"force detach": func(ctx context.Context, c *awsec2.Client) error { return c.DetachInterface(ctx, "eni-attach-1", true) },
	"delete":       func(ctx context.Context, c *awsec2.Client) error { return c.DeleteInterface(ctx, "eni-1") },
	"groups":       func(ctx context.Context, c *awsec2.Client) error { return c.SetGroups(ctx, "eni-1", []string{"sg-1"}) },
	"description":  func(ctx context.Context, c *awsec2.Client) error { return c.SetDescription(ctx, "eni-1", "new") },
	"check":        func(ctx context.Context, c *awsec2.Client) error { return c.SetSourceDestCheck(ctx, "eni-1", false) },
	"termination": func(ctx context.Context, c *awsec2.Client) error {
		return c.SetDeleteOnTermination(ctx, "eni-1", "a-1", true)
	},
	"tags": func(ctx context.Context, c *awsec2.Client) error {
		return c.PutTags(ctx, "eni-1", map[string]string{"b": "2", "a": "1"})
	},
	"fewer tags": func(ctx context.Context, c *awsec2.Client) error {
		return c.RemoveTags(ctx, "eni-1", []string{"a", "b"})
	},
	"more IPv4": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.AssignIPv4(ctx, "eni-1", 2, 0)
		return err
	},
	"more prefixes": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.AssignIPv4(ctx, "eni-1", 0, 1)
		return err
	},
	"more IPv6": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.AssignIPv6(ctx, "eni-1", 1, 0)
		return err
	},
	"less IPv4": func(ctx context.Context, c *awsec2.Client) error {
		return c.UnassignIPv4(ctx, "eni-1", eni.Addresses{SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.5")}})
	},
	"less IPv6": func(ctx context.Context, c *awsec2.Client) error {
		return c.UnassignIPv6(ctx, "eni-1", eni.Addresses{IPv6Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:0:1::/80")}})
	},
	"look": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.DescribeInstance(ctx, "i-1")
		return err
	},
	"subnets": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.Subnets(ctx, selector.SubnetTerms{IDs: []string{"subnet-1"}})
		return err
	},
	"groups read": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.SecurityGroups(ctx, selector.GroupTerms{IDs: []string{"sg-1"}})
		return err
	},
	"limits": func(ctx context.Context, c *awsec2.Client) error { _, err := c.Limits(ctx, "m5.large"); return err },
}

// reservationCalls make one request for each action of ReservationAPI.
var reservationCalls = map[string]func(context.Context, *awsec2.Client) error{
	"reserve": func(ctx context.Context, c *awsec2.Client) error {
		_, err := c.CreateSubnetReservation(ctx, "subnet-1", netip.MustParsePrefix("10.0.4.128/25"), eni.ReservationPrefix, reservation.Owner{Cluster: "c", Name: "n3"})
		return err
	},
	"unreserve": func(ctx context.Context, c *awsec2.Client) error { return c.DeleteSubnetReservation(ctx, "scr-1") },
}

func TestReservationsCarryTheTagsOfTheirOwner(t *testing.T) {
	cases := map[string]url.Values{
		"reserve": {
			"Action": {"CreateSubnetCidrReservation"}, "SubnetId": {"subnet-1"}, "Cidr": {"10.0.4.128/25"}, "ReservationType": {"prefix"},
			"Description": {"multieni SubnetReservation n3 2e7d2c0"}, "TagSpecification.1.ResourceType": {"subnet-cidr-reservation"},
			"TagSpecification.1.Tag.1.Key": {"Name"}, "TagSpecification.1.Tag.1.Value": {"n3"},
			"TagSpecification.1.Tag.2.Key": {"networking.k8s.aws/cluster"}, "TagSpecification.1.Tag.2.Value": {"c"},
			"TagSpecification.1.Tag.3.Key": {"networking.k8s.aws/subnetreservation"}, "TagSpecification.1.Tag.3.Value": {"n3"},
		},
		"unreserve": {"Action": {"DeleteSubnetCidrReservation"}, "SubnetCidrReservationId": {"scr-1"}},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server := always(reply{})
				if err := reservationCalls[name](t.Context(), server.client(t, awsec2.Options{})); err != nil {
					t.Fatal(err)
				}
				want.Set("Version", "2016-11-15")
				if diff := cmp.Diff(want, server.calls(want.Get("Action"))[0].form); diff != "" {
					t.Errorf("-want +sent:\n%s", diff)
				}
			})
		})
	}
}

func TestAnOverlapIsAnAddressTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{code: "InvalidParameterValue", message: "Reservation CIDR 10.0.4.128/25 has overlap with existing reserved CIDR block"})
		if got := eni.ErrorClass(reservationCalls["reserve"](t.Context(), server.client(t, awsec2.Options{}))); got != eni.AddressTaken {
			t.Errorf("class %s", got)
		}
	})
}

// The IAM policy allows the actions in API, so API must not list an action that multieni never calls.
func TestEveryActionOfTheAPIIsCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := always(reply{})
		client := server.client(t, awsec2.Options{})
		for name, call := range calls {
			if err := call(t.Context(), client); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		api := reflect.TypeFor[awsec2.API]()
		for n := range api.NumMethod() {
			if action := api.Method(n).Name; len(server.calls(action)) == 0 {
				t.Errorf("%s is never called", action)
			}
		}
	})
}

func TestContentOfMutatingCalls(t *testing.T) {
	cases := map[string]url.Values{
		"create": {
			"Action": {"CreateNetworkInterface"}, "ClientToken": {"token-1"}, "SubnetId": {"subnet-1"}, "Description": {"data"},
			"SecurityGroupId.1": {"sg-1"}, "SecurityGroupId.2": {"sg-2"}, "SecondaryPrivateIpAddressCount": {"3"}, "Ipv6PrefixCount": {"1"},
			"TagSpecification.1.ResourceType": {"network-interface"},
			"TagSpecification.1.Tag.1.Key":    {"a"}, "TagSpecification.1.Tag.1.Value": {"1"},
			"TagSpecification.1.Tag.2.Key": {"b"}, "TagSpecification.1.Tag.2.Value": {"2"},
		},
		"reservations": {"Action": {"GetSubnetCidrReservations"}, "SubnetId": {"subnet-1"}},
		"attach": {
			"Action": {"AttachNetworkInterface"}, "NetworkInterfaceId": {"eni-1"}, "InstanceId": {"i-1"}, "DeviceIndex": {"2"}, "NetworkCardIndex": {"0"},
		},
		"create with timeouts": {
			"Action": {"CreateNetworkInterface"}, "ClientToken": {"token-1"}, "SubnetId": {"subnet-1"}, "ConnectionTrackingSpecification.TcpEstablishedTimeout": {"3600"},
		},
		"attach with ENA Express": {
			"Action": {"AttachNetworkInterface"}, "NetworkInterfaceId": {"eni-1"}, "InstanceId": {"i-1"}, "DeviceIndex": {"2"}, "NetworkCardIndex": {"0"},
			"EnaSrdSpecification.EnaSrdEnabled": {"true"}, "EnaSrdSpecification.EnaSrdUdpSpecification.EnaSrdUdpEnabled": {"true"},
		},
		"timeouts": {
			"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"}, "ConnectionTrackingSpecification.TcpEstablishedTimeout": {"3600"},
			"ConnectionTrackingSpecification.UdpStreamTimeout": {"120"}, "ConnectionTrackingSpecification.UdpTimeout": {"45"},
		},
		"ENA Express for TCP": {
			"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"},
			"EnaSrdSpecification.EnaSrdEnabled": {"true"}, "EnaSrdSpecification.EnaSrdUdpSpecification.EnaSrdUdpEnabled": {"false"},
		},
		"no ENA Express": {
			"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"},
			"EnaSrdSpecification.EnaSrdEnabled": {"false"}, "EnaSrdSpecification.EnaSrdUdpSpecification.EnaSrdUdpEnabled": {"false"},
		},
		"detach":       {"Action": {"DetachNetworkInterface"}, "AttachmentId": {"eni-attach-1"}, "Force": {"false"}},
		"force detach": {"Action": {"DetachNetworkInterface"}, "AttachmentId": {"eni-attach-1"}, "Force": {"true"}},
		"delete":       {"Action": {"DeleteNetworkInterface"}, "NetworkInterfaceId": {"eni-1"}},
		"groups":       {"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"}, "SecurityGroupId.1": {"sg-1"}},
		"description":  {"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"}, "Description.Value": {"new"}},
		"check":        {"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"}, "SourceDestCheck.Value": {"false"}},
		"termination": {
			"Action": {"ModifyNetworkInterfaceAttribute"}, "NetworkInterfaceId": {"eni-1"},
			"Attachment.AttachmentId": {"a-1"}, "Attachment.DeleteOnTermination": {"true"},
		},
		"tags": {
			"Action": {"CreateTags"}, "ResourceId.1": {"eni-1"},
			"Tag.1.Key": {"a"}, "Tag.1.Value": {"1"}, "Tag.2.Key": {"b"}, "Tag.2.Value": {"2"},
		},
		"fewer tags":    {"Action": {"DeleteTags"}, "ResourceId.1": {"eni-1"}, "Tag.1.Key": {"a"}, "Tag.2.Key": {"b"}},
		"more IPv4":     {"Action": {"AssignPrivateIpAddresses"}, "NetworkInterfaceId": {"eni-1"}, "SecondaryPrivateIpAddressCount": {"2"}},
		"more prefixes": {"Action": {"AssignPrivateIpAddresses"}, "NetworkInterfaceId": {"eni-1"}, "Ipv4PrefixCount": {"1"}},
		"more IPv6":     {"Action": {"AssignIpv6Addresses"}, "NetworkInterfaceId": {"eni-1"}, "Ipv6AddressCount": {"1"}},
		"less IPv4":     {"Action": {"UnassignPrivateIpAddresses"}, "NetworkInterfaceId": {"eni-1"}, "PrivateIpAddress.1": {"10.0.0.5"}},
		"less IPv6":     {"Action": {"UnassignIpv6Addresses"}, "NetworkInterfaceId": {"eni-1"}, "Ipv6Prefix.1": {"2001:db8:0:0:1::/80"}},
	}
	for name, want := range cases {
		t.Run(name, func(t *testing.T) {
			server := always(reply{})
			if err := calls[name](t.Context(), server.client(t, awsec2.Options{})); err != nil {
				t.Fatal(err)
			}
			got := server.requests[0].form
			got.Del("Version")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestAttachIsAttaching(t *testing.T) {
	client := always(reply{body: "<attachmentId>eni-attach-1</attachmentId><networkCardIndex>1</networkCardIndex>"}).client(t, awsec2.Options{})
	got, err := client.AttachInterface(t.Context(), "eni-1", "i-1", eni.Slot{Card: 1, Device: 2})
	want := eni.Attachment{ID: "eni-attach-1", InstanceID: "i-1", Slot: eni.Slot{Card: 1, Device: 2}, Status: eni.AttachmentAttaching}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestAssignReturnsWhatIsNew(t *testing.T) {
	server := &fake{answer: func(r request) reply {
		if r.action == "AssignIpv6Addresses" {
			return reply{body: "<assignedIpv6PrefixSet><item>2001:db8:0:0:1::/80</item></assignedIpv6PrefixSet>"}
		}
		return reply{body: "<assignedPrivateIpAddressesSet><item><privateIpAddress>10.0.0.5</privateIpAddress></item></assignedPrivateIpAddressesSet>"}
	}}
	client := server.client(t, awsec2.Options{})
	v4, err := client.AssignIPv4(t.Context(), "eni-1", 1, 0)
	want := eni.Addresses{SecondaryIPv4: []netip.Addr{netip.MustParseAddr("10.0.0.5")}}
	if diff := cmp.Diff(want, v4, netipValues); diff != "" || err != nil {
		t.Errorf("IPv4: %v (-want +got):\n%s", err, diff)
	}
	v6, err := client.AssignIPv6(t.Context(), "eni-1", 0, 1)
	want = eni.Addresses{IPv6Prefixes: []netip.Prefix{netip.MustParsePrefix("2001:db8:0:0:1::/80")}}
	if diff := cmp.Diff(want, v6, netipValues); diff != "" || err != nil {
		t.Errorf("IPv6: %v (-want +got):\n%s", err, diff)
	}
}

// The reply to a successful create call is lost. The client does not repeat the call; the caller does, and the token
// leads to the same interface, because both requests are identical.
func TestLostReplyOnCreate(t *testing.T) {
	made := map[string]string{}
	server := &fake{}
	server.answer = func(r request) reply {
		form := r.form.Encode()
		if _, again := made[form]; again {
			return reply{body: "<networkInterface><networkInterfaceId>" + made[form] + "</networkInterfaceId><status>pending</status></networkInterface>"}
		}
		made[form] = "eni-1"
		return reply{fault: syscall.ECONNRESET}
	}
	client := server.client(t, awsec2.Options{})
	if _, err := client.CreateInterface(t.Context(), createRequest); eni.ErrorClass(err) != eni.Transient || server.count() != 1 {
		t.Fatalf("%d requests: %v", server.count(), err)
	}
	created, err := client.CreateInterface(t.Context(), createRequest)
	if err != nil || created.ID != "eni-1" || created.Status != eni.Pending || len(made) != 1 {
		t.Errorf("%+v of %d, %v", created, len(made), err)
	}
}
