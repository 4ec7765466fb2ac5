// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package awssim is AWS for tests and demonstrations: the part of EC2 that has to do with network interfaces, and what
// prepares a node for them (Auto Scaling's lifecycle hooks, EventBridge, SQS, Lambda, parameters, instance metadata),
// over HTTP, for the unmodified AWS SDKs and CLI.
//
//	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld()})
//	server, err := awssim.Listen(ctx, "127.0.0.1:0", sim)
//	client := ec2.New(ec2.Options{BaseEndpoint: aws.String(server.URL()), …})
//
// It refuses what AWS refuses (slots per network card, zones, states, addresses, client tokens, one attribute per
// call, …), with AWS's error codes; it takes the time that AWS takes, throttles with EC2's documented token buckets,
// shows changes late, and fails on order. What it does not model it refuses by name: an answer is never made up.
//
// All services are at one address: a program needs no setting other than AWS_ENDPOINT_URL.
//
// # Tour
//
//   - [Simulator] is the account: an http.Handler. [Options] say which [World] it begins with, on which [Clock], with
//     which [ec2.Behavior], [ServiceBehavior] and token buckets.
//   - [Listen] puts it on a port.
//   - Under /_sim/ it can be looked into and changed; GET /_sim/ lists how. State, AutoScalingGroups, Queues,
//     Deliveries, Calls, Launch, Terminate, AddFault, PutEvent do the same in Go.
//   - Packages ec2, autoscaling, sqs, events and lambda are the models themselves: deterministic state machines without
//     clock or lock, on one timeline, that can also be driven directly. Package fault says what can be made to go
//     wrong.
//   - Package fabric is the network: it delivers packets between network namespaces as the model says.
//   - Package conformance checks that this server, or another, does what AWS does.
//
// # A group with a lifecycle hook
//
// A group, its hook, a queue and the rule between them can be created by calls, or be in the world from the beginning:
//
//	world.LaunchTemplates = []ec2.WorldLaunchTemplate{{LaunchTemplateName: "workers", LaunchTemplateData: …}}
//	world.AutoScalingGroups = []autoscaling.WorldGroup{{
//		AutoScalingGroupName: "workers", LaunchTemplate: …, MaxSize: 100, DesiredCapacity: 100, VPCZoneIdentifier: "subnet-…,subnet-…",
//		LifecycleHooks: []autoscaling.HookSpecification{{LifecycleHookName: "attach", LifecycleTransition: autoscaling.Launching}},
//	}}
//	world.Queues = []sqs.WorldQueue{{QueueName: "hooks"}}
//	world.Rules = []events.Rule{{Name: "hooks", EventPattern: …, Targets: []events.Target{{ARN: "arn:aws:sqs:us-east-1:123456789012:hooks"}}}}
//
// What each hook did to each instance, how it ended, and how many calls came too late is in
// Simulator.AutoScalingGroups, as LifecycleActions.
//
// Events get lost, come twice and overtake each other with faults of the action DeliverEvent, whose resource is the
// name of the rule; messages with those of ReceiveMessage, whose resource is the name of the queue:
//
//	sim.AddFault(fault.Fault{Kind: fault.LoseRequest, Action: events.ActionDeliver, Probability: 0.1})
//	sim.AddFault(fault.Fault{Kind: fault.Duplicate, Action: events.ActionDeliver, Probability: 0.2})
//	sim.AddFault(fault.Fault{Kind: fault.Delay, Action: events.ActionDeliver, Delay: 30 * time.Second, Jitter: true})
//	sim.AddFault(fault.Fault{Kind: fault.Duplicate, Action: "ReceiveMessage", Probability: 0.1})
//
// # A function
//
// A function is a program with Lambda's runtime API, such as a Go program with lambda.Start: the bootstrap of
// provided.al2023. [Listen] runs as many as there is work for, with AWS_ENDPOINT_URL set to the simulator, and kills
// those that run out of time. A rule invokes one as a target, an event source mapping with the messages of a queue:
//
//	world.Functions = []lambda.Function{{FunctionName: "hook", Command: []string{"/path/to/bootstrap"}, Timeout: 60}}
//	world.EventSourceMappings = []lambda.EventSourceMapping{{
//		EventSourceARN: "arn:aws:sqs:us-east-1:123456789012:hooks", FunctionName: "hook",
//		FunctionResponseTypes: []string{lambda.ReportBatchItemFailures},
//	}}
//
// How its invocations ended is in Simulator.Functions. It is killed at a call of its own to AWS, before or after that
// is executed, by the faults killBefore and killAfter; here at every seventh call of any action:
//
//	sim.AddFault(fault.Fault{Kind: fault.KillAfter, Every: 7})
package awssim
