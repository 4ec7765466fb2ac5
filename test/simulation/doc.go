// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation runs the controller against a simulated EC2 and a simulated Kubernetes API on a virtual clock, in
// one goroutine, with all faults drawn from one seed: the same seed gives exactly the same run.
//
// What runs is the product: the reconcilers of internal/controller, the observer with its inventory, the resolver, the
// planner and the applier, and on the nodes the part of the agent that is about pods. Only what lies beyond their ports
// is simulated. The files:
//
//   - api.go is the API server: five kinds of objects, resource versions, finalizers, a log of changes.
//   - informer.go is what one process has received of that log; client.go is the client.Client over both.
//   - cloud.go, cloud_read.go and convert.go are the ports to EC2, over the model of package awssim/ec2.
//   - coroutines.go interleaves the calls for the interfaces of one instance.
//   - process.go is one replica of the controller: its memory, which a crash takes, and its work queues.
//   - world.go is what exists at the beginning; events.go, faultevents.go, foreign.go, foreignaddresses.go, orphans.go,
//     pauses.go and sharing.go are all other actors: users, the cluster, the VPC CNI, people with the EC2 console.
//     prejoin.go starts instances that have interfaces before they join.
//   - devices.go is the agents of the nodes as far as they bind devices for programs; lowest.go judges chosen
//     addresses.
//   - podagent.go runs the product's agent on a node: what it reads and writes there. addressbook.go is its access to
//     FloatingAddresses.
//   - pods.go is the pods, and when agents act; agents.go replaces agents. podleases.go is the files of a node: leases,
//     networks, the checkpoint. podprefixes.go is pods with addresses of prefixes, followed.go pods that bring up
//     addresses themselves, evictions.go the Eviction API and its budgets. podchecks.go, prefixchecks.go and followedchecks.go
//     judge them.
//   - reservations.go is users with SubnetReservations, people who reserve by hand, and the port for both;
//     reservationchecks.go judges the reservations.
//   - crashes.go is where a process can crash; oldrelease.go is an earlier release, which alternates with the present
//     one.
//   - faults.go is the faults: each seed draws a swarm of them with rates. The table of faults says what is not
//     covered.
//   - driver.go picks the next step. run.go is one run: chaos, then healing, convergence and a quiet period.
//   - schedules.go has fixed orders of steps, which stage.go carries out one by one: counterexamples of test/model.
//   - liveness.go leaves a part broken, and compares how long the rest takes.
//   - ec2state.go, invariants.go, expected.go, convergence.go, replacement.go, redundantcalls.go and statuschecks.go
//     compare the true state of EC2 with the invariants.
//   - trace.go records what happened and condenses it to a hash.
//   - mutants.go lists the bug shapes that the suite must find.
package simulation
