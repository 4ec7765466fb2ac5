// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/host/agent"
)

// A disk can hold any checkpoint. A restored one has only links of interfaces that the instance has, without the
// primary interface, and no devices. It is the same after it was written and read again.
func FuzzRestoreCheckpoint(f *testing.F) {
	const primary, instance = "02:00:00:00:00:01", "i-0123456789abcdef0"
	whole := state(func(s *v1alpha1.NodeENIState, _ *v1alpha1.InterfaceState) { s.Spec.InstanceID = instance })
	text, err := json.Marshal(agent.Checkpoint(whole))
	if err != nil {
		f.Fatal(err)
	}
	const head = `{"metadata":{"name":"node"},"spec":{"instanceID":"` + instance + `"},"status":{"interfaces":[`
	f.Add(text)
	f.Add(text[:len(text)/2])
	f.Add([]byte(head + `{"phase":"Attached","eniID":"eni-0","macAddress":"` + primary + `"}]}}`))
	f.Add([]byte(head + `{"phase":"Attached","eniID":"eni-1","macAddress":"` + mac + `","mtu":-1,"addresses":["x"],"privateIPv4":"y"}]}}`))
	f.Add([]byte(head + `{"phase":"Attached","eniID":"eni-1","macAddress":"../` + mac + `","dpdkDriver":"x"},{}]}}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, content []byte) {
		record := &v1alpha1.NodeENIState{}
		if json.Unmarshal(content, record) != nil {
			return
		}
		known := &eni.Metadata{InstanceID: instance, PrimaryMAC: primary, Interfaces: []eni.Interface{{ID: "eni-0", MAC: primary}, {ID: "eni-1", MAC: mac}}}
		restored := agent.RestoreCheckpoint(record, "node", known)
		if restored == nil {
			return
		}
		links, devices := agent.DesiredLinks(restored, 0)
		for _, link := range links {
			if link.MAC == primary || known.ByMAC(link.MAC) == nil {
				t.Errorf("%+v is no link of ours", link)
			}
		}
		if len(devices) > 0 || restored.Status.ObservedGeneration != 0 {
			t.Errorf("devices %v, observed generation %d", devices, restored.Status.ObservedGeneration)
		}
		text, err := json.Marshal(agent.Checkpoint(restored))
		again := &v1alpha1.NodeENIState{}
		if err != nil || json.Unmarshal(text, again) != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := cmp.Diff(restored, agent.RestoreCheckpoint(again, "node", known), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}
