// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imds is the instance metadata service of one simulated instance, over HTTP.
//
// [Tree] has the paths of the service with their values; [Handler] serves them with the tokens of version 2. The
// service needs an address per instance, because clients replace the path of an endpoint. Package awssim offers three:
//
//	http://i-0123456789abcdef0@HOST:PORT    for AWS_EC2_METADATA_SERVICE_ENDPOINT: clients send the name as a header
//	http://HOST:PORT/_imds/i-0123…          for boto3, the AWS CLI and curl, which keep the path of an endpoint
//	Simulator.Metadata("i-0123…")           an http.Handler for a listener of your own: see ListenMetadata
//
// A password in the first form is the client's distance in hops: i-0123…:2@HOST is a container behind a bridge. Its
// token arrives only if the instance's HttpPutResponseHopLimit allows it.
package imds
