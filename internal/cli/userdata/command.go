// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package userdata holds the commands of multieni that generate EC2 user data, without calls to EC2 or Kubernetes.
package userdata

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/core/userdata"
	"github.com/multieni/multieni/internal/join/joinconfig"
)

// New returns the command userdata.
func New() *cobra.Command {
	command := &cobra.Command{
		Use:   "userdata",
		Short: "Generate user data for nodes that create their own interfaces",
		Long: `Generate EC2 user data for nodes that create their own interfaces while they boot. The command
calls neither EC2 nor Kubernetes.`,
	}
	command.AddCommand(newRender())
	return command
}

// input is the flags of render.
type input struct {
	boot                          userdata.Bootstrap
	family, config, merge, output string
}

func newRender() *cobra.Command {
	var in input
	command := &cobra.Command{
		Use:   "render",
		Short: "Print user data that starts eni-bootstrap before the kubelet",
		Long: `Print user data for a launch template. Nodes that are launched with it run eni-bootstrap
before their kubelet, at every boot. The kubelet does not start while a required network
is missing, unless --on-failure allows it.

One of these flags names the source of the networks:
  --config         a file of networks, which is validated and included in the user data
  --ssm-parameter  an SSM parameter with such a file, which can change without a new launch
                   template
  --instance-tags  parameters in the tags of each instance; the launch template must enable
                   instance tags in metadata

--family selects how a node starts:
  AL2           a script before /etc/eks/bootstrap.sh; kubelet.service requires multieni's unit
  AL2023        a script; nodeadm-run.service, which starts the kubelet, requires multieni's unit
  Bottlerocket  settings in TOML; a bootstrap container of --image does the work. There is no
                shell: scripts cannot be merged, the node cannot get labels or a taint for the
                result, and --on-failure must be fail or continue. The image's entrypoint must be
                  eni-bootstrap --config=/.bottlerocket/bootstrap-containers/current/user-data
                    --state-dir=/.bottlerocket/bootstrap-containers/current

--merge adds your own user data after multieni's: for Amazon Linux a script, #cloud-config or
another form of cloud-init, a NodeConfig, or a MIME message of several; for Bottlerocket settings
in TOML. Your values have precedence. EC2 takes 16384 bytes in all.

In a managed node group, EKS adds what a node needs to join. Self-managed nodes and custom images
need --cluster-name and the other flags of the cluster, or the same in your own user data.`,
		Example: `  # nodes download the program, and do not join without their networks
  multieni userdata render --family AL2023 --config networks.yaml \
    --program-url https://example.com/eni-bootstrap --program-sha256 $(sha256sum eni-bootstrap | cut -d' ' -f1)

  # the program is in the image; nodes also run my-script.sh
  multieni userdata render --family AL2 --config networks.yaml --on-failure taint --merge my-script.sh

  # as aws ec2 create-launch-template takes it
  multieni userdata render --family AL2023 --ssm-parameter /multus/networks -o base64`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return in.run(c.InOrStdin(), c.OutOrStdout()) },
	}
	in.bind(command)
	return command
}

func (in *input) bind(command *cobra.Command) {
	f := command.Flags()
	f.StringVar(&in.family, "family", string(userdata.AL2023), "family of the image: AL2, AL2023 or Bottlerocket")
	f.StringVar(&in.config, "config", "", "file with the networks of the nodes, in YAML or JSON; - for standard input")
	f.StringVar(&in.boot.SSMParameter, "ssm-parameter", "", "name of an SSM parameter with the content of such a file")
	f.BoolVar(&in.boot.InstanceTags, "instance-tags", false, "nodes read the parameters from their tags")
	f.StringVar(&in.boot.ProgramURL, "program-url", "",
		"URL from which nodes download eni-bootstrap; if empty, the image must have it")
	f.StringVar(&in.boot.ProgramSHA256, "program-sha256", "", "SHA-256 of the program, in hexadecimal")
	f.StringVar(&in.boot.Image, "image", "", "container image of eni-bootstrap, for Bottlerocket")
	f.StringVar(&in.boot.OnFailure, "on-failure", userdata.Fail,
		"action of a node without a required network: fail (its kubelet does not start), taint or continue")
	f.StringVar(&in.merge, "merge", "", "file with your own user data; - for standard input")
	f.StringVar(&in.boot.Cluster.ClusterName, "cluster-name", "", "name of the cluster that self-managed nodes join")
	f.StringVar(&in.boot.Cluster.Endpoint, "cluster-endpoint", "", "URL of the API server of the cluster")
	f.StringVar(&in.boot.Cluster.CA, "certificate-authority", "", "certificate authority of the cluster, as base64 of PEM")
	f.StringVar(&in.boot.Cluster.ServiceCIDR, "service-cidr", "", "service CIDR of the cluster")
	f.StringVar(&in.boot.Cluster.ClusterDNS, "cluster-dns", "",
		"IP address of the DNS service of the cluster; if empty, the one that the image derives")
	f.StringVarP(&in.output, "output", "o", "text", "output format: text, or base64 as in launch templates")
}

func (in *input) run(stdin io.Reader, out io.Writer) error {
	if in.output != "text" && in.output != "base64" {
		return fmt.Errorf("-o is %q and must be text or base64", in.output)
	}
	if in.config == "-" && in.merge == "-" {
		return errors.New("--config and --merge cannot both be standard input")
	}
	b := in.boot
	b.Family = familyOf(in.family)
	var err error
	if b.Networks, err = read(in.config, stdin); err != nil {
		return err
	}
	if b.User, err = read(in.merge, stdin); err != nil {
		return err
	}
	if in.config != "" {
		if _, err := joinconfig.Document("--config="+in.config, []byte(b.Networks)); err != nil {
			return err
		}
	}
	text, err := b.Render()
	if err != nil {
		return err
	}
	if in.output == "base64" {
		text = base64.StdEncoding.EncodeToString([]byte(text)) + "\n"
	}
	_, err = io.WriteString(out, text)
	return err
}

// familyOf returns the family of a name, in upper or lower case.
func familyOf(name string) userdata.Family {
	known := userdata.Families()
	if n := slices.IndexFunc(known, func(f userdata.Family) bool { return strings.EqualFold(name, string(f)) }); n >= 0 {
		return known[n]
	}
	return userdata.Family(name)
}

// read reads a file named by a flag. Without a name it returns no text.
func read(name string, stdin io.Reader) (string, error) {
	var text []byte
	var err error
	switch name {
	case "":
	case "-":
		text, err = io.ReadAll(stdin)
	default:
		text, err = os.ReadFile(name)
	}
	return string(text), err
}
