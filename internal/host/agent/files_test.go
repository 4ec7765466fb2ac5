// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostpci"
	"github.com/multieni/multieni/internal/host/agent"
)

// TestFilesOutliveAStart starts an agent with files that an earlier process wrote. The agent removes them only after it
// has read the objects: until then a pod may use the interface. The file of a link that the agent configured stays with
// the link, whose object was torn away.
func TestFilesOutliveAStart(t *testing.T) {
	configured := hostnet.LinkFacts{Index: 3, Name: "ens6", MAC: mac, Device: device, Alias: hostnet.OriginalState{MTU: 1500}.String()}
	for name, tc := range map[string]struct {
		offline  bool
		links    []hostnet.LinkFacts
		networkd bool
		plugin   bool
	}{
		"before the API server answers":         {true, nil, true, true},
		"after":                                 {false, nil, false, false},
		"with a link whose object is not there": {false, []hostnet.LinkFacts{configured}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			file, text, err := hostnet.Networkd(mac)
			if err != nil {
				t.Fatal(err)
			}
			networkd := filepath.Join(t.TempDir(), file)
			plugin := filepath.Join(t.TempDir(), "config.json")
			resources := string(hostpci.PluginConfig([]hostpci.Resource{{Name: "fast", Address: "0000:00:06.0", Driver: hostpci.VFIO}}))
			for path, content := range map[string]string{networkd: text, plugin: resources} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			server := serve(t)
			if tc.offline {
				server.Close()
			}
			onePass(t, server, hostnet.Facts{Links: tc.links}, agent.Options{NetworkdDir: filepath.Dir(networkd), PluginConfig: plugin,
				Metadata: func(context.Context) (eni.Metadata, error) { return eni.Metadata{InstanceID: instance}, nil }})

			_, err = os.Stat(networkd)
			if kept := err == nil; kept != tc.networkd {
				t.Errorf("the file for systemd-networkd is kept: %t, want %t", kept, tc.networkd)
			}
			now, err := os.ReadFile(plugin)
			if kept := string(now) == resources; err != nil || kept != tc.plugin {
				t.Errorf("the configuration of the device plugin is kept: %t, want %t; %v", kept, tc.plugin, err)
			}
		})
	}
}

// TestALinkIsRestoredAfterADeletion: a missing object is no reason to restore the link of an interface, which pods may use.
func TestALinkIsRestoredAfterADeletion(t *testing.T) {
	configured := hostnet.LinkFacts{Index: 3, Name: "ens6", MAC: mac, Device: device, Up: true,
		Alias: hostnet.OriginalState{MTU: 1500}.String()}
	for name, tc := range map[string]struct {
		object   *v1alpha1.NetworkInterface
		restored bool
	}{
		"no object":          {nil, false},
		"one without a link": {withPodsOf("02:00:00:00:00:77"), false},
		"one that is to go":  {changed(deleted)[0], true},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []*v1alpha1.NetworkInterface
			if tc.object != nil {
				objects = append(objects, tc.object)
			}
			host := onePass(t, serve(t, objects...), hostnet.Facts{Links: []hostnet.LinkFacts{configured}}, agent.Options{})
			down := 0
			for _, op := range host.operations {
				if _, is := op.(hostnet.SetDown); is {
					down++
				}
			}
			if (down > 0) != tc.restored {
				t.Errorf("restored: %t, want %t: %v", down > 0, tc.restored, host.operations)
			}
		})
	}
}

// withPodsOf is an object whose interface has a MAC address.
func withPodsOf(mac string) *v1alpha1.NetworkInterface {
	n := withPods()
	n.Status.MACAddress = mac
	return n
}

// onePass runs an agent on a host with the facts for a whole pass.
func onePass(t *testing.T, server *apiServer, facts hostnet.Facts, o agent.Options) *passing {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	var err error
	if o.API, err = agent.Connect(&rest.Config{Host: server.URL}, "node-1"); err != nil {
		t.Fatal(err)
	}
	if o.PodsDir == "" {
		o.PodsDir = filepath.Join(t.TempDir(), "pods")
	}
	host := &passing{paper: paper{touched: map[int]int{}, events: make(chan struct{}), facts: facts}, read: make(chan struct{})}
	o.Node, o.Host, o.Resync, o.Log = "node-1", host, time.Millisecond, slog.New(slog.DiscardHandler)
	ended := make(chan error, 1)
	go func() { ended <- agent.New(o).Run(ctx) }()
	for range 6 { // one pass reads at most four times, and the next read begins after all writes
		select {
		case <-host.read:
		case <-ctx.Done():
			t.Error("the agent does not read its host")
		}
	}
	stop()
	for {
		select {
		case <-host.read:
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
			return host
		}
	}
}
