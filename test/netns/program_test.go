// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/needs"
	"github.com/multieni/multieni/test/size"
)

const (
	// maxMemory is how much memory an agent may use at any time, in KiB.
	maxMemory = 30 << 10
	// settles is how long a start takes at most.
	settles = 5 * time.Second
	// maxIdle is the part of one processor that an idle agent may use.
	maxIdle = 0.02
)

// contained runs a program as in a container without privileges: with one capability, a read-only root file system and
// /proc/sys, a folder for pods, and a /sys that shows the link as that of a PCI device.
const contained = `mount --bind "$RUN" "$RUN" && mount --bind "$SYSFS" /sys && mount --bind /proc/sys /proc/sys && mount -o remount,bind,ro /proc/sys &&
mount -o remount,bind,ro / &&
exec setpriv --bounding-set=-all,+net_admin --inh-caps=-all,+net_admin --no-new-privs "$@"`

// The program, with exactly its capability, makes a node ready once the API server answers, and uses little CPU time
// and memory.
func TestProgram(t *testing.T) {
	n := newNamespaces(t, "program")
	needs.Programs(t, "unshare", "setpriv", "mount")
	n.readOnly = []hostnet.Setting{hostnet.AcceptRA, hostnet.Autoconf}
	process, log := n.run(agentProgram(t))
	n.says(log, "the API server does not answer") // the agent waits for an API server that is down
	if alive, synced := n.probe("/healthz"), n.probe("/readyz"); alive != http.StatusOK || synced != http.StatusServiceUnavailable {
		t.Errorf("without an API server the probes answer %d and %d", alive, synced)
	}
	n.forward(server.Config.Host)
	n.promise(attached(1))
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	t.Logf("ready %s after the link appeared", n.becomes(patience, ready))
	if synced := n.probe("/readyz"); synced != http.StatusOK {
		t.Errorf("with an API server /readyz answers %d", synced)
	}
	n.wear()
	n.becomes(patience, ready)

	watched := 3 * time.Second
	if size.Long() {
		watched = time.Minute
	}
	time.Sleep(settles) // here and below: the test reads state of the kernel, which has no events
	before := processor(t, process)
	time.Sleep(watched)
	used := processor(t, process) - before
	most := memory(t, process, "VmHWM")
	t.Logf("within %s the idle agent used the processor for %s; it held at most %d KiB since it was started, and holds %d, %d of them its own",
		watched, used, most, memory(t, process, "VmRSS"), memory(t, process, "RssAnon"))
	if used.Seconds() > maxIdle*watched.Seconds() || most > maxMemory {
		t.Errorf("that is more than %g of the processor, or more than %d KiB", maxIdle, maxMemory)
	}
	n.askedForItsOwn()
}

// says waits until a log has the words.
func (n *node) says(log, words string) {
	n.t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		content, err := os.ReadFile(log)
		if err == nil && strings.Contains(string(content), words) {
			return
		}
		if time.Since(begin) > patience {
			n.t.Fatalf("nobody says %q: %v\n%s", words, err, content)
		}
	}
}

// probes is the address in the namespace at which the program answers probes.
const probes = "127.0.0.1:8081"

func (n *node) probe(path string) (status int) {
	n.t.Helper()
	var connection net.Conn
	var err error
	n.Do(func() { connection, err = net.Dial("tcp", probes) })
	if err != nil {
		n.t.Fatal(err)
	}
	through := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) { return connection, nil }}
	answer, err := (&http.Client{Transport: through}).Get("http://" + probes + path)
	if err != nil {
		n.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// wear plugs the link in again and again, and disturbs it as TestAdversary does.
func (n *node) wear() {
	n.t.Helper()
	links, _ := agent.DesiredLinks([]*v1alpha1.NetworkInterface{attached(1)}, 0)
	times := 10
	if size.Long() {
		times = 300
	}
	for range times {
		n.IP("link del " + n.indexOf(mac(1)).Name)
		n.Attach("ens6", mac(1), n.vpc, "peer1")
		n.mended(links)
	}
	random := rand.New(rand.NewPCG(3, 4))
	rounds := 0
	for begin := time.Now(); rounds < 20 || size.Long() && time.Since(begin) < 10*time.Minute; rounds++ {
		n.disturb(random, n.indexOf(mac(1)))
		n.mended(links)
	}
	n.t.Logf("the link came %d times, and was disturbed and mended %d times", times, rounds)
}

// agentProgram builds the program of the agent as for the image.
func agentProgram(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "eni-manager")
	if err := inputs.Build(t.Context(), program, "github.com/multieni/multieni/cmd/eni-manager", "-ldflags", "-s -w"); err != nil {
		t.Fatal(err)
	}
	return program
}

