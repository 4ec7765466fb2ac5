# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

variable "region" {
  type        = string
  description = "AWS region of the cluster."
}

variable "cluster_name" {
  type        = string
  description = "Name of the EKS cluster, and the name in the tags of its interfaces."
}

variable "node_subnets" {
  type        = list(string)
  description = "IDs of the subnets of the nodes' primary interfaces."
}

variable "multus_subnets" {
  type        = map(string)
  description = "CIDR of the Multus network in each zone, in the cluster's VPC: { us-east-1a = \"10.0.64.0/20\" }."
}

variable "launch_templates" {
  type = map(object({
    id      = string
    version = string
  }))
  description = "Launch templates of an AWSNodeTemplate by zone, from its status. Empty: no self-managed groups."
  default     = {}
}

variable "launch_instance_types" {
  type        = list(string)
  description = "Instance types of the self-managed groups, of status.instanceTypes of the AWSNodeTemplate."
  default     = ["m6i.xlarge"]
}
