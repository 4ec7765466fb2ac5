// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

var update = flag.Bool("update", false, "write testdata/terraform-aws.json; needs Terraform")

const (
	eksctlExample    = "../../examples/eksctl/cluster.yaml"
	terraformExample = "../../examples/terraform"
	// terraformSchema has the names that AWS's provider of Terraform knows of the example.
	terraformSchema = "testdata/terraform-aws.json"
)

// mistake is a change of an example that must be found, by a message with want.
type mistake struct{ file, right, wrong, want string }

// make writes the example with the mistake into a folder, until the end of the test.
func (m mistake) make(t *testing.T, example, folder string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(example, m.file))
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), m.right, m.wrong, 1)
	if changed == string(content) {
		t.Fatalf("%s has no %q", m.file, m.right)
	}
	write(t, filepath.Join(folder, m.file), []byte(changed))
	t.Cleanup(func() { write(t, filepath.Join(folder, m.file), content) })
}

func write(t *testing.T, file string, content []byte) {
	t.Helper()
	if err := os.WriteFile(file, content, 0o644); err != nil {
		t.Fatal(err)
	}
}

// provisioner builds a program of the module in provisioning.
func provisioner(t *testing.T, name string) string {
	t.Helper()
	if err := inputs.Files("provisioning"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), name)
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "provisioning", "-o", program, "./"+name)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	return program
}

// refused fails the test unless a program ends with an error that has a text.
func refused(t *testing.T, command *exec.Cmd, want string) {
	t.Helper()
	out, err := command.CombinedOutput()
	if said := strings.Join(strings.Fields(string(out)), " "); err == nil || !strings.Contains(said, want) {
		t.Errorf("%v: %v, want an error with %q:\n%s", command.Args, err, want, out)
	}
}

// eksctl accepts the cluster of the example, and the cluster is as docs/getting-started-eks.md says.
func TestEksctlExample(t *testing.T) {
	size.NeedsAll(t, "eksctl takes minutes to build")
	program := provisioner(t, "eksctl")
	read := exec.CommandContext(t.Context(), program, eksctlExample)
	var complaints bytes.Buffer
	read.Stderr = &complaints
	out, err := read.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", read.Args, err, complaints.String())
	}
	type group struct {
		Name   string
		Labels map[string]string
		Taints []map[string]string
	}
	var cluster struct {
		Addons []struct{ Name string }
		IAM    struct {
			PodIdentityAssociations []struct{ Namespace, ServiceAccountName string }
		}
		ManagedNodeGroups []group
	}
	if err := json.Unmarshal(out, &cluster); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(cluster.IAM.PodIdentityAssociations); got != "[{eni-controller-system eni-controller}]" {
		t.Errorf("credentials are for %s", got)
	}
	if got := fmt.Sprint(cluster.Addons); !strings.Contains(got, "eks-pod-identity-agent") {
		t.Errorf("the add-ons %s bring no credentials", got)
	}
	var groups []group
	for _, g := range cluster.ManagedNodeGroups {
		groups = append(groups, group{g.Name, map[string]string{"ng": g.Labels["ng"]}, g.Taints})
	}
	if diff := cmp.Diff([]group{
		{"system", map[string]string{"ng": ""}, nil},
		{"multus", map[string]string{"ng": "multi-eni"}, []map[string]string{{"key": v1alpha1.NotReadyTaint, "effect": "NoSchedule"}}},
	}, groups); diff != "" {
		t.Errorf("node groups (-want +got):\n%s", diff)
	}
	for name, m := range map[string]mistake{
		"a misspelt field":            {right: "taints:", wrong: "taint:", want: `unknown field "taint"`},
		"an effect of another API":    {right: "effect: NoSchedule", wrong: "effect: NO_SCHEDULE", want: "NO_SCHEDULE"},
		"a value of another type":     {right: "maxSize: 6", wrong: "maxSize: six", want: "maxSize"},
		"a kind that is none":         {right: "kind: ClusterConfig", wrong: "kind: Cluster", want: "want a ClusterConfig"},
		"more nodes than the maximum": {right: "minSize: 2", wrong: "minSize: 7", want: "nodes-min=7"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			m.file = filepath.Base(eksctlExample)
			m.make(t, filepath.Dir(eksctlExample), folder)
			refused(t, exec.CommandContext(t.Context(), program, filepath.Join(folder, m.file)), m.want)
		})
	}
}