// askedForItsOwn checks that all requests of the program were for its Node and the interfaces of its instance.
func (n *node) askedForItsOwn() {
	n.t.Helper()
	content, err := os.ReadFile(auditLog())
	if err != nil {
		n.t.Fatal(err)
	}
	asked := 0
	for line := range bytes.Lines(content) {
		var request auditv1.Event
		if err := json.Unmarshal(line, &request); err != nil {
			n.t.Fatal(err)
		}
		if object := request.ObjectRef; object != nil && strings.HasPrefix(request.UserAgent, "multieni-agent/") {
			asked++
			name := map[string]string{"nodes": n.name, "networkinterfaces": n.named(attached(1)).Name}[object.Resource]
			ours := object.Name == name || strings.Contains(request.RequestURI, "fieldSelector=metadata.name%3D"+name+"&") ||
				object.Resource == "networkinterfaces" && strings.HasSuffix(request.RequestURI, "labelSelector=networking.k8s.aws%2Finstance%3D"+n.instance)
			if name == "" || !ours {
				n.t.Errorf("the agent asked for more than its own: %s %s", request.Verb, request.RequestURI)
			}
		}
	}
	if asked < 4 {
		n.t.Errorf("of the agent only %d requests were written down, less than it takes to watch and change two objects", asked)
	}
}

// forward lets programs in the namespace reach the API server under its own address.
func (n *node) forward(address string) {
	n.t.Helper()
	address = strings.Trim(strings.TrimPrefix(address, "https:"), "/")
	var listener net.Listener
	var err error
	n.Do(func() { listener, err = net.Listen("tcp", address) })
	if err != nil {
		n.t.Fatal(err)
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	n.t.Cleanup(func() { end(); _ = listener.Close(); all.Wait() })
	all.Go(func() {
		for {
			inside, err := listener.Accept()
			if err != nil {
				return
			}
			outside, err := net.Dial("tcp", address)
			if err != nil {
				_ = inside.Close()
				continue
			}
			context.AfterFunc(ctx, func() { _, _ = inside.Close(), outside.Close() })
			all.Go(func() { pipe(inside, outside) })
			all.Go(func() { pipe(outside, inside) })
		}
	})
}

func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	_, _ = to.Close(), from.Close()
}

// run starts the program in the namespace, until the test ends. It logs to the file.
func (n *node) run(program string) (process int, log string) {
	n.t.Helper()
	log = filepath.Join(n.t.TempDir(), "log")
	output, err := os.Create(log)
	if err != nil {
		n.t.Fatal(err)
	}
	kubeconfig := filepath.Join(n.t.TempDir(), "kubeconfig")
	sysfs := n.t.TempDir()
	if err := os.MkdirAll(filepath.Dir(n.pods), 0o755); err != nil {
		n.t.Fatal(err)
	}
	device := filepath.Join(sysfs, "bus/pci/devices/0000:00:06.0")
	err = errors.Join(
		os.WriteFile(kubeconfig, server.KubeConfig, 0o600), os.MkdirAll(device, 0o755), os.Symlink("../../drivers/ena", filepath.Join(device, "driver")),
	)
	names := []string{"ens6"} // and all names that disturb gives to a link, since this /sys does not follow renames
	for number := range disturbedNames {
		names = append(names, disturbedName(number))
	}
	for _, name := range names {
		link := filepath.Join(sysfs, "class/net", name)
		err = errors.Join(err, os.MkdirAll(link, 0o755), os.Symlink("../../../devices/pci0000:00/0000:00:06.0", filepath.Join(link, "device")))
	}
	if err != nil {
		n.t.Fatal(err)
	}
	command := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", contained, "sh", program, "--node-name="+n.name, "--health-probe-bind-address="+probes, "--pods-dir="+n.pods)
	command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig, "SYSFS="+sysfs, "RUN="+filepath.Dir(n.pods))
	command.Stdout, command.Stderr = output, output
	n.Do(func() { err = command.Start() })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		if err := errors.Join(command.Wait(), output.Close()); err != nil || n.t.Failed() {
			said, _ := os.ReadFile(log)
			n.t.Errorf("the program ended with %v:\n%s", err, said)
		}
	})
	return command.Process.Pid, log
}

// memory returns a figure of the process's memory, in KiB, as proc_pid_status(5) names it.
func memory(t *testing.T, process int, figure string) int {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process))
	if err != nil {
		t.Error(err)
		return 0
	}
	_, rest, _ := strings.Cut(string(content), figure+":")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Error(err)
		return 0
	}
	return kib
}

// processor returns the CPU time of the process.
func processor(t *testing.T, process int) time.Duration {
	t.Helper()
	content, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", process))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(content), ") ")
	fields := strings.Fields(rest) // from the third field of proc_pid_stat(5) on: utime is the 14th, stime the 15th
	var ticks int
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
