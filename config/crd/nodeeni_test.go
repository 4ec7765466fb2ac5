// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// fields are members of a spec that a row sets over the plain one; nil takes the member away.
type fields map[string]any

func object(kind string, spec map[string]any) map[string]any {
	return map[string]any{
		"apiVersion": "networking.k8s.aws/v1alpha1",
		"kind":       kind,
		"metadata":   map[string]any{"name": "example"},
		"spec":       spec,
	}
}

// nodeENI is the plain NodeENI of the first example with the row's fields set, in the types that JSON decodes to.
func nodeENI(t *testing.T, row fields) map[string]any {
	t.Helper()
	spec := map[string]any{
		"nodeSelector":     map[string]any{"ng": "multi-eni"},
		"subnetID":         "subnet-0f59b4f14737be9ad",
		"securityGroupIDs": []any{"sg-05da196f3314d4af8"},
	}
	maps.Copy(spec, row)
	maps.DeleteFunc(spec, func(_ string, value any) bool { return value == nil })
	return decoded(t, object("NodeENI", spec))
}

func decoded(t *testing.T, value map[string]any) map[string]any {
	t.Helper()
	encoded, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	fresh := map[string]any{}
	if err := yaml.Unmarshal(encoded, &fresh); err != nil {
		t.Fatal(err)
	}
	return wholeNumbers(fresh).(map[string]any)
}

// wholeNumbers turns the floats of encoding/json into the integers that the API machinery decodes to.
func wholeNumbers(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for key := range v {
			v[key] = wholeNumbers(v[key])
		}
	case []any:
		for i := range v {
			v[i] = wholeNumbers(v[i])
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

func numbered(n int, format string) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = fmt.Sprintf(format, i)
	}
	return list
}

func numberedMap(n int) map[string]any {
	entries := make(map[string]any, n)
	for i := range n {
		entries[fmt.Sprintf("key-%d", i)] = "value"
	}
	return entries
}

