// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// machine is a worker with a container runtime and a kubelet.
//
// Both run as on a node of their own: in the network namespace of the node, with their own processes and mounts, and
// with the folders /run, /var/lib and /var/log below dir.
type machine struct {
	*worker
	dir  string
	init *exec.Cmd // process 1 of the node
	ends io.Closer // which it does when this is closed
}

//go:embed testdata/init.sh
var initScript string

// kubelet starts a container runtime and a kubelet on a worker. The folders have their programs, the archive the image
// of the pods.
func (k *worker) kubelet(folders []string, archive string) *machine {
	k.Helper()
	// The path of a socket has at most 108 bytes.
	dir, err := os.MkdirTemp("", k.name+"-")
	if err != nil {
		k.Fatal(err)
	}
	m := &machine{worker: k, dir: dir}
	m.configure()
	m.init = exec.CommandContext(context.Background(), "sh", "-c", initScript)
	m.init.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS}
	path := strings.Join(append(folders, os.Getenv("PATH")), string(filepath.ListSeparator))
	// The kubelet accepts only an address that the node has, and the simulated primary interface has no link.
	address := k.kubectl("", "get", "node", k.name, "-o", `jsonpath={.status.addresses[?(@.type=="InternalIP")].address}`)
	k.links.IP("address add " + address + "/32 dev lo")
	m.init.Env = append(os.Environ(), "PATH="+path, "DIR="+dir, "NODE="+k.name, "KUBECONFIG="+k.Kubeconfig, "ARCHIVE="+archive, "ADDRESS="+address)
	if m.ends, err = m.init.StdinPipe(); err != nil {
		k.Fatal(err)
	}
	var said bytes.Buffer
	m.init.Stdout, m.init.Stderr = &said, &said
	k.links.Do(func() { err = m.init.Start() })
	if err != nil {
		k.Fatalf("start the processes of %s: %v", k.name, err)
	}
	k.Cleanup(func() {
		_ = m.ends.Close()
		_ = m.init.Wait()
		if k.Failed() {
			k.Logf("%s: %s%s; all logs are in %s", k.name, said.String(), m.lastWords(), dir)
			return
		}
		if err := os.RemoveAll(dir); err != nil {
			k.Error(err)
		}
	})
	return m
}

// configure writes the configurations of Multus, containerd and the kubelet. The network namespaces of pods are in a
// folder that this machine does not have: the agent runs outside of the node's mounts, and would otherwise look for them
// in the machine's own /run/netns.
func (m *machine) configure() {
	m.Helper()
	var folders []string
	for _, folder := range m.programs {
		folders = append(folders, fmt.Sprintf("%q", folder))
	}
	for file, text := range map[string]string{
		"net.d/00-multus.conflist": string(m.throughMultus().Bytes),
		"resolv.conf":              "nameserver " + bridgeAddress + "\n",
		"containerd.toml": fmt.Sprintf(`version = 3
[plugins.'io.containerd.cri.v1.runtime']
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [%s]
conf_dir = "%s/net.d"
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = %q
[plugins.'io.containerd.internal.v1.opt']
path = "%[2]s/opt"
`, strings.Join(folders, ", "), m.dir, podImage),
		"kubelet.yaml": fmt.Sprintf(`
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
containerRuntimeEndpoint: unix:///run/containerd/containerd.sock
resolvConf: %[1]s/resolv.conf
volumePluginDir: %[1]s/volume-plugins
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
# What containers and virtual machines lack: version 2 of cgroups, or the right to arrange them, and room on the disk.
cgroupDriver: cgroupfs
failCgroupV1: false
cgroupsPerQOS: false
enforceNodeAllocatable: []
failSwapOn: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
`, m.dir),
	} {
		file = filepath.Join(m.dir, file)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			m.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			m.Fatal(err)
		}
	}
}

// keepSettings restores the machine's settings that kubelets change (Kubernetes, "pkg/kubelet/cm").
func keepSettings(t *testing.T) {
	t.Helper()
	for _, setting := range []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"} {
		file := filepath.Join("/proc/sys", setting)
		value, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := os.WriteFile(file, value, 0); err != nil {
				t.Error(err)
			}
		})
	}
}

