// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package cni_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/containernetworking/cni/libcni"
	"golang.org/x/sys/unix"
)

// BenchmarkStartOfAPod measures the CPU time that our two programs take when a pod starts, and that of the CNI
// project's host-local in their place. It does not judge elapsed time, which depends on the load of the machine.
func BenchmarkStartOfAPod(b *testing.B) {
	// most is the limit of docs/performance.md for both programs together.
	const most = 20 * time.Millisecond
	n := newNode(b)
	n.write(network("n3", 4, 12))
	sandbox := n.pod("measured")
	hostLocal := fmt.Sprintf(`{"type": "host-local", "dataDir": %q, "ranges": [[{"subnet": "10.0.4.0/24"}]]}`, b.TempDir())
	theirs := n.configuration("other", `{"type": "macvlan", "master": "net-n3", "mode": "bridge", "ipam": `+hostLocal+`}`)
	linkOnly := n.configuration("link", `{"type": "macvlan", "master": "net-n3", "mode": "bridge"}`)
	cpu := map[*libcni.NetworkConfigList]time.Duration{}
	ours := n.shared("n3")
	for b.Loop() {
		for _, list := range []*libcni.NetworkConfigList{linkOnly, theirs, ours} {
			before := ofChildren(b)
			n.mustAdd(list, sandbox, "net1")
			cpu[list] += ofChildren(b) - before
			n.del(list, sandbox, "net1")
		}
		n.rest("n3")
	}
	programs := (cpu[ours] - cpu[linkOnly]) / time.Duration(b.N)
	b.ReportMetric(float64(programs)/1e6, "ms-CPU/pod")
	b.ReportMetric(float64(cpu[theirs]-cpu[linkOnly])/float64(b.N)/1e6, "host-local-ms-CPU/pod")
	if programs > most {
		b.Errorf("our programs take %v of CPU for a pod, more than %v", programs, most)
	}
}

// ofChildren returns the CPU time of the programs that have ended.
func ofChildren(tb testing.TB) time.Duration {
	tb.Helper()
	var use unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &use); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
