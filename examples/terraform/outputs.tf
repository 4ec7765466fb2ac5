# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

output "values" {
  description = "Values of the chart."
  value = yamlencode({
    awsRegion    = var.region
    clusterName  = var.cluster_name
    instanceTags = ["kubernetes.io/cluster/${var.cluster_name}"]
  })
}

output "instance_profile" {
  description = "For spec.instanceProfile of an AWSNodeTemplate."
  value       = aws_iam_instance_profile.node.name
}
