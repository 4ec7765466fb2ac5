// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package launchtemplate_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	cli "github.com/multieni/multieni/internal/cli/launchtemplate"
	"github.com/multieni/multieni/internal/core/launchtemplate"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// run runs the command as it is typed, with standard input, and returns what it printed and its error.
func run(t *testing.T, input string, arguments ...string) (out, errors string, err error) {
	t.Helper()
	var o, e bytes.Buffer
	command := cli.New()
	command.SilenceErrors, command.SilenceUsage = true, true
	command.SetArgs(arguments)
	command.SetIn(strings.NewReader(input))
	command.SetOut(&o)
	command.SetErr(&e)
	err = command.ExecuteContext(t.Context())
	return o.String(), e.String(), err
}

const examples = "../../../examples/"

// TestWhatIsPrinted has a golden file for each, so that a change of the output is visible in review.
func TestWhatIsPrinted(t *testing.T) {
	cases := map[string][]string{
		"render-two-subnets.txt":    {"render", "-f", examples + "launch-two-subnets.yaml"},
		"render-asg.json":           {"render", "-f", examples + "launch-two-subnets.yaml", "--for", "auto-scaling-group"},
		"render-fleet.json":         {"render", "-f", examples + "launch-node-template.yaml", "--for", "fleet"},
		"render-karpenter.yaml":     {"render", "-f", examples + "launch-two-subnets.yaml", "--for", "karpenter", "-o", "yaml"},
		"explain-node-template.txt": {"explain", "-f", examples + "launch-node-template.yaml"},
		"explain-efa.txt":           {"explain", "-f", examples + "launch-efa.yaml"},
		"explain-from.txt":          {"explain", "-f", "testdata/from-template.yaml", "--source", "testdata/source.json"},
		"diff.txt":                  {"diff", "-f", "testdata/changed.yaml", "--from", examples + "launch-node-template.yaml"},
	}
	for name, arguments := range cases {
		t.Run(name, func(t *testing.T) {
			out, _, err := run(t, "", arguments...)
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "golden", name)
			if *update {
				if err := os.WriteFile(golden, []byte(out), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), out); diff != "" {
				t.Errorf("(-want +got), run with -update to take it over:\n%s", diff)
			}
		})
	}
}

func TestTheSeedsHeaderIsAcceptedWithANote(t *testing.T) {
	manifest, err := os.ReadFile(examples + "launch-node-template.yaml")
	if err != nil {
		t.Fatal(err)
	}
	seed := strings.Replace(string(manifest), "networking.k8s.aws/v1alpha1", "karpenter.k8s.aws/v1alpha1", 1)
	_, notes, err := run(t, seed, "render", "-f", "-")
	if err != nil || !strings.Contains(notes, "note: default: apiVersion karpenter.k8s.aws/v1alpha1 is read as networking.k8s.aws/v1alpha1") {
		t.Errorf("error %v, notes %q", err, notes)
	}
}

