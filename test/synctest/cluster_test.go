// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/options"
	"github.com/multieni/multieni/test/synctest/kubeapi"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	klog.SetLogger(logr.Discard())
	// One of the default handlers sleeps by the time of the last error in the process, which may be that of another bubble,
	// or none.
	utilruntime.ErrorHandlers = nil
	goleak.VerifyTestMain(m)
}

const (
	vpcID     = "vpc-0000000000000000a"
	groupID   = "sg-0000000000000000a"
	poolLabel = "pool"
	// booting is as long as an instance can take to run.
	booting = 20 * time.Second
	// lastWords is longer than anything of a stopped controller still waits for.
	lastWords = 2 * time.Minute
)

var zones = []string{"us-east-1a", "us-east-1b"}

// subnetIDs are the subnets of the world by their use, in the order of zones.
var subnetIDs = map[string][]string{
	"hosts":   {"subnet-0000000000000000a", "subnet-0000000000000000b"},
	"data":    {"subnet-000000000000001a", "subnet-000000000000001b"},
	"storage": {"subnet-000000000000002a", "subnet-000000000000002b"},
}

func world() awssim.World {
	w := awssim.World{
		Region:         "us-east-1",
		VPCs:           []ec2.WorldVPC{{VPCID: vpcID, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
		SecurityGroups: []ec2.WorldSecurityGroup{{GroupID: groupID, GroupName: "data", VPCID: vpcID}},
		Quotas:         ec2.WorldQuotas{NetworkInterfaces: 20000},
	}
	for z, zone := range zones {
		w.AvailabilityZones = append(w.AvailabilityZones, ec2.WorldZone{ZoneName: zone, ZoneID: fmt.Sprintf("use1-az%d", z+1)})
	}
	for n, use := range []string{"hosts", "data", "storage"} {
		for z, zone := range zones {
			w.Subnets = append(w.Subnets, ec2.WorldSubnet{
				SubnetID: subnetIDs[use][z], VPCID: vpcID, AvailabilityZone: zone,
				CIDRBlock: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(32 * (2*n + z)), 0}), 19),
			})
		}
	}
	return w
}

// cluster is a Kubernetes cluster in an EC2 account, with any number of controllers.
type cluster struct {
	*testing.T
	api *kubeapi.Server
	ec2 *awssim.Simulator
	// user is a person's client.
	user client.Client
	// started counts controllers, and launched nodes.
	started, launched int
}

// newCluster begins a cluster in a bubble.
func newCluster(t *testing.T, w awssim.World) *cluster {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: w, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, api: kubeapi.New(), ec2: sim}
	scheme := runtime.NewScheme()
	c.must(clientgoscheme.AddToScheme(scheme))
	c.must(v1alpha1.AddToScheme(scheme))
	c.user, err = client.New(kubeapi.Config(c.api), client.Options{Scheme: scheme})
	c.must(err)
	return c
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		c.Fatal(err)
	}
}

// mutation is one changing call to EC2.
type mutation struct {
	at     time.Time
	action string
}

// controller is one replica.
type controller struct {
	kubernetes, ec2 *link
	stop            context.CancelFunc
	// ended is closed when the controller has ended with the error.
	ended chan struct{}
	err   error

	mu        sync.Mutex
	mutations []mutation
	renewed   time.Time
}

