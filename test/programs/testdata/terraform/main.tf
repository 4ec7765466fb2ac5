# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

terraform {
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}
provider "aws" {
  region = "us-east-1"
}
data "aws_availability_zones" "a" { state = "available" }
data "aws_ec2_instance_type_offerings" "o" {
  filter {
    name   = "instance-type"
    values = ["m5.large"]
  }
  location_type = "availability-zone"
}
resource "aws_vpc" "v" {
  cidr_block                       = "10.50.0.0/16"
  enable_dns_hostnames             = true
  assign_generated_ipv6_cidr_block = true
  tags                             = { Name = "tf" }
}
resource "aws_internet_gateway" "g" { vpc_id = aws_vpc.v.id }
resource "aws_subnet" "s" {
  count                           = 2
  vpc_id                          = aws_vpc.v.id
  cidr_block                      = cidrsubnet(aws_vpc.v.cidr_block, 8, count.index)
  ipv6_cidr_block                 = cidrsubnet(aws_vpc.v.ipv6_cidr_block, 8, count.index)
  availability_zone               = data.aws_availability_zones.a.names[count.index]
  map_public_ip_on_launch         = true
  assign_ipv6_address_on_creation = true
  tags                            = { Name = "tf-${count.index}" }
}
resource "aws_route_table" "t" {
  vpc_id = aws_vpc.v.id
  route {
    cidr_block = "0.0.0.0/0"
    gateway_id = aws_internet_gateway.g.id
  }
  route {
    ipv6_cidr_block = "::/0"
    gateway_id      = aws_internet_gateway.g.id
  }
}
resource "aws_route_table_association" "a" {
  count          = 2
  subnet_id      = aws_subnet.s[count.index].id
  route_table_id = aws_route_table.t.id
}
resource "aws_security_group" "sg" {
  vpc_id = aws_vpc.v.id
  name   = "nodes"
  ingress {
    from_port   = 22
    to_port     = 22
    protocol    = "tcp"
    cidr_blocks = ["10.0.0.0/8"]
  }
  ingress {
    from_port = 0
    to_port   = 0
    protocol  = "-1"
    self      = true
  }
  egress {
    from_port        = 0
    to_port          = 0
    protocol         = "-1"
    cidr_blocks      = ["0.0.0.0/0"]
    ipv6_cidr_blocks = ["::/0"]
  }
}
resource "aws_vpc_security_group_ingress_rule" "r" {
  security_group_id            = aws_vpc.v.default_security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
  referenced_security_group_id = aws_security_group.sg.id
  tags                         = { Name = "rule" }
}
resource "aws_network_interface" "n" {
  subnet_id       = aws_subnet.s[0].id
  security_groups = [aws_security_group.sg.id]
}
resource "aws_instance" "i" {
  ami                    = "ami-0123456789abcdef0"
  instance_type          = "m5.large"
  subnet_id              = aws_subnet.s[0].id
  vpc_security_group_ids = [aws_security_group.sg.id]
  tags                   = { Name = "tf" }
}
output "vpc" { value = aws_vpc.v.id }
output "offers" { value = data.aws_ec2_instance_type_offerings.o.locations }
