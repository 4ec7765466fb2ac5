// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instance_test

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
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
	"github.com/multieni/multieni/internal/controller"
	"github.com/multieni/multieni/internal/controller/controllertest"
	"github.com/multieni/multieni/internal/controller/instance"
	"github.com/multieni/multieni/internal/controller/object"
	"github.com/multieni/multieni/internal/core/era"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/render"
)

const (
	cluster    = "cluster-1"
	nodeName   = "node-1"
	instanceID = "i-00000000000000001"
	zone       = "us-east-1a"
	vpcID      = "vpc-00000000000000001"
	hosts      = "subnet-00000000000000001"
	data       = "subnet-00000000000000002"
	group      = "sg-00000000000000001"
)

// stage is one instance with a reconciler, in a bubble of virtual time: a simulated EC2 and an API server.
type stage struct {
	*testing.T
	ec2   *awssim.Simulator
	cloud *awsec2.Client
	api   client.WithWatch
	// onGet and onStatus can change what the API server answers to the reconciler; nil changes nothing.
	onGet    func(client.Object) error
	onStatus func() error
	events   *events.FakeRecorder
	observer *observer.Observer
	// definition is the deletionTimestamp of the kind.
	definition *metav1.Time
	// waits are the objects whose turn has not come, by name.
	waits      map[string]bool
	reconciler *instance.Reconciler
	spans      *tracetest.SpanRecorder
	// waited is how long each object waited for its interface, and statuses the number of writes of a status.
	waited   []time.Duration
	statuses int
}

func onStage(t *testing.T, test func(*stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(setStage(t)) })
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
		Instances: []ec2.WorldInstance{{InstanceID: instanceID, InstanceType: "m5.xlarge", AvailabilityZone: zone, SubnetID: hosts}},
	}}
}

func setStage(t *testing.T) *stage {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: world(), Behavior: new(ec2.LaggingBehavior()), Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, ec2: sim, events: events.NewFakeRecorder(1000), spans: tracetest.NewSpanRecorder()}
	s.api = s.intercepted(controllertest.API(t))
	s.must(s.api.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: nodeName, UID: "uid-node", Labels: map[string]string{"eni": "on"}},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instanceID},
	}))
	s.must(s.api.Create(t.Context(), &v1alpha1.NodeENI{
		ObjectMeta: metav1.ObjectMeta{Name: "data", UID: "uid-data", Generation: 1, Finalizers: []string{v1alpha1.Finalizer}},
		Spec: v1alpha1.NodeENISpec{
			NodeSelector: map[string]v1alpha1.LabelValue{"eni": "on"}, SubnetIDs: []string{data}, SecurityGroupIDs: []string{group}, DeviceIndex: 1,
		},
	}))
	s.cloud = awsec2.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://ec2.invalid"),
		Credentials: credentials.NewStaticCredentialsProvider("id", "secret", ""), HTTPClient: &http.Client{Transport: sim.Transport()},
	}, awsec2.Options{Cluster: cluster})
	s.restart()
	return s
}

// intercepted counts writes of statuses, has a definition of the kind, and lets the test change answers.
func (s *stage) intercepted(api client.WithWatch) client.WithWatch {
	return interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if definition, is := o.(*metav1.PartialObjectMetadata); is {
				definition.DeletionTimestamp = s.definition
				return nil
			}
			if err := c.Get(ctx, key, o, opts...); err != nil || s.onGet == nil {
				return err
			}
			return s.onGet(o)
		},
		SubResourceApply: func(ctx context.Context, c client.Client, sub string, applied runtime.ApplyConfiguration, opts ...client.SubResourceApplyOption) error {
			s.statuses++
			if s.onStatus != nil {
				if err := s.onStatus(); err != nil {
					return err
				}
			}
			return c.SubResource(sub).Apply(ctx, applied, opts...)
		},
	})
}

// restart replaces the controller with a new one.
func (s *stage) restart() {
	quiet := slog.New(slog.DiscardHandler)
	s.observer = observer.New(s.cloud, observer.Options{Cluster: cluster, Resync: time.Minute, Poll: time.Second, Now: time.Now, Log: quiet})
	began := era.Era{Since: time.Now()}
	s.reconciler = instance.New(instance.Options{
		Client: s.api, Reader: s.api, Events: s.events, Observer: s.observer,
		Applier: executor.New(s.cloud, s.observer, executor.Options{Members: 1, Removals: 1, Now: time.Now}),
		Limiter: s.cloud, Era: func() era.Era { return began }, RefusedWrites: &controller.RejectedWrites{},
		MayRemove: func(_ context.Context, o *v1alpha1.NetworkInterface) (bool, error) {
			return !s.waits[o.Name], nil
		},
		MaxUnattached: 10, Cluster: cluster, Concurrency: 1, Now: time.Now, Log: quiet,
		Traces: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(s.spans)), Attached: func(after time.Duration) { s.waited = append(s.waited, after) },
	})
	s.start()
}

