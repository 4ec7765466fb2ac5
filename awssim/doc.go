// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awssim simulates AWS for tests and demonstrations: the part of EC2 that concerns network interfaces, and the
// services that prepare a node for them (Auto Scaling's lifecycle hooks, EventBridge, SQS, Lambda, parameters, instance
// metadata). It serves HTTP for the unmodified AWS SDKs and CLI.
//
//	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld()})
//	server, err := awssim.Listen(ctx, "127.0.0.1:0", sim)
//	client := ec2.New(ec2.Options{BaseEndpoint: aws.String(server.URL()), …})
//
// It refuses what AWS refuses (slots per network card, zones, states, addresses, client tokens, one attribute per call,
// …), with AWS's error codes. Its calls take the time that AWS takes, it throttles with EC2's documented token buckets,
// shows changes late, and fails on request. It refuses everything that it does not model, with its name: it never
// invents an answer.
//
// All services are at one address: a program needs no setting other than AWS_ENDPOINT_URL.
//
// # Tour
//
//   - [Simulator] is the account: an http.Handler. [Options] have its initial [World], its [Clock], [ec2.Behavior],
//     [ServiceBehavior] and token buckets.
//   - [Listen] serves it on a port.
//   - Requests under /_sim/ read and change it; GET /_sim/ lists them. State, AutoScalingGroups, Queues, Deliveries,
//     Calls, Launch, Terminate, AddFault, PutEvent do the same in Go.
//   - Packages ec2, autoscaling, sqs, events and lambda are the models themselves: deterministic state machines without
//     clock or lock, on one timeline, that can also be called directly. Package fault has the faults that can be
//     injected.
//   - Package fabric is the network: it delivers packets between network namespaces according to the model.
//   - Package conformance checks that this server, or another one, behaves like AWS.
//
// # A group with a lifecycle hook
//
// A group, its hook, a queue and the rule between them can be created by calls, or be part of the initial world:
//
//	world.LaunchTemplates = []ec2.WorldLaunchTemplate{{LaunchTemplateName: "workers", LaunchTemplateData: …}}
//	world.AutoScalingGroups = []autoscaling.WorldGroup{{
//		AutoScalingGroupName: "workers", LaunchTemplate: …, MaxSize: 100, DesiredCapacity: 100, VPCZoneIdentifier: "subnet-…,subnet-…",
//		LifecycleHooks: []autoscaling.HookSpecification{{LifecycleHookName: "attach", LifecycleTransition: autoscaling.Launching}},
//	}}
//	world.Queues = []sqs.WorldQueue{{QueueName: "hooks"}}
//	world.Rules = []events.Rule{{Name: "hooks", EventPattern: …, Targets: []events.Target{{ARN: "arn:aws:sqs:us-east-1:123456789012:hooks"}}}}
//
// Simulator.AutoScalingGroups has, as LifecycleActions, each hook's actions on each instance, how they ended, and how
// many calls came too late.
//
// Faults of the action DeliverEvent lose, duplicate and reorder events; their resource is the name of the rule. Faults
// of ReceiveMessage do the same to messages; their resource is the name of the queue:
//
//	sim.AddFault(fault.Fault{Kind: fault.LoseRequest, Action: events.ActionDeliver, Probability: 0.1})
//	sim.AddFault(fault.Fault{Kind: fault.Duplicate, Action: events.ActionDeliver, Probability: 0.2})
//	sim.AddFault(fault.Fault{Kind: fault.Delay, Action: events.ActionDeliver, Delay: 30 * time.Second, Jitter: true})
//	sim.AddFault(fault.Fault{Kind: fault.Duplicate, Action: "ReceiveMessage", Probability: 0.1})
//
// # A function
//
// A function is a program with Lambda's runtime API, such as a Go program with lambda.Start: the bootstrap of
// provided.al2023. [Listen] runs as many processes as there is work for, with AWS_ENDPOINT_URL set to the simulator,
// and kills those that time out. A rule invokes a function as a target, an event source mapping with the messages of a
// queue:
//
//	world.Functions = []lambda.Function{{FunctionName: "hook", Command: []string{"/path/to/bootstrap"}, Timeout: 60}}
//	world.EventSourceMappings = []lambda.EventSourceMapping{{
//		EventSourceARN: "arn:aws:sqs:us-east-1:123456789012:hooks", FunctionName: "hook",
//		FunctionResponseTypes: []string{lambda.ReportBatchItemFailures},
//	}}
//
// Simulator.Functions has the results of its invocations. The faults killBefore and killAfter kill it at one of its own
// calls to AWS, before or after the call is executed; here at every seventh call of any action:
//
//	sim.AddFault(fault.Fault{Kind: fault.KillAfter, Every: 7})
package awssim
