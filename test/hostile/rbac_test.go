// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/dev/child"
	"github.com/multieni/multieni/test/size"
)

// The namespace and service account of the controller in the manifests, and what nodes are launched with.
const (
	namespace = "eni-controller-system"
	account   = "system:serviceaccount:" + namespace + ":eni-controller"
	image     = "ami-0123456789abcdef0"
)

// TestPermissions runs the controller as the service account of the manifests through a whole life: the role grants
// exactly the permissions that the controller needs. The API server accepts the manifests.
func TestPermissions(t *testing.T) {
	t.Parallel()
	world := fleet("node")
	world.Images = []ec2.Image{{ImageID: image, Name: "ours", ImageState: "available", Architecture: "x86_64", RootDeviceName: "/dev/xvda"}}
	s := setStage(t, simulate(t, world, speed, nil), speed)
	s.join(0)
	s.kubectl("apply", "-f", "config/rbac/namespace.yaml")
	s.kubectl("apply", "-f", "config/rbac")
	s.kubectl("apply", "--dry-run=server", "-f", "deploy/deployment.yaml")

	r := s.runAs(account, "--leader-elect", "--leader-election-namespace="+namespace)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.holds(afterwards, wanted(names("node", 0, 4)))
	s.reports(afterwards, "both", 8)
	s.liveWithAddress()
	s.unlabel(nodeName("node", 0))
	s.holds(afterwards, wanted(names("node", 1, 4)))
	s.must(s.kube.Delete(t.Context(), &v1alpha1.NodeENI{ObjectMeta: metav1.ObjectMeta{Name: "both"}}))
	s.holds(afterwards, nil)
	s.eventually(afterwards, "all objects of the controller are gone", func() string {
		var nodeENIs v1alpha1.NodeENIList
		var interfaces v1alpha1.NetworkInterfaceList
		s.must(s.kube.List(t.Context(), &nodeENIs))
		s.must(s.kube.List(t.Context(), &interfaces))
		if len(nodeENIs.Items)+len(interfaces.Items) > 0 {
			return "some are left"
		}
		return ""
	})
	s.liveWithTemplate()
	s.liveWithReservation()
	s.must(r.Stop())

	log, err := os.ReadFile(r.log)
	s.must(err)
	for line := range strings.Lines(string(log)) {
		if strings.Contains(strings.ToLower(line), "forbidden") {
			t.Errorf("the controller was refused something: %s", line)
		}
	}
	asked := s.gate.asked()
	for _, p := range s.grants() {
		if !asked[p] && !unprovoked[p] {
			t.Errorf("the controller may %s %s.%s, and never did", p.verb, p.resource, p.group)
		}
	}
}

// TestPermissionsOfDrain runs `multieni drain` as the account of the chart's Job: the role of the hook grants exactly what
// it needs beyond the controller's. Without the role it deletes nothing, and says so.
func TestPermissionsOfDrain(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	s := setStage(t, simulate(t, fleet("node"), speed, nil), speed)
	s.join(0)
	s.kubectl("apply", "-f", "config/rbac/namespace.yaml")
	s.kubectl("apply", "-f", "config/rbac")
	r := s.runAs(account, "--leader-elect", "--leader-election-namespace="+namespace)
	s.apply(both())
	s.label(names("node", 0, 2)...)
	s.must(s.kube.Create(t.Context(), &v1alpha1.SubnetReservation{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: v1alpha1.SubnetReservationSpec{
			SubnetIDs: []string{subnet(0, 0)}, Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To(int32(28)),
		},
	}))
	s.holds(afterwards, wanted(names("node", 0, 2)))

	out, err := s.drain(account)
	if err == nil || !strings.Contains(out, "may not be deleted, so nothing was deleted") {
		t.Errorf("without the role: %v\n%s", err, out)
	}
	s.holds(afterwards, wanted(names("node", 0, 2)))

	s.kubectl("apply", "-f", "config/uninstall")
	if out, err := s.drain(account); err != nil || !strings.Contains(out, "nothing is left") || strings.Contains(strings.ToLower(out), "forbidden") {
		t.Errorf("with the role: %v\n%s", err, out)
	}
	s.holds(afterwards, nil)
	s.must(r.Stop())
	var role rbacv1.ClusterRole
	s.must(s.kube.Get(t.Context(), client.ObjectKey{Name: "multieni-drain"}, &role))
	asked := s.gate.asked()
	for _, p := range granted(role.Rules) {
		if !asked[p] {
			t.Errorf("the Job may %s %s.%s, and never did", p.verb, p.resource, p.group)
		}
	}
}

