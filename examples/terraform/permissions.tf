# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# The files are written by multieni iam-policy; see examples/README.md. Only AWSNodeTemplates need the second one.
locals {
  node_templates = "${path.module}/node-templates.json"
  policies = merge(
    { controller = file("${path.module}/controller.json") },
    fileexists(local.node_templates) ? { node-templates = file(local.node_templates) } : {},
  )
}

resource "aws_iam_policy" "controller" {
  for_each = local.policies
  name     = "multieni-${each.key}-${var.cluster_name}"
  policy   = each.value

  lifecycle {
    precondition {
      condition     = strcontains(each.value, "/networking.k8s.aws/cluster\": \"${var.cluster_name}\"")
      error_message = "${each.key}.json is not for cluster ${var.cluster_name}: write it as examples/README.md says."
    }
  }
}

resource "aws_iam_role" "controller" {
  name = "multieni-controller-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "pods.eks.amazonaws.com" }
      Action    = ["sts:AssumeRole", "sts:TagSession"]
    }]
  })
}

resource "aws_iam_role_policy_attachment" "controller" {
  for_each   = aws_iam_policy.controller
  role       = aws_iam_role.controller.name
  policy_arn = each.value.arn
}

# The namespace and the ServiceAccount are the chart's.
resource "aws_eks_pod_identity_association" "controller" {
  cluster_name    = var.cluster_name
  namespace       = "eni-controller-system"
  service_account = "eni-controller"
  role_arn        = aws_iam_role.controller.arn
}

# The role of the nodes has no permission for interfaces other than those of the VPC CNI.
resource "aws_iam_role" "node" {
  name = "multieni-node-${var.cluster_name}"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Principal = { Service = "ec2.amazonaws.com" }
      Action    = ["sts:AssumeRole"]
    }]
  })
}

data "aws_partition" "current" {}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy", "AmazonEC2ContainerRegistryReadOnly"])
  role       = aws_iam_role.node.name
  policy_arn = "arn:${data.aws_partition.current.partition}:iam::aws:policy/${each.value}"
}

# spec.instanceProfile of an AWSNodeTemplate.
resource "aws_iam_instance_profile" "node" {
  name = aws_iam_role.node.name
  role = aws_iam_role.node.name
}
