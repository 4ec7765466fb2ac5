// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/podcni"
	"github.com/multieni/multieni/internal/host/podlease"
)

const tryAgainLater = 11

func TestTwoHundredPodsStartAtOnce(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 12))
	list := n.addressOnly("n3")
	sandbox := n.pod("").links
	const pods, available = 200, 12 * 16
	var all sync.WaitGroup
	var lock sync.Mutex
	holders := map[string]string{}
	refused := 0
	for i := range pods {
		p := pod{name: fmt.Sprintf("pod-%d", i), links: sandbox}
		all.Go(func() {
			result, err := n.add(list, p, "net1")
			lock.Lock()
			defer lock.Unlock()
			if err != nil {
				refused++
				if code(err) != tryAgainLater || !strings.Contains(err.Error(), "no IPv4 address of NodeENI n3 is free on node node-1") {
					t.Errorf("%s: code %d: %v", p.name, code(err), err)
				}
				return
			}
			for _, ip := range result.IPs {
				if other := holders[ip.Address.IP.String()]; other != "" {
					t.Errorf("%s and %s both have %v", p.name, other, ip.Address.IP)
				}
				holders[ip.Address.IP.String()] = p.name
			}
		})
	}
	all.Wait()
	if refused != pods-available || len(holders) != 2*available {
		t.Errorf("%d pods refused, %d addresses given; want %d and %d", refused, len(holders), pods-available, 2*available)
	}
}

func TestAFreedAddressRestsAndIsGivenAgain(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.shared("n3")
	first, second, third := n.pod("first"), n.pod("second"), n.pod("third")
	n.mustAdd(list, first, "net1")
	n.del(list, first, "net1")
	n.del(list, first, "net1")
	if used := n.inUse("n3"); len(used) != 0 {
		t.Errorf("after DEL in use: %v", used)
	}
	if result := n.mustAdd(list, second, "net1"); result.IPs[0].Address.String() != "10.0.4.17/24" {
		t.Errorf("the address that rests is %v", result.IPs[0])
	}
	n.rest("n3")
	if result := n.mustAdd(list, third, "net1"); result.IPs[0].Address.String() != "10.0.4.16/24" {
		t.Errorf("the rested address is not given: %v", result.IPs[0])
	}
}

// ipamCommand is a call of multieni-ipam whose standard output is full, so it blocks before its answer.
func ipamCommand(t *testing.T, n *node, list *libcni.NetworkConfigList, p pod) *exec.Cmd {
	t.Helper()
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		t.Fatal(err)
	}
	for full := error(nil); full == nil; {
		_, full = unix.Write(ends[1], bytes.Repeat([]byte{'.'}, 1<<10))
	}
	if err := unix.SetNonblock(ends[1], false); err != nil {
		t.Fatal(err)
	}
	writer := os.NewFile(uintptr(ends[1]), "full pipe")
	t.Cleanup(func() { _ = unix.Close(ends[0]); _ = writer.Close() })
	conf := p.runtimeConf("net1")
	command := exec.CommandContext(context.Background(), filepath.Join(n.programs[0], "multieni-ipam"))
	command.Env = []string{
		"CNI_COMMAND=ADD", "CNI_CONTAINERID=" + conf.ContainerID, "CNI_NETNS=" + conf.NetNS, "CNI_IFNAME=net1", "CNI_PATH=/", "CNI_NETNS_OVERRIDE=1",
		podcni.PodsVariable + "=" + n.pods,
	}
	text := bytes.Replace(list.Plugins[0].Bytes, []byte("{"), []byte(`{"cniVersion": "1.1.0", "name": "n3", `), 1)
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(text), writer, os.Stderr
	return command
}

func TestAProgramThatIsKilledLeaksNothing(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.addressOnly("n3")
	p := n.pod("killed")
	t.Run("before the lease", func(t *testing.T) {
		store, err := podlease.Open(n.pods, "n3")
		if err != nil {
			t.Fatal(err)
		}
		command := ipamCommand(t, n, list, p)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		_ = command.Process.Kill()
		_ = command.Wait()
		store.Close()
		if used := n.inUse("n3"); len(used) != 0 {
			t.Errorf("in use: %v", used)
		}
	})
	kill := func(t *testing.T) {
		command := ipamCommand(t, n, list, p)
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the lease", func() bool {
			files := n.leaseFiles("n3")
			return len(files) == 2
		})
		_ = command.Process.Kill()
		_ = command.Wait()
	}
	want := map[string]string{"10.0.4.16": "sandbox-killed", "2001:db8:0:4:5::1": "sandbox-killed"}
	t.Run("between lease and answer", func(t *testing.T) {
		kill(t)
		if diff := cmp.Diff(want, n.inUse("n3")); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the same call again has the same addresses", func(t *testing.T) {
		if result := n.mustAdd(list, p, "net1"); result.IPs[0].Address.String() != "10.0.4.16/24" || len(n.inUse("n3")) != 2 {
			t.Errorf("got %v, in use %v", result.IPs[0], n.inUse("n3"))
		}
	})
	t.Run("DEL frees them", func(t *testing.T) {
		n.del(list, p, "net1")
		if used := n.inUse("n3"); len(used) != 0 {
			t.Errorf("in use: %v", used)
		}
	})
}

