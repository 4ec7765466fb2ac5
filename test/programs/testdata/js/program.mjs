// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// What a program does with AWS's SDK for JavaScript: it takes the event of a launch hook from a queue, gives the instance an
// interface, waits for it, completes the hook, and takes the interface away. Usage: node program.mjs GROUP QUEUE SUBNET
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import * as asg from "@aws-sdk/client-auto-scaling";
import * as ec2 from "@aws-sdk/client-ec2";
import * as sqs from "@aws-sdk/client-sqs";

const [group, queue, subnet] = process.argv.slice(2);
const EC2 = new ec2.EC2Client(), ASG = new asg.AutoScalingClient(), SQS = new sqs.SQSClient();

// until calls look until it returns something.
async function until(what, look) {
  for (let n = 0; n < 60; n++) {
    const found = await look();
    if (found) return found;
    await sleep(1000);
  }
  assert.fail(`${what} did not come within a minute`);
}

// launched takes the event of the hook from the queue, at the address that the service says it has.
async function launched() {
  const { QueueUrl } = await SQS.send(new sqs.GetQueueUrlCommand({ QueueName: queue }));
  return until("the event", async () => {
    const { Messages = [] } = await SQS.send(new sqs.ReceiveMessageCommand({ QueueUrl, WaitTimeSeconds: 10 }));
    for (const { Body, ReceiptHandle } of Messages) {
      await SQS.send(new sqs.DeleteMessageCommand({ QueueUrl, ReceiptHandle }));
      const { detail } = JSON.parse(Body);
      if (detail.EC2InstanceId) return detail;
    }
  });
}

// give makes an interface for the instance and attaches it.
async function give(InstanceId) {
  const made = await EC2.send(new ec2.CreateNetworkInterfaceCommand({
    SubnetId: subnet, Description: "js",
    TagSpecifications: [{ ResourceType: "network-interface", Tags: [{ Key: "made-by", Value: "js" }] }],
  }));
  const { NetworkInterfaceId } = made.NetworkInterface;
  await ec2.waitUntilNetworkInterfaceAvailable({ client: EC2, maxWaitTime: 60 }, { NetworkInterfaceIds: [NetworkInterfaceId] });
  const { AttachmentId } = await EC2.send(new ec2.AttachNetworkInterfaceCommand({ NetworkInterfaceId, InstanceId, DeviceIndex: 1 }));
  await EC2.send(new ec2.ModifyNetworkInterfaceAttributeCommand({
    NetworkInterfaceId, Attachment: { AttachmentId, DeleteOnTermination: true },
  }));
  const attached = await until("the interface", async () => {
    const { Reservations } = await EC2.send(new ec2.DescribeInstancesCommand({ InstanceIds: [InstanceId] }));
    return Reservations[0].Instances[0].NetworkInterfaces
      .find((eni) => eni.NetworkInterfaceId === NetworkInterfaceId && eni.Attachment.Status === "attached");
  });
  assert.equal(attached.Attachment.DeviceIndex, 1);
  assert.equal(attached.Attachment.DeleteOnTermination, true);
  return { NetworkInterfaceId, AttachmentId };
}

// tagged returns the IDs of the interfaces that this program made, of pages of five.
async function tagged() {
  const pages = ec2.paginateDescribeNetworkInterfaces({ client: EC2, pageSize: 5 }, { Filters: [{ Name: "tag:made-by", Values: ["js"] }] });
  const all = [];
  for await (const page of pages) all.push(...page.NetworkInterfaces.map((eni) => eni.NetworkInterfaceId));
  return all;
}

const detail = await launched();
const { NetworkInterfaceId, AttachmentId } = await give(detail.EC2InstanceId);
assert.deepEqual(await tagged(), [NetworkInterfaceId]);

await ASG.send(new asg.CompleteLifecycleActionCommand({
  AutoScalingGroupName: group, LifecycleHookName: detail.LifecycleHookName, LifecycleActionToken: detail.LifecycleActionToken,
  LifecycleActionResult: "CONTINUE",
}));
await until("the instance in service", async () => {
  const { AutoScalingGroups } = await ASG.send(new asg.DescribeAutoScalingGroupsCommand({ AutoScalingGroupNames: [group] }));
  return AutoScalingGroups[0].Instances.some((i) => i.InstanceId === detail.EC2InstanceId && i.LifecycleState === "InService");
});

await EC2.send(new ec2.DetachNetworkInterfaceCommand({ AttachmentId }));
await ec2.waitUntilNetworkInterfaceAvailable({ client: EC2, maxWaitTime: 120 }, { NetworkInterfaceIds: [NetworkInterfaceId] });
await EC2.send(new ec2.DeleteNetworkInterfaceCommand({ NetworkInterfaceId }));
assert.deepEqual(await tagged(), []);
await assert.rejects(
  EC2.send(new ec2.DescribeNetworkInterfacesCommand({ NetworkInterfaceIds: [NetworkInterfaceId] })),
  { name: "InvalidNetworkInterfaceID.NotFound" });
console.log(`${NetworkInterfaceId} was attached to ${detail.EC2InstanceId} and is gone`);
