// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/multieni/multieni/internal/aws/awsec2"
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
		Long: `Print an IAM policy with only the permissions that a component needs. With it, the component can
create interfaces only with the tag of the cluster, and change and tag only those that have it.

Components:
  controller           the controller
  node-templates       in addition to controller, for AWSNodeTemplates
  subnet-reservations  in addition to controller, for SubnetReservations
  operator             users of kubectl eni
  lifecycle-hook       the lifecycle hook
  eni-bootstrap        the role of nodes: each node can change only its own interfaces, and
                       attach them only to itself

With --cluster-name, as set for the controller, the role cannot change interfaces of other
clusters in the account. With a tag of the instances, subnets and security groups, the role is
limited to those.`,
		Example: `  multieni iam-policy controller --cluster-name prod --instance-tag kubernetes.io/cluster/prod=owned

  # the role of nodes that create their own interfaces, in two subnets
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
		"subnets in which interfaces may be created; any if empty")
	command.Flags().StringSliceVar(&o.SecurityGroupIDs, "security-group-ids", nil,
		"security groups that interfaces may have; any if empty")
	command.Flags().StringSliceVar(&o.LaunchTemplateIDs, "launch-template-ids", nil,
		"launch templates of your own from which node-templates may try a launch; only the cluster's if empty")
	command.Flags().StringSliceVar(&o.AutoScalingGroups, "auto-scaling-groups", nil,
		"names of the groups whose lifecycle actions lifecycle-hook may complete; any if empty")
	command.Flags().StringVar(&o.Partition, "partition", "",
		"partition of AWS in which alone the policy is valid: aws, aws-cn, aws-us-gov and so on; any if empty")
	return command
}