func TestFactsForPrograms(t *testing.T) {
	for _, command := range []string{"render", "explain"} {
		out, _, err := run(t, "", command, "-f", examples+"launch-efa.yaml", "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var facts map[string]any
		if err := json.Unmarshal([]byte(out), &facts); err != nil || len(facts) == 0 {
			t.Errorf("%s: %v in %q", command, err, out)
		}
	}
}

func TestRefusalsSayWhatToDo(t *testing.T) {
	manifest := func(spec string) string {
		return "apiVersion: networking.k8s.aws/v1alpha1\nkind: AWSNodeTemplate\nmetadata: {name: x}\nspec:\n  subnetSelector: {a: b}\n" +
			"  securityGroupSelector: {a: b}\n  amiSelector: {aws-ids: ami-12345678}\n  userData: '#!/bin/sh'\n" + spec
	}
	cases := map[string]struct {
		input     string
		arguments []string
		says      []string
	}{
		"several things at once": {
			manifest("  instanceTypes: {include: [t3.nano]}\n  networkInterfaces: [{}, {deviceIndex: 1}, {deviceIndex: 2}]\n  launchTemplateOverride: {NetworkInterfaces: [{DeviceIndex: 3, AssociatePublicIpAddress: true}]}\n"),
			[]string{"render", "-f", "-"}, []string{"PublicIPRequiresSingleInterface", "NoEligibleInstanceType", "remove"},
		},
		"problems that are explained": {
			manifest("  instanceTypes: {include: [t3.nano]}\n  networkInterfaces: [{}, {deviceIndex: 1}, {deviceIndex: 2}]\n"), []string{"explain", "-f", "-"},
			[]string{"NoEligibleInstanceType"},
		},
		"a member of the override that does not exist": {
			manifest("  launchTemplateOverride: {BlockDeviceMappings: [{DeviceName: /dev/xvdb, Ebs: {iops: 3000}}]}\n"), []string{"render", "-f", "-"},
			[]string{"BlockDeviceMappings[0].Ebs.iops", "it is spelt Iops"},
		},
		"the seed's misplaced member": {
			manifest("  launchTemplateOverride: {BlockDeviceMappings: [{DeviceName: /dev/xvdb, Ebs: null, VolumeSize: 30}]}\n"), []string{"render", "-f", "-"},
			[]string{"BlockDeviceMappings[0].VolumeSize", "there are DeviceName, Ebs"},
		},
		"a value of another type": {
			manifest("  launchTemplateOverride: {EbsOptimized: \"yes\"}\n"), []string{"render", "-f", "-"}, []string{"EbsOptimized must be true or false"},
		},
		"a template that only EC2 has": {
			manifest("  autofill: true\n  launchTemplateRef: {name: base, version: $Latest}\n"), []string{"render", "-f", "-"},
			[]string{"aws ec2 describe-launch-template-versions --launch-template-name base --versions '$Latest'"},
		},
		"a family of images that is none": {manifest("  amiFamily: Ubuntu\n"), []string{"explain", "-f", "-"}, []string{"set Custom", "userData how it joins"}},
		"a managed node group": {
			"", []string{"render", "-f", examples + "launch-two-subnets.yaml", "--for", "managed-node-group"}, []string{"refuses", "use a self-managed"},
		},
		"an unknown consumer": {"", []string{"render", "-f", examples + "launch-efa.yaml", "--for", "spot"}, []string{"must be auto-scaling-group"}},
		"an unknown form":     {"", []string{"explain", "-f", examples + "launch-efa.yaml", "-o", "xml"}, []string{"must be text, json or yaml"}},
		"no file":             {"", []string{"explain", "-f", "nowhere.yaml"}, []string{"nowhere.yaml"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, tc.input, tc.arguments...)
			for _, words := range tc.says {
				if err == nil || !strings.Contains(err.Error(), words) {
					t.Errorf("got %v, want something about %q", err, words)
				}
			}
		})
	}
}

// refused are mistakes that the API server refuses, with a part of its words. There are many more; config/crd tests them.
var refused = map[string]struct{ spec, says string }{
	"a required field":           {"userData: '#!/bin/sh'", "subnetSelector and securityGroupSelector are required"},
	"a rule in CEL":              {plain + "amiSelector: {aws-ids: \"ami-12345678, ami-12345679\"}", "amiSelector names the image itself"},
	"a pattern":                  {plain + "blockDeviceMappings: [{deviceName: a, ebs: {volumeSize: 500Mi}}]", "volumeSize"},
	"an enumeration":             {plain + "architecture: x86_64", `"amd64", "arm64"`},
	"a list's key":               {plain + "networkInterfaces: [{}, {deviceIndex: 0}]", "Duplicate value"},
	"a range":                    {plain + "metadataOptions: {httpPutResponseHopLimit: 65}", "less than or equal to 64"},
	"a type":                     {plain + "detailedMonitoring: 'yes'", "detailedMonitoring"},
	"a public address on one":    {plain + "networkInterfaces: [{associatePublicIPAddress: true}, {deviceIndex: 1}]", "only with a single network interface"},
	"an unknown field":           {plain + "instanceProfil: a", `unknown field "spec.instanceProfil"; see: kubectl explain awsnodetemplate.spec`},
	"a name that is not allowed": {plain + "architecture: amd64}, metadata: {name: A_B", "metadata.name"},
}

const plain = "subnetSelector: {a: b}, securityGroupSelector: {a: b}, "

// No command prints anything for an object that the API server would refuse.
func TestRulesOfTheAPIServerApplyOffline(t *testing.T) {
	for name, tc := range refused {
		t.Run(name, func(t *testing.T) {
			text := "{apiVersion: networking.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: x}, spec: {" + tc.spec + "}}"
			if strings.Contains(tc.spec, "metadata: {name") {
				text = strings.Replace(text, "metadata: {name: x}, ", "", 1)
			}
			for _, command := range []string{"render", "explain"} {
				out, _, err := run(t, text, command, "-f", "-")
				if err == nil || !strings.Contains(err.Error(), tc.says) || out != "" {
					t.Errorf("%s prints %q and fails with %v, want something about %q", command, out, err, tc.says)
				}
			}
		})
	}
}