var accepted = map[string]fields{
	"the plain one":                      {},
	"a label key with a domain":          {"nodeSelector": fields{"topology.kubernetes.io/zone": "us-west-2a", "role_2.x": ""}},
	"a label key of the greatest length": {"nodeSelector": fields{strings.Repeat("a", 253) + "/" + strings.Repeat("k", 63): "v"}},
	"sixteen labels":                     {"nodeSelector": numberedMap(16)},
	"an old, short subnet ID":            {"subnetID": "subnet-12345678"},
	"a subnet ID of sixteen digits":      {"subnetID": "subnet-abcdef1234567890"},
	"subnet name":                        {"subnetID": nil, "subnetName": "my subnet (a)"},
	"subnet IDs":                         {"subnetID": nil, "subnetIDs": numbered(64, "subnet-%08x")},
	"subnet names":                       {"subnetID": nil, "subnetNames": numbered(64, "eks-private-subnet-%d")},
	"subnet selector":                    {"subnetID": nil, "subnetSelector": numberedMap(16)},
	"an empty tag value to select":       {"subnetID": nil, "subnetSelector": fields{"network": ""}},
	"sixteen security groups":            {"securityGroupIDs": numbered(16, "sg-%08x")},
	"security group names":               {"securityGroupIDs": nil, "securityGroupNames": []any{"default", "multus"}},
	"security group selector":            {"securityGroupIDs": nil, "securityGroupSelector": fields{"network": "multus"}},
	"the greatest device index":          {"deviceIndex": 127},
	"exact device index":                 {"deviceIndexPolicy": "Exact"},
	"another network card":               {"networkCardIndex": 31},
	"several nodes rolled at once":       {"updatePolicy": "Replace", "maxUnavailable": 5},
	"ordinary interface":                 {"interfaceType": "interface"},
	"kept on termination":                {"deleteOnTermination": false},
	"an empty description":               {"description": ""},
	"a description of 255 characters":    {"description": strings.Repeat("x", 255)},
	"a description with punctuation":     {"description": "ENI of node ip-10-0-0-1 (subnet a/b), team: net+ops @ <eu> \"x\""},
	"35 tags":                            {"tags": numberedMap(35)},
	"tags of the greatest size":          {"tags": fields{strings.Repeat("k", 128): strings.Repeat("v", 256)}},
	"a cluster tag":                      {"tags": fields{"kubernetes.io/cluster/blue": "shared", "Name": "transit", "awsome": "yes"}},
	"no source/destination check":        {"sourceDestCheck": false},
	"one timeout":                        {"connectionTracking": fields{"tcpEstablishedTimeout": 60}},
	"the greatest timeouts":              {"connectionTracking": fields{"tcpEstablishedTimeout": 432000, "udpStreamTimeout": 180, "udpTimeout": 60}},
	"the timeouts of the primary":        {"connectionTracking": fields{"as": "Primary"}},
	"ENA Express":                        {"enaExpress": "TCPAndUDP"},
	"no ENA Express":                     {"enaExpress": "None"},
	"the least MTU":                      {"mtu": 1280},
	"the greatest MTU":                   {"mtu": 9001},
	"addresses on the host":              {"addressMode": "Primary"},
	"settings of the link":               {"sysctls": fields{"ipv4.rp_filter": 0, "ipv6.accept_ra": 2}},
	"every setting of the link":          {"sysctls": everySetting()},
	"an interface nobody waits for":      {"required": false},
	"a device for user space":            {"enableDPDK": true, "dpdkDriver": "uio_pci_generic", "dpdkPCIAddress": "0000:00:1F.0"},
	"a device listed for pods":           {"dpdkResourceName": "intel.com/sriov_net", "enableDPDK": false, "dpdkDriver": "vfio-pci"},
	"a resource without a prefix":        {"dpdkResourceName": "fast_net"},
	"secondary addresses":                {"secondaryPrivateIPAddressCount": 63},
	"IPv4 prefixes":                      {"ipv4PrefixCount": 2, "ipv6PrefixCount": 1},
	"IPv6 addresses":                     {"ipv6AddressCount": 1},
	"no secondary addresses":             {"secondaryPrivateIPAddressCount": 0},
	"automatic addresses":                {"ipv4Allocation": "Auto"},
	"addresses from the start":           {"ipv4Allocation": "LowestFree"},
	"replacing updates":                  {"updatePolicy": "Replace"},
	"pods with a prefix each":            {"pods": fields{"namespaces": []any{"upf", "smf"}, "ipv4": fields{}}},
	"pods of chosen namespaces":          {"pods": fields{"namespaceSelector": fields{"team": "core"}, "ipv6": fields{"prefixes": 1}}},
	"pods with prefixes by use":          {"pods": fields{"ipv4": fields{"prefixes": fields{"min": 1, "max": 63}, "spare": 0}}},
	"one pod per interface":              {"pods": fields{"attachment": "HostDevice", "routes": []any{fields{"to": "0.0.0.0/0"}, fields{"to": "::/0"}}}},
	"pods that are evicted":              {"pods": fields{"ipv4": fields{}, "onRemoval": "Evict"}},
	"pods that speak IGMPv2":             {"pods": fields{"ipv4": fields{}, "igmpVersion": 2}},
	"routes of pods":                     {"pods": podsWith(numberedRoutes(16)...)},
}

// everySetting are all settings that a link can have.
func everySetting() fields {
	all := fields{}
	for _, setting := range hostnet.Settings() {
		all[string(setting)] = 2
	}
	return all
}

// podsWith is a pod network with routes to these ranges.
func podsWith(ranges ...string) fields {
	routes := []any{}
	for _, to := range ranges {
		routes = append(routes, fields{"to": to})
	}
	return fields{"ipv4": fields{}, "routes": routes}
}

func numberedRoutes(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("10.%d.0.0/16", i)
	}
	return all
}

func TestNodeENIAccepted(t *testing.T) {
	k := load(t, "NodeENI")
	for name, row := range accepted {
		t.Run(name, func(t *testing.T) {
			for _, refusal := range k.admit(nodeENI(t, row)) {
				t.Error(refusal)
			}
		})
	}
}

