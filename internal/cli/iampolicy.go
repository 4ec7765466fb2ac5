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

Components: controller, and in addition node-templates for AWSNodeTemplates, and
subnet-reservations for SubnetReservations; operator for users of kubectl eni;
lifecycle-hook; and eni-bootstrap, for the role of nodes, which lets each touch its own
interfaces and attach them to nothing but itself.

Name the cluster, as the controller's --cluster-name does, and its role cannot touch the
interfaces of other clusters of the account. Name a tag of its instances, its subnets and security
groups, and the role reaches nothing beyond them.`,
		Example: `  multieni iam-policy controller --cluster-name prod --instance-tag kubernetes.io/cluster/prod=owned

  # the role of nodes that give themselves their interfaces, in two subnets
  multieni iam-policy eni-bootstrap --cluster-name prod --subnet-ids subnet-a,subnet-b --security-group-ids sg-1

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
	command.Flags().StringVar(&o.Cluster, "cluster-name", "",
		"name of the cluster in the tags of its interfaces; any if empty")
	command.Flags().StringVar(&o.InstanceTag, "instance-tag", "",
		"KEY=VALUE of the instances that interfaces may be attached to; any instance if empty")
	command.Flags().StringSliceVar(&o.SubnetIDs, "subnet-ids", nil,
		"subnets in which interfaces may be made; any if empty")
	command.Flags().StringSliceVar(&o.SecurityGroupIDs, "security-group-ids", nil,
		"security groups that interfaces may have; any if empty")
	command.Flags().StringSliceVar(&o.AutoScalingGroups, "auto-scaling-groups", nil,
		"names of the groups whose lifecycle actions lifecycle-hook may complete; any if empty")
	command.Flags().StringVar(&o.Partition, "partition", "aws", "partition of AWS: aws, aws-cn, aws-us-gov")
	return command
}
