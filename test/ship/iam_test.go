// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/iam"
	"github.com/multieni/multieni/internal/awsec2"
	"github.com/multieni/multieni/ownership"
)

// account is a simulated account in which the controller and the operator of cluster "ours" have their policies.
type account struct {
	*testing.T
	simulator *awssim.Simulator
}

func newAccount(t *testing.T) account {
	t.Helper()
	policies := map[string]*iam.Policy{}
	for _, component := range awsec2.Components() {
		document, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "ours"})
		if err != nil {
			t.Fatal(err)
		}
		if policies[string(component)], err = iam.Parse(document); err != nil {
			t.Fatal(err)
		}
	}
	for _, instance := range awssim.ExampleWorld().Instances {
		policies[instance.InstanceID] = policies[string(awsec2.Bootstrap)] // the session of a role is named after its instance
	}
	simulator, err := awssim.New(awssim.Options{
		World: awssim.ExampleWorld(), Behavior: &ec2.Behavior{}, Limits: map[string]awssim.Bucket{}, Policies: policies,
	})
	if err != nil {
		t.Fatal(err)
	}
	return account{t, simulator}
}

// call makes a call and returns the error code, "" for success.
func (a account) call(who, action string, parameters ...string) (code, body string) {
	a.Helper()
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for _, parameter := range parameters {
		name, value, _ := strings.Cut(parameter, "=")
		form.Add(name, value)
	}
	request := httptest.NewRequestWithContext(a.Context(), http.MethodPost, "/", strings.NewReader(form.Encode()))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Authorization", "AWS4-HMAC-SHA256 Credential="+who+"/20261121/us-east-1/ec2/aws4_request")
	recorder := httptest.NewRecorder()
	a.simulator.ServeHTTP(recorder, request)
	content, err := io.ReadAll(recorder.Body)
	if err != nil {
		a.Fatal(err)
	}
	var answer struct {
		Code string `xml:"Errors>Error>Code"`
	}
	if err := xml.Unmarshal(content, &answer); err != nil {
		a.Fatalf("%s: %v\n%s", action, err, content)
	}
	return answer.Code, string(content)
}

// tagged are the parameters that give a tag to what is created.
func tagged(key, value string) []string {
	return []string{"TagSpecification.1.ResourceType=network-interface", "TagSpecification.1.Tag.1.Key=" + key, "TagSpecification.1.Tag.1.Value=" + value}
}

// create makes an interface as somebody who may do everything.
func (a account) create(tags ...string) (id string) {
	a.Helper()
	code, body := a.call("root", "CreateNetworkInterface", append([]string{"SubnetId=" + a.subnet()}, tags...)...)
	if code != "" {
		a.Fatal(body)
	}
	_, rest, _ := strings.Cut(body, "<networkInterfaceId>")
	id, _, _ = strings.Cut(rest, "<")
	return id
}

func (a account) subnet() string { return a.simulator.State().Subnets[0].SubnetID }
func (a account) group() string  { return a.simulator.State().SecurityGroups[0].GroupID }
func (a account) instance() string {
	return a.instanceIn(a.simulator.State().Subnets[0].AvailabilityZone)
}

func (a account) instanceIn(zone string) string {
	a.Helper()
	for _, instance := range a.simulator.State().Instances {
		if instance.Placement.AvailabilityZone == zone {
			return instance.InstanceID
		}
	}
	a.Fatalf("no instance in %s", zone)
	return ""
}

// attach attaches an interface as somebody who may do everything.
func (a account) attach(id, index string) (attachmentID string) {
	a.Helper()
	code, body := a.call("root", "AttachNetworkInterface", "NetworkInterfaceId="+id, "InstanceId="+a.instance(), "DeviceIndex="+index)
	if code != "" {
		a.Fatal(body)
	}
	_, rest, _ := strings.Cut(body, "<attachmentId>")
	attachmentID, _, _ = strings.Cut(rest, "<")
	return attachmentID
}

