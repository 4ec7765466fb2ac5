// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/iam"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/core/identity"
)

// account is a simulated account in which the controller and the operator of cluster "ours" have their policies.
type account struct {
	*testing.T
	simulator *awssim.Simulator
}

func newAccount(t *testing.T) account {
	t.Helper()
	return accountWith(t, func(component awsec2.Component) []byte {
		document, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "ours"})
		if err != nil {
			t.Fatal(err)
		}
		return document
	})
}

// accountWith is an account in which each component has the given policy.
func accountWith(t *testing.T, policy func(awsec2.Component) []byte) account {
	t.Helper()
	policies := map[string]*iam.Policy{}
	for _, component := range awsec2.Components() {
		var err error
		if policies[string(component)], err = iam.Parse(policy(component)); err != nil {
			t.Fatal(err)
		}
	}
	for _, instance := range awssim.ExampleWorld().Instances {
		policies[instance.InstanceID] = policies[string(awsec2.Bootstrap)] // a role's session has the name of its instance
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

// tagged are the parameters that give a created resource a tag.
func tagged(key, value string) []string {
	return []string{"TagSpecification.1.ResourceType=network-interface", "TagSpecification.1.Tag.1.Key=" + key, "TagSpecification.1.Tag.1.Value=" + value}
}

// create makes an interface with all permissions.
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

// attach attaches an interface with all permissions.
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

// shipped returns the policy of a component in deploy/iam.
func shipped(t *testing.T) func(awsec2.Component) []byte {
	return func(component awsec2.Component) []byte {
		content, err := os.ReadFile("../../deploy/iam/" + string(component) + ".json")
		if err != nil {
			t.Fatal(err)
		}
		return content
	}
}

// guided returns, for the controller, the policy that the command of the guide prints for the cluster "ours", and for
// other components the shipped one.
func guided(t *testing.T) func(awsec2.Component) []byte {
	t.Helper()
	guide, err := os.ReadFile("../../docs/getting-started-eks.md")
	if err != nil {
		t.Fatal(err)
	}
	_, line, found := strings.Cut(string(guide), "\nmultieni iam-policy controller ")
	line, _, ended := strings.Cut(line, " >controller.json\n")
	if !found || !ended || !strings.Contains(string(guide), "--policy-document file://controller.json\n") {
		t.Fatal("the guide does not create the policy that it prints")
	}
	var out bytes.Buffer
	command := cli.New()
	command.SetArgs(append([]string{"iam-policy", "controller"}, strings.Fields(strings.ReplaceAll(line, "CLUSTER", "ours"))...))
	command.SetOut(&out)
	if err := command.Execute(); err != nil {
		t.Fatal(err)
	}
	return func(component awsec2.Component) []byte {
		if component == awsec2.Controller {
			return out.Bytes()
		}
		return shipped(t)(component)
	}
}

// refusals count calls that a role must be refused.
type refusals struct {
	account
	who   string
	tried int
}

func (r *refusals) refuse(name, action string, parameters ...string) {
	r.Helper()
	r.tried++
	if code, body := r.call(r.who, action, parameters...); code != "UnauthorizedOperation" {
		r.Errorf("%s: %s says %q, want a refusal\n%s", name, action, code, body)
	}
}

// everything tries all calls with another owner's interface, which is attached at the index.
func (r *refusals) everything(whose, id, attachment string) {
	r.Helper()
	on := "NetworkInterfaceId=" + id
	r.refuse(whose, "AttachNetworkInterface", on, "InstanceId="+r.instance(), "DeviceIndex=3")
	r.refuse(whose, "DetachNetworkInterface", "AttachmentId="+attachment)
	r.refuse(whose, "DetachNetworkInterface", "AttachmentId="+attachment, "Force=true")
	r.refuse(whose, "DeleteNetworkInterface", on)
	r.refuse(whose, "ModifyNetworkInterfaceAttribute", on, "SecurityGroupId.1="+r.group())
	r.refuse(whose, "ModifyNetworkInterfaceAttribute", on, "Description.Value=mine")
	r.refuse(whose, "ModifyNetworkInterfaceAttribute", on, "SourceDestCheck.Value=false")
	r.refuse(whose, "AssignPrivateIpAddresses", on, "SecondaryPrivateIpAddressCount=1")
	r.refuse(whose, "UnassignPrivateIpAddresses", on, "PrivateIpAddress.1=10.0.0.1")
	r.refuse(whose, "AssignIpv6Addresses", on, "Ipv6AddressCount=1")
	r.refuse(whose, "UnassignIpv6Addresses", on, "Ipv6Addresses.1=fd00::1")
	r.refuse(whose, "CreateTags", "ResourceId.1="+id, "Tag.1.Key="+identity.TagCluster, "Tag.1.Value=ours")
	r.refuse(whose, "CreateTags", "ResourceId.1="+id, "Tag.1.Key=Name", "Tag.1.Value=mine")
	r.refuse(whose, "DeleteTags", "ResourceId.1="+id, "Tag.1.Key=Name")
}

// These calls do not concern interfaces of other owners.
func (r *refusals) whatever() {
	r.Helper()
	own := r.create(tagged(identity.TagCluster, "ours")...)
	in := "SubnetId=" + r.subnet()
	r.refuse("an interface without tags", "CreateNetworkInterface", in)
	r.refuse("one of no cluster", "CreateNetworkInterface", append(tagged("Name", "x"), in)...)
	r.refuse("giving ours away", "CreateTags", "ResourceId.1="+own, "Tag.1.Key="+identity.TagCluster, "Tag.1.Value=theirs")
	r.refuse("an instance's tag", "CreateTags", "ResourceId.1="+r.instance(), "Tag.1.Key=Name", "Tag.1.Value=mine")
	r.refuse("a subnet's tag", "CreateTags", "ResourceId.1="+r.subnet(), "Tag.1.Key=Name", "Tag.1.Value=mine")
	r.refuse("taking tags away", "DeleteTags", "ResourceId.1="+own, "Tag.1.Key=Name")
	r.refuse("ending an instance", "TerminateInstances", "InstanceId.1="+r.instance())
	r.refuse("stopping an instance", "StopInstances", "InstanceId.1="+r.instance())
	r.refuse("launching an instance", "RunInstances", "ImageId=ami-1", "InstanceType=m5.large", "MinCount=1", "MaxCount=1")
}

// The policy that the guide creates refuses the controller all calls outside the cluster: on an interface without an
// owner, one of another cluster, instances without the cluster's tag, and more.
func TestControllerMayNot(t *testing.T) {
	r := refusals{account: accountWith(t, guided(t)), who: "controller"}
	r.everything("nobody's", r.create(), r.attach(r.create(), "1"))
	theirs := tagged(identity.TagCluster, "theirs")
	r.everything("another cluster's", r.create(theirs...), r.attach(r.create(theirs...), "2"))
	r.refuse("one for another cluster", "CreateNetworkInterface", append(theirs, "SubnetId="+r.subnet())...)
	r.refuse("an instance of nobody's", "AttachNetworkInterface", "NetworkInterfaceId="+r.create(tagged(identity.TagCluster, "ours")...),
		"InstanceId="+r.instance(), "DeviceIndex=3")
	r.whatever()
	if r.tried < 30 {
		t.Errorf("%d calls were tried, want 30 at least", r.tried)
	}
}

// The files of deploy/iam, which name no cluster, refuse calls on resources without a cluster's tag. They do not
// distinguish clusters.
func TestShippedPoliciesRefuseWhatIsNobodys(t *testing.T) {
	for _, who := range []string{"controller", "lifecycle-hook"} {
		t.Run(who, func(t *testing.T) {
			r := refusals{account: accountWith(t, shipped(t)), who: who}
			r.everything("nobody's", r.create(), r.attach(r.create(), "1"))
			r.whatever()
		})
	}
}

// The policy allows the same calls on the cluster's own resources. All stories of test/scenario run under the policy as
// well.
func TestControllerMay(t *testing.T) {
	a := newAccount(t)
	in := "SubnetId=" + a.subnet()
	own := a.create(tagged(identity.TagCluster, "ours")...)
	on := "NetworkInterfaceId=" + own
	for _, c := range [][]string{
		append([]string{"CreateNetworkInterface", in, "SecurityGroupId.1=" + a.group()}, tagged(identity.TagCluster, "ours")...),
		{"CreateTags", "ResourceId.1=" + own, "Tag.1.Key=Name", "Tag.1.Value=x"},
		{"CreateTags", "ResourceId.1=" + own, "Tag.1.Key=" + identity.TagCluster, "Tag.1.Value=ours"},
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
		t.Errorf("of an interface that is not there the controller gets %q", code)
	}
}

// The role of a node allows all that eni-bootstrap does with the node's own interfaces, and no change of other
// instances or of their interfaces.
func TestANodeMayTouchWhatIsItsOwn(t *testing.T) {
	a := newAccount(t)
	instance := a.instance()
	other := a.simulator.State().Instances[len(a.simulator.State().Instances)-1].InstanceID
	of := func(instance string) []string {
		return []string{
			"TagSpecification.1.ResourceType=network-interface", "TagSpecification.1.Tag.1.Key=" + identity.TagCluster, "TagSpecification.1.Tag.1.Value=ours",
			"TagSpecification.1.Tag.2.Key=" + identity.TagInstanceID, "TagSpecification.1.Tag.2.Value=" + instance,
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
		{"makes one for nobody", "CreateNetworkInterface", append(tagged(identity.TagCluster, "ours"), in), unauthorized},
		{"makes one without a cluster", "CreateNetworkInterface", append(tagged(identity.TagInstanceID, instance), in), unauthorized},
		{"takes another's", "CreateTags", []string{"ResourceId.1=" + others, "Tag.1.Key=" + identity.TagInstanceID, "Tag.1.Value=" + instance}, unauthorized},
		{"attaches another's", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + others, "InstanceId=" + instance, "DeviceIndex=2"}, unauthorized},
		{"attaches to another", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + own, "InstanceId=" + other, "DeviceIndex=2"}, unauthorized},
		{"deletes another's", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + others}, unauthorized},
		{"changes another's", "ModifyNetworkInterfaceAttribute", []string{"NetworkInterfaceId=" + others, "SourceDestCheck.Value=false"}, unauthorized},
		{"gives its own to another", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=" + identity.TagInstanceID, "Tag.1.Value=" + other}, unauthorized},
		{"gives its own to every node", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=" + identity.TagInstanceID, "Tag.1.Value=*"}, unauthorized},
		{"gives its own to another cluster", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=" + identity.TagCluster, "Tag.1.Value=theirs"}, unauthorized},
		{"makes one for every node", "CreateNetworkInterface", append(of("*"), in), unauthorized},
		{"ends itself", "TerminateInstances", []string{"InstanceId.1=" + instance}, unauthorized},
		{"makes one for itself", "CreateNetworkInterface", append(of(instance), in), ""},
		{"changes its own", "ModifyNetworkInterfaceAttribute", []string{"NetworkInterfaceId=" + own, "SourceDestCheck.Value=false"}, ""},
		{"tags its own anew", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=" + identity.TagInstanceID, "Tag.1.Value=" + instance}, ""},
		{"tags its own", "CreateTags", []string{"ResourceId.1=" + own, "Tag.1.Key=Name", "Tag.1.Value=x"}, ""},
		{"attaches its own", "AttachNetworkInterface", []string{"NetworkInterfaceId=" + own, "InstanceId=" + instance, "DeviceIndex=2"}, ""},
	} {
		if code, body := a.call(instance, c.action, c.parameters...); code != c.code {
			t.Errorf("a node %s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
}

// With subnets and groups in its policy a node can create no interface elsewhere and use no other group.
func TestANodeKeepsToItsSubnets(t *testing.T) {
	world := awssim.ExampleWorld()
	subnet, group := world.Subnets[0].SubnetID, world.SecurityGroups[0].GroupID
	a := accountWith(t, func(component awsec2.Component) []byte {
		document, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "ours", SubnetIDs: []string{subnet}, SecurityGroupIDs: []string{group}})
		if err != nil {
			t.Fatal(err)
		}
		return document
	})
	instance := a.instance()
	tags := []string{
		"TagSpecification.1.ResourceType=network-interface", "TagSpecification.1.Tag.1.Key=" + identity.TagCluster, "TagSpecification.1.Tag.1.Value=ours",
		"TagSpecification.1.Tag.2.Key=" + identity.TagInstanceID, "TagSpecification.1.Tag.2.Value=" + instance,
	}
	for _, c := range []struct{ name, subnet, group, code string }{
		{"its own", subnet, group, ""},
		{"another subnet", world.Subnets[1].SubnetID, group, "UnauthorizedOperation"},
		{"another group", subnet, world.SecurityGroups[1].GroupID, "UnauthorizedOperation"},
	} {
		code, body := a.call(instance, "CreateNetworkInterface", append(tags, "SubnetId="+c.subnet, "SecurityGroupId.1="+c.group)...)
		if code != c.code {
			t.Errorf("%s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
}

// The operator can adopt interfaces without an owner, give them back and remove the cluster's own, but cannot change
// interfaces of other clusters.
func TestOperator(t *testing.T) {
	a := newAccount(t)
	nobodys, theirs, ours := a.create(), a.create(tagged(identity.TagCluster, "theirs")...), a.create(tagged(identity.TagCluster, "ours")...)
	imported := a.create(append(tagged(identity.TagCluster, "ours"),
		"TagSpecification.1.Tag.2.Key="+identity.TagImportedFrom, "TagSpecification.1.Tag.2.Value=multus-function")...)
	const unauthorized = "UnauthorizedOperation"
	adopt := []string{"Tag.1.Key=" + identity.TagCluster, "Tag.1.Value=ours"}
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
		{"takes the tags of what multieni created", "DeleteTags", []string{"ResourceId.1=" + ours, "Tag.1.Key=" + identity.TagCluster}, unauthorized},
		{"takes a user's tag of an import", "DeleteTags", []string{"ResourceId.1=" + imported, "Tag.1.Key=team"}, unauthorized},
		{"takes all tags of an import", "DeleteTags", []string{"ResourceId.1=" + imported}, unauthorized},
		{"gives an import back", "DeleteTags", []string{
			"ResourceId.1=" + imported, "Tag.1.Key=" + identity.TagCluster, "Tag.2.Key=" + identity.TagImportedFrom,
		}, ""},
		{"deletes a leak", "DeleteNetworkInterface", []string{"NetworkInterfaceId=" + ours}, ""},
	} {
		if code, body := a.call("operator", c.action, c.parameters...); code != c.code {
			t.Errorf("%s: %q, want %q\n%s", c.name, code, c.code, body)
		}
	}
}
