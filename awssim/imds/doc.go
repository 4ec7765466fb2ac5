// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package imds is the instance metadata service of one simulated instance, over HTTP.
//
// [Tree] turns what the service knows into its paths; [Handler] serves them with the tokens of version 2. The service
// needs an address per instance, because clients replace the path of an endpoint. Package awssim offers three:
//
//	http://i-0123456789abcdef0@HOST:PORT    for AWS_EC2_METADATA_SERVICE_ENDPOINT: clients send the name as a header
//	http://HOST:PORT/_imds/i-0123…/latest/  for curl
//	Simulator.Metadata("i-0123…")           an http.Handler for a listener of your own, for example 169.254.169.254:80
//
// A password in the first form is how many hops the client is away: i-0123…:2@HOST is a container behind a bridge,
// whose token never arrives unless the instance's HttpPutResponseHopLimit lets it.
package imds