// kubectl get awsnodetemplates -o yaml prints a List of all.
func TestAllOfAListAreRendered(t *testing.T) {
	list := clusterList("one", "two")
	t.Run("as text", func(t *testing.T) {
		out, _, err := run(t, list, "render", "-f", "-")
		if err != nil || strings.Count(out, "\n# any zone") != 2 {
			t.Errorf("error %v, printed %s", err, out)
		}
	})
	t.Run("for programs", func(t *testing.T) {
		out, _, err := run(t, list, "explain", "-f", "-", "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for decoder := json.NewDecoder(strings.NewReader(out)); decoder.More(); {
			var facts struct{ Name string }
			if err := decoder.Decode(&facts); err != nil {
				t.Fatal(err)
			}
			names = append(names, facts.Name)
		}
		if diff := cmp.Diff([]string{"one", "two"}, names); diff != "" {
			t.Errorf("names (-want +got):\n%s", diff)
		}
	})
	t.Run("one that is wrong does not hide the others", func(t *testing.T) {
		wrong := strings.Replace(list, "architecture: arm64", "architecture: x86_64", 1)
		out, _, err := run(t, wrong, "explain", "-f", "-")
		if err == nil || !strings.Contains(err.Error(), "standard input, item 1: AWSNodeTemplate one: ") || !strings.Contains(out, "AWSNodeTemplate two") {
			t.Errorf("error %v, printed %s", err, out)
		}
	})
	t.Run("and compared by name", func(t *testing.T) {
		old := filepath.Join(t.TempDir(), "old.yaml")
		if err := os.WriteFile(old, []byte(clusterList("two", "one")), 0o600); err != nil {
			t.Fatal(err)
		}
		out, _, err := run(t, strings.Replace(list, "#!/bin/sh", "#!/bin/bash", 1), "diff", "-f", "-", "--from", old)
		one, two, _ := strings.Cut(out, "AWSNodeTemplate two\n")
		if err != nil || !strings.Contains(one, "new version") || !strings.Contains(two, "stay as they are") {
			t.Errorf("error %v, printed %s", err, out)
		}
	})
}

// clusterList is a List of AWSNodeTemplates, as kubectl prints it.
func clusterList(names ...string) string {
	list := "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: \"\"}\nitems:\n"
	for _, name := range names {
		list += "- {apiVersion: networking.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: " + name + ", uid: u, generation: 1}, spec: {" +
			plain + "amiSelector: {aws-ids: ami-12345678}, architecture: arm64, userData: '#!/bin/sh'}}\n"
	}
	return list
}

func TestAFolderOfNodeTemplatesIsRead(t *testing.T) {
	out, _, err := run(t, "", "explain", "-f", "testdata/folder")
	if err != nil || !strings.Contains(out, "AWSNodeTemplate from-a-folder") {
		t.Errorf("error %v, printed %s", err, out)
	}
}