// refused rows name the field that the refusal has to mention.
var refused = map[string]struct {
	field string
	row   fields
}{
	"no node selector":                         {"nodeSelector", fields{"nodeSelector": nil}},
	"empty node selector":                      {"nodeSelector", fields{"nodeSelector": fields{}}},
	"seventeen labels":                         {"nodeSelector", fields{"nodeSelector": numberedMap(17)}},
	"label key with a space":                   {"nodeSelector", fields{"nodeSelector": fields{"node group": "a"}}},
	"label key too long":                       {"nodeSelector", fields{"nodeSelector": fields{strings.Repeat("k", 64): "a"}}},
	"label key domain too long":                {"nodeSelector", fields{"nodeSelector": fields{strings.Repeat("a", 254) + "/" + strings.Repeat("k", 63): "a"}}},
	"label value with a slash":                 {"nodeSelector", fields{"nodeSelector": fields{"ng": "a/b"}}},
	"label value too long":                     {"nodeSelector", fields{"nodeSelector": fields{"ng": strings.Repeat("v", 64)}}},
	"no subnet":                                {"subnetSelector", fields{"subnetID": nil}},
	"subnet ID and name":                       {"subnetName", fields{"subnetName": "a"}},
	"subnet ID and IDs":                        {"subnetIDs", fields{"subnetIDs": []any{"subnet-12345678"}}},
	"subnet name and selector":                 {"subnetSelector", fields{"subnetID": nil, "subnetName": "a", "subnetSelector": fields{"a": "b"}}},
	"subnet ID too short":                      {"subnetID", fields{"subnetID": "subnet-abc123"}},
	"subnet ID in capitals":                    {"subnetID", fields{"subnetID": "subnet-ABCDEF12"}},
	"empty subnet ID":                          {"subnetID", fields{"subnetID": ""}},
	"empty subnet name":                        {"subnetName", fields{"subnetID": nil, "subnetName": ""}},
	"no subnet IDs":                            {"subnetIDs", fields{"subnetID": nil, "subnetIDs": []any{}}},
	"too many subnet IDs":                      {"subnetIDs", fields{"subnetID": nil, "subnetIDs": numbered(65, "subnet-%08x")}},
	"a group among the subnet IDs":             {"subnetIDs", fields{"subnetID": nil, "subnetIDs": []any{"sg-05da196f3314d4af8"}}},
	"a subnet ID twice":                        {"subnetIDs", fields{"subnetID": nil, "subnetIDs": []any{"subnet-12345678", "subnet-12345678"}}},
	"no subnet names":                          {"subnetNames", fields{"subnetID": nil, "subnetNames": []any{}}},
	"a subnet name twice":                      {"subnetNames", fields{"subnetID": nil, "subnetNames": []any{"a", "b", "a"}}},
	"empty subnet selector":                    {"subnetSelector", fields{"subnetID": nil, "subnetSelector": fields{}}},
	"subnet selector without key":              {"subnetSelector", fields{"subnetID": nil, "subnetSelector": fields{"": "a"}}},
	"no security group":                        {"securityGroupIDs", fields{"securityGroupIDs": nil}},
	"group IDs and names":                      {"securityGroupNames", fields{"securityGroupNames": []any{"default"}}},
	"no security group IDs":                    {"securityGroupIDs", fields{"securityGroupIDs": []any{}}},
	"seventeen security groups":                {"securityGroupIDs", fields{"securityGroupIDs": numbered(17, "sg-%08x")}},
	"a security group twice":                   {"securityGroupIDs", fields{"securityGroupIDs": []any{"sg-12345678", "sg-12345678"}}},
	"a security group name twice":              {"securityGroupNames must not list a name twice", fields{"securityGroupIDs": nil, "securityGroupNames": []any{"a", "b", "a"}}},
	"security group ID malformed":              {"securityGroupIDs", fields{"securityGroupIDs": []any{"default"}}},
	"empty security group name":                {"securityGroupNames", fields{"securityGroupIDs": nil, "securityGroupNames": []any{""}}},
	"empty group selector":                     {"securityGroupSelector", fields{"securityGroupIDs": nil, "securityGroupSelector": fields{}}},
	"group selector key too long":              {"securityGroupSelector", fields{"securityGroupIDs": nil, "securityGroupSelector": fields{strings.Repeat("k", 129): "a"}}},
	"device index of the primary":              {"deviceIndex", fields{"deviceIndex": 0}},
	"device index too great":                   {"deviceIndex", fields{"deviceIndex": 128}},
	"unknown device index policy":              {"deviceIndexPolicy", fields{"deviceIndexPolicy": "Maybe"}},
	"no node may be unavailable":               {"maxUnavailable", fields{"maxUnavailable": 0}},
	"negative network card":                    {"networkCardIndex", fields{"networkCardIndex": -1}},
	"EFA":                                      {"interfaceType", fields{"interfaceType": "efa"}},
	"EFA only":                                 {"interfaceType", fields{"interfaceType": "efa-only"}},
	"trunk interface":                          {"interfaceType", fields{"interfaceType": "trunk"}},
	"delete on termination in words":           {"deleteOnTermination", fields{"deleteOnTermination": "yes"}},
	"description of 300 characters":            {"description", fields{"description": strings.Repeat("x", 300)}},
	"description of two lines":                 {"description", fields{"description": "a\nb"}},
	"10,000 tags":                              {"tags", fields{"tags": numberedMap(10_000)}},
	"36 tags":                                  {"tags", fields{"tags": numberedMap(36)}},
	"empty tag key":                            {"tags", fields{"tags": fields{"": "a"}}},
	"tag key too long":                         {"tags", fields{"tags": fields{strings.Repeat("k", 129): "a"}}},
	"tag value too long":                       {"tags", fields{"tags": fields{"a": strings.Repeat("v", 257)}}},
	"a tag of AWS":                             {"tags", fields{"tags": fields{"aws:cloudformation:stack-name": "a"}}},
	"a tag of AWS in capitals":                 {"tags", fields{"tags": fields{"AWS:x": "a"}}},
	"a tag of ours":                            {"tags", fields{"tags": fields{"networking.k8s.aws/node": "a"}}},
	"a tag of the VPC CNI":                     {"tags", fields{"tags": fields{"node.k8s.amazonaws.com/no_manage": "false"}}},
	"a cluster tag of the VPC CNI":             {"tags", fields{"tags": fields{"cluster.k8s.amazonaws.com/name": "a"}}},
	"source/dest check in words":               {"sourceDestCheck", fields{"sourceDestCheck": "off"}},
	"timeouts in words":                        {"connectionTracking", fields{"connectionTracking": "short"}},
	"no timeout":                               {"connectionTracking must set at least one timeout", fields{"connectionTracking": fields{}}},
	"a TCP timeout too short":                  {"tcpEstablishedTimeout", fields{"connectionTracking": fields{"tcpEstablishedTimeout": 59}}},
	"a TCP timeout too long":                   {"tcpEstablishedTimeout", fields{"connectionTracking": fields{"tcpEstablishedTimeout": 432001}}},
	"a UDP stream timeout too long":            {"udpStreamTimeout", fields{"connectionTracking": fields{"udpStreamTimeout": 181}}},
	"a UDP timeout too short":                  {"udpTimeout", fields{"connectionTracking": fields{"udpTimeout": 29}}},
	"a timeout next to those of the primary":   {"connectionTracking.as must be set alone", fields{"connectionTracking": fields{"as": "Primary", "udpTimeout": 30}}},
	"the timeouts of another interface":        {"as", fields{"connectionTracking": fields{"as": "Secondary"}}},
	"ENA Express for UDP alone":                {"enaExpress", fields{"enaExpress": "UDP"}},
	"MTU too small":                            {"mtu", fields{"mtu": 576}},
	"MTU too great":                            {"mtu", fields{"mtu": 9002}},
	"unknown address mode":                     {"addressMode", fields{"addressMode": "DHCP"}},
	"a setting of all links":                   {"every key of sysctls must be one of", fields{"sysctls": fields{"ipv4.ip_forward": 1}}},
	"a setting beyond any value":               {"sysctls", fields{"sysctls": fields{"ipv4.rp_filter": 9}}},
	"required in words":                        {"required", fields{"required": "no"}},
	"a device in words":                        {"enableDPDK", fields{"enableDPDK": "yes"}},
	"a device with host addresses":             {"addressMode must be None", fields{"enableDPDK": true, "addressMode": "Primary"}},
	"a driver that leaves it alone":            {"dpdkDriver", fields{"enableDPDK": true, "dpdkDriver": "ena"}},
	"a resource of two prefixes":               {"dpdkResourceName", fields{"dpdkResourceName": "a/b/c"}},
	"a device by its name":                     {"dpdkPCIAddress", fields{"dpdkPCIAddress": "ens6"}},
	"negative secondary addresses":             {"secondaryPrivateIPAddressCount", fields{"secondaryPrivateIPAddressCount": -1}},
	"negative IPv4 prefixes":                   {"ipv4PrefixCount", fields{"ipv4PrefixCount": -1}},
	"prefixes and addresses":                   {"ipv4PrefixCount", fields{"ipv4PrefixCount": 1, "secondaryPrivateIPAddressCount": 1}},
	"negative IPv6 addresses":                  {"ipv6AddressCount", fields{"ipv6AddressCount": -1}},
	"IPv6 prefixes and addresses":              {"ipv6AddressCount", fields{"ipv6AddressCount": 1, "ipv6PrefixCount": 1}},
	"too many IPv6 prefixes":                   {"ipv6PrefixCount", fields{"ipv6PrefixCount": 128}},
	"an allocation that does not exist":        {"ipv4Allocation", fields{"ipv4Allocation": "Highest"}},
	"unknown update policy":                    {"updatePolicy", fields{"updatePolicy": "Recreate"}},
	"pods that speak IGMPv1":                   {"igmpVersion", fields{"pods": fields{"ipv4": fields{}, "igmpVersion": 1}}},
	"the version of IGMP of others' links":     {"pods.igmpVersion must not be set with attachment Observed", fields{"pods": fields{"attachment": "Observed", "igmpVersion": 2}}},
	"pods in words":                            {"pods", fields{"pods": "yes"}},
	"pods without addresses":                   {"pods.ipv4 or pods.ipv6 is required", fields{"pods": fields{}}},
	"pods with MACVLAN":                        {"pods.attachment MACVLAN does not work on EC2", fields{"pods": fields{"attachment": "MACVLAN", "ipv4": fields{}}}},
	"pods with a bridge":                       {"pods.attachment must be IPVLAN, HostDevice or Observed", fields{"pods": fields{"attachment": "Bridge", "ipv4": fields{}}}},
	"prefixes for a whole interface":           {"pods.ipv4 and pods.ipv6 must not be set with attachment HostDevice", fields{"pods": fields{"attachment": "HostDevice", "ipv4": fields{}}}},
	"prefixes for addresses that follow pods":  {"pods.ipv4 and pods.ipv6 must not be set with attachment Observed", fields{"pods": fields{"attachment": "Observed", "ipv4": fields{}}}},
	"evictions of pods that it does not see":   {"pods.onRemoval must be Wait with attachment Observed", fields{"pods": fields{"attachment": "Observed", "onRemoval": "Evict"}}},
	"a definition for another IPAM":            {"the NetworkAttachmentDefinition is yours", fields{"pods": fields{"attachment": "Observed", "namespaces": []any{"a"}}}},
	"IPv6 addresses that follow pods":          {"pods.floating must have IPv4 ranges", fields{"pods": fields{"attachment": "Observed", "floating": []any{"2001:db8::/64"}}}},
	"a range that is none":                     {"pods.floating must have IPv4 ranges", fields{"pods": fields{"attachment": "Observed", "floating": []any{"10.0.4.200"}}}},
	"a range with bits of a host":              {"pods.floating must have IPv4 ranges", fields{"pods": fields{"attachment": "Observed", "floating": []any{"10.0.4.193/28"}}}},
	"a range of a whole network":               {"pods.floating must have IPv4 ranges", fields{"pods": fields{"attachment": "Observed", "floating": []any{"10.0.0.0/8"}}}},
	"more prefixes at least than at most":      {"pods.ipv4.prefixes.min must not be larger than pods.ipv4.prefixes.max", fields{"pods": fields{"ipv4": fields{"prefixes": fields{"min": 3, "max": 2}}}}},
	"prefixes beyond every instance type":      {"spec.pods.ipv4.prefixes.max in body should be less than or equal to 63", fields{"pods": fields{"ipv4": fields{"prefixes": fields{"max": 64}}}}},
	"no prefix":                                {"spec.pods.ipv4.prefixes.min in body should be greater than or equal to 1", fields{"pods": fields{"ipv4": fields{"prefixes": fields{"min": 0}}}}},
	"IPv6 prefixes beyond every instance type": {"spec.pods.ipv6.prefixes in body should be less than or equal to 63", fields{"pods": fields{"ipv6": fields{"prefixes": 64}}}},
	"negative spare addresses":                 {"spec.pods.ipv4.spare", fields{"pods": fields{"ipv4": fields{"spare": -1}}}},
	"namespaces and their selector":            {"namespaceSelector", fields{"pods": fields{"ipv4": fields{}, "namespaces": []any{"a"}, "namespaceSelector": fields{"a": "b"}}}},
	"a namespace twice":                        {"spec.pods.namespaces", fields{"pods": fields{"ipv4": fields{}, "namespaces": []any{"a", "a"}}}},
	"a namespace in capitals":                  {"spec.pods.namespaces", fields{"pods": fields{"ipv4": fields{}, "namespaces": []any{"UPF"}}}},
	"a namespace by no label":                  {"every key of pods.namespaceSelector", fields{"pods": fields{"ipv4": fields{}, "namespaceSelector": fields{"a b": "c"}}}},
	"overlapping routes":                       {"pods.routes must not overlap", fields{"pods": podsWith("10.60.0.0/16", "10.60.4.0/24")}},
	"overlapping routes of IPv6":               {"pods.routes must not overlap", fields{"pods": podsWith("10.0.0.0/8", "2001:db8::/32", "2001:db8:1::/48")}},
	"a route twice":                            {"pods.routes must not overlap", fields{"pods": podsWith("10.60.0.0/16", "10.60.0.0/16")}},
	"a route to a word":                        {"pods.routes[].to must be a range", fields{"pods": podsWith("internet")}},
	"a route to an address in a range":         {"pods.routes[].to must not have bits beyond its prefix length", fields{"pods": podsWith("10.60.0.1/16")}},
	"pods that are deleted":                    {"spec.pods.onRemoval", fields{"pods": fields{"ipv4": fields{}, "onRemoval": "Delete"}}},
	"seventeen routes":                         {"spec.pods.routes", fields{"pods": podsWith(numberedRoutes(17)...)}},
	"pods on a device without link":            {"pods must not be set with enableDPDK", fields{"enableDPDK": true, "pods": fields{"ipv4": fields{}}}},
	"pods and the host on an interface":        {"addressMode must be None with pods.attachment HostDevice", fields{"addressMode": "Primary", "pods": fields{"attachment": "HostDevice"}}},
	"two numbers of IPv4 prefixes":             {"ipv4PrefixCount must not be set with pods.ipv4", fields{"ipv4PrefixCount": 1, "pods": fields{"ipv4": fields{}}}},
	"two numbers of IPv6 prefixes":             {"ipv6PrefixCount must not be set with pods.ipv6", fields{"ipv6PrefixCount": 1, "pods": fields{"ipv6": fields{}}}},
	"unknown field":                            {"deviceIndx", fields{"deviceIndx": 1}},
}

