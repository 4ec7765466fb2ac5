# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# A managed node group launches instances with one interface. The controller attaches those of NodeENIs to nodes.
resource "aws_launch_template" "multus" {
  name_prefix            = "${var.cluster_name}-multus-"
  update_default_version = true
  # EKS adds the cluster's security group only if a launch template has none.
  vpc_security_group_ids = [data.aws_eks_cluster.this.vpc_config[0].cluster_security_group_id]

  # Pods do not reach the role of their node.
  metadata_options {
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.cluster_name}-multus" }
  }
}

# EKS gives the instances the tag kubernetes.io/cluster/NAME=owned, which the policy and instanceTags require.
resource "aws_eks_node_group" "multus" {
  cluster_name    = var.cluster_name
  node_group_name = "multus"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.node_subnets
  instance_types  = ["m6i.xlarge"]
  labels          = { ng = "multi-eni" }

  # The controller removes it once the interfaces of the node are ready.
  taint {
    key    = "networking.k8s.aws/not-ready"
    effect = "NO_SCHEDULE"
  }

  launch_template {
    id      = aws_launch_template.multus.id
    version = aws_launch_template.multus.latest_version
  }

  scaling_config {
    min_size     = 2
    desired_size = 2
    max_size     = 6
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

# Self-managed groups launch instances with all of their interfaces, from the launch templates of an AWSNodeTemplate.
# These name the subnets, so a group names zones. EKS lets the nodes join, since their role is that of the managed node
# group.
resource "aws_autoscaling_group" "launched" {
  for_each           = var.launch_templates
  name               = "${var.cluster_name}-launched-${each.key}"
  availability_zones = [each.key]
  min_size           = 0
  max_size           = 6

  mixed_instances_policy {
    launch_template {
      launch_template_specification {
        launch_template_id = each.value.id
        version            = each.value.version
      }
      dynamic "override" {
        for_each = var.launch_instance_types
        content {
          instance_type = override.value
        }
      }
    }
  }

  tag {
    key                 = "kubernetes.io/cluster/${var.cluster_name}"
    value               = "owned"
    propagate_at_launch = true
  }

  lifecycle {
    ignore_changes = [desired_capacity]
  }

  depends_on = [aws_eks_node_group.multus]
}
