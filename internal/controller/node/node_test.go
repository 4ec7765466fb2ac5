// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package node_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/aws/observer"
	"github.com/multieni/multieni/internal/aws/resolver"
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/gc"
	"github.com/multieni/multieni/internal/controller/node"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
)

const (
	cluster    = "cluster-1"
	nodeName   = "node-1"
	instanceID = "i-00000000000000001"
	// nextInstanceID is the instance that may replace it as the node.
	nextInstanceID = "i-00000000000000002"
	zone           = "us-east-1a"
	vpcID          = "vpc-00000000000000001"
	hosts          = "subnet-00000000000000001"
	data           = "subnet-00000000000000002"
	group          = "sg-00000000000000001"
)

// stage is one node with a reconciler, in a bubble of virtual time: a simulated EC2, a cache that the reconciler reads
// and writes, and an API server, which a test can make differ from the cache.
type stage struct {
	*testing.T
	ec2        *awssim.Simulator
	cloud      *awsec2.Client
	cache, api client.Client
	// live, if set, changes a NodeENIState that is read from the API server: the cache lags.
	live       func(*v1alpha1.NodeENIState)
	events     *events.FakeRecorder
	observer   *observer.Observer
	reconciler *node.Reconciler
	spans      *tracetest.SpanRecorder
	inFlight   *controller.InFlight
	// waited is how long the node waited for each interface that it got.
	waited []time.Duration
}

func onStage(t *testing.T, test func(*stage)) {
	t.Helper()
	onStageIn(t, world(), test)
}

func onStageIn(t *testing.T, w awssim.World, test func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(setStage(t, w)) })
}

func world() awssim.World {
	return awssim.World{World: ec2.World{
		Region: "us-east-1", AvailabilityZones: []ec2.WorldZone{{ZoneName: zone, ZoneID: "use1-az1"}},
		VPCs:           []ec2.WorldVPC{{VPCID: vpcID, CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
		SecurityGroups: []ec2.WorldSecurityGroup{{GroupID: group, GroupName: "data", VPCID: vpcID}},
		Subnets: []ec2.WorldSubnet{
			{SubnetID: hosts, VPCID: vpcID, AvailabilityZone: zone, CIDRBlock: netip.MustParsePrefix("10.0.0.0/24")},
			{SubnetID: data, VPCID: vpcID, AvailabilityZone: zone, CIDRBlock: netip.MustParsePrefix("10.0.1.0/24")},
		},
		Instances: []ec2.WorldInstance{
			{InstanceID: instanceID, InstanceType: "m5.xlarge", AvailabilityZone: zone, SubnetID: hosts},
			{InstanceID: nextInstanceID, InstanceType: "m5.xlarge", AvailabilityZone: zone, SubnetID: hosts},
		},
	}}
}

func setStage(t *testing.T, w awssim.World) *stage {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: w, Behavior: new(ec2.LaggingBehavior()), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, ec2: sim, events: events.NewFakeRecorder(1000), spans: tracetest.NewSpanRecorder()}
	s.cache = controllertest.API(t)
	s.api = s.withWrittenStates(controllertest.API(t))
	s.both(func(c client.Client) {
		s.must(c.Create(t.Context(), &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-node", Labels: map[string]string{"eni": "on"}},
			Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID},
		}))
		s.must(c.Create(t.Context(), &v1alpha1.NodeENI{
			ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "uid-data", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
			Spec: v1alpha1.NodeENISpec{
				NodeSelector: map[string]v1alpha1.LabelValue{"eni": "on"}, SubnetIDs: []string{data}, SecurityGroupIDs: []string{group}, DeviceIndex: 1,
			},
		}))
	})
	s.cloud = awsec2.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), HTTPClient: &http.Client{Transport: sim.Transport()},
	}, awsec2.Options{Cluster: cluster})
	s.restart()
	return s
}

