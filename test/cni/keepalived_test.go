// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/test/needs"
)

// instanceA2 is the second instance in the zone of instanceA.
const instanceA2 = "i-0a20000000000000a"

// vrrp is the configuration of keepalived in one pod.
type vrrp struct {
	vip, own, peer netip.Addr
	priority       int
	// notify is the file to which the script of a new master appends the pod's name.
	notify string
}

// keepalived starts keepalived in a pod, with unicast VRRP to its peer. The returned function ends it.
func (p pod) keepalived(t *testing.T, c vrrp) (end func()) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	script := write("notify", fmt.Sprintf("#!/bin/sh\nexec echo %s >>%s\n", p.name, c.notify), 0o700)
	config := write("keepalived.conf", fmt.Sprintf(`global_defs {
  script_user root
  enable_script_security
}
vrrp_instance upf {
  state BACKUP
  interface net1
  virtual_router_id 51
  priority %d
  advert_int 1
  unicast_src_ip %s
  unicast_peer {
    %s
  }
  virtual_ipaddress {
    %s/32
  }
  notify_master %q
}
`, c.priority, c.own, c.peer, c.vip, script), 0o600)
	file := func(name string) string { return filepath.Join(dir, name) }
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, "nsenter", "--net="+p.links.Path(), "keepalived", "--dont-fork", "--log-console", "--vrrp",
		"--use-file", config, "--pid", file("pid"), "--vrrp_pid", file("vrrp.pid"))
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 5 * time.Second
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	ended := false
	end = func() {
		if ended {
			return
		}
		ended = true
		cancel()
		_ = command.Wait() // it was stopped
		if t.Failed() {
			t.Logf("keepalived of %s: %s", p.name, output.String())
		}
	}
	t.Cleanup(end)
	return end
}

// keepalived moves an address between the pods of two nodes. Its notify script reports the new master, the test then makes
// the call of the published samples, and the VPC delivers to the new master.
func TestAnAddressOfKeepalivedMoves(t *testing.T) {
	v := newVPC(t)
	needs.Programs(t, "keepalived", "nsenter")
	a, networkA := v.node(t, instanceA, subnetA)
	b, networkB := v.node(t, instanceA2, subnetA)
	c, networkC := v.node(t, instanceB, subnetB)
	networkC.Routes = append(networkC.Routes, networkA.IPv4.Subnet)
	c.write(networkC)
	for n, network := range map[*node]podnet.Network{a: networkA, b: networkB} {
		network.Routes = append(network.Routes, networkC.IPv4.Subnet)
		n.write(network)
	}
	podA, podB, client := a.pod("upf-a"), b.pod("upf-b"), c.pod("client")
	ownA := addresses(t, a.mustAdd(a.shared("n3"), podA, "net1"))[0]
	ownB := addresses(t, b.mustAdd(b.shared("n3"), podB, "net1"))[0]
	c.mustAdd(c.shared("n3"), client, "net1")

	vip := netip.MustParseAddr("10.0.64.250")
	masters := notifications(t)
	endA := podA.keepalived(t, vrrp{vip, ownA, ownB, 150, masters.path})
	podB.keepalived(t, vrrp{vip, ownB, ownA, 100, masters.path})
	masters.await(t, podA.name)
	if client.pings(t, vip) {
		t.Errorf("%v is answered, although EC2 does not know it", vip)
	}
	v.assign(t, networkA.ENI, vip)
	if !client.pings(t, vip) {
		t.Errorf("%v of the first master is not answered", vip)
	}

	endA()
	masters.await(t, podB.name)
	if client.pings(t, vip) {
		t.Errorf("%v is answered before EC2 moved it", vip)
	}
	v.assign(t, networkB.ENI, vip)
	if !client.pings(t, vip) {
		t.Errorf("%v of the second master is not answered", vip)
	}
}

// masterLog is the file to which notify scripts append.
type masterLog struct{ path string }

func notifications(t *testing.T) masterLog {
	t.Helper()
	return masterLog{filepath.Join(t.TempDir(), "masters")}
}

// await waits until the script of the pod was the last to report.
func (m masterLog) await(t *testing.T, pod string) {
	t.Helper()
	eventually(t, "keepalived of "+pod+" as master", func() bool {
		text, err := os.ReadFile(m.path)
		return err == nil && strings.HasSuffix(string(text), pod+"\n")
	})
}
