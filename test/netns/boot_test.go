// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdk "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/host/netlink/netlinktest"
	"github.com/multieni/multieni/test/inputs"
)

const (
	subnet1 = "subnet-0f59b4f14737be9ad"
	subnet2 = "subnet-abcdef1234567890"
	// networksFile is the content of the file of --config, and of the SSM parameter of the same name without the dot.
	networksFile = `cluster: c
networks:
- {name: n3, deviceIndex: 1, subnetIDs: [` + subnet1 + `], securityGroupIDs: [sg-05da196f3314d4af8], mtu: 8500, sysctls: {ipv4.rp_filter: 1}}
- {name: n6, deviceIndex: 2, subnetIDs: [` + subnet2 + `], securityGroupIDs: [sg-05da196f3314d4af8]}
`
	ssmParameter = "/multus/networks"
)

// TestBoot runs the program that nodes run, in network namespaces.
func TestBoot(t *testing.T) {
	netlinktest.New(t) // or end the test
	program := filepath.Join(t.TempDir(), "eni-bootstrap")
	if err := inputs.Build(t.Context(), program, "github.com/multieni/multieni/cmd/eni-bootstrap"); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]func(*testing.T, string){
		"and reboot": bootAndReboot, "cut short": bootCutShort, "that fails": bootThatFails, "configured from elsewhere": bootConfiguredFromElsewhere,
	} {
		t.Run(name, func(t *testing.T) { test(t, program) })
	}
}

// bootingNode is an instance in a simulated EC2 and its network namespace. An interface that EC2 attaches appears there
// as a link.
type bootingNode struct {
	*netlinktest.Namespace
	t         *testing.T
	vpc       *netlinktest.Namespace
	sim       *awssim.Simulator
	id        string
	program   string
	dir       string
	endpoint  string
	unplugged bool              // attached interfaces have no link
	links     map[string]string // names by MAC
}

func newBootingNode(t *testing.T, program string, change ...func(*sdk.RunInstancesInput)) *bootingNode {
	t.Helper()
	n := &bootingNode{t: t, Namespace: netlinktest.New(t), vpc: netlinktest.New(t), program: program, dir: t.TempDir(), links: map[string]string{}}
	world := awssim.ExampleWorld()
	world.Parameters[ssmParameter] = networksFile
	var err error
	if n.sim, err = awssim.New(awssim.Options{World: world, Behavior: &ec2.Behavior{}}); err != nil {
		t.Fatal(err)
	}
	n.serve()
	n.launch(world.Images[0].ImageID, change...)
	n.plugIn()
	return n
}

// secretKey must be in no log.
const secretKey = "a-secret-access-key"

// launch launches the instance.
func (n *bootingNode) launch(image string, change ...func(*sdk.RunInstancesInput)) {
	n.t.Helper()
	in := &sdk.RunInstancesInput{
		ImageId: &image, InstanceType: types.InstanceTypeM5Xlarge, SubnetId: aws.String("subnet-0aa0000000000000a"), MinCount: aws.Int32(1), MaxCount: aws.Int32(1),
	}
	for _, f := range change {
		f(in)
	}
	client := sdk.New(sdk.Options{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: n.sim.Transport()},
	})
	launched, err := client.RunInstances(n.t.Context(), in)
	if err != nil {
		n.t.Fatal(err)
	}
	n.id = *launched.Instances[0].InstanceId
}

// serve makes the simulator reachable at the namespace's loopback address.
func (n *bootingNode) serve() {
	n.t.Helper()
	var server *awssim.Server
	var err error
	n.Do(func() { server, err = awssim.Listen(context.Background(), "127.0.0.1:0", n.sim) })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { _ = server.Close() })
	n.endpoint = server.URL()
}

