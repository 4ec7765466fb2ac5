// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"strings"
	"testing"
)

func member(uid string, ordinal int) fields {
	return fields{"nodeENI": "multus", "nodeENIUID": uid, "ordinal": ordinal, "generation": 0}
}

func nodeENIState(t *testing.T, spec, status fields) map[string]any {
	t.Helper()
	state := object("NodeENIState", map[string]any{"instanceID": "i-0123456789abcdef0", "zone": "us-west-2a"})
	for name, value := range spec {
		state["spec"].(map[string]any)[name] = value
	}
	if status != nil {
		state["status"] = status
	}
	return decoded(t, state)
}

func TestNodeENIState(t *testing.T) {
	const uid = "7d2f0f5e-33f9-4c55-9d52-0f6d5b1d3a10"
	attached := member(uid, 0)
	attached["phase"] = "Attached"
	unknownPhase := member(uid, 0)
	unknownPhase["phase"] = "attached"
	link := fields{"macAddress": "02:00:00:00:00:01", "nodeENI": "multus", "state": "Ready", "reason": "LinkReady", "pciAddress": "0000:00:06.0"}

	pathLink := fields{"macAddress": "../../passwd", "nodeENI": "multus", "state": "Ready", "reason": "LinkReady"}
	pathInterface := member(uid, 0)
	pathInterface["phase"], pathInterface["macAddress"] = "Attached", "02:00:00:00:00\n"

	network := func(prefix fields) fields {
		return fields{"network": "n3", "nodeENI": "n3", "eniID": "eni-0123456789abcdef0", "ready": true, "used": 1, "free": 15, "prefixes": []any{prefix}}
	}
	podNetwork := network(fields{"cidr": "10.0.4.16/28", "used": 1, "phase": "Active"})

	rows := map[string]struct {
		spec, status fields
		// refusedAt is the field the refusal has to mention; empty when the object is to be accepted.
		refusedAt string
	}{
		"no members yet":               {},
		"two members of a NodeENI":     {spec: fields{"members": []any{member(uid, 0), member(uid, 1)}}},
		"recreated under its name":     {spec: fields{"members": []any{member(uid, 0), member("another", 0)}}},
		"the same member twice":        {spec: fields{"members": []any{member(uid, 0), member(uid, 0)}}, refusedAt: "members"},
		"an ordinal below zero":        {spec: fields{"members": []any{member(uid, -1)}}, refusedAt: "ordinal"},
		"a member without owner":       {spec: fields{"members": []any{fields{"ordinal": 0, "generation": 0}}}, refusedAt: "nodeENI"},
		"an instance ID malformed":     {spec: fields{"instanceID": "fargate-ip-10-0-0-1"}, refusedAt: "instanceID"},
		"no zone":                      {spec: fields{"zone": ""}, refusedAt: "zone"},
		"an attached interface":        {status: fields{"interfaces": []any{attached}}},
		"an interface twice":           {status: fields{"interfaces": []any{attached, attached}}, refusedAt: "interfaces"},
		"a link":                       {status: fields{"links": []any{link}}},
		"a link twice":                 {status: fields{"links": []any{link, link}}, refusedAt: "links"},
		"a link without address":       {status: fields{"links": []any{fields{"nodeENI": "multus", "state": "Ready", "reason": "LinkReady"}}}, refusedAt: "macAddress"},
		"a link at a path":             {status: fields{"links": []any{pathLink}}, refusedAt: "macAddress"},
		"an interface with a line":     {status: fields{"interfaces": []any{pathInterface}}, refusedAt: "macAddress"},
		"a pod network":                {status: fields{"podNetworks": []any{podNetwork}}},
		"a pod network twice":          {status: fields{"podNetworks": []any{podNetwork, podNetwork}}, refusedAt: "podNetworks"},
		"a prefix in an unknown phase": {status: fields{"podNetworks": []any{network(fields{"cidr": "10.0.4.16/28", "phase": "Idle"})}}, refusedAt: "phase"},
		"a phase in EC2's spelling":    {status: fields{"interfaces": []any{unknownPhase}}, refusedAt: "phase"},
	}
	k := load(t, "NodeENIState")
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			refusals := strings.Join(k.admit(nodeENIState(t, row.spec, row.status)), "\n")
			if row.refusedAt == "" && refusals != "" {
				t.Errorf("refused: %s", refusals)
			}
			if !strings.Contains(refusals, row.refusedAt) {
				t.Errorf("want a refusal that mentions %s, got %q", row.refusedAt, refusals)
			}
		})
	}
}
