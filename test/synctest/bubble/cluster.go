// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package bubble

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

// Prepare prepares the process for bubbles. Call it once, before the first.
func Prepare() {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// One of the default handlers sleeps relative to the time of the last error in the process, which may have been in
	// another bubble, or in none.
	utilruntime.ErrorHandlers = nil //nolint:reassign // the variable is how a program sets them
}

const (
	vpcID   = "vpc-0000000000000000a"
	groupID = "sg-0000000000000000a"
	// OtherGroupID is a security group that no NodeENI asks for at first.
	OtherGroupID = "sg-0000000000000000b"
	// PoolLabel is the label of Nodes that selectors of NodeENIs match.
	PoolLabel = "pool"
	// Booting is how long an instance can take until it runs.
	Booting = 20 * time.Second
)

var zones = []string{"us-east-1a", "us-east-1b"}

// SubnetIDs returns the subnets of the world for a use, one in each zone: hosts, data, storage or spare.
func SubnetIDs(use string) []string {
	return map[string][]string{
		"hosts":   {"subnet-0000000000000000a", "subnet-0000000000000000b"},
		"data":    {"subnet-000000000000001a", "subnet-000000000000001b"},
		"storage": {"subnet-000000000000002a", "subnet-000000000000002b"},
		"spare":   {"subnet-000000000000003a", "subnet-000000000000003b"},
	}[use]
}

// World is an account with two zones and room for 8,000 nodes with two interfaces each.
func World() awssim.World {
	w := awssim.World{World: ec2.World{
		Region: "us-east-1",
		VPCs:   []ec2.WorldVPC{{VPCID: vpcID, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
		SecurityGroups: []ec2.WorldSecurityGroup{
			{GroupID: groupID, GroupName: "data", VPCID: vpcID}, {GroupID: OtherGroupID, GroupName: "other", VPCID: vpcID},
		},
		Quotas: ec2.WorldQuotas{NetworkInterfaces: 40000},
	}}
	for z, zone := range zones {
		w.AvailabilityZones = append(w.AvailabilityZones,
			ec2.WorldZone{ZoneName: zone, ZoneID: fmt.Sprintf("use1-az%d", z+1)})
	}
	for n, use := range []string{"hosts", "data", "storage", "spare"} {
		for z, zone := range zones {
			w.Subnets = append(w.Subnets, ec2.WorldSubnet{
				SubnetID: SubnetIDs(use)[z], VPCID: vpcID, AvailabilityZone: zone,
				CIDRBlock: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(32 * (2*n + z)), 0}), 19),
			})
		}
	}
	return w
}

// Cluster is a Kubernetes cluster in an EC2 account, with any number of controllers.
type Cluster struct {
	*testing.T
	API *kubeapi.Server
	EC2 *awssim.Simulator
	// User is a person's client.
	User      client.WithWatch
	latencies Latencies
	// started counts controllers, and launched nodes.
	started, launched int
}

// Latencies are the durations of a controller's calls. In the zero value no call takes any time.
type Latencies struct {
	// EC2 has the latencies by action.
	EC2 map[string]ec2.Latency
	// Kubernetes is the time from a request to its answer, or to the beginning of a watch.
	Kubernetes time.Duration
}

// Seed is the seed of everything random in EC2.
const Seed = 1

// New begins a cluster in a bubble, in which calls take no time.
func New(t *testing.T, w awssim.World) *Cluster {
	t.Helper()
	return NewWithLatencies(t, w, Latencies{})
}

// NewWithLatencies begins a cluster in a bubble.
func NewWithLatencies(t *testing.T, w awssim.World, l Latencies) *Cluster {
	t.Helper()
	behavior := ec2.LaggingBehavior()
	behavior.Calls = l.EC2
	sim, err := awssim.New(awssim.Options{World: w, Behavior: &behavior, Seed: Seed})
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{T: t, API: kubeapi.New(), EC2: sim, latencies: l}
	scheme := runtime.NewScheme()
	c.Must(clientgoscheme.AddToScheme(scheme))
	c.Must(v1alpha1.AddToScheme(scheme))
	c.User, err = client.NewWithWatch(kubeapi.Config(c.API), client.Options{Scheme: scheme})
	c.Must(err)
	return c
}

// Agent returns the access of a node's agent to the API server, whose requests take as long as those of a controller.
func (c *Cluster) Agent() *rest.Config {
	return kubeapi.Config(newLink(c.API, Seed, c.latencies.Kubernetes, func(*http.Request) func() { return func() {} }))
}

// Must ends the test if there was an error.
func (c *Cluster) Must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// Join launches instances, half of them in each zone, and adds their Nodes once they run.
func (c *Cluster) Join(count int, pool string) (names []string) {
	c.Helper()
	nodes := c.Launch(count, pool)
	time.Sleep(Booting)
	for _, node := range nodes {
		c.Must(c.User.Create(c.Context(), node))
		names = append(names, node.Name)
	}
	return names
}

// Launch launches instances, half of them in each zone, and returns their Nodes once they run, after Booting.
func (c *Cluster) Launch(count int, pool string) (nodes []*corev1.Node) {
	c.Helper()
	for range count {
		zone := ZoneAt(c.launched)
		c.launched++
		launched, err := c.EC2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone})
		c.Must(err)
		nodes = append(nodes, Node(fmt.Sprintf("node-%04d", c.launched), pool, launched[0]))
	}
	return nodes
}

// Node returns the Node of an instance.
func Node(name, pool string, instance *ec2.Instance) *corev1.Node {
	zone := instance.Placement.AvailabilityZone
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: instance.InstanceType, PoolLabel: pool,
		}},
		Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instance.InstanceID},
	}
}

// InstanceOf returns the instance of a Node.
func InstanceOf(node *corev1.Node) string {
	return node.Spec.ProviderID[strings.LastIndex(node.Spec.ProviderID, "/")+1:]
}

// Declare creates a NodeENI for the nodes of a pool in the subnets of a use.
func (c *Cluster) Declare(name, pool, use string) *v1alpha1.NodeENI {
	c.Helper()
	n := NodeENI(name, pool, use)
	c.Must(c.User.Create(c.Context(), n))
	return n
}

// NodeENI returns one for the nodes of a pool in the subnets of a use.
func NodeENI(name, pool, use string) *v1alpha1.NodeENI {
	return &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeENISpec{
		NodeSelector: map[string]v1alpha1.LabelValue{PoolLabel: v1alpha1.LabelValue(pool)},
		SubnetIDs:    SubnetIDs(use), SecurityGroupIDs: []string{groupID},
		DeviceIndex: 1, DeviceIndexPolicy: v1alpha1.DeviceIndexPrefer, DeleteOnTermination: ptr.To(true),
		UpdatePolicy: v1alpha1.UpdateInPlace, MaxUnavailable: 1,
	}}
}

// ZoneAt returns the zone of the n-th node. Nodes are spread evenly over the zones.
func ZoneAt(n int) string { return zones[n%len(zones)] }