// What Karpenter reads as a pattern or a list is a plain tag here.
func TestSelectorsThatMeanThemselvesAreNoted(t *testing.T) {
	input := `{apiVersion: karpenter.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: x}, spec: {userData: '#!/bin/sh',
  subnetSelector: {Name: "*Public*"}, securityGroupSelector: {Name: "a,b", team: net}, amiSelector: {"aws::name": my-ami},
  networkInterfaces: [{}, {deviceIndex: 1, subnetSelector: {karpenter.sh/discovery: "*"}, securityGroupSelector: {aws-ids: "sg-12345678,sg-12345679"}}]}}`
	_, notes, err := run(t, input, "render", "-f", "-")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"note: x: apiVersion karpenter.k8s.aws/v1alpha1 is read as networking.k8s.aws/v1alpha1; write that to apply it to a cluster, where the other group is Karpenter's",
		"note: x: spec.subnetSelector: the value *Public* of Name means itself: there are no wildcards",
		"note: x: spec.securityGroupSelector: the value a,b of Name means itself: there are no lists of values",
		"note: x: spec.amiSelector: the key aws::name means a tag of this name; in an AWSNodeTemplate aws-ids lists IDs",
		"note: x: spec.networkInterfaces[1].subnetSelector: the value * of karpenter.sh/discovery means itself: there are no wildcards",
	}
	var got []string
	for line := range strings.Lines(notes) {
		if strings.HasPrefix(line, "note: ") {
			got = append(got, strings.TrimSpace(line))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// Consumers take fewer instance types than there are. The newest types are kept, and a warning lists the others.
func TestTypesThatAConsumerDoesNotTakeAreTold(t *testing.T) {
	input := `{apiVersion: networking.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: any}, spec: {
  subnetSelector: {a: b}, securityGroupSelector: {a: b}, amiSelector: {aws-ids: ami-12345678}, architecture: arm64,
  userData: '#!/bin/sh'}}`
	for consumer, most := range map[string]int{"auto-scaling-group": launchtemplate.MostGroupTypes, "fleet": launchtemplate.MostFleetTypes} {
		t.Run(consumer, func(t *testing.T) {
			out, warnings, err := run(t, input, "render", "-f", "-", "--for", consumer)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Count(out, `"InstanceType"`); got != most {
				t.Errorf("%d types, want %d", got, most)
			}
			if strings.Contains(out, `"m5.large"`) && consumer == "auto-scaling-group" {
				t.Error("a type of an older generation is kept while newer ones are left out")
			}
			for _, other := range []string{`"m7i.large"`, `"m8a.large"`} {
				if strings.Contains(out, other) {
					t.Errorf("%s is of another architecture", other)
				}
			}
			if !strings.Contains(warnings, "instance types are left out, since") || !strings.Contains(warnings, "spec.instanceTypes") {
				t.Errorf("warnings: %q", warnings)
			}
		})
	}
}

// A group has the tags from which Cluster Autoscaler knows what a node of it will have: the labels and the resources
// that the controller gives to such a node.
func TestTagsOfAGroupForClusterAutoscaler(t *testing.T) {
	const prefix = "k8s.io/cluster-autoscaler/node-template/"
	long := strings.Repeat("n", 60)
	spec := func(more string) string {
		return `{apiVersion: networking.k8s.aws/v1alpha1, kind: AWSNodeTemplate, metadata: {name: any}, spec: {
  subnetSelector: {a: b}, securityGroupSelector: {a: b}, amiSelector: {aws-ids: ami-12345678}, architecture: amd64,
  instanceTypes: {include: [m6i.xlarge]}, userData: '#!/bin/sh', ` + more + `}}`
	}
	for name, c := range map[string]struct {
		interfaces, warning string
		want                map[string]string
	}{
		"named interfaces": {
			"networkInterfaces: [{name: primary}, {name: n3, deviceIndex: 1}, {name: pods, deviceIndex: 2, management: CNI}, {deviceIndex: 3}]", "",
			map[string]string{
				"label/networking.k8s.aws/nodetemplate": "any", "label/networking.k8s.aws/interfaces": "4",
				"label/network.networking.k8s.aws/primary": "true", "label/network.networking.k8s.aws/n3": "true", "label/network.networking.k8s.aws/pods": "true",
				"resources/network.networking.k8s.aws/n3": "1",
			},
		},
		"no name": {
			"networkInterfaces: [{}]", "", map[string]string{"label/networking.k8s.aws/nodetemplate": "any", "label/networking.k8s.aws/interfaces": "1"},
		},
		"a name for no tag": {
			"networkInterfaces: [{}, {deviceIndex: 1, name: " + long + "}]", "resources/network.networking.k8s.aws/" + long + " is left out",
			map[string]string{"label/networking.k8s.aws/nodetemplate": "any", "label/networking.k8s.aws/interfaces": "2"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			out, warnings, err := run(t, spec(c.interfaces), "render", "-f", "-", "--for", "auto-scaling-group")
			if err != nil {
				t.Fatal(err)
			}
			var input struct {
				AutoScalingGroups []struct {
					Tags []struct {
						Key, Value        string
						PropagateAtLaunch *bool
					}
				}
			}
			if err := json.Unmarshal([]byte(out), &input); err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, tag := range input.AutoScalingGroups[0].Tags {
				got[strings.TrimPrefix(tag.Key, prefix)] = tag.Value
				if tag.PropagateAtLaunch == nil || *tag.PropagateAtLaunch {
					t.Errorf("instances get the tag %s", tag.Key)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("tags (-want +got):\n%s", diff)
			}
			if !strings.Contains(warnings, c.warning) {
				t.Errorf("warnings are %q, want %q", warnings, c.warning)
			}
		})
	}
}
