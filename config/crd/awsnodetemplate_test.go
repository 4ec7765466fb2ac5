// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

// nodeTemplate is the least node template with the row's fields set.
func nodeTemplate(t *testing.T, row fields) map[string]any {
	t.Helper()
	spec := map[string]any{"subnetSelector": fields{"network": "nodes"}, "securityGroupSelector": fields{"network": "nodes"}}
	maps.Copy(spec, row)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	return decoded(t, object("AWSNodeTemplate", spec))
}

// with is the interfaces of an instance: a plain primary one, and another.
func with(second fields) fields {
	return fields{"networkInterfaces": []any{fields{"deviceIndex": 0}, second}}
}

func primary(settings fields) fields { return fields{"networkInterfaces": []any{settings}} }

var acceptedTemplates = map[string]fields{
	"the least one":             {},
	"selectors by ID":           {"subnetSelector": fields{"aws-ids": "subnet-12345678,subnet-12345679"}, "securityGroupSelector": fields{"aws-ids": "sg-12345678"}},
	"profile":                   {"instanceProfile": "nodes"},
	"a family":                  {"amiFamily": "AL2023", "cluster": fields{"name": "blue", "endpoint": "https://x", "certificateAuthority": "Q0E=", "serviceCIDR": "172.20.0.0/16", "version": "1.35"}},
	"an image":                  {"amiSelector": fields{"aws-ids": "ami-12345678"}, "architecture": "arm64", "userData": "#!/bin/sh"},
	"tags":                      {"tags": fields{"team": "net"}},
	"metadata":                  {"metadataOptions": fields{"httpTokens": "required", "httpEndpoint": "enabled", "httpProtocolIPv6": "disabled", "httpPutResponseHopLimit": 2}},
	"volumes":                   {"blockDeviceMappings": []any{fields{"deviceName": "/dev/xvda", "ebs": fields{"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": true}}}},
	"monitoring":                {"detailedMonitoring": true},
	"the seed's interface":      primary(fields{"associateCarrierIPAddress": false, "associatePublicIPAddress": false, "deleteOnTermination": false, "description": "a", "deviceIndex": 0, "interfaceType": "interface", "networkCardIndex": 0, "ipv4PrefixCount": 1, "ipv6PrefixCount": 1}),
	"a public address":          primary(fields{"associatePublicIPAddress": true}),
	"an interface of its own":   with(fields{"deviceIndex": 1, "name": "n3", "subnetSelector": fields{"network": "n3"}, "securityGroupSelector": fields{"network": "n3"}, "management": "CNI"}),
	"an EFA":                    with(fields{"deviceIndex": 1, "interfaceType": "efa-only"}),
	"timeouts and ENA Express":  with(fields{"deviceIndex": 1, "connectionTracking": fields{"tcpEstablishedTimeout": 3600}, "enaExpress": "TCP"}),
	"one index on two cards":    {"networkInterfaces": []any{fields{"deviceIndex": 0}, fields{"deviceIndex": 1}, fields{"networkCardIndex": 1, "deviceIndex": 1}}},
	"a layout alone":            {"layout": "IPOptimized"},
	"a layout and an interface": {"layout": "BandwidthOptimized", "networkInterfaces": []any{fields{"deviceIndex": 5}}},
	"types":                     {"instanceTypes": fields{"include": []any{"m5.*"}, "exclude": []any{"*.metal"}}},
	"policies":                  {"driftPolicy": fields{"inPlace": "Report"}, "conflictPolicy": "Reject"},
	"a template as it is":       {"subnetSelector": nil, "securityGroupSelector": nil, "launchTemplateRef": fields{"id": "lt-12345678", "version": "7"}},
	"a template filled in":      {"launchTemplateRef": fields{"name": "base", "version": "$Latest"}, "autofill": true, "launchTemplateOverride": fields{"EbsOptimized": true}},
}

func TestAWSNodeTemplateAccepted(t *testing.T) {
	k := load(t, "AWSNodeTemplate")
	for name, row := range acceptedTemplates {
		t.Run(name, func(t *testing.T) {
			for _, refusal := range k.admit(nodeTemplate(t, row)) {
				t.Error(refusal)
			}
		})
	}
}

