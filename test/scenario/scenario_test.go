// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package scenario_test runs stories: the commands that a user types, and their expected results.
//
// Each file below testdata is one story, run with the real kubectl, the real controller, a real API server and the
// simulated AWS. The programs are this test binary, run again as multieni, awssim or multieni-dev, so that the race detector
// and coverage include them. commands_test.go has the commands of stories in addition to those of testscript: kubectl,
// start and stop of the controller, and the state of EC2. A story of the controller begins with the example world, or
// with its own world.yaml.
package scenario_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/iam"
	"github.com/multieni/multieni/internal/cli"
	"github.com/multieni/multieni/internal/cli/simulate"
	"github.com/multieni/multieni/internal/controller/clustername"
	"github.com/multieni/multieni/internal/dev/assets"
	"github.com/multieni/multieni/internal/dev/child"
	devcli "github.com/multieni/multieni/internal/dev/cli"
	"github.com/multieni/multieni/internal/dev/cluster"
	"github.com/multieni/multieni/internal/dev/cluster/clustertest"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

// speed is how many times faster than AWS the simulated one runs.
const speed = 50

// servers are the API servers of the stories. Nodes and NodeENIs have no namespace, so each story has one to itself while
// it runs.
var servers chan *cluster.Cluster

// atOnce is how many stories run at the same time. They wait much more than they compute.
var atOnce = size.Of(4, 6, 6)

func TestMain(m *testing.M) {
	programs := map[string]func(){
		"multieni":     inputs.Self("multieni", cli.New),
		"kubectl-eni":  inputs.Self("kubectl eni", cli.NewPlugin),
		"awssim":       inputs.Self("awssim", simulate.New),
		"multieni-dev": inputs.Self("multieni-dev", devcli.New),
	}
	maps.Copy(programs, nodePrograms())
	testscript.Main(suite{m}, programs)
}

// suite runs the tests of this package with their API server.
type suite struct{ *testing.M }

func (s suite) Run() int {
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(atOnce)); err != nil {
		panic(err)
	}
	return clustertest.RunPool(s.M, atOnce, func(pool chan *cluster.Cluster) { servers = pool })
}

// TestController runs the stories of the controller, each with a simulated AWS and nodes of its own.
func TestController(t *testing.T) {
	t.Parallel()
	recordInputs(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata/controller",
		Setup: func(env *testscript.Env) error {
			return errors.Join(prepare(env), setStage(env))
		},
		Condition:          sizes,
		Cmds:               commands(),
		RequireUniqueNames: true,
	})
}

// TestDev runs the stories of multieni-dev, which starts its own.
func TestDev(t *testing.T) {
	t.Parallel()
	recordInputs(t)
	testscript.Run(t, testscript.Params{
		Dir:                "testdata/dev",
		Setup:              prepare,
		Condition:          sizes,
		Cmds:               commands(),
		RequireUniqueNames: true,
	})
}

// recordInputs records what the programs of stories read of the checkout.
func recordInputs(t *testing.T) {
	t.Helper()
	if err := inputs.Shipped(checkout); err != nil {
		t.Fatal(err)
	}
}

// sizes are the conditions "all" and "long": how much a run of tests includes.
func sizes(condition string) (bool, error) {
	switch condition {
	case "all":
		return size.All(), nil
	case "long":
		return size.Long(), nil
	default:
		return false, fmt.Errorf("unknown condition %q", condition)
	}
}

// stage is the environment of a story.
type stage struct {
	*cluster.Cluster
	api        client.Client
	dir        string
	controller *child.Process
}

// stageKey is the key under which a script stores its stage.
type stageKey struct{}

func on(ts *testscript.TestScript) *stage { return ts.Value(stageKey{}).(*stage) }

// serverKey is the key under which a script stores its API server.
type serverKey struct{}

