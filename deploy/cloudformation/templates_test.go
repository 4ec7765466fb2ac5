// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cloudformation_test checks the CloudFormation templates as far as that is possible without AWS: what they refer to
// exists, and the function may call what it calls.
package cloudformation_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/userdata"
	"github.com/multieni/multieni/internal/join/joinconfig"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// template is a template as CloudFormation reads it.
type template struct {
	AWSTemplateFormatVersion, Description string
	Parameters                            map[string]struct {
		Type, Description, AllowedPattern string
		Default                           any
		AllowedValues                     []any
	}
	Conditions, Outputs map[string]any
	Resources           map[string]struct {
		Type       string
		DependsOn  any
		Properties map[string]any
	}
}

func read(t *testing.T, path string) template {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var parsed template
	if err := yaml.UnmarshalStrict(text, &parsed); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return parsed
}

func all(t *testing.T) map[string]template {
	t.Helper()
	paths, err := filepath.Glob("*.yaml")
	if err != nil || len(paths) != 5 {
		t.Fatalf("%d templates, %v", len(paths), err)
	}
	templates := map[string]template{}
	for _, path := range paths {
		templates[path] = read(t, path)
	}
	return templates
}

// references collects the names that a part of a template refers to.
func references(part any, to map[string]bool) {
	switch part := part.(type) {
	case []any:
		for _, one := range part {
			references(one, to)
		}
	case map[string]any:
		for key, value := range part {
			text, isText := value.(string)
			list, isList := value.([]any)
			switch {
			case key == "Ref" && isText, key == "Condition" && isText:
				to[text] = true
			case key == "Fn::GetAtt" && isList:
				to[list[0].(string)] = true
			case key == "Fn::If" && isList:
				to[list[0].(string)] = true
			case key == "Fn::Sub" && isText:
				substitutes(text, nil, to)
			case key == "Fn::Sub" && isList:
				substitutes(list[0].(string), list[1].(map[string]any), to)
			}
			references(value, to)
		}
	}
}

var variable = regexp.MustCompile(`\$\{([^!}][^}]*)\}`)

func substitutes(text string, own map[string]any, to map[string]bool) {
	for _, found := range variable.FindAllStringSubmatch(text, -1) {
		name, _, _ := strings.Cut(found[1], ".")
		if _, local := own[name]; !local && !strings.HasPrefix(found[1], "AWS::") {
			to[name] = true
		}
	}
}

func TestWhatTemplatesReferToExists(t *testing.T) {
	for name, parsed := range all(t) {
		t.Run(name, func(t *testing.T) {
			used := map[string]bool{}
			for _, r := range parsed.Resources {
				if !regexp.MustCompile(`^AWS::\w+::\w+$`).MatchString(r.Type) {
					t.Errorf("type %q", r.Type)
				}
				references(r.Properties, used)
				if on, ok := r.DependsOn.(string); ok {
					used[on] = true
				}
			}
			references(parsed.Outputs, used)
			references(parsed.Conditions, used)
			for reference := range used {
				_, parameter := parsed.Parameters[reference]
				_, resource := parsed.Resources[reference]
				_, condition := parsed.Conditions[reference]
				if !parameter && !resource && !condition && !strings.HasPrefix(reference, "AWS::") {
					t.Errorf("there is no %s", reference)
				}
			}
			for parameter := range parsed.Parameters {
				if !used[parameter] {
					t.Errorf("parameter %s is not used", parameter)
				}
			}
		})
	}
}

