// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectleni_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/cli/kubectleni"
	"github.com/multieni/multieni/internal/core/connectivity"
	"github.com/multieni/multieni/internal/core/report"
)

// definitionOfN3 is where the API server has the NetworkAttachmentDefinition n3 of namespace upf.
const definitionOfN3 = "/apis/k8s.cni.cncf.io/v1/namespaces/upf/network-attachment-definitions/n3"

// podNetwork has network n3 with one pod on node-a1, and one on node-b1 in another zone, in the API server and in EC2.
func podNetwork(t *testing.T) *cluster {
	t.Helper()
	c := newCluster(t)
	sim := withEC2(t)
	c.installMultus()
	c.answers[definitionOfN3] = map[string]any{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": map[string]any{"name": "n3", "namespace": "upf"},
		"spec": map[string]any{"config": `{"plugins":[{"type":"ipvlan","master":"net-n3","ipam":{"type":"multieni-ipam","network":"n3"}},{"type":"multieni-routes"}]}`},
	}
	c.put(withPods("n3", &v1alpha1.NodeENIPods{Namespaces: []string{"upf"}, Attachment: v1alpha1.PodAttachmentIPVLAN, IPv4: &v1alpha1.PodIPv4{}}))
	for _, zone := range []string{"a", "b"} {
		node, instance := "node-"+zone+"1", "i-0a10000000000000"+zone
		subnet, cidr := "subnet-0f59b4f14737be9ad", "10.0.64.0/20"
		if zone == "b" {
			subnet, cidr = "subnet-0bb0000000000000b", "10.0.80.0/20"
		}
		call(t, "CreateNetworkInterface", "SubnetId", subnet, "Ipv4PrefixCount", "1", "SecurityGroupId.1", "sg-05da196f3314d4af8")
		var id, prefix string
		for _, i := range sim.State().NetworkInterfaces {
			if i.SubnetID == subnet && i.Attachment == nil {
				id, prefix = i.NetworkInterfaceID, i.IPv4Prefixes[0].IPv4Prefix.String()
			}
		}
		call(t, "AttachNetworkInterface", "InstanceId", instance, "NetworkInterfaceId", id, "DeviceIndex", "2")
		address, _, _ := strings.Cut(prefix, "/")
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "upf", Name: "upf-" + zone, Annotations: map[string]string{
			connectivity.NetworksAnnotation: "n3", connectivity.StatusAnnotation: `[{"name":"upf/n3","interface":"net1","ips":["` + address + `"]}]`,
		}}}
		pod.Spec.NodeName, pod.Status.Phase = node, corev1.PodRunning
		must(t, c.Create(t.Context(), pod))
		one := &v1alpha1.NetworkInterface{ObjectMeta: metav1.ObjectMeta{Name: "n3-" + instance + "-0"}}
		one.Spec = v1alpha1.NetworkInterfaceSpec{
			InstanceID: instance, Zone: "us-east-1" + zone, Origin: v1alpha1.OriginDeclared, NodeName: node,
			NodeENI: v1alpha1.NodeENIReference{Name: "n3", UID: "n3-uid", Generation: 1},
			Subnets: []v1alpha1.InterfaceSubnet{{ID: subnet, CIDR: cidr}},
			Pods:    &v1alpha1.PodSettings{Attachment: v1alpha1.PodAttachmentIPVLAN, Routes: []string{"10.0.0.0/16"}},
		}
		one.Status = v1alpha1.NetworkInterfaceStatus{
			Phase: v1alpha1.PhaseAttached, ENIID: id, AttachmentID: "eni-attach-" + zone, SubnetID: subnet,
			Node: &v1alpha1.NodeReport{Open: true, Pods: &v1alpha1.PodsReport{Ready: true, Reason: "NetworkReady"}},
		}
		c.put(one)
	}
	return c
}

// installMultus makes the cluster know NetworkAttachmentDefinitions.
func (c *cluster) installMultus() {
	groups := c.answers["/apis"].(metav1.APIGroupList)
	v := metav1.GroupVersionForDiscovery{GroupVersion: "k8s.cni.cncf.io/v1", Version: "v1"}
	groups.Groups = append(groups.Groups, metav1.APIGroup{
		Name: "k8s.cni.cncf.io", Versions: []metav1.GroupVersionForDiscovery{v}, PreferredVersion: v,
	})
	c.answers["/apis"] = groups
	c.answers["/apis/k8s.cni.cncf.io/v1"] = metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: "k8s.cni.cncf.io/v1",
		APIResources: []metav1.APIResource{{
			Name: "network-attachment-definitions", Kind: "NetworkAttachmentDefinition", Namespaced: true, Verbs: metav1.Verbs{"get", "list"},
		}},
	}
}