func TestNodeENIRefused(t *testing.T) {
	k := load(t, "NodeENI")
	for name, row := range refused {
		t.Run(name, func(t *testing.T) {
			refusals := k.admit(nodeENI(t, row.row))
			t.Log(strings.Join(refusals, "\n"))
			mentioned := func(refusal string) bool { return strings.Contains(refusal, row.field) }
			if !slices.ContainsFunc(refusals, mentioned) {
				t.Errorf("no refusal mentions %s: %q", row.field, refusals)
			}
		})
	}
}

// A field without a row of each sort has constraints that no test has seen at work.
func TestEveryFieldHasRows(t *testing.T) {
	spec := rootSchema(definitionOf(t, "NodeENI")).Properties["spec"]
	for name := range spec.Properties {
		isRefused := func(r struct {
			field string
			row   fields
		}) bool {
			return r.field == name
		}
		if !slices.ContainsFunc(slices.Collect(maps.Values(refused)), isRefused) {
			t.Errorf("no refused row for %s", name)
		}
		isAccepted := func(row fields) bool { return row[name] != nil }
		if !slices.ContainsFunc(slices.Collect(maps.Values(accepted)), isAccepted) {
			t.Errorf("no accepted row for %s", name)
		}
	}
}

// Each CEL rule refuses at least one row, with its own message.
func TestEveryRuleIsSeenRefusing(t *testing.T) {
	k := load(t, "NodeENI")
	var refusals []string
	for _, row := range refused {
		refusals = append(refusals, k.admit(nodeENI(t, row.row))...)
	}
	for _, rule := range rulesOf(rootSchema(k.definition).Properties["spec"]) {
		seen := func(refusal string) bool { return strings.Contains(refusal, rule.Message) }
		if !slices.ContainsFunc(refusals, seen) {
			t.Errorf("no row is refused by %q", rule.Message)
		}
	}
}