// The function receives the template's parameters under the same names, and understands them.
func TestTheFunctionUnderstandsItsParameters(t *testing.T) {
	hook := read(t, "lifecycle-hook.yaml")
	variables := hook.Resources["Function"].Properties["Environment"].(map[string]any)["Variables"].(map[string]any)
	values := map[string]string{}
	for name := range variables {
		if len(joinconfig.Parameters(map[string]string{name: ""})) == 0 {
			t.Errorf("the function does not know %s", name)
		}
		if text, ok := hook.Parameters[name].Default.(string); ok {
			values[name] = text
		}
	}
	values["ClusterName"], values["MultusSubnetsAz1"], values["MultusSecurityGroupIds"] = "c", "subnet-1", "sg-1"
	p, err := lifecycle.ParseParameters(values)
	if err != nil || p.Trigger.TagKey != "multus-ng" || p.Networks[0].IPv4Allocation != lifecycle.LowestFree {
		t.Errorf("%+v, %v", p, err)
	}
}

// plain is part of a template as CloudFormation hands it to AWS when every parameter has its own name, in ${}, as value.
func plain(v any) any {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["Fn::Sub"].(string); ok {
			return text
		}
		if name, ok := v["Ref"].(string); ok {
			return "${" + name + "}"
		}
		made := map[string]any{}
		for key, value := range v {
			made[key] = plain(value)
		}
		return made
	case []any:
		var made []any
		for _, value := range v {
			made = append(made, plain(value))
		}
		return made
	default:
		return v
	}
}

// printed is what `multieni iam-policy` prints, for the place of a template.
func printed(t *testing.T, component awsec2.Component, o awsec2.PolicyOptions) any {
	t.Helper()
	o.Partition, o.Cluster = "aws", "${ClusterName}"
	text, err := awsec2.Policy(component, o)
	if err != nil {
		t.Fatal(err)
	}
	var policy any
	if err := json.Unmarshal(bytes.ReplaceAll(text, []byte("arn:aws:"), []byte("arn:${AWS::Partition}:")), &policy); err != nil {
		t.Fatal(err)
	}
	return policy
}

// Nodes get the policy that is printed: a node can touch its own interfaces, in the subnets and with the groups of the template,
// and attach them to nothing but itself.
func TestNodesMayDoWhatIsPrinted(t *testing.T) {
	policy := read(t, "launch-template-bootstrap.yaml").Resources["NodePolicy"].Properties["PolicyDocument"]
	want := printed(t, awsec2.Bootstrap, awsec2.PolicyOptions{SubnetIDs: []string{"${MultusSubnets}"}, SecurityGroupIDs: []string{"${MultusSecurityGroupIds}"}})
	listed := plain(policy).(map[string]any)
	for _, s := range listed["Statement"].([]any) { // parameters that are lists
		conditions, _ := s.(map[string]any)["Condition"].(map[string]any)
		equals, _ := conditions["StringEquals"].(map[string]any)
		for _, key := range []string{"ec2:SubnetID", "ec2:SecurityGroupID"} {
			if value, ok := equals[key]; ok {
				equals[key] = []any{value}
			}
		}
	}
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("(-printed +template):\n%s", diff)
	}
}

// So does the function, which takes events from its own queue only.
func TestTheFunctionMayDoWhatIsPrinted(t *testing.T) {
	role := read(t, "lifecycle-hook.yaml").Resources["Role"].Properties
	want := printed(t, awsec2.LifecycleHook, awsec2.PolicyOptions{})
	for _, s := range want.(map[string]any)["Statement"].([]any) {
		switch statement := s.(map[string]any); statement["Sid"] {
		case "TakeEvents":
			statement["Resource"] = []any{map[string]any{"Fn::GetAtt": []any{"Events", "Arn"}}}
		case "CompleteHooks": // TestTheFunctionCompletesHooksOfItsGroups judges them
			statement["Resource"] = plain(completed(t))
		}
	}
	if diff := cmp.Diff(want, plain(role["Policies"].([]any)[0].(map[string]any)["PolicyDocument"])); diff != "" {
		t.Errorf("(-printed +template):\n%s", diff)
	}
}

