// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/pelletier/go-toml/v2"

	"github.com/multieni/multieni/internal/core/userdata"
)

// ours are settings as an AWSNodeTemplate has them.
func ours() userdata.Table {
	return userdata.Table{"kubernetes": userdata.Table{
		"cluster-name": "prod", "cluster-dns-ip": "10.100.0.10", "node-labels": userdata.Table{"role": "upf"},
	}}
}

// TestSettingsMergeAsValues has one setting in the spellings of TOML. All of them mean the same.
func TestSettingsMergeAsValues(t *testing.T) {
	const want = "[settings]\nmotd = 'hello'\n\n[settings.kubernetes]\ncluster-dns-ip = '10.100.0.10'\n" +
		"cluster-name = 'prod'\nmax-pods = 58\n\n[settings.kubernetes.node-labels]\nrole = 'upf'\n"
	for name, user := range map[string]string{
		"dotted keys":            "settings.kubernetes.max-pods = 58\nsettings.motd = \"hello\"\n",
		"dotted keys in a table": "[settings]\nmotd = \"hello\"\nkubernetes.max-pods = 58\n",
		"a table":                "[settings]\nmotd = 'hello'\n[settings.kubernetes]\nmax-pods = 58\n",
		"the deepest table first": "[settings.kubernetes]\nmax-pods = 58\n[settings]\n" +
			"motd = '''hello'''",
		"quotes":         "[\"settings\".'kubernetes']\nmax-pods = 58\n[settings]\n\"motd\" = \"hello\"",
		"spaces":         "[ settings . kubernetes\t] # mine\n  max-pods=58\n[ settings ]\nmotd\t= \"hello\"",
		"inline tables":  "settings = { motd = \"hello\", kubernetes = { max-pods = 58 } }",
		"carriage marks": "[settings]\r\nmotd = \"hello\"\r\n[settings.kubernetes]\r\nmax-pods = 0x3A\r\n",
		"base64":         encoded("settings = { motd = \"hello\", kubernetes = { max-pods = 58 } }"),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Settings(ours(), user)
			if diff := cmp.Diff(want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestSettingsOfTheUserComeLast checks which value wins, and that other types of TOML are kept.
func TestSettingsOfTheUserComeLast(t *testing.T) {
	const head, labels = "[settings]\n[settings.kubernetes]\n", "\n[settings.kubernetes.node-labels]\nrole = 'upf'\n"
	for name, tc := range map[string]struct{ user, want string }{
		"nothing":    {"", head + "cluster-dns-ip = '10.100.0.10'\ncluster-name = 'prod'\n" + labels},
		"a comment":  {"# mine\n", head + "cluster-dns-ip = '10.100.0.10'\ncluster-name = 'prod'\n" + labels},
		"no setting": {"[settings]\n", head + "cluster-dns-ip = '10.100.0.10'\ncluster-name = 'prod'\n" + labels},
		"a value": {
			"settings.kubernetes.cluster-name = 'blue'",
			head + "cluster-dns-ip = '10.100.0.10'\ncluster-name = 'blue'\n" + labels,
		},
		"a list for a string": {
			"settings.kubernetes.cluster-dns-ip = ['10.0.0.1', '10.0.0.2']",
			head + "cluster-dns-ip = ['10.0.0.1', '10.0.0.2']\ncluster-name = 'prod'\n" + labels,
		},
		"a label of ours, and another": {
			"[settings.kubernetes.node-labels]\nrole = 'amf'\n'example.com/zone' = 'edge'\n",
			head + "cluster-dns-ip = '10.100.0.10'\ncluster-name = 'prod'\n\n[settings.kubernetes.node-labels]\n" +
				"'example.com/zone' = 'edge'\nrole = 'amf'\n",
		},
		"tables in a list, and lists in a list": {
			"[[settings.container-registry.mirrors]]\nregistry = 'a'\n[[settings.container-registry.mirrors]]\n" +
				"registry = 'b'\n[settings.network]\nhosts = [['10.0.0.1', ['x', 'y']]]\n",
			"[settings]\n[settings.container-registry]\n[[settings.container-registry.mirrors]]\nregistry = 'a'\n\n" +
				"[[settings.container-registry.mirrors]]\nregistry = 'b'\n\n[settings.kubernetes]\n" +
				"cluster-dns-ip = '10.100.0.10'\ncluster-name = 'prod'\n" + labels +
				"\n[settings.network]\nhosts = [['10.0.0.1', ['x', 'y']]]\n",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Settings(ours(), tc.user)
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

// TestSettingsThatCannotBeMerged: Bottlerocket would take none of the settings, or lose one of them without a word.
func TestSettingsThatCannotBeMerged(t *testing.T) {
	for name, tc := range map[string]struct{ user, error string }{
		"a colon":                 {"[settings]\nmotd: 'x'", "it is not TOML: line 2, column 5: "},
		"a key twice":             {"settings.motd = 'x'\nsettings.motd = 'y'", "it is not TOML: line 2, column "},
		"a table twice":           {"[settings.motd]\n[settings.motd]", "it is not TOML: line 2, column "},
		"an integer of 65 bits":   {"settings.x = 18446744073709551616", "it is not TOML: line 1, column 14: "},
		"a setting at the root":   {"motd = 'x'", "its key motd is outside the table settings"},
		"a table at the root":     {"[kubernetes]\nmax-pods = 58", "write settings.kubernetes"},
		"settings are no table":   {"settings = 'x'", "its settings is not a table: write [settings]"},
		"a table becomes a value": {"settings.kubernetes = 'x'", "its settings.kubernetes is not a table"},
		"tables become a list":    {"[[settings.kubernetes]]\nx = 1", "its settings.kubernetes is not a table"},
		"labels become a value":   {"settings.kubernetes.node-labels = 'a=b'", "write [settings.kubernetes.node-labels]"},
		"a value becomes a table": {"[settings.kubernetes.cluster-name]\nx = 1", "cluster-name is a table, and must"},
		"a label is a number":     {"[settings.kubernetes.node-labels]\nmax-pods = 58", "the label max-pods in"},
		"a label is a table":      {"[settings.kubernetes.node-labels]\nexample.com = 'x'", "the label example in"},
		"a script":                {"#!/bin/sh\n# TOML reads a comment", "it is a script"},
		"a cloud-config":          {"#cloud-config\n", "nothing on Bottlerocket reads"},
		"a message":               {"MIME-Version: 1.0\n", "nothing on Bottlerocket reads"},
		"broken gzip":             {"\x1f\x8b", "its gzip data cannot be read"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := userdata.Settings(ours(), tc.user)
			if err == nil || !strings.Contains(err.Error(), tc.error) || got != "" {
				t.Errorf("the error is %v, want one with %q; the settings are %q", err, tc.error, got)
			}
		})
	}
}

// FuzzSettings merges any text of a user. What is written has each value of the user, and ours where the user has none.
func FuzzSettings(f *testing.F) {
	for _, seed := range []string{
		"", "settings.kubernetes.max-pods = 58", "[settings]\nmotd = \"\\u00e9\"\nx = [{a = 1}, {}]\ny = [[1.0], []]",
		"[[settings.a]]\n[[settings.a]]\nb.c = 1979-05-27T07:32:00Z", "settings = {a = inf, '' = 07:32:00, b = 1979-05-27}",
		"[settings.kubernetes.node-labels]\n\"a.b/c\" = '''\nx'''", "[settings.a.b]\n[settings.a]\nc = +1_000",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, user string) {
		text, err := userdata.Settings(ours(), user)
		if err != nil {
			return
		}
		again, err := userdata.Settings(ours(), text)
		if diff := cmp.Diff(text, again); err != nil || diff != "" {
			t.Fatalf("%q became %q, and then: %v (-first +second):\n%s", user, text, err, diff)
		}
		merged, theirs := userdata.Table{}, userdata.Table{}
		if err := toml.Unmarshal([]byte(text), &merged); err != nil {
			t.Fatalf("%q became %q: %v", user, text, err)
		}
		if toml.Unmarshal([]byte(user), &theirs) == nil {
			expectValues(t, "", theirs, merged)
		}
	})
}

// expectValues checks that a table has all values of another one.
func expectValues(t *testing.T, path string, want, have userdata.Table) {
	t.Helper()
	for key, value := range want {
		inner, isTable := value.(userdata.Table)
		both, isBoth := have[key].(userdata.Table)
		switch {
		case isTable && isBoth:
			expectValues(t, path+"."+key, inner, both)
		case !cmp.Equal(toText(value), toText(have[key])):
			t.Errorf("%s.%s is %v, want %v", path, key, have[key], value)
		}
	}
}

// toText returns a value in TOML, in which not-a-number equals itself.
func toText(value any) string {
	text, err := toml.Marshal(userdata.Table{"": value})
	if err != nil {
		return err.Error()
	}
	return string(text)
}