// misspelt are mistakes in the Terraform example that Terraform and our own check find. The messages of the check say
// what is wrong in wrong.
var misspelt = map[string]mistake{
	"an argument":                {"nodes.tf", "node_group_name =", "nodegroup_name =", "nodegroup_name"},
	"an argument of a block":     {"nodes.tf", "http_tokens  ", "http_token  ", "http_token"},
	"a block":                    {"nodes.tf", "  taint {", "  taints {", "taints"},
	"a dynamic block":            {"nodes.tf", `dynamic "override"`, `dynamic "overrides"`, "overrides"},
	"a block that is missing":    {"nodes.tf", "scaling_config {", "update_config {", "scaling_config"},
	"a type of resource":         {"permissions.tf", `"aws_eks_pod_identity_association"`, `"aws_pod_identity_association"`, "aws_pod_identity_association"},
	"an argument that is needed": {"permissions.tf", `  service_account = "eni-controller"` + "\n", "", "service_account"},
	"a variable":                 {"outputs.tf", "var.region", "var.aws_region", "aws_region"},
	"a resource that is named":   {"permissions.tf", "aws_iam_role.controller.arn", "aws_iam_role.controllers.arn", "controllers"},
	"an attribute that is read":  {"nodes.tf", "aws_launch_template.multus.latest_version", "aws_launch_template.multus.newest_version", "newest_version"},
	"a data source's attribute":  {"permissions.tf", "current.partition", "current.partitions", "partitions"},
	"an argument of a variable":  {"variables.tf", "description =", "descriptions =", "descriptions"},
	"syntax":                     {"network.tf", "tags        = {", "tags        = [", "network.tf"},
}

// The names in the Terraform example are those that the provider knows. This needs no Terraform.
func TestTerraformExampleHasNamesOfTheProvider(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	program := provisioner(t, "terraform")
	if err := inputs.Files(terraformSchema); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), program, terraformSchema, terraformExample).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, m := range misspelt {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			if err := os.CopyFS(folder, os.DirFS(terraformExample)); err != nil {
				t.Fatal(err)
			}
			m.make(t, terraformExample, folder)
			refused(t, exec.CommandContext(t.Context(), program, terraformSchema, folder), m.want)
		})
	}
}

// Terraform with AWS's provider accepts the example, plans from it what docs/getting-started-eks.md says, and refuses
// it with a mistake or with the policy of another cluster.
func TestTerraformExample(t *testing.T) {
	size.NeedsAll(t, "its provider has hundreds of megabytes")
	if _, err := exec.LookPath("terraform"); err != nil {
		t.Skipf("terraform is not installed: %v", err)
	}
	dir, data := t.TempDir(), t.TempDir()
	for _, from := range []string{terraformExample, "testdata/example"} {
		if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
			t.Fatal(err)
		}
	}
	for _, component := range []awsec2.Component{awsec2.Controller, awsec2.NodeTemplates} {
		policy, err := awsec2.Policy(component, awsec2.PolicyOptions{Cluster: "prod", InstanceTag: "kubernetes.io/cluster/prod=owned"})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, string(component)+".json"), policy)
	}
	terraform := func(arguments ...string) *exec.Cmd {
		command := exec.CommandContext(t.Context(), "terraform", append([]string{"-chdir=" + dir}, arguments...)...)
		command.Env = append(os.Environ(), "CHECKPOINT_DISABLE=1", "TF_IN_AUTOMATION=1", "TF_DATA_DIR="+data)
		return command
	}
	if out, err := terraform("init", "-input=false", "-no-color").CombinedOutput(); err != nil {
		t.Skipf("the AWS provider of Terraform cannot be installed: %v\n%s", err, out)
	}
	for _, arguments := range []string{"validate", "fmt -check -diff", "test"} {
		if out, err := terraform(append(strings.Fields(arguments), "-no-color")...).CombinedOutput(); err != nil {
			t.Errorf("terraform %s: %v\n%s", arguments, err, out)
		}
	}
	t.Run("schema", func(t *testing.T) { schemaIs(t, terraform) })
	for name, m := range misspelt {
		t.Run(name, func(t *testing.T) {
			m.make(t, terraformExample, dir)
			refused(t, terraform("validate", "-no-color"), m.want)
		})
	}
}

