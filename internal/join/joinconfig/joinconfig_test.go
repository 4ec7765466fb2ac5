// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package joinconfig_test

import (
	"os"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/joinconfig"
)

// The configuration in the documents is valid.
func TestTheDocumentedConfiguration(t *testing.T) {
	page, err := os.ReadFile("../../../docs/multus-node-groups.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(page), "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	p, err := joinconfig.Document("networks.yaml", []byte(text))
	if err != nil || len(p.Networks) != 1 || p.OnFailure != lifecycle.Abandon || !p.Owns(lifecycle.HookRef{Name: "multus-launch"}) {
		t.Errorf("%+v, %v", p, err)
	}
}

func TestDocumentsAreReadStrictly(t *testing.T) {
	for name, text := range map[string]string{
		"an unknown field": "cluster: c\ntrigger: {tagKey: t}\nnetwork: []\n", "a field twice": "cluster: c\ncluster: d\n", "no YAML": "{",
	} {
		if _, err := joinconfig.Document("networks.yaml", []byte(text)); err == nil || !strings.HasPrefix(err.Error(), "networks.yaml: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParametersByName(t *testing.T) {
	got := joinconfig.Environment([]string{"PATH=/bin", "MultusSubnetsAz7=subnet-1,subnet-2", "MultusInterfaceTags=a=b"})
	if len(got) != 2 || got["MultusSubnetsAz7"] != "subnet-1,subnet-2" || got["MultusInterfaceTags"] != "a=b" {
		t.Errorf("%v", got)
	}
	// They are kept, so that an error can name them.
	for _, former := range []string{"SubnetIds", "SecGroupIds", "Az1SubnetIds", "Az2SubnetIds", "TargetNodeGroupTagKey", "useStaticIPs", "ENITags", "InterfaceTags"} {
		values := joinconfig.Environment([]string{former + "=x"})
		if pairs, err := joinconfig.Pairs([]string{former + "=x"}); err != nil || values[former] != "x" || pairs[former] != "x" {
			t.Errorf("%s is passed over: %v", former, err)
		}
	}
	// Any user of an instance can set its tags.
	if got := joinconfig.Parameters(map[string]string{"SubnetIds": "x"}); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for _, wrong := range []string{"MultusSubnetsAz1", "PATH=/bin"} {
		if _, err := joinconfig.Pairs([]string{wrong}); err == nil {
			t.Errorf("%s passes", wrong)
		}
	}
}
