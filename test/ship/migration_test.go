// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
)

const predecessor = "test/ship/testdata/predecessor"

// A cluster migrates from the aws-multi-eni-controller with the commands of docs/migration.md, in their order. No call
// changes its live interface.
func TestMigration(t *testing.T) {
	s := newSite(t)
	for name, there := range map[string]struct {
		install func(s *site)
		taking  []string
		forget  func(s *site)
	}{
		"from its chart": {
			// The other case may have left roles of the predecessor in the cluster.
			install: func(s *site) { s.helm("install", "my-release", predecessor, "--take-ownership") },
			taking:  []string{"--take-ownership"},
			forget:  func(s *site) { s.kubectl("delete", "secret", "-n", "default", "-l", "owner=helm,name=my-release") },
		},
		"from its manifests": {
			install: func(s *site) { s.kubectl("apply", "-f", predecessor+"/crds", "-f", predecessor+"/templates") },
			taking:  []string{"--take-ownership", "--force-conflicts"},
			forget:  func(*site) {},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := s.at(t)
			s.forgetDefinitions() // the cluster of tests has them
			there.install(s)
			s.kubectl("apply", "-f", "examples/single-subnet.yaml")
			s.kubectl("label", "--overwrite", "node", s.node(), "ng=multi-eni")
			id := s.legacyInterface()

			s.kubectl("delete", "-n", "eni-controller-system", "deployment/eni-controller", "daemonset/eni-manager")
			s.multieni("import", "--yes")
			s.helm(append([]string{"install", release, s.packaged(chart, "0.1.0"), "--set", "awsRegion=us-east-1"}, there.taking...)...)
			there.forget(s)
			s.runAll()

			s.eventually("the NodeENI shows the interface that was there", func() bool {
				return s.kubectl("get", "nodeeni", nodeENI, "-o", "jsonpath={.status.attachments[*].eniID}") == id
			})
			if s.owned(id) != "attached" {
				t.Errorf("%s is %q", id, s.owned(id))
			}
			s.runJobs()
			s.helm("uninstall", release)
			s.stop()
			s.nothingIsLeft()
		})
	}
}

// legacyInterface makes and attaches an interface as the aws-multi-eni-controller does, and returns its ID.
func (s *site) legacyInterface() string {
	s.Helper()
	ec2 := awsec2.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(s.Endpoint), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, awsec2.Options{})
	made, err := ec2.CreateInterface(s.Context(), executor.CreateRequest{
		Token: s.Name(), SubnetID: "subnet-0f59b4f14737be9ad", Groups: []string{"sg-05da196f3314d4af8"},
		Tags: map[string]string{importer.TagManagedBy: importer.ManagedBy, importer.TagNodeENI: nodeENI, importer.TagNode: s.node()},
	})
	s.must(err)
	for _, instance := range s.Simulator.State().Instances {
		if instance.Tags[identity.TagName] == s.node() {
			_, err := ec2.AttachInterface(s.Context(), made.ID, instance.InstanceID, eni.Slot{Device: 2})
			s.must(err)
		}
	}
	s.eventually("the interface is attached", func() bool { return s.owned(made.ID) == "attached" })
	return made.ID
}

// multieni runs the program of the image as a user does, with credentials for the cluster and AWS.
func (s *site) multieni(args ...string) string {
	s.Helper()
	command := exec.CommandContext(s.Context(), s.image.program("multieni"), args...)
	command.Dir = root
	command.Env = append(os.Environ(), append(s.Env(), "KUBECONFIG="+s.Kubeconfig)...)
	out, err := command.CombinedOutput()
	if err != nil {
		s.Fatalf("multieni %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
