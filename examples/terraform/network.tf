# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

# The Multus network: a subnet in each zone, and a security group. examples/zones.yaml finds both by the tag network.
resource "aws_subnet" "multus" {
  for_each          = var.multus_subnets
  vpc_id            = data.aws_eks_cluster.this.vpc_config[0].vpc_id
  availability_zone = each.key
  cidr_block        = each.value
  tags = {
    Name    = "${var.cluster_name}-multus-${each.key}"
    network = "multus"
  }
}

resource "aws_security_group" "multus" {
  name        = "${var.cluster_name}-multus"
  description = "Multus network of ${var.cluster_name}"
  vpc_id      = data.aws_eks_cluster.this.vpc_config[0].vpc_id
  tags        = { network = "multus" }
}

resource "aws_vpc_security_group_ingress_rule" "multus" {
  security_group_id            = aws_security_group.multus.id
  description                  = "All traffic within the network"
  referenced_security_group_id = aws_security_group.multus.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "multus" {
  security_group_id = aws_security_group.multus.id
  description       = "All traffic"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "-1"
}
