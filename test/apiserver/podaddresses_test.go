// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Pods with the annotation of Multus request the addresses of the networks of NodeENIs, and of no other network.
func TestPodsRequestAddresses(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/admission/pods.yaml")
	for _, text := range []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: addresses, labels: {team: core}}}",
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: addresses}}",
		nodeENIWithPods("a7", "namespaceSelector: {team: edge}"),
		nodeENIWithPods("a9", "namespaces: [elsewhere]"),
		nodeENIWithPods("a3", "namespaces: [addresses]"),
		nodeENIWithPods("a4", "namespaces: [addresses, elsewhere]"),
		nodeENIWithPods("a6", "namespaceSelector: {team: core}"),
	} {
		object := parse(t, text)
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, admin, object) })
	}
	created := func(networks string, change func(*corev1.Pod)) *corev1.Pod {
		t.Helper()
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "addresses", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "first", Image: "i"}, {Name: "second", Image: "i"}}},
		}
		if change != nil {
			change(pod)
		}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Fatalf("%q: %v", networks, err)
		}
		return pod
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) { // the API server learns of the policy and of each NodeENI
		if pod := created("a3,a4,a6", nil); len(pod.Spec.Containers[0].Resources.Limits) == 3 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force after a minute")
		}
	}
	own := func(list corev1.ResourceList) *corev1.ResourceRequirements {
		return &corev1.ResourceRequirements{Limits: list, Requests: list}
	}
	for name, c := range map[string]struct {
		networks string
		change   func(*corev1.Pod)
		want     map[string]string
	}{
		"one":                           {"a3", nil, map[string]string{"a3": "1"}},
		"two, with spaces":              {"a3 , a4", nil, map[string]string{"a3": "1", "a4": "1"}},
		"twice":                         {"a3@net1,a3@net2", nil, map[string]string{"a3": "2"}},
		"a namespace and an interface":  {"addresses/a3@net1", nil, map[string]string{"a3": "1"}},
		"the definition of another one": {"elsewhere/a4", nil, map[string]string{"a4": "1"}},
		"a definition of nobody":        {"elsewhere/a3", nil, nil},
		"the second interface":          {"a3--1", nil, map[string]string{"a3--1": "1"}},
		"a similar name":                {"a3-1,a33,a3--x", nil, nil},
		"a network of others":           {"sriov", nil, nil},
		"the namespace is not listed":   {"a9", nil, nil},
		"the namespace is selected":     {"a6", nil, map[string]string{"a6": "1"}},
		"the namespace is not selected": {"a7", nil, nil},
		"JSON":                          {`[{"name":"a3"},{"name":"a4","namespace":"addresses","interface":"net2"}]`, nil, map[string]string{"a3": "1", "a4": "1"}},
		"spaces around an interface":    {" a3 @net1 ", nil, map[string]string{"a3": "1"}},
		"a comma at the end":            {"a3,\na4,", nil, map[string]string{"a3": "1", "a4": "1"}},
		"a pod in its host's network":   {"a3", func(p *corev1.Pod) { p.Spec.HostNetwork = true }, nil},
		"a pod of Windows":              {"a3", func(p *corev1.Pod) { p.Spec.OS = &corev1.PodOS{Name: corev1.Windows} }, nil},
		"too long":                      {"a3" + strings.Repeat(" ", 4095), nil, nil},
		"too many":                      {"a3" + strings.Repeat(",x", 256), nil, nil},
		"JSON, arguments with a name":   {`[{"cni-args":{"name":"a4"},"name":"a3"}]`, nil, map[string]string{"a3": "1"}},
		"JSON, arguments with another namespace": {
			`[{"cni-args":{"a":"b","namespace":"other"},"name":"a3","namespace":"addresses"}]`, nil, map[string]string{"a3": "1"},
		},
		"JSON, an argument with a brace": {`[{"name":"a3","cni-args":{"x":"}"}},{"name":"a4"}]`, nil, map[string]string{"a3": "1", "a4": "1"}},
		"JSON, an argument with quotes":  {`[{"cni-args":{"x":"\"name\":\"a4\""},"name":"a3"}]`, nil, map[string]string{"a3": "1"}},
		"JSON, four levels":              {`[{"name":"a3","cni-args":{"b":{"c":[{"name":"a4"}]}}}]`, nil, map[string]string{"a3": "1"}},
		"JSON, five levels":              {`[{"cni-args":{"b":{"c":{"d":{"e":{"name":"a4"}}}}},"name":"a3"}]`, nil, nil},
		"JSON, ports and addresses":      {`[{"portMappings":[{"hostPort":80},{"hostPort":81}],"ips":["10.0.0.1/24"],"name":"a3"}]`, nil, map[string]string{"a3": "1"}},
		"JSON, upper case":               {`[{"Name":"a3","NAMESPACE":"elsewhere"},{"NAME":"a4"}]`, nil, map[string]string{"a4": "1"}},
		"JSON, a repeated key":           {`[{"name":"a4","Name":"a3"}]`, nil, map[string]string{"a3": "1"}},
		"JSON, null":                     {`[{"name":"a3","name":null,"namespace":null}]`, nil, map[string]string{"a3": "1"}},
		"JSON, an empty namespace":       {`[{"name":"a3","namespace":""}]`, nil, map[string]string{"a3": "1"}},
		"JSON, an escaped name":          {`[{"name":"a\u0033"},{"name":"a4"}]`, nil, map[string]string{"a4": "1"}},
		"JSON, an escaped key":           {`[{"name":"a3","n\u0061me":"a4"}]`, nil, nil},
		"JSON, an escaped namespace":     {`[{"name":"a6","namespace":"elsewher\u0065"}]`, nil, nil},
		"JSON, a name with a namespace":  {`[{"name":"addresses/a3"}]`, nil, nil},
		"JSON, white space":              {"[\t{ \"name\" :\n\"a3\" ,\"interface\": \"net 1\"}\n]", nil, map[string]string{"a3": "1"}},
		"JSON, twice":                    {`[{"name":"a3"},{"name":"a4"},{"name":"a3"}]`, nil, map[string]string{"a3": "2", "a4": "1"}},
		"JSON, one object":               {`{"name":"a3"}`, nil, nil},
		"JSON, text":                     {`"a3"`, nil, nil},
		"JSON with arguments":            {`[{"name":"a3","cni-args":{"mode":"x"}}, {"name": "sriov"}]`, nil, map[string]string{"a3": "1"}},
		"JSON of another namespace":      {`[{"name":"a3","namespace":"elsewhere"}]`, nil, nil},
		"empty":                          {"", nil, nil},
		"broken JSON":                    {`[{"name":`, nil, nil},
		"a static pod": {"a3", func(p *corev1.Pod) {
			p.Annotations["kubernetes.io/config.mirror"] = "x"
			p.Spec.NodeName = "n"
			p.Spec.ServiceAccountName = ""
		}, nil},
		"a request of the author is left": {
			"a3,a4", func(p *corev1.Pod) {
				p.Spec.Containers[1].Resources = *own(corev1.ResourceList{"addresses.networking.k8s.aws/a3": resource.MustParse("2")})
			}, map[string]string{"a4": "1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := created(c.networks, c.change)
			for part, list := range map[string]corev1.ResourceList{
				"requests": pod.Spec.Containers[0].Resources.Requests, "limits": pod.Spec.Containers[0].Resources.Limits,
			} {
				got := map[string]string{}
				for key, quantity := range list {
					got[strings.TrimPrefix(string(key), "addresses.networking.k8s.aws/")] = quantity.String()
				}
				if len(c.want) == 0 {
					c.want = map[string]string{}
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Errorf("%s (-want +got):\n%s", part, diff)
				}
			}
		})
	}
	limited := created("a3", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = *own(corev1.ResourceList{"cpu": resource.MustParse("1")})
	})
	if got := limited.Spec.Containers[0].Resources.Limits; len(got) != 2 {
		t.Errorf("limits of a container with a limit of its own: %v", got)
	}
}