// restart replaces the controller with a new one.
func (s *stage) restart() {
	quiet := slog.New(slog.DiscardHandler)
	s.observer = observer.New(s.cloud, observer.Options{Cluster: cluster, Resync: time.Minute, Poll: time.Second, Now: time.Now, Log: quiet})
	s.inFlight = &controller.InFlight{}
	began := era.Era{Since: time.Now()}
	s.reconciler = node.New(node.Options{
		Client: s.cache, Reader: s.api, Events: s.events, Observer: s.observer,
		Resolver: resolver.New(s.cloud, resolver.Options{Fresh: time.Hour, Doubtful: time.Minute, Now: time.Now}),
		Applier:  executor.New(s.cloud, s.observer, executor.Options{Members: 1, Removals: 1, Now: time.Now}),
		Limiter:  s.cloud, GC: gc.New(gc.Options{Reader: s.api, Period: time.Minute, Now: time.Now, Log: quiet}),
		InFlight: s.inFlight, Era: func() era.Era { return began }, RefusedWrites: &controller.RejectedWrites{}, MaxUnattached: 10, Cluster: cluster, Concurrency: 1, Now: time.Now, Log: quiet,
		Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans)), Attached: func(after time.Duration) { s.waited = append(s.waited, after) },
	})
	s.start()
}

// start starts the deferred work.
func (s *stage) start() {
	r := s.reconciler
	go func() { s.must(r.Start(s.Context())) }()
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// both changes the cache and the API server.
func (s *stage) both(do func(client.Client)) {
	do(s.cache)
	do(s.api)
}

// withWrittenStates returns an API server with the NodeENIStates that the reconciler writes into the cache.
func (s *stage) withWrittenStates(api client.WithWatch) client.Client {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, opts ...client.GetOption) error {
			if state, is := object.(*v1alpha1.NodeENIState); is {
				err := s.cache.Get(ctx, key, state, opts...)
				if s.live != nil {
					s.live(state)
				}
				return err
			}
			return c.Get(ctx, key, object, opts...)
		},
	})
}

// play runs the reconciler and the observer for a while, and returns the last error of the reconciler.
func (s *stage) play(d time.Duration) (err error) {
	s.Helper()
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(stepOf(d)) {
		s.must(s.observer.ResyncOnce(s.Context()))
		_, err = s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: nodeName}})
		s.drainChanged()
	}
	return err
}

// stepOf returns the time between two passes of a play: five seconds, or more in a long play.
func stepOf(d time.Duration) time.Duration { return max(5*time.Second, d/30) }

func (s *stage) drainChanged() {
	for {
		select {
		case <-s.observer.Changed():
		case <-s.reconciler.Admitted(): // it is reconciled again anyhow
		default:
			return
		}
	}
}

// attached returns the attached interfaces of the cluster.
func (s *stage) attached() (ids []string) {
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == cluster && i.Attachment != nil && i.Attachment.Status == ec2.Attached {
			ids = append(ids, i.NetworkInterfaceID)
		}
	}
	return ids
}

// told returns the reasons of the events since the last call, each once and in order.
func (s *stage) told() []string {
	var reasons []string
	for {
		select {
		case event := <-s.events.Events:
			if reason := strings.Fields(event)[1]; !slices.Contains(reasons, reason) {
				reasons = append(reasons, reason)
			}
		default:
			return reasons
		}
	}
}

func (s *stage) node(c client.Client, change func(*corev1.Node)) {
	s.Helper()
	var n corev1.Node
	s.must(c.Get(s.Context(), client.ObjectKey{Name: nodeName}, &n))
	change(&n)
	s.must(c.Update(s.Context(), &n))
}

func (s *stage) nodeENI(c client.Client, change func(*v1alpha1.NodeENI)) {
	s.Helper()
	var n v1alpha1.NodeENI
	s.must(c.Get(s.Context(), client.ObjectKey{Name: "data"}, &n))
	change(&n)
	s.must(c.Update(s.Context(), &n))
}