func TestAPodWhoseNetworkNamespaceIsGoneLosesItsLease(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.addressOnly("n3")
	gone, alive := n.pod("gone"), n.pod("alive")
	n.mustAdd(list, gone, "net1")
	n.mustAdd(list, alive, "net1")
	gone.links.End()
	n.mustAdd(list, n.pod("next"), "net1")
	pods := slices.Sorted(maps.Values(n.inUse("n3")))
	if diff := cmp.Diff([]string{"upf/alive", "upf/alive", "upf/next", "upf/next"}, pods); diff != "" {
		t.Error(diff)
	}
}

func TestAfterARebootTheLeasesOfTheFormerBootEnd(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.addressOnly("n3")
	for i := range 16 {
		n.mustAdd(list, n.pod(fmt.Sprintf("pod-%d", i)), "net1")
	}
	if _, err := n.add(list, n.pod("one-more"), "net1"); code(err) != tryAgainLater {
		t.Fatalf("the prefix is not full: %v", err)
	}
	n.change("n3", func(l *podnet.Lease) { l.BootID = "the former boot" })
	n.mustAdd(list, n.pod("after"), "net1")
	pods := slices.Sorted(maps.Values(n.inUse("n3")))
	if diff := cmp.Diff([]string{"upf/after", "upf/after"}, pods); diff != "" {
		t.Error(diff)
	}
}

func TestGarbageCollection(t *testing.T) {
	n := newNode(t)
	n.write(network("n3", 4, 1))
	list := n.addressOnly("n3")
	kept, left, other := n.pod("kept"), n.pod("left"), n.pod("other")
	n.mustAdd(list, kept, "net1")
	n.mustAdd(list, left, "net1")
	handwritten := n.addressOnly("n3")
	handwritten.Name = "handwritten"
	n.mustAdd(handwritten, other, "net1")
	n.restart() // a runtime that remembers them calls DEL for the remaining attachments
	var err error
	n.links.Do(func() {
		err = n.runtime.GCNetworkList(context.Background(), list, &libcni.GCArgs{
			ValidAttachments: []types.GCAttachment{{ContainerID: "sandbox-kept", IfName: "net1"}},
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	pods := slices.Compact(slices.Sorted(maps.Values(n.inUse("n3"))))
	if diff := cmp.Diff([]string{"upf/kept", "upf/other"}, pods); diff != "" {
		t.Error(diff)
	}
}

func TestANetworkThatIsNotReady(t *testing.T) {
	for name, c := range map[string]struct {
		file        string
		add, status uint
		want        string
	}{
		"no file":  {"", tryAgainLater, 50, "pod network n3 is not ready on this node"},
		"half one": {`{"version": 1`, types.ErrDecodingFailure, 50, "restart the agent of the node"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			if c.file != "" {
				n.write(network("n3", 4, 1))
				if err := os.WriteFile(n.file("n3"), []byte(c.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := n.add(n.shared("n3"), n.pod("early"), "net1")
			if code(err) != c.add || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("ADD: code %d: %v", code(err), err)
			}
			n.links.Do(func() { err = n.runtime.GetStatusNetworkList(context.Background(), n.shared("n3")) })
			if code(err) != c.status || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("STATUS: code %d: %v", code(err), err)
			}
			n.write(network("n3", 4, 1))
			n.links.Do(func() { err = n.runtime.GetStatusNetworkList(context.Background(), n.shared("n3")) })
			if err != nil {
				t.Errorf("STATUS with the file: %v", err)
			}
		})
	}
}

// An interface replaces another one, whose pods still run: a pod gets addresses of the new one, and none that a pod of the
// former one has.
func TestASuccessorServesBesideItsPredecessor(t *testing.T) {
	n := newNode(t)
	former := network("n3", 4, 1)
	n.write(former)
	list := n.addressOnly("n3")
	running := n.pod("running")
	before := n.mustAdd(list, running, "net1")
	former.Phase = podnet.Closed
	n.write(former)
	next := network("n3", 4, 1)
	next.ENI, next.UID = "eni-next", "uid-next"
	n.write(next)
	if after := n.mustAdd(list, n.pod("next"), "net1"); after.IPs[0].Address.String() != "10.0.4.17/24" {
		t.Errorf("the pod of the next interface gets %v; %v is in use", after.IPs[0], before.IPs[0])
	}
	if again := n.mustAdd(list, running, "net1"); again.IPs[0].Address.String() != before.IPs[0].Address.String() {
		t.Errorf("the pod that runs had %v, and has %v", before.IPs[0], again.IPs[0])
	}
	n.del(list, running, "net1")
	if used := n.inUse("n3"); len(used) != 2 {
		t.Errorf("in use: %v", used)
	}
}

func TestAnInterfaceThatIsToBeRemovedTakesNoFurtherPod(t *testing.T) {
	n := newNode(t)
	network := network("n3", 4, 1)
	n.write(network)
	list := n.addressOnly("n3")
	running := n.pod("running")
	before := n.mustAdd(list, running, "net1")
	network.Phase = podnet.Closed
	n.write(network)
	if again := n.mustAdd(list, running, "net1"); again.IPs[0].Address.String() != before.IPs[0].Address.String() {
		t.Errorf("the pod that runs had %v, and has %v", before.IPs[0], again.IPs[0])
	}
	_, err := n.add(list, n.pod("late"), "net1")
	if code(err) != tryAgainLater || !strings.Contains(err.Error(), "NodeENI n3 on node node-1 takes no further pod, because it is to be removed") {
		t.Errorf("the late pod gets code %d: %v", code(err), err)
	}
}