// defaults returns the options of `multieni controller` without flags, but for what has no place in a bubble.
func (c *cluster) defaults() options.Controller {
	var o options.Controller
	o.Bind(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.Region, o.MetricsAddress, o.ProbeAddress = "us-east-1", "0", "0"
	o.LeaderElectionNamespace = "kube-system"
	c.must(o.Validate())
	return o
}

// start starts a controller, which runs until it is stopped or the test ends.
func (c *cluster) start(o options.Controller) *controller {
	c.Helper()
	c.started++
	r := &controller{ended: make(chan struct{})}
	r.kubernetes = newLink(c.api, uint64(c.started), r.noteRenewal)
	r.ec2 = newLink(c.ec2.Transport(), uint64(c.started), r.noteMutation)
	ctx, stop := context.WithCancel(c.Context())
	r.stop = stop
	surroundings := cli.Surroundings{
		Kubernetes: kubeapi.Config(r.kubernetes), AWS: r.aws, Metrics: prometheus.NewRegistry(), Log: logger(c.started),
	}
	go func() {
		defer close(r.ended)
		r.err = cli.RunController(ctx, o, surroundings)
	}()
	c.Cleanup(r.halt)
	return r
}

// logger writes to standard error what the variable SYNCTEST_LOG wants to see.
func logger(replica int) *slog.Logger {
	var level slog.Level
	if level.UnmarshalText([]byte(os.Getenv("SYNCTEST_LOG"))) != nil {
		return slog.New(slog.DiscardHandler)
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: level})).With("replica", replica)
}

func (r *controller) aws(_ context.Context, region string) (aws.Config, error) {
	return aws.Config{
		Region: region, BaseEndpoint: aws.String("http://ec2.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""),
		HTTPClient:  &http.Client{Transport: r.ec2, Timeout: givingUp},
	}, nil
}

// halt stops a controller and returns once nothing of it is left.
func (r *controller) halt() {
	r.stop()
	<-r.ended
	time.Sleep(lastWords)
	synctest.Wait()
}

func (r *controller) noteRenewal(request *http.Request) {
	if request.Method == http.MethodPut && strings.Contains(request.URL.Path, "/leases/") {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.renewed = time.Now()
	}
}

func (r *controller) noteMutation(request *http.Request) {
	body, err := io.ReadAll(request.Body)
	request.Body = io.NopCloser(bytes.NewReader(body))
	form, formErr := url.ParseQuery(string(body))
	action := form.Get("Action")
	if err != nil || formErr != nil || !strings.HasPrefix(action, "Describe") {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.mutations = append(r.mutations, mutation{time.Now(), action})
	}
}

// lastRenewal returns when the controller last renewed its lease, or tried to.
func (r *controller) lastRenewal() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewed
}

// changes returns the changing calls that reached EC2 after a time.
func (r *controller) changes(after time.Time) []mutation {
	r.mu.Lock()
	defer r.mu.Unlock()
	var later []mutation
	for _, m := range r.mutations {
		if m.at.After(after) {
			later = append(later, m)
		}
	}
	return later
}

// join launches instances, half of them in each zone, and adds their Nodes once they run.
func (c *cluster) join(count int, pool string) []string {
	c.Helper()
	var nodes []*corev1.Node
	for range count {
		zone := zones[c.launched%len(zones)]
		c.launched++
		launched, err := c.ec2.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone})
		c.must(err)
		nodes = append(nodes, &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%04d", c.launched), Labels: map[string]string{
				corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: "m5.xlarge", poolLabel: pool,
			}},
			Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + launched[0].InstanceID},
		})
	}
	time.Sleep(booting)
	var names []string
	for _, node := range nodes {
		c.must(c.user.Create(c.Context(), node))
		names = append(names, node.Name)
	}
	return names
}

// declare makes a NodeENI for the nodes of a pool in the subnets of a use.
func (c *cluster) declare(name, pool, use string) *v1alpha1.NodeENI {
	c.Helper()
	n := &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.NodeENISpec{
		NodeSelector: map[string]v1alpha1.LabelValue{poolLabel: v1alpha1.LabelValue(pool)},
		SubnetIDs:    subnetIDs[use], SecurityGroupIDs: []string{groupID},
		DeviceIndex: 1, DeviceIndexPolicy: v1alpha1.DeviceIndexPrefer, DeleteOnTermination: ptr.To(true),
		UpdatePolicy: v1alpha1.UpdateInPlace, MaxUnavailable: 1,
	}}
	c.must(c.user.Create(c.Context(), n))
	return n
}
