// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package launchtemplate holds the commands of multieni that show the result of an AWSNodeTemplate without calls to EC2
// or Kubernetes.
package launchtemplate

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
)

// New returns the command launch-template.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:     "launch-template",
		Aliases: []string{"lt"},
		Short:   "Show what the controller creates in EC2 for an AWSNodeTemplate, without a call to EC2",
		Long: `Show what the controller creates in EC2 for an AWSNodeTemplate: the launch templates, the
instance types that take its interfaces, and the effects of a change on running nodes. The
commands call neither EC2 nor Kubernetes, and change nothing.

The matches of a selector by tags are not known offline, so the output has the selector in angle
brackets. For a selector by ID (aws-ids), it has the IDs.

The commands refuse what the API server would refuse.`,
	}
	command.AddCommand(newRender(), newExplain(), newDiff())
	return command
}

// input is the flags that all commands have.
type input struct {
	file, source, cluster, kubernetes, output string
}

func (i *input) bind(command *cobra.Command) {
	flags := command.Flags()
	flags.StringVarP(&i.file, "filename", "f", "", "file or folder with AWSNodeTemplates; - for standard input")
	flags.StringVar(&i.source, "source", "",
		"file with the launch template that launchTemplateRef names: the output of aws ec2 "+
			"describe-launch-template-versions, or launch template data")
	flags.StringVar(&i.cluster, "cluster-name", "CLUSTER",
		"name of the cluster in names and tags: --cluster-name of the controller, or the UID of the namespace "+
			"kube-system")
	flags.StringVar(&i.kubernetes, "kubernetes-version", "1.35",
		"Kubernetes version of the image, if spec.cluster.version is not set")
	flags.StringVarP(&i.output, "output", "o", "text", "output format: text, json or yaml")
	_ = command.MarkFlagRequired("filename")
}

func (i *input) check() error {
	switch i.output {
	case "text", "json", "yaml":
		return nil
	default:
		return fmt.Errorf("-o is %q and must be text, json or yaml", i.output)
	}
}

// open opens a file named by a flag.
func open(command *cobra.Command, name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(command.InOrStdin()), nil
	}
	return os.Open(name)
}