// drain runs `multieni drain` as a user, and returns what it prints.
func (s *stage) drain(user string) (string, error) {
	s.Helper()
	flags := append(child.Flags(s.speed)[1:], "--leader-elect", "--leader-election-namespace="+namespace, "--timeout=5m")
	command := exec.CommandContext(s.Context(), s.program(), append([]string{"drain", "--yes"}, flags...)...)
	command.Env = s.environment(user, newCloudGate(s.T, s.cloud, s.keepsTargets))
	out, err := command.CombinedOutput()
	return string(out), err
}

// liveWithTemplate publishes a launch template, launches a node from it, and removes both.
func (s *stage) liveWithTemplate() {
	s.Helper()
	subnets := map[string]v1alpha1.TagValue{"aws-ids": v1alpha1.TagValue(subnet(0, 0))}
	template := &v1alpha1.AWSNodeTemplate{
		ObjectMeta: metav1.ObjectMeta{Name: "launched"},
		Spec: v1alpha1.AWSNodeTemplateSpec{
			SubnetSelector:        subnets,
			NetworkInterfaces:     []v1alpha1.LaunchInterface{{SubnetSelector: subnets}},
			SecurityGroupSelector: map[string]v1alpha1.TagValue{"aws-ids": group},
			AMIFamily:             "Custom",
			AMISelector:           map[string]v1alpha1.TagValue{"aws-ids": image},
			UserData:              "#!/bin/sh\n",
			InstanceTypes:         v1alpha1.InstanceTypeSelector{Include: []string{"m5.*"}},
		},
	}
	s.must(s.kube.Create(s.Context(), template))
	key := client.ObjectKeyFromObject(template)
	s.eventually(afterwards, "a launch template is published", func() string {
		s.must(s.kube.Get(s.Context(), key, template))
		if len(template.Status.LaunchTemplates) == 0 {
			return fmt.Sprintf("none is: %v", template.Status.Conditions)
		}
		return ""
	})
	published := template.Status.LaunchTemplates[0]
	answer := s.byHand(url.Values{
		"Action": {"RunInstances"}, "Version": {"2016-11-15"}, "MinCount": {"1"}, "MaxCount": {"1"}, "InstanceType": {"m5.xlarge"},
		"LaunchTemplate.LaunchTemplateName": {published.Name}, "LaunchTemplate.Version": {strconv.FormatInt(published.Version, 10)},
	})
	instance := regexp.MustCompile("i-[0-9a-f]{17}").FindString(answer)
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "launched"},
		Spec:       corev1.NodeSpec{ProviderID: "aws:///" + zones[0] + "/" + instance},
	}
	s.must(s.kube.Create(s.Context(), node))
	s.eventually(afterwards, "its node is told of", func() string {
		s.must(s.kube.Get(s.Context(), client.ObjectKeyFromObject(node), node))
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == v1alpha1.NodeConditionDrifted }) {
			return "it says nothing of drift"
		}
		return ""
	})
	s.must(s.kube.Delete(s.Context(), node))
	s.console("TerminateInstances", "InstanceId.1", instance)
	s.must(s.kube.Delete(s.Context(), template))
	s.eventually(afterwards, "the node template is gone", func() string {
		if err := s.kube.Get(s.Context(), key, template); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v %v", err, template.Status.Conditions)
		}
		return ""
	})
}

// liveWithReservation reserves a part of a subnet, and deletes the reservation.
func (s *stage) liveWithReservation() {
	s.Helper()
	reservation := &v1alpha1.SubnetReservation{
		ObjectMeta: metav1.ObjectMeta{Name: "pods"},
		Spec: v1alpha1.SubnetReservationSpec{
			SubnetIDs: []string{subnet(0, 0)}, Type: v1alpha1.SubnetReservationPrefix, PrefixLength: ptr.To(int32(28)),
		},
	}
	s.must(s.kube.Create(s.Context(), reservation))
	key := client.ObjectKeyFromObject(reservation)
	s.eventually(afterwards, "a block is reserved", func() string {
		s.must(s.kube.Get(s.Context(), key, reservation))
		if reservation.Status.Reserved == 0 {
			return fmt.Sprintf("none is: %v", reservation.Status.Conditions)
		}
		return ""
	})
	s.must(s.kube.Delete(s.Context(), reservation))
	s.eventually(afterwards, "the reservation is gone", func() string {
		if err := s.kube.Get(s.Context(), key, reservation); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v %v", err, reservation.Status.Conditions)
		}
		return ""
	})
}