// What is not the cluster's, and what the controller has no business with, its role may not do: with somebody else's
// interface, with one of another cluster, and in other ways.
func TestControllerMayNot(t *testing.T) {
	a := newAccount(t)
	strangers := map[string]string{
		"nobody's":          a.create(),
		"another cluster's": a.create(tagged(ownership.TagCluster, "theirs")...),
	}
	const unauthorized = "UnauthorizedOperation"
	refused, index := 0, 1
	refuse := func(name, action string, parameters ...string) {
		t.Helper()
		refused++
		if code, body := a.call("controller", action, parameters...); code != unauthorized {
			t.Errorf("%s: %s says %q, want a refusal\n%s", name, action, code, body)
		}
	}
	for whose, id := range strangers {
		attachment := a.attach(a.create(tagged(ownership.TagCluster, "theirs")...), []string{"1", "2"}[index-1])
		index++
		on := "NetworkInterfaceId=" + id
		refuse(whose, "AttachNetworkInterface", on, "InstanceId="+a.instance(), "DeviceIndex=3")
		refuse(whose, "DetachNetworkInterface", "AttachmentId="+attachment)
		refuse(whose, "DetachNetworkInterface", "AttachmentId="+attachment, "Force=true")
		refuse(whose, "DeleteNetworkInterface", on)
		refuse(whose, "ModifyNetworkInterfaceAttribute", on, "SecurityGroupId.1="+a.group())
		refuse(whose, "ModifyNetworkInterfaceAttribute", on, "Description.Value=mine")
		refuse(whose, "ModifyNetworkInterfaceAttribute", on, "SourceDestCheck.Value=false")
		refuse(whose, "AssignPrivateIpAddresses", on, "SecondaryPrivateIpAddressCount=1")
		refuse(whose, "UnassignPrivateIpAddresses", on, "PrivateIpAddress.1=10.0.0.1")
		refuse(whose, "AssignIpv6Addresses", on, "Ipv6AddressCount=1")
		refuse(whose, "UnassignIpv6Addresses", on, "Ipv6Addresses.1=fd00::1")
		refuse(whose, "CreateTags", "ResourceId.1="+id, "Tag.1.Key="+ownership.TagCluster, "Tag.1.Value=ours")
		refuse(whose, "CreateTags", "ResourceId.1="+id, "Tag.1.Key=Name", "Tag.1.Value=mine")
		refuse(whose, "DeleteTags", "ResourceId.1="+id, "Tag.1.Key=Name")
	}
	in := "SubnetId=" + a.subnet()
	refuse("an interface without tags", "CreateNetworkInterface", in)
	refuse("one for another cluster", "CreateNetworkInterface", append(tagged(ownership.TagCluster, "theirs"), in)...)
	refuse("one of no cluster", "CreateNetworkInterface", append(tagged("Name", "x"), in)...)
	own := a.create(tagged(ownership.TagCluster, "ours")...)
	refuse("giving ours away", "CreateTags", "ResourceId.1="+own, "Tag.1.Key="+ownership.TagCluster, "Tag.1.Value=theirs")
	refuse("an instance's tag", "CreateTags", "ResourceId.1="+a.instance(), "Tag.1.Key=Name", "Tag.1.Value=mine")
	refuse("a subnet's tag", "CreateTags", "ResourceId.1="+a.subnet(), "Tag.1.Key=Name", "Tag.1.Value=mine")
	refuse("taking tags away", "DeleteTags", "ResourceId.1="+own, "Tag.1.Key=Name")
	refuse("ending an instance", "TerminateInstances", "InstanceId.1="+a.instance())
	refuse("stopping an instance", "StopInstances", "InstanceId.1="+a.instance())
	refuse("launching an instance", "RunInstances", "ImageId=ami-1", "InstanceType=m5.large", "MinCount=1", "MaxCount=1")
	if refused < 30 {
		t.Errorf("%d calls were tried, want 30 at least", refused)
	}
}

// With the same calls on what is the cluster's own it gets by. All stories of test/scenario run under the policy as well.
func TestControllerMay(t *testing.T) {
	a := newAccount(t)
	in := "SubnetId=" + a.subnet()
	own := a.create(tagged(ownership.TagCluster, "ours")...)
	on := "NetworkInterfaceId=" + own
	for _, c := range [][]string{
		append([]string{"CreateNetworkInterface", in, "SecurityGroupId.1=" + a.group()}, tagged(ownership.TagCluster, "ours")...),
		{"CreateTags", "ResourceId.1=" + own, "Tag.1.Key=Name", "Tag.1.Value=x"},
		{"CreateTags", "ResourceId.1=" + own, "Tag.1.Key=" + ownership.TagCluster, "Tag.1.Value=ours"},
		{"ModifyNetworkInterfaceAttribute", on, "SecurityGroupId.1=" + a.group()},
		{"ModifyNetworkInterfaceAttribute", on, "SourceDestCheck.Value=false"},
		{"AssignPrivateIpAddresses", on, "SecondaryPrivateIpAddressCount=1"},
		{"AttachNetworkInterface", on, "InstanceId=" + a.instance(), "DeviceIndex=3"},
		{"DescribeNetworkInterfaces"}, {"DescribeInstances"}, {"DescribeSubnets"}, {"DescribeSecurityGroups"},
	} {
		if code, body := a.call("controller", c[0], c[1:]...); code != "" {
			t.Errorf("%s: %s", c, body)
		}
	}
	if code, _ := a.call("controller", "DeleteNetworkInterface", "NetworkInterfaceId=eni-00000000000000bad"); code != "InvalidNetworkInterfaceID.NotFound" {
		t.Errorf("of an interface that is not there the controller hears %q", code)
	}
}

