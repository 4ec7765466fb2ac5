// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/internal/dev/cluster"
)

const (
	// speed is how many times faster than AWS the simulated one runs.
	speed = 20
	// patience is how long to wait for steps that take seconds.
	patience = 90 * time.Second
	release  = "multieni"
	nodeENI  = "multus-eni-config" // of examples/single-subnet.yaml
)

// site is a cluster, with a simulated AWS, in which multieni is installed. There are no kubelets and no controllers of
// Kubernetes: the site runs the installed containers as processes, from the image, as the service accounts of their
// pods.
type site struct {
	*testing.T
	*cluster.Cluster
	kube   client.Client
	image  image
	traces *collector
	// encoded is user data with a secret, as EC2 has it.
	encoded []string
	running []*child.Process
}

func newSite(t *testing.T) *site {
	t.Helper()
	s := &site{T: t, image: built(t), traces: newCollector(t)} // it skips before an API server starts
	aws := awssim.Options{World: awssim.ExampleWorld(), Clock: awssim.ScaledClock(speed), Seed: 1}
	var err error
	s.Cluster, err = cluster.Start(t.Context(), cluster.Options{Dir: t.TempDir(), AWS: &aws, Logger: slog.New(slog.DiscardHandler)})
	s.must(err)
	t.Cleanup(func() { s.must(s.Stop()) })
	known := runtime.NewScheme()
	s.must(scheme.AddToScheme(known))
	s.must(v1alpha1.AddToScheme(known))
	s.kube, err = client.New(s.Config, client.Options{Scheme: known})
	s.must(err)
	return s
}

// at returns the site for another test.
func (s *site) at(t *testing.T) *site {
	return &site{T: t, Cluster: s.Cluster, kube: s.kube, image: s.image, traces: s.traces}
}

func (s *site) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *site) kubectl(args ...string) string {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.Kubectl, args...)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig)
	out, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("kubectl %s: %v\n%s\n%s", strings.Join(args, " "), err, out, s.logs())
	}
	return strings.TrimSpace(string(out))
}

func (s *site) helm(args ...string) {
	s.Helper()
	if out, err := helmOn(s.T, s.Cluster, args...); err != nil {
		s.Fatalf("helm %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func (s *site) eventually(what string, so func() bool) {
	s.Helper()
	err := wait.PollUntilContextTimeout(s.Context(), 50*time.Millisecond, patience, true, func(context.Context) (bool, error) { return so(), nil })
	if err != nil {
		s.Fatalf("still not so after %s: %s\n%s", patience, what, s.logs())
	}
}

// logs returns the ends of the processes' logs.
func (s *site) logs() string {
	var all strings.Builder
	for name, content := range s.wholeLogs() {
		fmt.Fprintf(&all, "--- %s\n%s\n", name, content[max(0, len(content)-3000):])
	}
	return all.String()
}

// wholeLogs returns the whole logs of the processes, by their names.
func (s *site) wholeLogs() map[string]string {
	all := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(filepath.Dir(s.Kubeconfig), "*.run.log"))
	for _, file := range files {
		content, _ := os.ReadFile(file)
		all[filepath.Base(file)] = string(content)
	}
	return all
}

// run runs the first container of a pod as a process, as the pod's service account.
func (s *site) run(name, namespace string, pod corev1.PodSpec, extra ...string) *child.Process {
	s.Helper()
	container := pod.Containers[0]
	env := append(s.Env(), "KUBECONFIG="+s.kubeconfigOf(namespace, pod.ServiceAccountName), "OTEL_EXPORTER_OTLP_ENDPOINT="+s.traces.url)
	env = append(env, secretEnvironment...)
	for _, variable := range container.Env {
		if variable.ValueFrom == nil {
			env = append(env, variable.Name+"="+variable.Value)
		}
	}
	p, err := child.Start(child.Options{
		Program: s.image.program(slices.Concat(container.Command, s.image.config.Config.Entrypoint)[0]), Args: append(container.Args, extra...), Env: env,
		Log: filepath.Join(filepath.Dir(s.Kubeconfig), name+".run.log"),
	})
	s.must(err)
	s.running = append(s.running, p)
	s.Cleanup(func() { _ = p.Kill() })
	return p
}

// kubeconfigOf writes a kubeconfig that acts as a service account, with the name of a node in its token.
func (s *site) kubeconfigOf(namespace, account string) string {
	s.Helper()
	settings, err := clientcmd.LoadFromFile(s.Kubeconfig)
	s.must(err)
	for _, user := range settings.AuthInfos {
		user.Impersonate = "system:serviceaccount:" + namespace + ":" + account
		user.ImpersonateGroups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace, "system:authenticated"}
		user.ImpersonateUserExtra = map[string][]string{"authentication.kubernetes.io/node-name": {s.node()}}
	}
	file := filepath.Join(s.TempDir(), "kubeconfig")
	s.must(clientcmd.WriteToFile(*settings, file))
	return file
}

