# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# What examples/terraform makes, with a provider that calls no AWS.

mock_provider "aws" {
  mock_data "aws_eks_cluster" {
    defaults = { vpc_config = [{ vpc_id = "vpc-0b1f1e5a2c3d4e5f6", cluster_security_group_id = "sg-0aa00000000000001" }] }
  }
  mock_data "aws_partition" {
    defaults = { partition = "aws-us-gov" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/made" }
  }
  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::123456789012:policy/made" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
  }
}

variables {
  region           = "us-east-1"
  cluster_name     = "prod"
  node_subnets     = ["subnet-0aa0000000000000a", "subnet-0aa0000000000000b"]
  multus_subnets   = { us-east-1a = "10.0.64.0/20", us-east-1b = "10.0.80.0/20" }
  launch_templates = { us-east-1a = { id = "lt-0aaaaaaaaaaaaaaaa", version = "7" } }
}

run "all" {
  command = apply

  assert {
    condition     = toset([for a in aws_iam_role_policy_attachment.controller : a.role]) == toset([aws_iam_role.controller.name])
    error_message = "The controller's role lacks its policies."
  }
  assert {
    condition     = [for name in sort(keys(aws_iam_policy.controller)) : name] == ["controller", "node-templates"]
    error_message = "The policies are not those of the files."
  }
  assert {
    condition = (aws_eks_pod_identity_association.controller.role_arn == aws_iam_role.controller.arn &&
      aws_eks_pod_identity_association.controller.namespace == "eni-controller-system" &&
    aws_eks_pod_identity_association.controller.service_account == "eni-controller")
    error_message = "The association is not that of the controller."
  }
  assert {
    condition     = alltrue([for a in aws_iam_role_policy_attachment.node : startswith(a.policy_arn, "arn:aws-us-gov:iam::aws:policy/")])
    error_message = "AWS's own policies are of another partition."
  }
  assert {
    condition     = [for t in aws_eks_node_group.multus.taint : "${t.key}:${t.effect}"] == ["networking.k8s.aws/not-ready:NO_SCHEDULE"]
    error_message = "The nodes lack the startup taint."
  }
  assert {
    condition     = aws_eks_node_group.multus.labels == tomap({ ng = "multi-eni" })
    error_message = "No NodeENI of the examples selects the nodes."
  }
  assert {
    condition     = aws_eks_node_group.multus.launch_template[0].version == "3"
    error_message = "The node group is not of the newest version."
  }
  assert {
    condition     = alltrue([for t in concat(values(aws_subnet.multus), [aws_security_group.multus]) : t.tags.network == "multus"])
    error_message = "examples/zones.yaml finds neither subnets nor security group."
  }
  assert {
    condition     = tomap({ for zone, s in aws_subnet.multus : zone => s.cidr_block }) == var.multus_subnets
    error_message = "The subnets are not those of the variable."
  }
  assert {
    condition = { for zone, g in aws_autoscaling_group.launched : zone => [
      g.availability_zones, g.mixed_instances_policy[0].launch_template[0].launch_template_specification[0].version,
      [for t in g.tag : "${t.key}=${t.value}" if t.propagate_at_launch],
    ] } == { us-east-1a = [toset(["us-east-1a"]), "7", ["kubernetes.io/cluster/prod=owned"]] }
    error_message = "The self-managed groups are not of the launch templates, or their instances lack the cluster's tag."
  }
  assert {
    condition = yamldecode(output.values) == {
      awsRegion = "us-east-1", clusterName = "prod", instanceTags = ["kubernetes.io/cluster/prod"]
    }
    error_message = "The values are not those of docs/getting-started-eks.md."
  }
}

run "policies_of_another_cluster" {
  command = plan
  variables {
    cluster_name = "production"
  }
  expect_failures = [aws_iam_policy.controller]
}