// The function completes lifecycle actions of the template's groups only, in every partition.
func TestTheFunctionCompletesHooksOfItsGroups(t *testing.T) {
	got := evaluated(completed(t), map[string]any{"AutoScalingGroupNames": []any{"upf", "smf"}})
	arn := "arn:*:autoscaling:*:*:autoScalingGroup:*:autoScalingGroupName/"
	if diff := cmp.Diff([]any{arn + "upf", arn + "smf"}, got); diff != "" {
		t.Error(diff)
	}
}

// A template is for each partition: an ARN in it takes the partition from the stack, or has a wildcard.
func TestTemplatesAreForEveryPartition(t *testing.T) {
	paths, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	arn := regexp.MustCompile(`arn:(\$\{AWS::Partition\}|[^:]+):`)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range arn.FindAllStringSubmatch(string(text), -1) {
			if found[1] != "${AWS::Partition}" && found[1] != "*" {
				t.Errorf("%s has %s", path, found[0])
			}
		}
	}
}

// completed returns the resources of the statement CompleteHooks.
func completed(t *testing.T) any {
	t.Helper()
	role := read(t, "lifecycle-hook.yaml").Resources["Role"].Properties
	document := role["Policies"].([]any)[0].(map[string]any)["PolicyDocument"].(map[string]any)
	for _, s := range document["Statement"].([]any) {
		if statement := s.(map[string]any); statement["Sid"] == "CompleteHooks" {
			return statement["Resource"]
		}
	}
	t.Fatal("there is no statement CompleteHooks")
	return nil
}

// evaluated is a value as CloudFormation makes it of Ref, Fn::Join and Fn::Split.
func evaluated(v any, parameters map[string]any) any {
	function, ok := v.(map[string]any)
	if !ok {
		return v
	}
	if name, ok := function["Ref"].(string); ok {
		return parameters[name]
	}
	if arguments, ok := function["Fn::Join"].([]any); ok {
		var parts []string
		for _, part := range evaluated(arguments[1], parameters).([]any) {
			parts = append(parts, evaluated(part, parameters).(string))
		}
		return strings.Join(parts, arguments[0].(string))
	}
	arguments := function["Fn::Split"].([]any)
	var parts []any
	for part := range strings.SplitSeq(evaluated(arguments[1], parameters).(string), arguments[0].(string)) {
		parts = append(parts, part)
	}
	return parts
}

// The queue takes messages of the template's own rules, of its own account, and over TLS only.
func TestTheQueueTakesEventsOfItsRules(t *testing.T) {
	policy := read(t, "lifecycle-hook.yaml").Resources["EventsPolicy"].Properties["PolicyDocument"].(map[string]any)
	statements := plain(policy["Statement"]).([]any)
	allow := statements[0].(map[string]any)["Condition"].(map[string]any)
	if got := allow["StringEqualsIfExists"]; !cmp.Equal(got, map[string]any{"aws:SourceAccount": "${AWS::AccountId}"}) || allow["ArnEquals"] == nil {
		t.Errorf("messages are taken under %v", allow)
	}
	deny := statements[1].(map[string]any)
	if deny["Effect"] != "Deny" || deny["Principal"] != "*" || !cmp.Equal(deny["Condition"], map[string]any{"Bool": map[string]any{"aws:SecureTransport": "false"}}) {
		t.Errorf("the second statement is %v, want a refusal of what is not encrypted", deny)
	}
}

// Each method of the interfaces is a call, and an action of the same name.
func TestTheFunctionMayCallWhatItCalls(t *testing.T) {
	called := []string{"sqs:GetQueueAttributes"} // by Lambda itself
	for prefix, api := range map[string]reflect.Type{
		"ec2:": reflect.TypeFor[awsec2.API](), "autoscaling:": reflect.TypeFor[lifecyclehook.ScalingAPI](), "sqs:": reflect.TypeFor[lifecyclehook.Queue](),
	} {
		for method := range api.Methods() {
			called = append(called, prefix+method.Name)
		}
	}
	slices.Sort(called)
	var allowed []string
	for _, s := range printed(t, awsec2.LifecycleHook, awsec2.PolicyOptions{}).(map[string]any)["Statement"].([]any) {
		for _, action := range s.(map[string]any)["Action"].([]any) {
			allowed = append(allowed, action.(string))
		}
	}
	slices.Sort(allowed)
	if diff := cmp.Diff(called, slices.Compact(allowed)); diff != "" {
		t.Errorf("(-called +allowed):\n%s", diff)
	}
}