// node is the node that gets an interface: one in the zone of the example's subnet.
func (s *site) node() string { return "node-a1" }

// install packages and installs the chart as a user does, and runs the installed programs.
func (s *site) install() {
	s.Helper()
	s.helm("install", release, s.packaged(chart, "0.1.0"), "--set", "awsRegion=us-east-1")
	s.runAll()
}

func (s *site) packaged(chart, version string) string {
	s.Helper()
	dir := s.TempDir()
	s.helm("package", chart, "--version", version, "--destination", dir)
	return filepath.Join(dir, "multieni-"+version+".tgz")
}

// quick are the flags that make processes run as fast as the simulator.
var quick = []string{
	"--leader-election-namespace=eni-controller-system", "--metrics-bind-address=0", "--health-probe-bind-address=0",
	"--poll-interval=20ms", "--resync-period=5s", "--leader-election-lease-duration=3s", "--v=5",
}

// runAll runs the controller and an agent.
func (s *site) runAll() {
	s.Helper()
	var controller appsv1.Deployment
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Namespace: "eni-controller-system", Name: "eni-controller"}, &controller))
	s.run("controller", controller.Namespace, controller.Spec.Template.Spec, quick...)
	var agent appsv1.DaemonSet
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Namespace: "eni-manager-system", Name: "eni-manager"}, &agent))
	s.run("agent", agent.Namespace, agent.Spec.Template.Spec, "--node-name="+s.node(), "--state-dir="+s.TempDir(), "--health-probe-bind-address=0", "--v=5")
}

// stop ends all processes, as when their pods are gone.
func (s *site) stop() {
	s.Helper()
	for _, p := range s.running {
		if err := p.Stop(); err != nil {
			s.Errorf("a process ended badly: %v\n%s", err, s.logs())
		}
	}
	s.running = nil
}

// attach is the walkthrough of the README of the aws-multi-eni-controller up to a first interface, whose ID it returns.
func (s *site) attach() (eniID string) {
	s.Helper()
	s.kubectl("apply", "-f", "examples/single-subnet.yaml")
	s.kubectl("label", "--overwrite", "node", s.node(), "ng=multi-eni")
	s.eventually("the NodeENI shows an interface", func() bool {
		eniID = s.kubectl("get", "nodeeni", nodeENI, "-o", "jsonpath={.status.attachments[0].eniID}")
		return eniID != "" && s.owned(eniID) == "attached"
	})
	return eniID
}

// owned returns the state of our interface in EC2, "" if there is none.
func (s *site) owned(eniID string) string {
	for _, i := range s.Simulator.State().NetworkInterfaces {
		if i.NetworkInterfaceID == eniID && i.Attachment != nil {
			return i.Attachment.Status
		} else if i.NetworkInterfaceID == eniID {
			return i.Status
		}
	}
	return ""
}

// runJobs runs Jobs as they appear, until the test ends, and reports their results.
func (s *site) runJobs() {
	go func() {
		_ = wait.PollUntilContextCancel(s.Context(), 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			var jobs batchv1.JobList
			_ = s.kube.List(ctx, &jobs) // after an error the list is empty, and the next iteration repeats it
			for _, job := range jobs.Items {
				if job.Status.StartTime == nil {
					s.runJob(ctx, &job)
				}
			}
			return false, nil
		})
	}()
}

