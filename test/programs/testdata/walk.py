# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

"""Compares what describe calls answer about a whole world with the shapes that AWS publishes."""

import sys

import strict

ec2, asg, sts = strict.client("ec2"), strict.client("autoscaling"), strict.client("sts")
for call in (
    ec2.describe_network_interfaces, ec2.describe_instances, ec2.describe_instance_status, ec2.describe_subnets, ec2.describe_vpcs,
    ec2.describe_security_groups, ec2.describe_images, ec2.describe_launch_templates, ec2.describe_tags, ec2.describe_instance_types,
    ec2.describe_availability_zones, asg.describe_auto_scaling_groups, sts.get_caller_identity,
):
    call()
ec2.describe_launch_template_versions(Versions=["$Latest"])
image = ec2.describe_images()["Images"][0]["ImageId"]
subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
made = ec2.run_instances(ImageId=image, InstanceType="m5.large", MinCount=1, MaxCount=1, SubnetId=subnet)["Instances"][0]["InstanceId"]
ec2.get_waiter("instance_exists").wait(InstanceIds=[made], WaiterConfig={"Delay": 1, "MaxAttempts": 60})
ec2.terminate_instances(InstanceIds=[made])
if strict.findings:
    sys.exit("beside the shapes of AWS:\n" + "\n".join(sorted(set(strict.findings))))
print(f"{strict.answers} answers compared")