// TestRequestsOfAddressesAreCheap creates pods whose annotations are made to cost the API server as much as possible,
// with twenty NodeENIs. Any author of pods can, without a right on NodeENIs and without a quota: a dry run suffices. The
// bound is on CPU time, since a busy machine stretches the other.
func TestRequestsOfAddressesAreCheap(t *testing.T) {
	admin := everything(t, server.Config)
	applyFile(t, admin, "config/admission/pods.yaml")
	objects := []string{
		"{apiVersion: v1, kind: Namespace, metadata: {name: costly}}", "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: costly}}",
	}
	var all []string
	for i := range 20 {
		all = append(all, fmt.Sprintf("n%d", i))
		objects = append(objects, nodeENIWithPods(all[i], "namespaces: [costly]"))
	}
	for _, text := range objects {
		object := parse(t, text)
		if err := admin.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { remove(t, admin, object) })
	}
	create := func(networks string) (requested int) {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "pod", Namespace: "costly", Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": networks}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "first", Image: "i"}}},
		}
		if err := admin.Create(t.Context(), pod, client.DryRunAll); err != nil {
			t.Errorf("a pod with an annotation of %d bytes: %v", len(networks), err)
		}
		return len(pod.Spec.Containers[0].Resources.Limits)
	}
	names := strings.Join(all, ",")
	for deadline := time.Now().Add(time.Minute); create(names) < len(all); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the policy is not in force after a minute")
		}
	}
	long := func(size int, begin, part, end string) string {
		return begin + strings.Repeat(part, (size-len(begin)-len(end)-len(names))/len(part)) + end
	}
	const most, bound = 250_000, time.Second // the API server takes annotations of 256 KiB
	for name, networks := range map[string]string{
		"a list of the greatest size":     long(most, "", "x,", names),
		"one name of the greatest size":   long(most, names+",", "n", ""),
		"JSON of the greatest size":       long(most, `[{"name":"`, "{", names+`"}]`),
		"a list as long as it may be":     names + strings.Repeat(",x", 236) + strings.Repeat("x", 3400),
		"many elements":                   long(4096, "", "x,", names),
		"a list of one name":              names + strings.Repeat(",n1", 236),
		"many elements of one name":       long(4096, "", "n1,", names),
		"JSON with many elements":         `[{"name":"` + names + `"}` + strings.Repeat(`,{"name":"n1"}`, 236) + "]",
		"JSON with many members":          `[{"a":"` + names + `"` + strings.Repeat(`,"name":"n1"`, 236) + "}]",
		"JSON with many braces":           long(4096, `[{"a":"`+names+`","b":`, "{", ""),
		"JSON with many brackets in text": long(4096, `[{"a":"`, `[{`, names+`"}]`),
	} {
		before := cpuOfTheAPIServer(t)
		create(networks)
		if took := cpuOfTheAPIServer(t) - before; took > bound {
			t.Errorf("%s: %d bytes cost the API server %s of CPU time, and may cost %s", name, len(networks), took, bound)
		} else {
			t.Logf("%s: %d bytes cost %s", name, len(networks), took)
		}
	}
}