// plugIn creates the links of attached interfaces, down and without configuration, and removes those of detached ones.
func (n *bootingNode) plugIn() {
	attached := map[string]bool{}
	interfaces := slices.DeleteFunc(n.sim.State().NetworkInterfaces, func(i *ec2.NetworkInterface) bool {
		return i.Attachment == nil || i.Attachment.InstanceID != n.id || n.unplugged && i.Attachment.DeviceIndex > 0
	})
	for _, i := range interfaces {
		attached[i.MACAddress] = true
	}
	for mac, name := range n.links {
		if !attached[mac] {
			n.IP("link delete " + name)
			delete(n.links, mac)
		}
	}
	for _, i := range interfaces {
		if n.links[i.MACAddress] != "" {
			continue
		}
		slot := 5 + i.Attachment.DeviceIndex
		n.Attach(fmt.Sprintf("ens%d", slot), i.MACAddress, n.vpc, fmt.Sprintf("peer%d", slot))
		n.links[i.MACAddress] = fmt.Sprintf("ens%d", slot)
	}
}

// powerOff removes all links, as a power cycle does.
func (n *bootingNode) powerOff() {
	for mac, name := range n.links {
		n.IP("link delete " + name)
		delete(n.links, mac)
	}
	n.plugIn()
}

// sysfs returns a folder that shows the links as those of PCI devices.
func (n *bootingNode) sysfs() string {
	n.t.Helper()
	sysfs := n.t.TempDir()
	for slot := 5; slot < 10; slot++ {
		address := fmt.Sprintf("0000:00:%02d.0", slot)
		device, link := filepath.Join(sysfs, "bus/pci/devices", address), filepath.Join(sysfs, "class/net", fmt.Sprintf("ens%d", slot))
		if err := errors.Join(
			os.MkdirAll(device, 0o755), os.MkdirAll(link, 0o755), os.Symlink("../../drivers/ena", filepath.Join(device, "driver")),
			os.Symlink("../../../devices/pci0000:00/"+address, filepath.Join(link, "device")),
		); err != nil {
			n.t.Fatal(err)
		}
	}
	return sysfs
}

// outcome is how the program ended.
type outcome struct {
	exit   int
	output string
	// kubelet is the configuration that nodeadm receives.
	kubelet string
}

// boot runs the program as its unit does, concurrently with the kernel.
func (n *bootingNode) boot(arguments ...string) outcome {
	n.t.Helper()
	networks, kubelet := filepath.Join(n.dir, "networks.yaml"), filepath.Join(n.dir, "kubelet.yaml")
	if err := errors.Join(os.WriteFile(networks, []byte(networksFile), 0o600), os.RemoveAll(kubelet)); err != nil {
		n.t.Fatal(err)
	}
	if !slices.ContainsFunc(arguments, func(a string) bool { return strings.HasPrefix(a, "--ssm-parameter") || a == "--instance-tags" }) {
		arguments = append(arguments, "--config="+networks)
	}
	arguments = append([]string{
		"--mount", "--propagation", "private", "sh", "-c", `mount --bind "$SYSFS" /sys && exec "$@"`, "sh", n.program,
		"--state-dir=" + n.dir, "--node-config=" + kubelet, "--patience=8s", "--link-timeout=2s",
	}, arguments...)
	command := exec.Command("unshare", arguments...)
	command.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + n.dir, "SYSFS=" + n.sysfs(), "AWS_ENDPOINT_URL=" + n.endpoint,
		"AWS_EC2_METADATA_SERVICE_ENDPOINT=" + strings.Replace(n.endpoint, "://", "://"+n.id+"@", 1), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=" + secretKey,
	}
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	var err error
	n.Do(func() { err = command.Start() })
	if err != nil {
		n.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	for running := true; running; {
		select {
		case err = <-ended:
			running = false
		case <-time.After(20 * time.Millisecond): // hot plugging has no other signal
			n.plugIn()
		}
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		if n.t.Failed() {
			n.t.Logf("eni-bootstrap %s\n%s", strings.Join(arguments[8:], " "), output.String())
		}
	})
	if strings.Contains(output.String(), secretKey) {
		n.t.Errorf("the node's secret is told:\n%s", output.String())
	}
	told, _ := os.ReadFile(kubelet)
	return outcome{command.ProcessState.ExitCode(), output.String(), string(told)}
}

