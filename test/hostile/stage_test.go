// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
)

// stage is a cluster with an API server of its own: nodes and NodeENIs have no namespace, so tests that share a server
// could not run at the same time.
type stage struct {
	*testing.T
	*cluster.Cluster
	kube  client.Client
	cloud *awssim.Simulator
	speed float64
	gate  *apiGate
	// name is the cluster's in the tags of interfaces: the UID of kube-system.
	name string
	// keepsTargets is false where EC2 has too many interfaces to read before each removal.
	keepsTargets bool

	mu       sync.Mutex
	replicas []*replica
}

// replica is a controller process.
type replica struct {
	*child.Process
	cloud *cloudGate
	log   string
}

// simulate starts an EC2 that runs speed times as fast as real time. Nil limits are the documented ones.
func simulate(t *testing.T, world awssim.World, speed float64, limits map[string]awssim.Bucket) *awssim.Simulator {
	t.Helper()
	cloud, err := awssim.New(awssim.Options{World: world, Behavior: new(ec2.LaggingBehavior()), Clock: awssim.ScaledClock(speed), Limits: limits, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return cloud
}

// setStage starts an API server next to a simulated EC2.
func setStage(t *testing.T, cloud *awssim.Simulator, speed float64) *stage {
	t.Helper()
	dir := t.TempDir()
	c, err := cluster.Start(t.Context(), cluster.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, Cluster: c, cloud: cloud, speed: speed, keepsTargets: true}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	s.must(clientgoscheme.AddToScheme(scheme))
	s.must(v1alpha1.AddToScheme(scheme))
	s.kube, err = client.New(c.Config, client.Options{Scheme: scheme})
	s.must(err)
	var system corev1.Namespace
	s.eventually(afterwards, "namespace kube-system", func() string {
		return problem(s.kube.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, &system))
	})
	s.name = string(system.UID)
	s.gate = newAPIGate(t, c.Config)
	return s
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// persist makes a write to the API server, and repeats it if the server was too busy to answer in time: a test does not
// judge its own requests.
func (s *stage) persist(write func() error) {
	s.Helper()
	patience := wait.Backoff{Duration: 100 * time.Millisecond, Factor: 2, Steps: 10} // about two minutes
	isBusy := func(err error) bool {
		return apierrors.IsTimeout(err) || apierrors.IsServerTimeout(err) || apierrors.IsTooManyRequests(err) ||
			apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err)
	}
	s.must(retry.OnError(patience, isBusy, write))
}

// create creates an object. The object may exist already after an attempt whose answer was lost.
func (s *stage) create(object client.Object) {
	s.Helper()
	s.persist(func() error { return client.IgnoreAlreadyExists(s.kube.Create(s.Context(), object)) })
}

// problem is the text of an error, or "".
func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// join creates the Nodes of a fleet's instances.
func (s *stage) join(fleet int) {
	s.Helper()
	for _, instance := range s.cloud.State().Instances {
		if !strings.HasPrefix(instance.InstanceID, instanceID(fleet, 0)[:16]) {
			continue
		}
		name, zone := instance.Tags[identity.TagName], instance.Placement.AvailabilityZone
		s.create(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
				corev1.LabelTopologyZone: zone, corev1.LabelInstanceTypeStable: instance.InstanceType,
			}},
			Spec: corev1.NodeSpec{ProviderID: "aws:///" + zone + "/" + instance.InstanceID},
		})
	}
}

// label puts the label on nodes that must have interfaces; unlabel removes it.
func (s *stage) label(nodes ...string)   { s.patchLabel(`"on"`, nodes) }
func (s *stage) unlabel(nodes ...string) { s.patchLabel("null", nodes) }