// lastWords returns the ends of the logs of the node.
func (m *machine) lastWords() string {
	var all strings.Builder
	for _, program := range []string{"containerd", "kubelet"} {
		log, err := os.ReadFile(filepath.Join(m.dir, program+".log"))
		const most = 6000
		fmt.Fprintf(&all, "\nThe end of the log of %s (%v):\n%s", program, err, log[max(0, len(log)-most):])
	}
	return all.String()
}

// inside runs a command in the network namespace of a container of the node, or of the node itself, and returns its
// output.
func (m *machine) inside(namespace string, command ...string) string {
	m.Helper()
	arguments := append([]string{"--target", fmt.Sprint(m.init.Process.Pid), "--mount", "nsenter", "--net=" + namespace}, command...)
	output, err := exec.CommandContext(m.Context(), "nsenter", arguments...).CombinedOutput()
	if err != nil {
		m.Fatalf("nsenter %v: %v: %s", arguments, err, output)
	}
	return string(output)
}

// kubePod is a pod that a kubelet runs.
type kubePod struct {
	name string
	node *machine
}

// run creates the object of a pod with networks. There is no scheduler, so the object names the node.
func (m *machine) run(name, networks string) kubePod {
	m.Helper()
	m.apply(fmt.Sprintf(`
apiVersion: v1
kind: Pod
metadata: {name: %s, namespace: upf, annotations: {k8s.v1.cni.cncf.io/networks: '%s'}}
spec:
  nodeName: %s
  automountServiceAccountToken: false
  enableServiceLinks: false
  dnsPolicy: Default
  terminationGracePeriodSeconds: 5
  containers:
  - {name: upf, image: %q, imagePullPolicy: Never, command: [/pod, serve], readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}}
`, name, networks, m.name, podImage))
	return kubePod{name, m}
}

// at returns the addresses that a network gave to the pod.
func (p kubePod) at(network string) []netip.Addr {
	return p.node.addressesOf(pod{name: p.name}, network)
}

// reaches returns why the pod does not connect to an address; nil if it connects.
func (p kubePod) reaches(to netip.Addr) error {
	p.node.Helper()
	return p.reachesHost(to.String())
}

// reachesHost returns why the pod does not connect to an address or a name; nil if it connects.
func (p kubePod) reachesHost(to string) error {
	p.node.Helper()
	return p.does("reach?address=" + url.QueryEscape(to))
}

// joins makes the pod join a multicast group on its first network.
func (p kubePod) joins(group netip.Addr) {
	p.node.Helper()
	if err := p.does("join?link=net1&group=" + group.String()); err != nil {
		p.node.Fatal(err)
	}
}

// does returns why the pod cannot do what the node requests over eth0, as it answers; nil if it can.
func (p kubePod) does(what string) error {
	p.node.Helper()
	eth0 := p.node.kubectl("", "get", "pod", p.name, "-n", "upf", "-o", "jsonpath={.status.podIP}")
	var connection net.Conn
	var err error
	p.node.links.Do(func() { connection, err = net.Dial("tcp", net.JoinHostPort(eth0, "8080")) })
	if err != nil {
		p.node.Fatalf("%s does not reach its pod: %v", p.node.name, err)
	}
	through := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return connection, nil }}
	answer, err := (&http.Client{Transport: through, Timeout: time.Minute}).Get("http://pod/" + what)
	if err != nil {
		p.node.Fatalf("ask %s: %v", p.name, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(answer.Body)
		return fmt.Errorf("%s says %s: %s", p.name, answer.Status, why)
	}
	return nil
}

// needNodes skips the test unless `make test-node` runs it, and then fails if no kubelet can run.
func needNodes(t *testing.T, possible error) {
	t.Helper()
	if os.Getenv("MULTIENI_NODE") == "" {
		t.Skip("runs kubelets by make test-node")
	}
	if possible != nil {
		t.Fatalf("kubelets cannot run here: %v", possible)
	}
	for _, tool := range []string{"nsenter", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("kubelets need the program %s: %v", tool, err)
		}
	}
}