// schema has the names of a provider, as the program provisioning/terraform reads them.
type schema struct {
	Provider  string            `json:"provider"`
	Resources map[string]*names `json:"resources"`
	Data      map[string]*names `json:"data"`
}

type names struct {
	Attributes map[string]string `json:"attributes"`
	Blocks     map[string]*names `json:"blocks,omitempty"`
	Min        int               `json:"min,omitempty"`
}

// printed is a block in what terraform providers schema -json prints.
type printed struct {
	Block struct {
		Attributes map[string]struct{ Required, Optional bool }
		BlockTypes map[string]struct {
			printed
			MinItems int `json:"min_items"`
		} `json:"block_types"`
	}
}

func (p printed) names(least int) *names {
	all := &names{Attributes: map[string]string{}, Blocks: map[string]*names{}, Min: least}
	for name, attribute := range p.Block.Attributes {
		switch {
		case attribute.Required:
			all.Attributes[name] = "required"
		case attribute.Optional:
			all.Attributes[name] = "optional"
		default:
			all.Attributes[name] = "computed"
		}
	}
	for name, inner := range p.Block.BlockTypes {
		all.Blocks[name] = inner.names(inner.MinItems)
	}
	return all
}

// schemaIs compares the file with the names of the provider with those of the provider that is installed, if both have
// the same version.
func schemaIs(t *testing.T, terraform func(...string) *exec.Cmd) {
	t.Helper()
	read := func(into any, arguments ...string) {
		t.Helper()
		out, err := terraform(arguments...).Output()
		if err == nil {
			err = json.Unmarshal(out, into)
		}
		if err != nil {
			t.Fatalf("terraform %v: %v", arguments, err)
		}
	}
	const provider = "registry.terraform.io/hashicorp/aws"
	var version struct {
		Selected map[string]string `json:"provider_selections"`
	}
	read(&version, "version", "-json")
	var all struct {
		Providers map[string]struct {
			Resources map[string]printed `json:"resource_schemas"`
			Data      map[string]printed `json:"data_source_schemas"`
		} `json:"provider_schemas"`
	}
	read(&all, "providers", "schema", "-json")
	has := schema{"hashicorp/aws " + version.Selected[provider], map[string]*names{}, map[string]*names{}}
	files, err := filepath.Glob(terraformExample + "/*.tf")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, used := range regexp.MustCompile(`(?m)^(resource|data) "(\w+)"`).FindAllStringSubmatch(string(content), -1) {
			if used[1] == "data" {
				has.Data[used[2]] = all.Providers[provider].Data[used[2]].names(0)
			} else {
				has.Resources[used[2]] = all.Providers[provider].Resources[used[2]].names(0)
			}
		}
	}
	text, err := json.MarshalIndent(has, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		write(t, terraformSchema, append(text, '\n'))
	}
	content, err := os.ReadFile(terraformSchema)
	if err != nil {
		t.Fatal(err)
	}
	var known schema
	if err := json.Unmarshal(content, &known); err != nil {
		t.Fatal(err)
	}
	if known.Provider != has.Provider {
		t.Skipf("%s has the names of %s, and %s is installed", terraformSchema, known.Provider, has.Provider)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(content)), string(text)); diff != "" {
		t.Errorf("%s (-want +got); write it with -update:\n%s", terraformSchema, diff)
	}
}