func (s *site) runJob(ctx context.Context, job *batchv1.Job) {
	p := s.run("job", job.Namespace, job.Spec.Template.Spec, quick...)
	start := metav1.Now()
	failed := p.Err() != nil
	done := metav1.NewTime(time.Now().Add(time.Second))
	kinds := []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete}
	job.Status.StartTime = &start
	if failed {
		kinds = []batchv1.JobConditionType{batchv1.JobFailureTarget, batchv1.JobFailed}
		job.Status.Failed = 1
	} else {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &done
	}
	for _, kind := range kinds {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastTransitionTime: done})
	}
	if err := s.kube.Status().Update(ctx, job); err != nil && ctx.Err() == nil {
		s.Errorf("report on the job: %v", err)
	}
}

// nothingIsLeft asserts that EC2 has no interface of ours, the API server no object of ours, and that nothing blocks
// the deletion of a namespace.
func (s *site) nothingIsLeft() {
	s.Helper()
	for _, i := range s.Simulator.State().NetworkInterfaces {
		if i.Tags[identity.TagNodeENI] != "" {
			s.Errorf("%s is left in EC2, %s", i.NetworkInterfaceID, i.Status)
		}
	}
	for _, list := range []client.ObjectList{&v1alpha1.NodeENIList{}, &v1alpha1.NetworkInterfaceList{}, &v1alpha1.FloatingAddressList{}} {
		err := s.kube.List(s.Context(), list)
		content, _ := json.Marshal(list)
		if err == nil && bytes.Contains(content, []byte(`"uid"`)) {
			s.Errorf("objects of ours are left: %s", content)
		}
	}
	s.finishNamespaces()
	left := s.kubectl("get", "clusterrole,clusterrolebinding,validatingadmissionpolicy,validatingadmissionpolicybinding", "-o", "name")
	if strings.Contains(left, "multieni") {
		s.Errorf("the release left\n%s", left)
	}
}

// finishNamespaces replaces Kubernetes' own controller of deleted namespaces. It succeeds only if no object in them
// waits for a controller.
func (s *site) finishNamespaces() {
	s.Helper()
	for _, name := range []string{"eni-controller-system", "eni-manager-system"} {
		var namespace corev1.Namespace
		err := s.kube.Get(s.Context(), client.ObjectKey{Name: name}, &namespace)
		if apierrors.IsNotFound(err) {
			continue
		}
		s.must(err)
		if namespace.DeletionTimestamp == nil {
			s.Errorf("namespace %s is not deleted", name)
		}
		kinds := "serviceaccounts,roles,rolebindings,leases,deployments,daemonsets,jobs,services,poddisruptionbudgets,configmaps,secrets,pods,events"
		s.kubectl("delete", "--all", "-n", name, kinds, "--wait=false")
		if left := s.kubectl("get", "-n", name, kinds, "-o", "name"); left != "" {
			s.Errorf("in namespace %s are stuck\n%s", name, left)
		}
		namespace.Spec.Finalizers = nil
		s.must(s.kube.SubResource("finalize").Update(s.Context(), &namespace))
	}
}

// forgetDefinitions removes the definitions, as in a cluster that never had multieni.
func (s *site) forgetDefinitions() {
	s.Helper()
	s.kubectl("delete", "crd", "--ignore-not-found", "--timeout=5m", "nodeenis.networking.k8s.aws", "networkinterfaces.networking.k8s.aws", "awsnodetemplates.networking.k8s.aws", "subnetreservations.networking.k8s.aws", "floatingaddresses.networking.k8s.aws")
}

// The whole life of an installation, with the commands of the documents.
func TestInstallUpgradeUninstall(t *testing.T) {
	s := newSite(t)
	s.forgetDefinitions() // the cluster of tests has them
	for _, chapter := range []struct {
		name string
		live func(*site)
	}{
		{"install, walk through, upgrade", (*site).walkThrough},
		{"uninstall with everything in use", (*site).uninstallInUse},
		{"uninstall after the controller is gone", (*site).uninstallWithoutController},
		{"definitions first", (*site).deleteDefinitionFirst},
		{"all definitions at once", (*site).deleteDefinitionsAtOnce},
		{"the definition of NetworkInterfaces first", (*site).deleteInterfacesFirst},
		{"restarted without the definition of NetworkInterfaces", (*site).restartWithoutInterfaces},
		{"namespace first", (*site).deleteNamespaceFirst},
	} {
		t.Run(chapter.name, func(t *testing.T) { chapter.live(s.at(t)) })
	}
}

