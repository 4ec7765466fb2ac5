# Copyright The multieni Authors.
# SPDX-License-Identifier: Apache-2.0

"""What functions do that give an instance its interfaces while a launch hook holds it: the calls of three kinds that AWS has
published, in their order and with their waits. Usage: function.py KIND static|any QUEUE SUBNET,SUBNET GROUP

  managed   creates and attaches one interface after the other, with a wait between; completes no hook
  guide     creates all, attaches each after a wait, tags, and completes the hook
  plain     attaches at once, without a wait
"""

import ipaddress
import json
import sys
import time

import strict

kind, addresses, queue, subnets, group = sys.argv[1:]
WAITS = {"managed": 1, "guide": 2, "plain": 0}
ec2, asg, sqs = strict.client("ec2"), strict.client("autoscaling"), strict.client("sqs")


def event():
    """The event of the hook, as the queue has it."""
    url = sqs.get_queue_url(QueueName=queue)["QueueUrl"]
    for _ in range(30):
        for message in sqs.receive_message(QueueUrl=url, WaitTimeSeconds=10).get("Messages", []):
            detail = json.loads(message["Body"])["detail"]
            sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
            if "EC2InstanceId" in detail:
                return detail
    sys.exit("no event of the hook came")


def free(subnet):
    """The lowest free IPv4 address, and the lowest free IPv6 address where there are any."""
    described = ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]
    used4, used6 = set(), set()
    for eni in ec2.describe_network_interfaces(Filters=[{"Name": "subnet-id", "Values": [subnet]}])["NetworkInterfaces"]:
        used4 |= {a["PrivateIpAddress"] for a in eni["PrivateIpAddresses"]}
        used6 |= {a["Ipv6Address"] for a in eni["Ipv6Addresses"]}
    four = next(str(a) for a in list(ipaddress.ip_network(described["CidrBlock"]))[5:] if str(a) not in used4)
    six = None
    if described["Ipv6CidrBlockAssociationSet"]:
        block = ipaddress.ip_network(described["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"])
        six = next(str(block[n]) for n in range(5, 1000) if str(block[n]) not in used6)
    return four, six


def create(subnet):
    arguments = {"SubnetId": subnet, "Groups": [group]}
    if addresses == "static":
        four, six = free(subnet)
        arguments["PrivateIpAddress"] = four
        if six:
            arguments["Ipv6Addresses"] = [{"Ipv6Address": six}]
    eni = ec2.create_network_interface(**arguments)["NetworkInterface"]["NetworkInterfaceId"]
    if addresses != "static" and ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["Ipv6CidrBlockAssociationSet"]:
        ec2.assign_ipv6_addresses(NetworkInterfaceId=eni, Ipv6AddressCount=1)
    return eni


def attach(eni, instance, index):
    attachment = ec2.attach_network_interface(NetworkInterfaceId=eni, InstanceId=instance, DeviceIndex=index)["AttachmentId"]
    ec2.modify_network_interface_attribute(NetworkInterfaceId=eni, Attachment={"AttachmentId": attachment, "DeleteOnTermination": True})
    ec2.modify_network_interface_attribute(NetworkInterfaceId=eni, SourceDestCheck={"Value": False})
    ec2.create_tags(Resources=[eni], Tags=[{"Key": "node.k8s.amazonaws.com/no_manage", "Value": "true"}])


detail = event()
instance = detail["EC2InstanceId"]
described = ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0]
[e["Ipv6Addresses"] for e in described["NetworkInterfaces"]]
made = []
if kind == "guide":
    made = [create(subnet) for subnet in subnets.split(",")]
for index, subnet in enumerate(subnets.split(",")):
    eni = made[index] if kind == "guide" else create(subnet)
    time.sleep(WAITS[kind])
    attach(eni, instance, index + 1)
if kind == "guide":
    asg.complete_lifecycle_action(
        LifecycleHookName=detail["LifecycleHookName"], AutoScalingGroupName=detail["AutoScalingGroupName"],
        LifecycleActionToken=detail["LifecycleActionToken"], LifecycleActionResult="CONTINUE", InstanceId=instance)

# Describe calls may show an attachment a moment later.
for _ in range(50):
    enis = ec2.describe_network_interfaces(Filters=[{"Name": "attachment.instance-id", "Values": [instance]}])["NetworkInterfaces"]
    indexes = sorted(e["Attachment"]["DeviceIndex"] for e in enis)
    if indexes == list(range(len(subnets.split(",")) + 1)):
        break
    time.sleep(0.2)
else:
    sys.exit(f"the instance has interfaces at {indexes}")
if strict.findings:
    sys.exit("beside the shapes of AWS:\n" + "\n".join(sorted(set(strict.findings))))
print(f"{len(enis)} interfaces, {strict.answers} answers compared")