func rulesOf(s apiextensionsv1.JSONSchemaProps) []apiextensionsv1.ValidationRule {
	rules := slices.Clone(s.XValidations)
	for _, property := range s.Properties {
		rules = append(rules, rulesOf(property)...)
	}
	return rules
}

func TestNodeENIDefaults(t *testing.T) {
	plain := nodeENI(t, nil)
	if refusals := load(t, "NodeENI").admit(plain); len(refusals) > 0 {
		t.Fatal(refusals)
	}
	want := map[string]any{
		"nodeSelector":        map[string]any{"ng": "multi-eni"},
		"subnetID":            "subnet-0f59b4f14737be9ad",
		"securityGroupIDs":    []any{"sg-05da196f3314d4af8"},
		"deviceIndex":         int64(1),
		"deviceIndexPolicy":   "Prefer",
		"networkCardIndex":    int64(0),
		"maxUnavailable":      int64(1),
		"interfaceType":       "interface",
		"deleteOnTermination": true,
		"sourceDestCheck":     true,
		"addressMode":         "None",
		"required":            true,
		"ipv4Allocation":      "Auto",
		"updatePolicy":        "InPlace",
	}
	if diff := cmp.Diff(want, plain["spec"]); diff != "" {
		t.Errorf("defaulted spec (-want +got):\n%s", diff)
	}
}