func (s *site) walkThrough() {
	s.install()
	id := s.attach()
	s.declareSecrets()
	s.eventually("the agent tells of the node's links", func() bool {
		return s.kubectl("get", "eni", "-o", "jsonpath={.items[*].status.node.link.state}") != ""
	})
	changed := s.chartWithNewDefinition()
	s.helm("upgrade", release, s.packaged(changed, "0.2.0"), "--reuse-values")
	s.stop()
	s.wantTraces()
	s.runAll()
	if got := s.kubectl("get", "crd", "nodeenis.networking.k8s.aws", "-o", "yaml"); !strings.Contains(got, newWords) {
		s.Errorf("the definition is not upgraded:\n%s", got)
	}
	if s.owned(id) != "attached" {
		s.Errorf("after the upgrade %s is %q", id, s.owned(id))
	}
	s.kubectl("label", "node", s.node(), "ng-") // the cleanup of the walkthrough
	s.eventually("the interface is gone", func() bool { return s.owned(id) == "" })
	s.kubectl("delete", "nodeeni", nodeENI, "--timeout=180s") // a new leader waits two minutes for what an earlier one may have created
	s.kubectl("delete", "awsnodetemplate", "--all", "--timeout=60s")
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
	s.kubectl("get", "nodeenis") // the definitions stay
	s.wantNoSecrets()
}

func (s *site) uninstallInUse() {
	s.install()
	s.attach()
	s.bringUp()
	s.declareSecrets() // which is an AWSNodeTemplate
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
	s.kubectl("delete", "awsnodetemplate", "--all", "--timeout=30s") // they have no finalizers any more
}

func (s *site) uninstallWithoutController() {
	s.install()
	s.attach()
	s.bringUp()
	s.kubectl("delete", "deployment", "-n", "eni-controller-system", "eni-controller")
	s.stop()
	s.runJobs()
	s.helm("uninstall", release)
	s.nothingIsLeft()
}

func (s *site) deleteDefinitionFirst() {
	s.install()
	s.attach()
	s.kubectl("delete", "crd", "nodeenis.networking.k8s.aws", "--timeout=90s") // waits for the objects, which wait for EC2
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
}

func (s *site) deleteDefinitionsAtOnce() {
	s.install()
	s.attach()
	s.bringUp()
	s.forgetDefinitions()
	s.runJobs()
	s.helm("uninstall", release)
	s.stop()
	s.nothingIsLeft()
}

func (s *site) deleteNamespaceFirst() {
	s.install()
	s.attach()
	s.kubectl("delete", "namespace", "eni-controller-system", "--wait=false")
	s.stop()
	s.drainFromOutside()
	s.helm("uninstall", release, "--no-hooks")
	s.nothingIsLeft()
}

// drainFromOutside runs the commands that remain after the namespace of the controller was deleted.
func (s *site) drainFromOutside() {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.image.program("multieni"), "drain", "--yes", "--leader-elect=false",
		"--poll-interval=20ms", "--resync-period=5s", "--ec2-rate-share=0.98")
	command.Env = append(os.Environ(), append(s.Env(), "KUBECONFIG="+s.Kubeconfig)...)
	if out, err := command.CombinedOutput(); err != nil {
		s.Fatalf("drain: %v\n%s", err, out)
	}
}

const newWords = "Words of a version to come."

// chartWithNewDefinition returns a copy of the chart with a changed definition of NodeENIs.
func (s *site) chartWithNewDefinition() string {
	s.Helper()
	dir := filepath.Join(s.TempDir(), "multieni")
	s.must(os.CopyFS(dir, os.DirFS(filepath.Join(root, chart))))
	file := filepath.Join(dir, "templates", "crds.yaml")
	content, err := os.ReadFile(file)
	s.must(err)
	_, ours, found := strings.Cut(string(content), "name: nodeenis.networking.k8s.aws")
	_, ours, described := strings.Cut(ours, "openAPIV3Schema:\n        description: |-\n          ")
	if !found || !described {
		s.Fatal("the definition of NodeENI has another form")
	}
	first, _, _ := strings.Cut(ours, "\n")
	s.must(os.WriteFile(file, []byte(strings.Replace(string(content), first, newWords+" "+first, 1)), 0o644))
	return dir
}