// Launches of other groups never come to the function.
func TestTheRuleIsOfTheGroups(t *testing.T) {
	pattern := plain(read(t, "lifecycle-hook.yaml").Resources["LifecycleRule"].Properties["EventPattern"]).(map[string]any)
	if got := pattern["detail"].(map[string]any)["AutoScalingGroupName"]; got != "${AutoScalingGroupNames}" {
		t.Errorf("the rule is for %v", got)
	}
}

// Nodes refuse questions to their metadata without a token, and no answer with one reaches pods.
func TestNodesWantTokens(t *testing.T) {
	for _, name := range []string{"launch-template.yaml", "launch-template-bootstrap.yaml", "self-managed-group.yaml"} {
		data := read(t, name).Resources["LaunchTemplate"].Properties["LaunchTemplateData"].(map[string]any)
		if diff := cmp.Diff(map[string]any{"HttpTokens": "required", "HttpPutResponseHopLimit": 1.0}, data["MetadataOptions"]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// The user data holds parameters that eni-bootstrap takes, in the form of systemd's environment files, and a NodeConfig.
func TestTheUserDataHoldsAConfiguration(t *testing.T) {
	data := read(t, "launch-template-bootstrap.yaml").Resources["LaunchTemplate"].Properties["LaunchTemplateData"].(map[string]any)["UserData"]
	text := data.(map[string]any)["Fn::Base64"].(map[string]any)["Fn::Sub"].([]any)[0].(string)
	for name, value := range map[string]string{
		"ClusterName": "c", "MultusTriggerTagKey": "multus-ng", "Subnets": "subnet-1,subnet-2", "Groups": "sg-1", "MultusInterfaceTags": "cnf=upf,team=core network",
		"useIPsFromStartOfSubnet": "true", "Need": "RequiredBy", "Flags": `"--v=2"`, "OnFailure": "fail", "BootstrapSha256": "0", "ReversePathFilter": "0", "BootstrapUrl": "https://x",
	} {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	if len(text) > 16*1024 {
		t.Errorf("%d bytes of user data", len(text))
	}
	parts, err := userdata.Split(text)
	if err != nil || len(parts) != 2 || !strings.HasPrefix(parts[1].Kind, userdata.KindNodeConfig) {
		t.Fatalf("it has the parts %+v: %v", parts, err)
	}
	if left := variable.FindString(parts[0].Body + parts[1].Body); left != "" {
		t.Errorf("nothing puts in %s", left)
	}
	var node struct {
		Spec struct{ Kubelet struct{ Flags []string } }
	}
	if err := yaml.Unmarshal([]byte(parts[1].Body), &node); err != nil || !slices.Equal(node.Spec.Kubelet.Flags, []string{"--v=2"}) {
		t.Errorf("the kubelet's flags are %v: %v", node.Spec.Kubelet.Flags, err)
	}
	_, rest, _ := strings.Cut(parts[0].Body, "/etc/multieni/parameters <<'END'\n")
	rest, _, _ = strings.Cut(rest, "END\n")
	p, err := lifecycle.ParseParameters(joinconfig.Environment(strings.Split(strings.ReplaceAll(rest, `"`, ""), "\n")))
	if err != nil || len(p.Networks) != 1 {
		t.Fatalf("%+v, %v", p, err)
	}
	if n := p.Networks[0]; len(n.SubnetIDs) != 2 || *n.SourceDestCheck || !n.IPv6 || n.IPv4Allocation != lifecycle.LowestFree || n.Tags["team"] != "core network" {
		t.Errorf("the network is %+v", n)
	}
}
