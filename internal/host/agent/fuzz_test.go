// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/podnet"
	"github.com/multieni/multieni/internal/host/agent"
)

// A disk can hold any checkpoint. The confirmed part has only links and networks of interfaces that the instance has,
// without the primary interface, and no devices.
func FuzzConfirmed(f *testing.F) {
	const primary = "02:00:00:00:00:01"
	network, _ := agent.Network(withPods(), "node-1", 9001)
	text, err := json.Marshal(agent.Checkpoint{Node: "node-1", InstanceID: instance,
		Interfaces: []v1alpha1.NetworkInterface{*attached()}, Held: []podnet.Saved{{Network: network}}})
	if err != nil {
		f.Fatal(err)
	}
	const head = `{"node":"node-1","instanceID":"` + instance + `",`
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(head + `"interfaces":[{"status":{"eniID":"eni-0","macAddress":"` + primary + `"}}]}`))
	f.Add([]byte(head + `"interfaces":[{"status":{"eniID":"eni-1","macAddress":"` + mac + `","addresses":{"privateIP":"y"}}}]}`))
	f.Add([]byte(head + `"held":[{"eniID":"eni-1","mac":"` + mac + `","device":"x"},{}]}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, content []byte) {
		record := &agent.Checkpoint{}
		if json.Unmarshal(content, record) != nil {
			return
		}
		known := &eni.Metadata{InstanceID: instance, PrimaryMAC: primary, Interfaces: []eni.Interface{{ID: "eni-0", MAC: primary}, {ID: "eni-1", MAC: mac}}}
		objects, held := record.Confirmed("node-1", known)
		links, devices := agent.DesiredLinks(objects, 0)
		for _, link := range links {
			if link.MAC == primary || known.ByMAC(link.MAC) == nil {
				t.Errorf("%+v is no link of ours", link)
			}
		}
		for _, network := range held {
			if network.ENI != "eni-1" || network.IPv4 != nil && len(network.IPv4.Prefixes) > 0 {
				t.Errorf("%+v is no network of ours", network)
			}
		}
		if len(devices) > 0 {
			t.Errorf("devices %v", devices)
		}
	})
}