func TestPodsDefaults(t *testing.T) {
	short := nodeENI(t, fields{"pods": fields{"ipv4": fields{}, "ipv6": fields{}}})
	if refusals := load(t, "NodeENI").admit(short); len(refusals) > 0 {
		t.Fatal(refusals)
	}
	want := map[string]any{
		"attachment": "IPVLAN",
		"ipv4":       map[string]any{"prefixes": map[string]any{"min": int64(1)}, "spare": int64(8)},
		"ipv6":       map[string]any{"prefixes": int64(1)},
		"onRemoval":  "Wait",
	}
	if diff := cmp.Diff(want, short["spec"].(map[string]any)["pods"]); diff != "" {
		t.Errorf("defaulted pods (-want +got):\n%s", diff)
	}
}

func TestNamesOfNodeENIsWithPods(t *testing.T) {
	k, pods := load(t, "NodeENI"), fields{"pods": fields{"ipv4": fields{}}}
	cases := map[string]struct {
		name    string
		row     fields
		refused string
	}{
		"short":                   {"n3", pods, ""},
		"59 characters":           {strings.Repeat("n", 59), pods, ""},
		"60 characters":           {strings.Repeat("n", 60), pods, "at most 59 characters and no dot"},
		"a dot":                   {"n3.core", pods, "at most 59 characters and no dot"},
		"a dot, and without pods": {"n3.core", nil, ""},
		"a number":                {"n3-1", pods, ""},
		"a second network's":      {"n3--1", pods, "NAME--1 is the network of the second interface"},
		"one without pods":        {"n3--1", nil, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			object := nodeENI(t, tc.row)
			object["metadata"] = map[string]any{"name": tc.name}
			refusals := k.admit(object)
			if says := strings.Join(refusals, ""); !strings.Contains(says, tc.refused) || tc.refused == "" && strings.Contains(says, "the name of a NodeENI with pods") {
				t.Errorf("refusals: %q", refusals)
			}
		})
	}
}
