// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/awsec2"
)

func newIAMPolicy() *cobra.Command {
	var o awsec2.PolicyOptions
	var names []string
	for _, component := range awsec2.Components() {
		names = append(names, string(component))
	}
	command := &cobra.Command{
		Use:   "iam-policy COMPONENT",
		Short: "Print the IAM policy that a component needs",
		Long: `Print the IAM policy that a component needs, and not more: interfaces can be created, changed
and tagged only with the tag of the cluster, or if they carry it.

Components: controller, and node-templates beside it for AWSNodeTemplates; operator for those
who use kubectl eni; lifecycle-hook; and eni-bootstrap, for the role of nodes, which lets each
touch its own interfaces and attach them to nothing but itself.

Name the cluster, as the controller's --cluster-name does, and its role cannot touch the
interfaces of other clusters of the account.`,
		Example: `  multieni iam-policy controller --cluster-name prod

  # one policy for all clusters, if each has its EKS name as cluster name and EKS Pod Identity
  multieni iam-policy controller --cluster-name '${aws:PrincipalTag/eks-cluster-name}'`,
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: names,
		RunE: func(c *cobra.Command, args []string) error {
			policy, err := awsec2.Policy(awsec2.Component(args[0]), o)
			if err != nil {
				return err
			}
			fmt.Fprint(c.OutOrStdout(), string(policy))
			return nil
		},
	}
	command.Flags().StringVar(&o.Cluster, "cluster-name", "", "name of the cluster in the tags of its interfaces; any if empty")
	command.Flags().StringVar(&o.Partition, "partition", "aws", "partition of AWS: aws, aws-cn, aws-us-gov")
	return command
}
