// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance has no code, only tests: the behaviour of EC2 with network interfaces, as named rows that use the
// unmodified AWS SDK for Go v2. Read it as documentation of EC2's behaviour; run it to check whether an endpoint
// behaves the same way.
//
// The services around EC2 have a file each: auto_scaling_test.go, eventbridge_test.go, parameters_test.go, sqs_test.go.
// The tests expect them at the same address, unless it is an address of AWS, which has one for each service.
//
// There is one file per action (attach_network_interface_test.go, …); endpoint_test.go says what a row may use,
// check_test.go what a row is, and protocol_test.go speaks HTTP without the SDK.
//
// # Which endpoint
//
// Without any setting each test starts the simulator of package awssim in its own process, on a clock that runs fast.
// These variables point the same test at another simulator, or at AWS itself:
//
//	MULTIENI_CONFORMANCE_ENDPOINT           URL of the EC2 endpoint, e.g. https://ec2.eu-central-1.amazonaws.com
//	MULTIENI_CONFORMANCE_REGION             region to sign for; default: the SDK's own search, then us-west-2
//	MULTIENI_CONFORMANCE_SUBNET             subnet to work in, with some 64 free addresses; default: the roomiest
//	MULTIENI_CONFORMANCE_SUBNET_OTHER_ZONE  a subnet of the same VPC in another zone; default: any
//	MULTIENI_CONFORMANCE_SECURITY_GROUP     a security group of that VPC; default: any but the VPC's default group
//	MULTIENI_CONFORMANCE_IMAGE              an image to launch; needed on AWS
//	MULTIENI_CONFORMANCE_INSTANCE_TYPE      a type with 3 interfaces of 6 addresses; default t3.medium
//	MULTIENI_CONFORMANCE_MULTI_CARD_TYPE    a type with two network cards (it is not cheap); default: rows skipped
//	MULTIENI_CONFORMANCE_SPOT_FLEET_ROLE    role for Spot Fleet requests; default: rows skipped
//	MULTIENI_CONFORMANCE_PATIENCE           before a row, or its clean-up, gives up; default: 10m
//	MULTIENI_CONFORMANCE_ATTEMPTS           attempts at one call; default: 10, but one after a 500 without a code
//	MULTIENI_CONFORMANCE_LENIENT            1 = skip the rows marked strict
//
// Credentials come from the SDK's usual chain. For example:
//
//	MULTIENI_CONFORMANCE_ENDPOINT=http://localhost:4566 AWS_ACCESS_KEY_ID=test AWS_SECRET_ACCESS_KEY=test \
//	  go test ./awssim/conformance -v -parallel 1 -timeout 1h
//
// Starting and stopping instances takes most of the time; select tests with `-run`. With -parallel 1 the tests do not
// compete for free addresses of the same subnet.
//
// Each test removes everything that it created: it terminates instances, and detaches and deletes interfaces. Rows that
// need a resource that the account does not have (a second VPC, a subnet with IPv6, a subnet that may be filled to the
// last address) are skipped with a message; on our own simulator no row may be skipped.
//
// # Strict rows
//
// A row is strict if an emulator can fail it and still serve most programs: exact error codes, limits, idempotency,
// failure of whole calls. Strict rows run as separate subtests, so that `-run '/strict'` and `-skip '/strict'` choose
// by name, and MULTIENI_CONFORMANCE_LENIENT=1 turns them off.
package conformance