// with replaces the reconciler with one that has other options.
func (s *stage) with(change func(*instance.Options)) {
	options := s.reconciler.Options
	change(&options)
	s.reconciler = instance.New(options)
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

// spec is what NodeENI data declares on an instance.
func spec(id, node string, ordinal int) render.Spec {
	s := render.Spec{
		InstanceID: id, Zone: zone, Ordinal: ordinal, Origin: render.OriginDeclared, NodeName: node,
		NodeENI: render.Reference{Name: "data", UID: "uid-data", Generation: 1},
		Subnets: []render.Subnet{{ID: data, CIDR: "10.0.1.0/24"}},
	}
	s.EC2.Groups, s.EC2.SourceDestCheck, s.EC2.DeleteOnTermination = []string{group}, true, true
	s.Slot.Device = 1 + ordinal
	return s
}

// declare creates an object of the instance, and returns its name.
func (s *stage) declare(ordinal int, change ...func(*v1alpha1.NetworkInterface)) string {
	s.Helper()
	return s.declareOn(instanceID, nodeName, ordinal, change...)
}

func (s *stage) declareOn(id, node string, ordinal int, change ...func(*v1alpha1.NetworkInterface)) string {
	s.Helper()
	name := identity.ObjectName("data", id, ordinal)
	o := object.New(name, spec(id, node, ordinal))
	o.UID, o.Generation, o.CreationTimestamp = types.UID(fmt.Sprintf("uid-%s-%d", id, time.Now().UnixNano())), 1, metav1.Now()
	for _, c := range change {
		c(o)
	}
	s.must(object.Create(s.Context(), s.api, o))
	return name
}

// get returns an object, nil if there is none.
func (s *stage) get(name string) *v1alpha1.NetworkInterface {
	s.Helper()
	o, err := object.Get(s.Context(), s.api, name)
	s.must(err)
	return o
}

func (s *stage) change(name string, change func(*v1alpha1.NetworkInterface)) {
	s.Helper()
	o := s.get(name)
	change(o)
	s.must(s.api.Update(s.Context(), o))
}

func (s *stage) delete(name string) {
	s.Helper()
	s.must(object.Delete(s.Context(), s.api, s.get(name)))
}

// answer writes the report of the agent.
func (s *stage) answer(name string, open bool) {
	s.Helper()
	o := s.get(name)
	o.Status.Node = &v1alpha1.NodeReport{Agent: v1alpha1.AgentProcess{BootID: "b", ProcessID: "p"}, Open: open}
	s.must(s.api.Status().Update(s.Context(), o))
}

func (s *stage) reconcile(id string) {
	s.Helper()
	_, err := s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: id}})
	s.must(err)
}

// play runs the reconciler and the observer for a while, and returns the last error of the reconciler.
func (s *stage) play(d time.Duration) (err error) {
	s.Helper()
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(max(5*time.Second, d/30)) {
		s.must(s.observer.ResyncOnce(s.Context()))
		_, err = s.reconciler.Reconcile(s.Context(), reconcile.Request{NamespacedName: client.ObjectKey{Name: instanceID}})
		s.drainChanged()
	}
	return err
}

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

// owned returns the number of interfaces with the tag of the cluster.
func (s *stage) owned() (n int) {
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == cluster {
			n++
		}
	}
	return n
}

// networkInterface returns an interface from EC2.
func (s *stage) networkInterface(id string) *ec2.NetworkInterface {
	s.Helper()
	for _, i := range s.ec2.State().NetworkInterfaces {
		if i.NetworkInterfaceID == id {
			return i
		}
	}
	s.Fatalf("there is no interface %s", id)
	return nil
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

// isReady reports whether the object is ready for its generation.
func isReady(o *v1alpha1.NetworkInterface) bool {
	return meta.IsStatusConditionTrue(o.Status.Conditions, v1alpha1.ConditionReady) && o.Status.ObservedGeneration == o.Generation
}

func (s *stage) pauseNode(on bool) {
	s.Helper()
	var n corev1.Node
	s.must(s.api.Get(s.Context(), client.ObjectKey{Name: nodeName}, &n))
	n.Annotations = nil
	if on {
		n.Annotations = map[string]string{v1alpha1.PausedAnnotation: ""}
	}
	s.must(s.api.Update(s.Context(), &n))
}