// call makes a call of EC2 with pairs of parameters and values.
func call(t *testing.T, action string, pairs ...string) {
	t.Helper()
	form := url.Values{"Version": {"2016-11-15"}, "Action": {action}}
	for pair := range slices.Chunk(pairs, 2) {
		form.Set(pair[0], pair[1])
	}
	answer, err := http.PostForm(os.Getenv("AWS_ENDPOINT_URL"), form)
	must(t, err)
	must(t, answer.Body.Close())
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s", action, answer.Status)
	}
}

// pod changes a pod.
func (c *cluster) pod(name string, edit func(*corev1.Pod)) {
	c.t.Helper()
	var pod corev1.Pod
	must(c.t, c.Get(c.t.Context(), client.ObjectKey{Namespace: "upf", Name: name}, &pod))
	edit(&pod)
	must(c.t, c.Update(c.t.Context(), &pod))
}

// withKubectl puts a kubectl into the path that records its arguments and runs a script. It returns the record.
func withKubectl(t *testing.T, script string) (calls string) {
	t.Helper()
	dir := t.TempDir()
	calls = filepath.Join(dir, "calls")
	program := "#!/bin/sh\necho \"$*\" >> " + calls + "\n" + script + "\n"
	must(t, os.WriteFile(filepath.Join(dir, "kubectl"), []byte(program), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return calls
}

func TestCheckChoosesTwoPods(t *testing.T) {
	podNetwork(t)
	wants(t, succeeds(t, "check", "n3"),
		"● pod of upf/upf-a: on node node-a1", "● pod of upf/upf-b: on node node-b1", "● address of upf/upf-a: EC2 delivers 10.0.64.",
		"● route from upf/upf-a to upf/upf-b", "● security groups from upf/upf-b to upf/upf-a: sg-05da196f3314d4af8", "0 warnings, 0 failed")
}

// The user has the permissions that the help lists, and no others.
func TestCheckNeedsFewPermissions(t *testing.T) {
	c := podNetwork(t)
	c.denied = []string{"/nodes", "/configmaps", "/kube-system", "/pods", "/floatingaddresses", "/namespaces"}
	succeeds(t, "check", "n3", "upf-a", "upf-b", "--namespace", "upf")
}

func TestCheckNamesTheFailedStep(t *testing.T) {
	for name, tc := range map[string]struct {
		edit func(*cluster)
		args []string
		want []string
	}{
		"the pod": {nil, []string{"upf/upf-a", "upf/none"}, []string{"✗ pod of upf/none: there is no such pod", "kubectl get pods -n upf"}},
		"the annotation": {
			func(c *cluster) {
				c.pod("upf-a", func(p *corev1.Pod) { delete(p.Annotations, connectivity.NetworksAnnotation) })
			},
			[]string{"upf/upf-a", "upf/upf-b"}, []string{"✗ annotation of upf/upf-a"},
		},
		"Multus": {
			func(c *cluster) {
				c.answers["/apis"] = discovery()["/apis"]
				delete(c.answers, "/apis/k8s.cni.cncf.io/v1")
				c.absent = []string{"/apis/k8s.cni.cncf.io/v1", definitionOfN3}
			},
			nil, []string{"✗ definition of upf/upf-a: the cluster does not know NetworkAttachmentDefinitions"},
		},
		"the definition": {
			func(c *cluster) { c.absent = []string{definitionOfN3} }, nil,
			[]string{"✗ definition of upf/upf-a: there is no NetworkAttachmentDefinition upf/n3", "pods.namespaces of NodeENI n3"},
		},
		"the address": {
			func(c *cluster) {
				c.pod("upf-b", func(p *corev1.Pod) {
					p.Annotations[connectivity.StatusAnnotation] = `[{"name":"upf/n3","ips":["10.0.95.1"]}]`
				})
			},
			nil, []string{"✗ address of upf/upf-b", "does not have 10.0.95.1"},
		},
		"the security groups": {
			func(c *cluster) {
				for _, prefix := range []string{"10.0.64.", "10.0.80."} {
					call(c.t, "ModifyNetworkInterfaceAttribute", "NetworkInterfaceId", c.interfaceOf(prefix), "SecurityGroupId.1", "sg-0aa00000000000001")
				}
			},
			nil, []string{"✗ security groups from upf/upf-a to upf/upf-b: no inbound rule of sg-0aa00000000000001"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := podNetwork(t)
			if tc.edit != nil {
				tc.edit(c)
			}
			r := run(t, "", append([]string{"check", "n3"}, tc.args...)...)
			if !errors.Is(r.failure, kubectleni.ErrFailed) {
				t.Errorf("the failure is %v", r.failure)
			}
			wants(t, r.out, tc.want...)
		})
	}
}

// interfaceOf returns the ID of the interface of the node whose pod has such an address.
func (c *cluster) interfaceOf(prefix string) string {
	c.t.Helper()
	var all v1alpha1.NetworkInterfaceList
	must(c.t, c.List(c.t.Context(), &all))
	for _, i := range all.Items {
		if strings.HasPrefix(i.Spec.Subnets[0].CIDR, prefix) {
			return i.Status.ENIID
		}
	}
	c.t.Fatalf("no interface in %s", prefix)
	return ""
}

func TestCheckWithoutEC2SaysWhatItLeavesOut(t *testing.T) {
	podNetwork(t)
	withoutCredentials(t)
	got := succeeds(t, "check", "n3")
	wants(t, got, "◐ EC2: the steps address and security groups are left out", "find AWS credentials", "● route from upf/upf-a to upf/upf-b")
	if strings.Contains(got, "address of") {
		t.Errorf("it knows EC2's addresses:\n%s", got)
	}
}

func TestCheckPings(t *testing.T) {
	podNetwork(t)
	for name, tc := range map[string]struct {
		script string
		fails  bool
		want   string
	}{
		"answers":    {"echo '3 packets transmitted, 3 packets received'", false, "● ping from upf/upf-a to upf/upf-b: 3 packets were answered"},
		"no answer":  {"echo '6 packets transmitted, 0 received'; exit 1", true, "✗ ping from upf/upf-b to upf/upf-a: no answer to 6 packets"},
		"no program": {`echo 'exec: "ping": executable file not found in $PATH' >&2; exit 126`, false, "◐ ping from upf/upf-a to upf/upf-b: no packet was sent"},
	} {
		t.Run(name, func(t *testing.T) {
			calls := withKubectl(t, tc.script)
			r := run(t, "", "check", "n3", "--ping", "--context", "test")
			if errors.Is(r.failure, kubectleni.ErrFailed) != tc.fails || !tc.fails && r.failure != nil {
				t.Errorf("the failure is %v", r.failure)
			}
			wants(t, r.out, tc.want)
			record, err := os.ReadFile(calls)
			must(t, err)
			wants(t, string(record), "exec --namespace upf upf-a --context test -- ping -c 3 -w 6 -I 10.0.64.", "exec --namespace upf upf-b --context test -- ping")
		})
	}
}

func TestCheckRunsNothingInPodsUnlessAsked(t *testing.T) {
	podNetwork(t)
	calls := withKubectl(t, "exit 1")
	succeeds(t, "check", "n3")
	if record, err := os.ReadFile(calls); err == nil {
		t.Errorf("it runs kubectl %s", record)
	}
}

// The command ends together with the time or with Ctrl-C, and stops kubectl.
func TestCheckEndsInTime(t *testing.T) {
	podNetwork(t)
	withKubectl(t, "exec sleep 600")
	r := run(t, "", "check", "n3", "--ping", "--timeout", "300ms")
	if r.failure == nil {
		t.Fatal("it succeeds")
	}
	wants(t, r.failure.Error(), "--timeout allows more")
}

func TestCheckHasVerdictsInJSON(t *testing.T) {
	podNetwork(t)
	var verdicts report.Checks
	must(t, json.Unmarshal([]byte(succeeds(t, "check", "n3", "-o", "json")), &verdicts))
	steps := []string{"pod", "annotation", "definition", "network", "attachment", "address", "route", "security groups"}
	for _, step := range steps {
		if !slices.ContainsFunc(verdicts, func(c report.Check) bool { return strings.HasPrefix(c.Check, step) && c.Grade == report.OK }) {
			t.Errorf("no step %s: %+v", step, verdicts)
		}
	}
}

func TestCheckRefusesWhatItCannotCheck(t *testing.T) {
	c := podNetwork(t)
	c.put(withPods("plain", nil))
	c.put(withPods("empty", &v1alpha1.NodeENIPods{IPv4: &v1alpha1.PodIPv4{}}))
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"no network":              {nil, "name a pod network, and two pods or none"},
		"one pod":                 {[]string{"n3", "upf-a"}, "name a pod network, and two pods or none"},
		"one pod twice":           {[]string{"n3", "upf/upf-a", "upf-a", "-n", "upf"}, "upf/upf-a is named twice"},
		"a name with two slashes": {[]string{"n3", "upf/a/b", "upf/b"}, "is not [NAMESPACE/]POD"},
		"an unknown network":      {[]string{"n4"}, "there is no pod network n4"},
		"a NodeENI without pods":  {[]string{"plain"}, "NodeENI plain has no spec.pods"},
		"a network without pods":  {[]string{"empty"}, "less than two pods on its nodes request it"},
		"a wrong port":            {[]string{"n3", "--port", "80/GRE"}, "PORT[/PROTOCOL]"},
		"no time":                 {[]string{"n3", "--timeout", "0s"}, "must be longer than 0"},
		"an unknown format":       {[]string{"n3", "-o", "svg"}, "-o svg is not supported"},
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, "", append([]string{"check"}, tc.args...)...)
			if r.failure == nil || errors.Is(r.failure, context.Canceled) {
				t.Fatalf("the failure is %v", r.failure)
			}
			wants(t, r.failure.Error(), tc.want)
		})
	}
}