// has describes the instance's interfaces that are ours, by their slots, and all other remaining ones.
func (n *bootingNode) has() []string {
	var all []string
	for _, i := range n.sim.State().NetworkInterfaces {
		switch {
		case i.Tags[identity.TagCluster] == "":
		case i.Attachment == nil:
			all = append(all, i.SubnetID+" "+i.Status)
		default:
			all = append(all, fmt.Sprintf("%s device %d, deleted with the instance: %t", i.SubnetID, i.Attachment.DeviceIndex, i.Attachment.DeleteOnTermination))
		}
	}
	slices.Sort(all)
	return all
}

// both are the interfaces of both networks.
var both = []string{
	subnet2 + " device 2, deleted with the instance: true",
	subnet1 + " device 1, deleted with the instance: true",
}

func (n *bootingNode) want(interfaces ...string) {
	n.t.Helper()
	slices.Sort(interfaces)
	if diff := cmp.Diff(interfaces, n.has(), cmpopts.EquateEmpty()); diff != "" {
		n.t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

// usable checks that the links of both networks are up, with their names and the settings of the file.
func (n *bootingNode) usable() {
	n.t.Helper()
	for name, mtu := range map[string]string{"net-n3": "mtu 8500", "net-n6": "mtu 9001"} {
		link := n.IP("-o link show dev " + name)
		if !strings.Contains(link, ",UP,") || !strings.Contains(link, mtu) {
			n.t.Errorf("the link %s is %s", name, link)
		}
		filter := n.setting(strings.TrimSuffix(strings.Fields(link)[1], ":"), "rp_filter")
		if strict := filter == "1"; strict != (name == "net-n3") {
			n.t.Errorf("rp_filter of %s is %s", name, filter)
		}
		if addresses := n.IP("-o -4 address show dev " + name); addresses != "" {
			n.t.Errorf("the host has an address on %s: %s", name, addresses)
		}
	}
}

// setting reads a kernel setting of a link.
func (n *bootingNode) setting(link, name string) string {
	n.t.Helper()
	link, _, _ = strings.Cut(link, "@")
	var text []byte
	var err error
	n.Do(func() { text, err = os.ReadFile("/proc/sys/net/ipv4/conf/" + link + "/" + name) })
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// calls counts the calls to EC2 since the counters were reset.
func (n *bootingNode) calls() (mutating, all int) {
	c := n.sim.Calls()
	return c.Mutating.Count, c.Mutating.Count + c.NonMutating.Count
}

// fault starts a fault.
func (n *bootingNode) fault(f fault.Fault) {
	n.t.Helper()
	if _, err := n.sim.AddFault(f); err != nil {
		n.t.Fatal(err)
	}
}

// From metadata to configured links, and again at the next boot: then without a call to EC2, which may be unavailable.
func bootAndReboot(t *testing.T, program string) {
	n := newBootingNode(t, program)
	first := n.boot()
	if first.exit != 0 || !strings.Contains(first.kubelet, "networking.k8s.aws/network.n3=true") || strings.Contains(first.kubelet, "taint") {
		t.Fatalf("it ended with %d and told nodeadm:\n%s", first.exit, first.kubelet)
	}
	n.want(both...)
	n.usable()
	var record struct {
		Interfaces []struct{ Network, ENIID string }
	}
	text, err := os.ReadFile(filepath.Join(n.dir, "bootstrap.json"))
	if err := errors.Join(err, json.Unmarshal(text, &record)); err != nil || len(record.Interfaces) != 2 {
		t.Errorf("the record is %s: %v", text, err)
	}

	n.powerOff()
	n.sim.ResetCalls()
	n.fault(fault.Fault{Kind: fault.Throttle})
	if again := n.boot(); again.exit != 0 || again.kubelet != first.kubelet {
		t.Errorf("the second boot ended with %d and told nodeadm:\n%s", again.exit, again.kubelet)
	}
	if mutating, all := n.calls(); all != 0 {
		t.Errorf("the second boot took %d calls, %d of them mutating", all, mutating)
	}
	n.want(both...)
	n.usable()
}

// The next boot completes an interrupted one, and adopts the existing interfaces.
func bootCutShort(t *testing.T, program string) {
	n := newBootingNode(t, program)
	n.unplugged = true
	if first := n.boot(); first.exit != 20 {
		t.Fatalf("it ended with %d, though no link came", first.exit)
	}
	n.want(both...)
	n.unplugged = false
	n.plugIn()
	if err := os.Remove(filepath.Join(n.dir, "bootstrap.json")); err != nil {
		t.Fatal(err)
	}
	n.sim.ResetCalls()
	if second := n.boot(); second.exit != 0 {
		t.Errorf("it ended with %d", second.exit)
	}
	if mutating, _ := n.calls(); mutating != 0 {
		t.Errorf("the second boot took %d mutating calls", mutating)
	}
	n.want(both...)
	n.usable()
}

// Without a required network the node does not join, or joins as the policy says and reports it. No part of its
// networks stays.
func bootThatFails(t *testing.T, program string) {
	for name, tc := range map[string]struct {
		fault fault.Fault
		says  string // the cause
	}{
		"the API is throttled":      {fault.Fault{Kind: fault.Throttle}, "RequestLimitExceeded"},
		"one subnet is full":        {fault.Fault{Kind: fault.SubnetFull, Resource: subnet2}, subnet2},
		"interfaces cannot be made": {fault.Fault{Kind: fault.Error, Action: "CreateNetworkInterface", Code: "UnauthorizedOperation", Status: 403}, "UnauthorizedOperation"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBootingNode(t, program)
			n.fault(tc.fault)
			for policy, want := range map[string]struct {
				exit  int
				taint bool
			}{"fail": {20, false}, "taint": {0, true}, "continue": {0, false}} {
				begun := time.Now()
				got := n.boot("--on-failure="+policy, "--patience=1s")
				if took := time.Since(begun); took > time.Minute {
					t.Errorf("with --on-failure=%s and a patience of a second it ended after %s", policy, took)
				}
				if got.exit != want.exit || strings.Contains(got.kubelet, "networking.k8s.aws/networks=missing:NoSchedule") != want.taint {
					t.Errorf("with --on-failure=%s it ended with %d and told nodeadm:\n%s", policy, got.exit, got.kubelet)
				}
				if strings.Contains(got.kubelet, "network.n3") || !strings.Contains(got.output, "a required network is missing") || !strings.Contains(got.output, tc.says) {
					t.Errorf("with --on-failure=%s it does not say what is missing:\n%s\n%s", policy, got.output, got.kubelet)
				}
			}
			n.want()
			n.sim.ClearFaults()
			if got := n.boot(); got.exit != 0 {
				t.Errorf("when nothing is wrong any more it ended with %d", got.exit)
			}
			n.want(both...)
			n.usable()
		})
	}
}

// The source of the configuration makes no difference.
func bootConfiguredFromElsewhere(t *testing.T, program string) {
	tagged := func(in *sdk.RunInstancesInput) {
		in.MetadataOptions = &types.InstanceMetadataOptionsRequest{InstanceMetadataTags: types.InstanceMetadataTagsStateEnabled}
		in.TagSpecifications = []types.TagSpecification{{ResourceType: types.ResourceTypeInstance, Tags: []types.Tag{
			{Key: aws.String("ClusterName"), Value: aws.String("c")}, {Key: aws.String("MultusSecurityGroupIds"), Value: aws.String("sg-05da196f3314d4af8")},
			{Key: aws.String("MultusSubnetsAz1"), Value: aws.String(subnet1 + "," + subnet2)},
		}}}
	}
	hidden := func(in *sdk.RunInstancesInput) { tagged(in); in.MetadataOptions = nil }
	for name, tc := range map[string]struct {
		instance func(*sdk.RunInstancesInput)
		argument string
		exit     int
		want     []string
	}{
		"an SSM parameter":                {func(*sdk.RunInstancesInput) {}, "--ssm-parameter=" + ssmParameter, 0, both},
		"an SSM parameter there is not":   {func(*sdk.RunInstancesInput) {}, "--ssm-parameter=/other", 20, nil},
		"tags of the instance":            {tagged, "--instance-tags", 0, both},
		"tags that metadata does not say": {hidden, "--instance-tags", 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			n := newBootingNode(t, program, tc.instance)
			if got := n.boot(tc.argument); got.exit != tc.exit {
				t.Errorf("it ended with %d", got.exit)
			}
			n.want(tc.want...)
		})
	}
}
