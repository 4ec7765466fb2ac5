// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudformation_test

import (
	"archive/zip"
	"debug/elf"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/userdata"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

// A self-managed group is created with its hooks, so that no instance is launched before they exist. The function completes them
// when its configuration names them.
func TestASelfManagedGroupIsMadeWithItsHooks(t *testing.T) {
	group := read(t, "self-managed-group.yaml")
	properties := group.Resources["NodeGroup"].Properties
	if got := plain(properties["AutoScalingGroupName"]); got != "${NodeAutoScalingGroupName}" {
		t.Errorf("the group's name is %v; lifecycle-hook.yaml is deployed before it, and needs to know it", got)
	}
	values := map[string]string{"ClusterName": "c", "MultusSubnetsAz1": "subnet-1", "MultusSecurityGroupIds": "sg-1"}
	var names []string
	for _, parameter := range []string{"LaunchHookName", "TerminateHookName"} {
		names = append(names, group.Parameters[parameter].Default.(string))
	}
	values["LifecycleHooks"] = strings.Join(names, ",")
	p, err := lifecycle.ParseParameters(values)
	if err != nil {
		t.Fatal(err)
	}
	transitions := map[any]any{}
	for n, one := range properties["LifecycleHookSpecificationList"].([]any) {
		hook := one.(map[string]any)
		transitions[hook["LifecycleTransition"]] = hook["DefaultResult"]
		if !p.Owns(lifecycle.HookRef{Name: names[n]}) {
			t.Errorf("the function does not complete %s", names[n])
		}
	}
	want := map[any]any{"autoscaling:EC2_INSTANCE_LAUNCHING": "ABANDON", "autoscaling:EC2_INSTANCE_TERMINATING": "CONTINUE"}
	if diff := cmp.Diff(want, transitions); diff != "" {
		t.Errorf("hooks (-want +got):\n%s", diff)
	}
}

// The instances of a self-managed group have the tag that the function looks for, and user data that names their cluster.
func TestASelfManagedNodeJoinsItsCluster(t *testing.T) {
	data := read(t, "self-managed-group.yaml").Resources["LaunchTemplate"].Properties["LaunchTemplateData"].(map[string]any)
	tags := plain(data["TagSpecifications"]).([]any)[0].(map[string]any)["Tags"]
	want := []any{
		map[string]any{"Key": "${MultusTriggerTagKey}", "Value": "true"},
		map[string]any{"Key": "kubernetes.io/cluster/${EksClusterName}", "Value": "owned"},
	}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Errorf("tags (-want +got):\n%s", diff)
	}
	text := data["UserData"].(map[string]any)["Fn::Base64"].(map[string]any)["Fn::Sub"].([]any)[0].(string)
	for name, value := range map[string]string{
		"EksClusterName": "c", "EksEndpoint": "https://e", "EksCertificateAuthority": "ca", "EksServiceCidr": "10.100.0.0/16", "Flags": `"--v=2"`,
	} {
		text = strings.ReplaceAll(text, "${"+name+"}", value)
	}
	parts, err := userdata.Split(text)
	if err != nil || len(parts) != 2 || !strings.HasPrefix(parts[1].Kind, userdata.KindNodeConfig) {
		t.Fatalf("it has the parts %+v: %v", parts, err)
	}
	var node struct {
		Spec struct {
			Cluster map[string]string
			Kubelet struct{ Flags []string }
		}
	}
	if err := yaml.Unmarshal([]byte(parts[1].Body), &node); err != nil {
		t.Fatal(err)
	}
	cluster := map[string]string{"name": "c", "apiServerEndpoint": "https://e", "certificateAuthority": "ca", "cidr": "10.100.0.0/16"}
	if diff := cmp.Diff(cluster, node.Spec.Cluster); diff != "" || len(node.Spec.Kubelet.Flags) != 1 {
		t.Errorf("flags %v; cluster (-want +got):\n%s", node.Spec.Kubelet.Flags, diff)
	}
}