// What another node has, and nodes themselves but its own, the role of a node may not touch: with its own interfaces it may do
// all that eni-bootstrap does.
func TestANodeMayTouchWhatIsItsOwn(t *testing.T) {
	a := newAccount(t)
	instance := a.instance()
	other := a.simulator.State().Instances[len(a.simulator.State().Instances)-1].InstanceID
	of := func(instance string) []string {
		return []string{
			"TagSpecification.1.ResourceType=network-interface", "TagSpecification.1.Tag.1.Key=" + ownership.TagCluster, "TagSpecification.1.Tag.1.Value=ours",
			"TagSpecification.1.Tag.2.Key=" + ownership.TagInstanceID, "TagSpecification.1.Tag.2.Value=" + instance,
		}
	}
	in, own, others := "SubnetId="+a.subnet(), a.create(of(instance)...), a.create(of(other)...)
	const unauthorized = "UnauthorizedOperation"
	for _, c := range []struct {
		name, action string
		parameters   []string
		code         string
	}{
		{"makes one for another", "CreateNetworkInterface", append(of(other), in), unauthorized},
		{"makes one for nobody", "CreateNetworkInterface", append(tagged(ownership.TagCluster, "ours"), in), unauthorized},
		{"makes one without a cluster", "CreateNetworkInterface", append(tagged(ownership.TagInstanceID, instance), in), unauthorized},
		{"takes another's", "CreateTags", []string{"ResourceId.1=" + others, "Tag.1.Key=" + ownership.TagInstanceID, "Tag.1.Value=" + instance}, unauthorized},
		{"attaches another's", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + others, "InstanceId=" + instance, "DeviceIndex=2"}, unauthorized},
		{"attaches to another", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + own, "InstanceId=" + other, "DeviceIndex=2"}, unauthorized},
		{"deletes another's", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + others}, unauthorized},
		{"changes another's", "ModifyNetworkInterfaceAttribute", []string{"NetworkInterfaceId=" + others, "SourceDestCheck.Value=false"}, unauthorized},
		{"ends itself", "TerminateInstances", []string{"InstanceId.1=" + instance}, unauthorized},
		{"makes one for itself", "CreateNetworkInterface", append(of(instance), in), ""},
		{"changes its own", "ModifyNetworkInterfaceAttribute", []string{"NetworkInterfaceId=" + own, "SourceDestCheck.Value=false"}, ""},
		{"tags its own", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=Name", "Tag.1.Value=x"}, ""},
		{"attaches its own", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + own, "InstanceId=" + instance, "DeviceIndex=2"}, ""},
	} {
		if code, body := a.call(instance, c.action, c.parameters...); code != c.code {
			t.Errorf("a node %s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
}

// The operator adopts what is nobody's, and removes what is the cluster's; interfaces of other clusters are safe.
func TestOperator(t *testing.T) {
	a := newAccount(t)
	nobodys, theirs, ours := a.create(), a.create(tagged(ownership.TagCluster, "theirs")...), a.create(tagged(ownership.TagCluster, "ours")...)
	const unauthorized = "UnauthorizedOperation"
	adopt := []string{"Tag.1.Key=" + ownership.TagCluster, "Tag.1.Value=ours"}
	for _, c := range []struct {
		name, action string
		parameters   []string
		code         string
	}{
		{"adopts another cluster's", "CreateTags", append(adopt, "ResourceId.1="+theirs), unauthorized},
		{"deletes another cluster's", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + theirs}, unauthorized},
		{"deletes nobody's", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + nobodys}, unauthorized},
		{"attaches", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + ours, "InstanceId=" + a.instance(), "DeviceIndex=3"}, unauthorized},
		{"adopts nobody's", "CreateTags", append(adopt, "ResourceId.1="+nobodys), ""},
		{"deletes a leak", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + ours}, ""},
	} {
		if code, body := a.call("operator", c.action, c.parameters...); code != c.code {
			t.Errorf("%s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
}