// prepare waits for an API server that no other story has, and gives it to the story with kubectl and the examples.
func prepare(env *testscript.Env) error {
	server := <-servers
	env.Defer(func() {
		defer func() { servers <- server }()
		if err := deleteMultus(server); err != nil {
			env.T().Fatal(err)
		}
	})
	env.Values[serverKey{}] = server
	root, err := child.Root()
	if err != nil {
		return err
	}
	env.Setenv("ROOT", root)
	env.Setenv("HOST_HOME", os.Getenv("HOME")) // has the caches, for stories that build
	for _, name := range []string{"GOCACHE", "GOFLAGS", "GOMODCACHE", "GOPROXY", "GOSUMDB", assets.EnvCache, assets.EnvAssets} {
		if value, set := os.LookupEnv(name); set {
			env.Setenv(name, value)
		}
	}
	env.Setenv("KUBECONFIG", server.Kubeconfig)
	env.Setenv("KUBECACHEDIR", filepath.Join(os.TempDir(), "multieni-scenario-kubectl"))
	env.Setenv("PATH", filepath.Dir(server.Kubectl)+string(filepath.ListSeparator)+env.Getenv("PATH"))
	return os.Symlink(filepath.Join(root, "examples"), filepath.Join(env.WorkDir, "examples"))
}

// deleteMultus removes the kind that a story may have installed, and waits for its end: the next story on this API server
// begins without Multus.
func deleteMultus(server *cluster.Cluster) error {
	output, err := exec.Command(server.Kubectl, "--kubeconfig", server.Kubeconfig, "delete", "--ignore-not-found",
		"customresourcedefinition", "network-attachment-definitions.k8s.cni.cncf.io").CombinedOutput()
	if err != nil {
		return fmt.Errorf("delete the kind of Multus: %w: %s", err, output)
	}
	return nil
}

// setStage gives a story its stage, and cleans it up in the end.
func setStage(env *testscript.Env) error {
	server, _ := env.Values[serverKey{}].(*cluster.Cluster)
	s := &stage{dir: env.WorkDir}
	if err := s.start(server); err != nil {
		return err
	}
	env.Values[stageKey{}] = s
	for _, variable := range s.Env() {
		name, value, _ := strings.Cut(variable, "=")
		env.Setenv(name, value)
	}
	env.Defer(func() {
		if err := s.stop(); err != nil {
			env.T().Fatal(err)
		}
	})
	return nil
}

