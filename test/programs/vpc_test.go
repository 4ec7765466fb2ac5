// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package programs_test

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/test/inputs"
	"github.com/multieni/multieni/test/size"
)

// interfaces returns the interfaces in the simulated AWS, and their attachments.
func interfaces(sim *awssim.Simulator) []string {
	var all []string
	for _, eni := range sim.State().NetworkInterfaces {
		where := "nowhere"
		if a := eni.Attachment; a != nil {
			where = fmt.Sprintf("at %s, device %d", a.InstanceID, a.DeviceIndex)
		}
		all = append(all, eni.NetworkInterfaceID+" "+where)
	}
	return all
}

// AWS's VPC resource controller and VPC CNI give an instance interfaces, addresses and prefixes, and remove all of
// them.
func TestVPCPrograms(t *testing.T) {
	size.NeedsLong(t, "its programs take minutes to install or build")
	const instance = "i-0a10000000000000a"
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "vpc", "-o", bin, "./...")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	if err := inputs.Files("vpc"); err != nil {
		t.Fatal(err)
	}
	for _, program := range []struct {
		name      string
		arguments []string
	}{
		{"resourcecontroller", []string{instance, "sg-0aa00000000000001"}},
		{"cni", nil},
	} {
		for _, speed := range speeds() {
			t.Run(fmt.Sprintf("%s, speed %g", program.name, speed), func(t *testing.T) {
				t.Parallel()
				sim, environment := simulate(t, speed)
				metadata := strings.Replace(endpoint(environment), "http://", "http://"+instance+"@", 1)
				environment = append(environment, "AWS_EC2_METADATA_SERVICE_ENDPOINT="+metadata, "AWS_VPC_K8S_CNI_LOG_FILE=stderr",
					"AWS_VPC_K8S_CNI_LOGLEVEL=INFO", "CLUSTER_NAME=demo")
				before := interfaces(sim)
				said := run(t, environment, filepath.Join(bin, program.name), program.arguments...)
				t.Log(said)
				if diff := cmp.Diff(before, interfaces(sim)); diff != "" {
					t.Errorf("interfaces before and after it:\n%s", diff)
				}
			})
		}
	}
}

// endpoint returns the URL of the simulated AWS in the environment of its clients.
func endpoint(environment []string) string {
	for _, variable := range environment {
		if url, is := strings.CutPrefix(variable, "AWS_ENDPOINT_URL="); is {
			return url
		}
	}
	return ""
}