var refusedTemplates = map[string]struct {
	says string
	row  fields
}{
	"no subnets":                     {"subnetSelector and securityGroupSelector are required", fields{"subnetSelector": nil}},
	"no groups":                      {"subnetSelector and securityGroupSelector are required", fields{"securityGroupSelector": nil}},
	"IDs and tags":                   {"it stands alone", fields{"subnetSelector": fields{"aws-ids": "subnet-12345678", "a": "b"}}},
	"group IDs and tags":             {"names the groups themselves", fields{"securityGroupSelector": fields{"aws-ids": "sg-12345678", "a": "b"}}},
	"a subnet key too long":          {"every key of subnetSelector", fields{"subnetSelector": fields{strings.Repeat("k", 129): "a"}}},
	"a group key too long":           {"every key of securityGroupSelector", fields{"securityGroupSelector": fields{strings.Repeat("k", 129): "a"}}},
	"two images":                     {"amiSelector names the image itself", fields{"amiSelector": fields{"aws-ids": "ami-12345678,ami-12345679"}}},
	"a family that is not supported": {"AWS publishes no new EKS image of AL2; for AL2, Ubuntu and any other image set Custom", fields{"amiFamily": "AL2"}},
	"user data too large":            {"userData", fields{"userData": strings.Repeat("x", 16385)}},
	"an empty tag key":               {"every key of tags", fields{"tags": fields{"": "a"}}},
	"a tag of AWS":                   {"reserved by AWS", fields{"tags": fields{"aws:x": "a"}}},
	"a tag of ours":                  {"set by the controller", fields{"tags": fields{"networking.k8s.aws/cluster": "a"}}},
	"a tag of the VPC CNI":           {"keys of the VPC CNI", fields{"tags": fields{"node.k8s.amazonaws.com/no_manage": "a"}}},
	"a size without unit":            {"volumeSize", fields{"blockDeviceMappings": []any{fields{"deviceName": "a", "ebs": fields{"volumeSize": "100"}}}}},
	"a size in another unit":         {"whole number of Gi or Ti", fields{"blockDeviceMappings": []any{fields{"deviceName": "a", "ebs": fields{"volumeSize": "20G"}}}}},
	"a size that is not whole":       {"whole number of Gi or Ti", fields{"blockDeviceMappings": []any{fields{"deviceName": "a", "ebs": fields{"volumeSize": "1.5Ti"}}}}},
	"a slot twice":                   {"Duplicate value", fields{"networkInterfaces": []any{fields{"deviceIndex": 0}, fields{}}}},
	"no primary":                     {"every instance has this primary interface", primary(fields{"deviceIndex": 1})},
	"an efa-only primary":            {"efa-only has not", primary(fields{"interfaceType": "efa-only"})},
	"prefixes on efa-only":           {"an efa-only interface has no IP addresses", with(fields{"deviceIndex": 1, "interfaceType": "efa-only", "ipv4PrefixCount": 1})},
	"a trunk":                        {"interfaceType", with(fields{"deviceIndex": 1, "interfaceType": "trunk"})},
	"a public address on one of two": {"only with a single network interface", fields{"networkInterfaces": []any{fields{"associatePublicIPAddress": true}, fields{"deviceIndex": 1}}}},
	"a carrier address elsewhere":    {"only on the primary interface", with(fields{"deviceIndex": 1, "associateCarrierIPAddress": true})},
	"public and carrier":             {"both a public and a carrier", primary(fields{"associatePublicIPAddress": true, "associateCarrierIPAddress": true})},
	"no timeout":                     {"at least one timeout", with(fields{"deviceIndex": 1, "connectionTracking": fields{}})},
	"the timeouts of the primary":    {"connectionTracking.as must not be set", with(fields{"deviceIndex": 1, "connectionTracking": fields{"as": "Primary"}})},
	"a timeout beyond EC2's":         {"udpTimeout", with(fields{"deviceIndex": 1, "connectionTracking": fields{"udpTimeout": 61}})},
	"ENA Express for UDP alone":      {"enaExpress", with(fields{"deviceIndex": 1, "enaExpress": "UDP"})},
	"a name that is no label":        {"name", with(fields{"deviceIndex": 1, "name": "N3!"})},
	"autofill of nothing":            {"say which one with launchTemplateRef", fields{"autofill": true}},
	"an alias of other spelling":     {"version must be a number", fields{"launchTemplateRef": fields{"id": "lt-12345678", "version": "$LATEST"}}},
	"a template by ID and name":      {"launchTemplateRef", fields{"launchTemplateRef": fields{"id": "lt-12345678", "name": "base", "version": "1"}}},
	"an override that is no object":  {"launchTemplateOverride", fields{"launchTemplateOverride": "EbsOptimized"}},
	"an unknown field":               {"userdata", fields{"userdata": ""}},
}

func TestAWSNodeTemplateRefused(t *testing.T) {
	k := load(t, "AWSNodeTemplate")
	var all []string
	for name, row := range refusedTemplates {
		t.Run(name, func(t *testing.T) {
			refusals := k.admit(nodeTemplate(t, row.row))
			all = append(all, refusals...)
			if !slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(refusal, row.says) }) {
				t.Errorf("no refusal says %q: %q", row.says, refusals)
			}
		})
	}
	for _, rule := range rulesOf(rootSchema(k.definition).Properties["spec"]) {
		if !slices.ContainsFunc(all, func(refusal string) bool { return strings.Contains(refusal, rule.Message) }) {
			t.Errorf("no row is refused by %q", rule.Message)
		}
	}
}

func TestAWSNodeTemplateNameBecomesALabel(t *testing.T) {
	long := nodeTemplate(t, fields{})
	long["metadata"] = map[string]any{"name": strings.Repeat("n", 64)}
	refusals := load(t, "AWSNodeTemplate").admit(long)
	if !slices.ContainsFunc(refusals, func(refusal string) bool { return strings.Contains(refusal, "at most 63 characters") }) {
		t.Errorf("got %q", refusals)
	}
}
