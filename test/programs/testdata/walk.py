# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

"""Compares what describe calls answer about a whole world with the shapes that AWS publishes."""

import sys

import strict

ec2, asg, sts = strict.client("ec2"), strict.client("autoscaling"), strict.client("sts")
for call in (
    ec2.describe_network_interfaces, ec2.describe_instances, ec2.describe_instance_status, ec2.describe_subnets, ec2.describe_vpcs,
    ec2.describe_security_groups, ec2.describe_images, ec2.describe_launch_templates, ec2.describe_tags, ec2.describe_instance_types,
    ec2.describe_availability_zones, ec2.describe_route_tables, ec2.describe_internet_gateways, ec2.describe_network_acls,
    ec2.describe_security_group_rules, ec2.describe_regions, ec2.describe_account_attributes, asg.describe_auto_scaling_groups, sts.get_caller_identity,
):
    call()
ec2.describe_launch_template_versions(Versions=["$Latest"])
# The simulator has types that are newer than some versions of boto3.
ec2.describe_instance_type_offerings(Filters=[{"Name": "instance-type", "Values": ["m5.*"]}])
vpc = ec2.create_vpc(CidrBlock="10.90.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]["VpcId"]
ec2.describe_vpc_attribute(VpcId=vpc, Attribute="enableDnsSupport")
part = ec2.create_subnet(VpcId=vpc, CidrBlock="10.90.0.0/24")["Subnet"]["SubnetId"]
group = ec2.create_security_group(VpcId=vpc, GroupName="nodes", Description="of nodes")["GroupId"]
web = [{"IpProtocol": "tcp", "FromPort": 443, "ToPort": 443, "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}]
ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=web)
ec2.revoke_security_group_ingress(GroupId=group, IpPermissions=web)
gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
ec2.associate_route_table(RouteTableId=table, SubnetId=part)
ec2.describe_route_tables(RouteTableIds=[table])
image = ec2.describe_images()["Images"][0]["ImageId"]
subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
made = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, SubnetId=subnet)["Instances"][0]["InstanceId"]
ec2.describe_instance_attribute(InstanceId=made, Attribute="instanceType")
ec2.get_waiter("instance_exists").wait(InstanceIds=[made], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
ec2.terminate_instances(InstanceIds=[made])
if strict.findings:
    sys.exit("beside the shapes of AWS:\n" + "\n".join(sorted(set(strict.findings))))
print(f"{strict.answers} answers compared")