// cpuOfTheAPIServer returns the CPU time of the API server that this process started (proc_pid_stat(5)).
func cpuOfTheAPIServer(t *testing.T) time.Duration {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(files) == 0 {
		t.Skip("the CPU time of another process is read from Linux's /proc")
	}
	const parent, user, system, tick = 1, 11, 12, 10 * time.Millisecond // fields behind the name, and USER_HZ
	for _, file := range files {
		content, _ := os.ReadFile(file) // it may have ended
		name, rest, _ := strings.Cut(string(content), ") ")
		fields := strings.Fields(rest)
		if !strings.HasSuffix(name, "(kube-apiserver") || len(fields) <= system || fields[parent] != strconv.Itoa(os.Getpid()) {
			continue
		}
		var ticks int
		for _, field := range []int{user, system} {
			n, err := strconv.Atoi(fields[field])
			if err != nil {
				t.Fatal(err)
			}
			ticks += n
		}
		return time.Duration(ticks) * tick
	}
	t.Fatal("no kube-apiserver is a child of this process")
	return 0
}

func nodeENIWithPods(name, namespaces string) string {
	return "{apiVersion: networking.k8s.aws/v1alpha1, kind: NodeENI, metadata: {name: " + name + "}, spec: {nodeSelector: {ng: none}, " +
		"subnetID: subnet-0f59b4f14737be9ad, securityGroupIDs: [sg-05da196f3314d4af8], pods: {ipv4: {}, " + namespaces + "}}}"
}
