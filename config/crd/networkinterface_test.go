// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"maps"
	"strings"
	"testing"
)

func networkInterface(t *testing.T, spec, status fields) map[string]any {
	t.Helper()
	made := object("NetworkInterface", map[string]any{
		"instanceID": "i-0123456789abcdef0", "zone": "us-west-2a", "ordinal": 0, "origin": "Declared", "required": true,
		"nodeENI": fields{"name": "n3", "uid": "7d2f0f5e-33f9-4c55-9d52-0f6d5b1d3a10", "generation": 1},
		"slot":    fields{"networkCardIndex": 0, "deviceIndex": 2}, "sourceDestCheck": true, "deleteOnTermination": true,
	})
	maps.Copy(made["spec"].(map[string]any), spec)
	if status != nil {
		made["status"] = status
	}
	return decoded(t, made)
}

// TestNetworkInterface tries single versions of an object. Package schema and test/apiserver try changes.
func TestNetworkInterface(t *testing.T) {
	report := func(with fields) fields {
		node := fields{"agent": fields{"bootID": "b", "processID": "p"}, "open": true}
		maps.Copy(node, with)
		return fields{"eniID": "eni-0123456789abcdef0", "evidence": "Created", "node": node}
	}
	link := func(with fields) fields {
		link := fields{"state": "Ready", "reason": "LinkReady"}
		maps.Copy(link, with)
		return report(fields{"link": link})
	}
	many := make([]any, 65)
	for i := range many {
		many[i] = fields{"id": "subnet-1"}
	}

	rows := map[string]struct {
		spec, status fields
		// refusedAt is the field the refusal has to mention; empty when the object is to be accepted.
		refusedAt string
	}{
		"as rendered":                  {},
		"of a network":                 {spec: fields{"origin": "Network", "nodeENI": fields{"name": "n3", "uid": "", "generation": 0}}},
		"a malformed instance ID":      {spec: fields{"instanceID": "fargate-ip-10-0-0-1"}, refusedAt: "instanceID"},
		"no zone":                      {spec: fields{"zone": ""}, refusedAt: "zone"},
		"an ordinal below zero":        {spec: fields{"ordinal": -1}, refusedAt: "ordinal"},
		"an unknown origin":            {spec: fields{"origin": "Adopted"}, refusedAt: "origin"},
		"no NodeENI":                   {spec: fields{"nodeENI": fields{"name": ""}}, refusedAt: "nodeENI"},
		"65 subnets":                   {spec: fields{"subnets": many}, refusedAt: "subnets"},
		"a problem without reason":     {spec: fields{"problem": fields{"reason": ""}}, refusedAt: "reason"},
		"an attached interface":        {status: fields{"eniID": "eni-1", "attachmentID": "eni-attach-1", "evidence": "TakenOver"}},
		"unknown evidence":             {status: fields{"eniID": "eni-1", "evidence": "Tags"}, refusedAt: "evidence"},
		"a MAC address with a line":    {status: fields{"macAddress": "02:00:00:00:00\n"}, refusedAt: "macAddress"},
		"a MAC address that is a path": {status: fields{"macAddress": "../../passwd"}, refusedAt: "macAddress"},
		"an answer":                    {status: report(nil)},
		"an answer of no process":      {status: report(fields{"agent": fields{"bootID": "b"}}), refusedAt: "processID"},
		"a link":                       {status: link(fields{"pciAddress": "0000:00:06.0"})},
		"a link in an unknown state":   {status: link(fields{"state": "ready"}), refusedAt: "state"},
		"a long name of a link":        {status: link(fields{"name": strings.Repeat("x", 17)}), refusedAt: "name"},
		"a pod without a name":         {status: report(fields{"pods": fields{"ready": true, "pods": []any{fields{"namespace": "x"}}}}), refusedAt: "name"},
		"a prefix twice":               {status: fields{"pods": fields{"prefixes": []any{"10.0.4.16/28", "10.0.4.16/28"}}}, refusedAt: "prefixes"},
	}
	k := load(t, "NetworkInterface")
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			refusals := strings.Join(k.admit(networkInterface(t, row.spec, row.status)), "\n")
			if row.refusedAt == "" && refusals != "" {
				t.Errorf("refused: %s", refusals)
			}
			if !strings.Contains(refusals, row.refusedAt) {
				t.Errorf("want a refusal that mentions %s, got %q", row.refusedAt, refusals)
			}
		})
	}
}