// Nodes of every template take packets that came by another interface than answers leave by, and so do the pods on them, whose
// network namespaces take the defaults of the node's.
func TestTheReversePathFilterIsOfTheTemplate(t *testing.T) {
	for _, name := range []string{"launch-template.yaml", "launch-template-bootstrap.yaml", "self-managed-group.yaml"} {
		made := read(t, name)
		data := made.Resources["LaunchTemplate"].Properties["LaunchTemplateData"].(map[string]any)["UserData"]
		text := data.(map[string]any)["Fn::Base64"].(map[string]any)["Fn::Sub"].([]any)[0].(string)
		filled := strings.NewReplacer("${ReversePathFilter}", made.Parameters["ReversePathFilter"].Default.(string), "${Flags}", "")
		parts, err := userdata.Split(filled.Replace(text))
		if err != nil || parts[0].Kind != `text/x-shellscript; charset="us-ascii"` {
			t.Fatalf("%s has the parts %+v: %v", name, parts, err)
		}
		for _, line := range []string{
			"net.ipv4.conf.default.rp_filter = 0\n", "net.ipv4.conf.all.rp_filter = 0\n", "\nsysctl -p /etc/sysctl.d/90-multus.conf\n",
		} {
			if !strings.Contains(parts[0].Body, line) {
				t.Errorf("%s does not say %q:\n%s", name, line, parts[0].Body)
			}
		}
	}
}

// The script uploads an archive that AWS Lambda can start, under the names that the template's parameters have.
func TestTheArchiveIsUploaded(t *testing.T) {
	size.NeedsAll(t, "it compiles the function as a release does")
	if _, err := exec.LookPath("zip"); err != nil {
		t.Skip("needs zip, as the script does")
	}
	folder := t.TempDir()
	aws := "#!/bin/sh\n[ \"$1 $2\" = 's3 cp' ] && cp \"$4\" \"" + folder + "/archive.zip\" && echo \"$5\" >\"" + folder + "/to\"\n"
	if err := os.WriteFile(filepath.Join(folder, "aws"), []byte(aws), 0o755); err != nil {
		t.Fatal(err)
	}
	err := errors.Join(inputs.Files("upload-lambda.sh"), inputs.Sources(t.Context(), "github.com/multieni/multieni/cmd/lifecycle-hook"))
	if err != nil {
		t.Fatal(err)
	}
	upload := exec.CommandContext(t.Context(), "./upload-lambda.sh", "my-bucket")
	upload.Env = append(os.Environ(), "PATH="+folder+string(filepath.ListSeparator)+os.Getenv("PATH"), "ARCHITECTURE=x86_64")
	if out, err := upload.CombinedOutput(); err != nil || !strings.Contains(string(out), "LambdaS3Bucket=my-bucket LambdaS3Key=lifecycle-hook.zip LambdaArchitecture=x86_64") {
		t.Fatalf("%v\n%s", err, out)
	}
	if to, err := os.ReadFile(filepath.Join(folder, "to")); err != nil || string(to) != "s3://my-bucket/lifecycle-hook.zip\n" {
		t.Errorf("uploaded to %s, %v", to, err)
	}
	archive, err := zip.OpenReader(filepath.Join(folder, "archive.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	// provided.al2023 starts the file of this name, which must be allowed to run.
	if len(archive.File) != 1 || archive.File[0].Name != "bootstrap" || archive.File[0].Mode()&0o111 == 0 {
		t.Fatalf("the archive holds %v", archive.File)
	}
	program := filepath.Join(folder, "bootstrap")
	extract(t, archive.File[0], program)
	file, err := elf.Open(program)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if file.Machine != elf.EM_X86_64 {
		t.Errorf("the program is for %s", file.Machine)
	}

	upload = exec.CommandContext(t.Context(), "./upload-lambda.sh")
	if out, err := upload.CombinedOutput(); err == nil || !strings.Contains(string(out), "name the bucket") {
		t.Errorf("without a bucket: %v\n%s", err, out)
	}
}

func extract(t *testing.T, from *zip.File, to string) {
	t.Helper()
	in, err := from.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	text, err := io.ReadAll(in)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, text, 0o755); err != nil {
		t.Fatal(err)
	}
}
