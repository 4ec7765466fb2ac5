# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

terraform {
  required_version = ">= 1.5"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.30"
    }
  }
}

provider "aws" {
  region = var.region
}

# The cluster, with a group of nodes on which the controller can run.
data "aws_eks_cluster" "this" {
  name = var.cluster_name
}

# The controller gets its credentials by EKS Pod Identity: a plan fails if the cluster lacks this add-on.
data "aws_eks_addon" "pod_identity" {
  cluster_name = var.cluster_name
  addon_name   = "eks-pod-identity-agent"
}