// start starts the story's AWS, and adds its nodes to the API server.
func (s *stage) start(server *cluster.Cluster) error {
	world := awssim.ExampleWorld()
	if file := filepath.Join(s.dir, "world.yaml"); exists(file) {
		var err error
		if world, err = awssim.LoadWorldFile(file); err != nil {
			return err
		}
	}
	policies, err := policies(world)
	if err != nil {
		return err
	}
	aws := awssim.Options{World: world, Behavior: new(ec2.LaggingBehavior()), Clock: awssim.ScaledClock(speed), Seed: 1, Policies: policies}
	c, err := cluster.Start(context.Background(), cluster.Options{
		Dir: s.dir, AWS: &aws, Kubeconfig: server.Kubeconfig, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return err
	}
	c.Kubectl = server.Kubectl
	s.Cluster = c
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	s.api, err = client.New(c.Config, client.Options{Scheme: scheme})
	return err
}

// The access keys of principals with IAM policies: the controller, the lifecycle hook, and each instance under its ID.
// All others in a story may do everything.
const (
	controllerKey = "controller"
	hookKey       = "hook"
)

func policies(world awssim.World) (map[string]*iam.Policy, error) {
	files := map[string][]string{controllerKey: {"controller", "node-templates", "subnet-reservations"}, hookKey: {"lifecycle-hook"}}
	for _, instance := range world.Instances {
		if instance.InstanceID != "" { // unsigned requests have no key, and may do everything
			files[instance.InstanceID] = []string{"eni-bootstrap"}
		}
	}
	root, err := child.Root()
	if err != nil {
		return nil, err
	}
	all := map[string]*iam.Policy{}
	for key, names := range files {
		var documents [][]byte
		for _, name := range names {
			document, err := os.ReadFile(filepath.Join(root, "deploy/iam", name+".json"))
			if err != nil {
				return nil, err
			}
			documents = append(documents, document)
		}
		if all[key], err = iam.Parse(documents...); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

func (s *stage) log() string { return filepath.Join(s.dir, "controller.log") }

// stop cleans the stage up for the next story.
func (s *stage) stop() error {
	return errors.Join(s.stopController(), s.deleteObjects(), s.Cluster.Stop())
}

func (s *stage) startController(args ...string) error {
	program, err := exec.LookPath("multieni")
	if err != nil {
		return err
	}
	s.controller, err = child.Start(child.Options{
		Program: program, Args: append(child.Flags(speed), args...), Env: append(s.Env(), "AWS_ACCESS_KEY_ID="+controllerKey), Log: s.log(),
	})
	return err
}

// stopController stops the controller, which must end without an error.
func (s *stage) stopController() error {
	if s.controller == nil {
		return nil
	}
	err := s.controller.Stop()
	if ended := s.controller.Err(); err == nil && ended != nil {
		err = fmt.Errorf("the controller ended badly: %w", ended)
	}
	s.controller = nil
	return err
}

// deleteObjects removes the objects that a story left, without waiting for a controller, since none runs any more.
func (s *stage) deleteObjects() error {
	ctx := context.Background()
	var nodeENIs v1alpha1.NodeENIList
	var interfaces v1alpha1.NetworkInterfaceList
	var nodeTemplates v1alpha1.AWSNodeTemplateList
	var reservations v1alpha1.SubnetReservationList
	var addresses v1alpha1.FloatingAddressList
	var leases coordinationv1.LeaseList
	var records corev1.ConfigMapList
	list := func(ctx context.Context) (bool, error) {
		err := errors.Join(
			s.api.List(ctx, &nodeENIs), s.api.List(ctx, &interfaces), s.api.List(ctx, &nodeTemplates), s.api.List(ctx, &reservations),
			s.api.List(ctx, &addresses),
			s.api.List(ctx, &leases, client.MatchingFields{"metadata.name": "networking.k8s.aws"}),
			s.api.List(ctx, &records, client.MatchingFields{"metadata.name": clustername.RecordName}),
		)
		// The API server does not serve a kind for a moment after the story created its definition again.
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return false, nil
		}
		return err == nil, err
	}
	if err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, time.Minute, true, list); err != nil {
		return fmt.Errorf("list what the story left: %w", err)
	}
	var errs []error
	for n := range nodeENIs.Items {
		errs = append(errs, s.deleteObject(ctx, &nodeENIs.Items[n]))
	}
	for n := range nodeTemplates.Items {
		errs = append(errs, s.deleteObject(ctx, &nodeTemplates.Items[n]))
	}
	for n := range reservations.Items {
		errs = append(errs, s.deleteObject(ctx, &reservations.Items[n]))
	}
	for n := range interfaces.Items {
		errs = append(errs, s.deleteObject(ctx, &interfaces.Items[n]))
	}
	for n := range addresses.Items {
		errs = append(errs, s.deleteObject(ctx, &addresses.Items[n]))
	}
	for n := range leases.Items {
		errs = append(errs, s.deleteObject(ctx, &leases.Items[n]))
	}
	// With the record of another name, kubectl eni import of the next story would write that name in tags, and the
	// controller of that story would refuse to change the cluster's name.
	for n := range records.Items {
		errs = append(errs, s.deleteObject(ctx, &records.Items[n]))
	}
	return errors.Join(errs...)
}

func (s *stage) deleteObject(ctx context.Context, object client.Object) error {
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
	return errors.Join(
		client.IgnoreNotFound(s.api.Patch(ctx, object, patch)),
		client.IgnoreNotFound(s.api.Delete(ctx, object)),
	)
}