// liveWithAddress has an agent hold an address on an interface that is gone, and the controller says so. Then the agent
// holds it on one whose ranges do not contain it: the controller deletes the object.
func (s *stage) liveWithAddress() {
	s.Helper()
	const ip = "10.0.0.200"
	address := &v1alpha1.FloatingAddress{
		ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.FloatingAddressName(subnet(0, 0), ip), Finalizers: []string{v1alpha1.Finalizer}},
		Spec:       v1alpha1.FloatingAddressSpec{SubnetID: subnet(0, 0), Address: ip},
	}
	s.must(s.kube.Create(s.Context(), address))
	key := client.ObjectKeyFromObject(address)
	interfaces := s.objects(nodeName("node", 0))
	address.Status.Sequence, address.Status.Holder = 1, &v1alpha1.AddressHolder{
		NodeName: nodeName("node", 0), ENIID: "eni-0ffffffffffffffff", Since: metav1.Now(),
	}
	s.must(s.kube.Status().Update(s.Context(), address))
	s.eventually(afterwards, "no pod has the address", func() string {
		s.must(s.kube.Get(s.Context(), key, address))
		if len(address.Status.Conditions) == 0 {
			return "it says nothing"
		}
		return ""
	})
	address.Status.Sequence, address.Status.Holder.ENIID = 2, interfaces[0].Status.ENIID
	s.must(s.kube.Status().Update(s.Context(), address))
	s.eventually(afterwards, "the address is gone", func() string {
		if err := s.kube.Get(s.Context(), key, address); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("it is there: %v %v", err, address.Status.Conditions)
		}
		return ""
	})
}

// unprovoked are permissions that this life does not use: to create an Event, which only what needs a person has, and to
// patch one that repeats within minutes, to read a NodeENI whose objects are orphans, to list where
// an API server does not stream a first list, to read a FloatingAddress before its address is unassigned, to make one
// again that a user deleted under a pod, to read the cluster's service range, which the user data of this node template
// does not name, and to change the recorded name of the cluster.
var unprovoked = map[permission]bool{
	{"create", "events.k8s.io", "events"}:               true,
	{"get", "networking.k8s.aws", "nodeenis"}:           true,
	{"patch", "events.k8s.io", "events"}:                true,
	{"list", "", "nodes"}:                               true,
	{"list", "networking.k8s.aws", "nodeenis"}:          true,
	{"list", "networking.k8s.aws", "networkinterfaces"}: true,
	{"list", "networking.k8s.aws", "awsnodetemplates"}:  true,
	{"get", "networking.k8s.io", "servicecidrs"}:        true,
	{"update", "", "configmaps"}:                        true,

	{"list", "networking.k8s.aws", "subnetreservations"}:  true,
	{"list", "networking.k8s.aws", "floatingaddresses"}:   true,
	{"get", "networking.k8s.aws", "floatingaddresses"}:    true,
	{"create", "networking.k8s.aws", "floatingaddresses"}: true,
}

// grants returns what the manifests grant the controller.
func (s *stage) grants() []permission {
	s.Helper()
	var clusterRole rbacv1.ClusterRole
	s.must(s.kube.Get(s.Context(), client.ObjectKey{Name: "multieni-controller"}, &clusterRole))
	all := granted(clusterRole.Rules)
	for _, name := range []string{"multieni-leader-election", "multieni-cluster-name"} {
		var role rbacv1.Role
		s.must(s.kube.Get(s.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &role))
		all = append(all, granted(role.Rules)...)
	}
	return all
}

// kubectl runs the cluster's kubectl, as its administrator, in the checkout.
func (s *stage) kubectl(args ...string) {
	s.Helper()
	root, err := child.Root()
	s.must(err)
	command := exec.CommandContext(s.Context(), s.Kubectl, args...)
	command.Dir = root
	command.Env = append(os.Environ(), "KUBECONFIG="+s.Kubeconfig, "KUBECACHEDIR="+filepath.Join(s.TempDir(), "kubectl"))
	if output, err := command.CombinedOutput(); err != nil {
		s.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, output)
	}
}