func (s *stage) patchLabel(value string, nodes []string) {
	s.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"labels":{%q:%s}}}`, label, value))
	for _, name := range nodes {
		s.persist(func() error {
			return s.kube.Patch(s.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, patch)
		})
	}
}

func (s *stage) apply(nodeENIs ...*v1alpha1.NodeENI) {
	s.Helper()
	for _, n := range nodeENIs {
		s.create(n.DeepCopy())
	}
}

// program returns the path of multieni, which is this test: see TestMain.
func (s *stage) program() string {
	s.Helper()
	path, err := exec.LookPath("multieni")
	s.must(err)
	return path
}

// run starts a controller. The given flags win over the flags that adapt it to the simulator.
func (s *stage) run(flags ...string) *replica { return s.runAs("", flags...) }

func (s *stage) runAs(user string, flags ...string) *replica {
	s.Helper()
	r := &replica{cloud: newCloudGate(s.T, s.cloud, s.keepsTargets)}
	s.mu.Lock()
	r.log = filepath.Join(s.TempDir(), fmt.Sprintf("controller-%d.log", len(s.replicas)))
	s.replicas = append(s.replicas, r)
	s.mu.Unlock()
	process, err := child.Start(child.Options{
		Program: s.program(), Args: append(child.Flags(s.speed), flags...), Env: s.environment(user, r.cloud), Log: r.log,
	})
	s.must(err)
	r.Process = process
	s.Cleanup(func() {
		// A process that was stopped by a signal cannot end in order.
		if err := process.Kill(); err != nil {
			s.Error(err)
		}
		if s.Failed() {
			s.keep(r.log)
		}
	})
	return r
}

// environment is that of a program that works as a user, with EC2 behind a gate.
func (s *stage) environment(user string, cloud *cloudGate) []string {
	s.Helper()
	return []string{
		"KUBECONFIG=" + s.gate.kubeconfig(s.T, user), "AWS_ENDPOINT_URL=" + cloud.URL, "AWS_REGION=" + region,
		"AWS_ACCESS_KEY_ID=simulated", "AWS_SECRET_ACCESS_KEY=simulated", "AWS_SESSION_TOKEN=", "AWS_EC2_METADATA_DISABLED=true",
	}
}

// keep shows the end of a controller's log.
func (s *stage) keep(log string) {
	content, err := os.ReadFile(log)
	if err != nil {
		s.Log(err)
		return
	}
	lines := strings.Split(strings.TrimSpace(string(content)), "\n")
	s.Logf("the last of %d lines of %s:\n%s", len(lines), filepath.Base(log), strings.Join(lines[max(0, len(lines)-60):], "\n"))
}

// send sends a signal to the process.
func (r *replica) send(signal syscall.Signal) error { return syscall.Kill(r.PID(), signal) }

// endure lets time pass during a fault. The replicas must outlive it.
func (s *stage) endure(d time.Duration, replicas ...*replica) {
	s.Helper()
	over := time.After(d)
	for _, r := range replicas {
		select {
		case <-r.Exited():
			s.Fatalf("the controller ended: %v", r.Err())
		case <-over:
			return
		}
	}
	<-over
}

// eventually waits for a condition, and fails with the state that it found instead.
func (s *stage) eventually(within time.Duration, what string, condition func() (instead string)) {
	s.Helper()
	begun := time.Now()
	var instead string
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, within, true, func(context.Context) (bool, error) {
		instead = condition()
		return instead == "", nil
	})
	if err != nil {
		s.Fatalf("%s: still not so after %s: %s", what, within, instead)
	}
	s.Logf("%s: after %s", what, time.Since(begun).Round(100*time.Millisecond))
}

// holds waits until EC2 has exactly the desired interfaces of the cluster.
func (s *stage) holds(within time.Duration, want []string) {
	s.Helper()
	s.eventually(within, fmt.Sprintf("EC2 holds the %d wanted interfaces", len(want)), func() string {
		return cmp.Diff(append([]string{}, want...), held(s.cloud.State(), s.name))
	})
}

// reports waits until the status of a NodeENI says that all its interfaces are attached, and that it has that number.
func (s *stage) reports(within time.Duration, name string, attached int) {
	s.Helper()
	s.reportsReady(within, name, attached, metav1.ConditionTrue)
}

// reportsReady waits until a NodeENI has condition Ready with the status, and that number of attached interfaces.
func (s *stage) reportsReady(within time.Duration, name string, attached int, ready metav1.ConditionStatus) {
	s.Helper()
	s.eventually(within, fmt.Sprintf("NodeENI %s reports %d interfaces, Ready=%s", name, attached, ready), func() string {
		var n v1alpha1.NodeENI
		if err := s.kube.Get(s.Context(), client.ObjectKey{Name: name}, &n); err != nil {
			return err.Error()
		}
		for _, c := range n.Status.Conditions {
			if c.Type == "Ready" && c.Status == ready && c.ObservedGeneration == n.Generation && int(n.Status.Attached) == attached {
				return ""
			}
		}
		return fmt.Sprintf("%+v", n.Status)
	})
}

// calls returns the changing calls of all replicas.
func (s *stage) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []call
	for _, r := range s.replicas {
		all = append(all, r.cloud.recorded()...)
	}
	slices.SortStableFunc(all, func(a, b call) int { return a.at.Compare(b.at) })
	return all
}

// onlyRemoved asserts that calls detached and deleted only interfaces of the given nodes.
func (s *stage) onlyRemoved(nodes ...string) {
	s.Helper()
	for _, c := range s.calls() {
		if c.removes() && c.target != nil && !slices.Contains(nodes, c.target.Tags[identity.TagNode]) {
			s.Errorf("%s of a wanted interface: %v of %s", c.action, c.target.NetworkInterfaceID, c.target.Tags[identity.TagNode])
		}
	}
}

// onlyOwn asserts that no call was about an interface of another cluster.
func (s *stage) onlyOwn() {
	s.Helper()
	for _, c := range s.calls() {
		if c.target != nil && c.target.Tags[identity.TagCluster] != s.name {
			s.Errorf("%s of an interface of cluster %q by cluster %q", c.action, c.target.Tags[identity.TagCluster], s.name)
		}
	}
}

// madeOnce asserts that exactly that number of interfaces were requested: calls with the same client token request the
// same one.
func (s *stage) madeOnce(count int) {
	s.Helper()
	tokens := map[string]bool{}
	for _, c := range s.calls() {
		if c.action == "CreateNetworkInterface" {
			tokens[c.form.Get("ClientToken")] = true
		}
	}
	if len(tokens) != count || tokens[""] {
		s.Errorf("%d different interfaces were asked for, %d are wanted", len(tokens), count)
	}
}

// atMost asserts that there were at most that number of changing calls.
func (s *stage) atMost(limit int) {
	s.Helper()
	counts := map[string]int{}
	calls := s.calls()
	for _, c := range calls {
		counts[c.action]++
	}
	s.Logf("%d calls, of at most %d: %v", len(calls), limit, counts)
	if len(calls) > limit {
		s.Errorf("%d calls to change something, want at most %d: %v", len(calls), limit, counts)
	}
}

// rests waits until nothing has changed for a while. A call whose answer was lost may still be repeated once.
func (s *stage) rests() {
	s.Helper()
	const calm = 3 * time.Second
	begun := time.Now()
	s.eventually(afterwards, "nothing is changed any more", func() string {
		last := call{at: begun}
		if calls := s.calls(); len(calls) > 0 && calls[len(calls)-1].at.After(begun) {
			last = calls[len(calls)-1]
		}
		if time.Since(last.at) < calm {
			return "still called: " + last.action
		}
		return ""
	})
}

// strike starts a fault, for each of the actions if any are named.
func (s *stage) strike(f fault.Fault, actions ...string) {
	s.Helper()
	if len(actions) == 0 {
		actions = []string{f.Action}
	}
	for _, action := range actions {
		f.Action = action
		_, err := s.cloud.AddFault(f)
		s.must(err)
	}
}

// heal ends all faults of EC2 and returns how often they struck, which must not be zero.
func (s *stage) heal() (strikes int) {
	s.Helper()
	strikes = s.struck()
	s.cloud.ClearFaults()
	s.Logf("the faults struck %d times", strikes)
	if strikes == 0 {
		s.Error("no fault ever struck")
	}
	return strikes
}

// struck returns how often the present faults of EC2 have struck.
func (s *stage) struck() (strikes int) {
	for _, f := range s.cloud.Faults() {
		strikes += f.Strikes
	}
	return strikes
}

// mutating returns the actions that change something, and reading the others.
func mutating() []string { return operations(true) }
func reading() []string  { return operations(false) }

func operations(isMutating bool) []string {
	names := map[string]bool{}
	for _, operation := range ec2.Operations() {
		if operation.IsMutating == isMutating {
			names[operation.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}
