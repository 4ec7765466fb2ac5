// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/internal/query"
	"github.com/multieni/multieni/awssim/sqs"
)

// service is a service of AWS over HTTP.
type service struct {
	name       string
	operations map[string]operation
	protocol   protocol
	throttled  apierror.Error
}

const serviceEC2, serviceSTS = "EC2", "STS"

// The error codes of the services for too many calls.
const (
	codeThrottled       = "RequestLimitExceeded"
	codeThrottledGroups = "Throttling"
	codeThrottledQueues = "RequestThrottled"
	codeThrottledJSON   = "ThrottlingException"
)

// protocol is how a service reads and writes HTTP.
type protocol interface {
	read(r *http.Request) request
	writeOutput(w http.ResponseWriter, action, requestID string, output any)
	writeError(w http.ResponseWriter, requestID string, err *apierror.Error)
}

// services are all modelled ones: some by the version of their API in a form, the others by the prefix of their
// X-Amz-Target.
type services struct {
	ec2       service
	byVersion map[string]service
	byTarget  map[string]service
}

func newServices() services {
	return services{
		ec2: service{
			name: serviceEC2, operations: byName(ec2Operations()), protocol: &ec2Protocol{},
			throttled: apierror.Error{Code: codeThrottled, Message: "Request limit exceeded.",
				Status: http.StatusServiceUnavailable},
		},
		byVersion: map[string]service{
			autoScalingVersion: {
				name: "Auto Scaling", operations: byName(autoScalingOperations()),
				protocol:  &queryProtocol{encoder: query.Encoder{Members: true}, namespace: autoScalingNamespace},
				throttled: apierror.Error{Code: codeThrottledGroups, Message: "Rate exceeded", Status: http.StatusBadRequest},
			},
			stsVersion: {
				name: serviceSTS, operations: byName(stsOperations()),
				protocol:  &queryProtocol{encoder: query.Encoder{Members: true}, namespace: stsNamespace},
				throttled: apierror.Error{Code: codeThrottledGroups, Message: "Rate exceeded", Status: http.StatusBadRequest},
			},
		},
		byTarget: map[string]service{
			"AmazonSQS": {
				name: "SQS", operations: byName(sqsOperations()),
				protocol:  jsonProtocol{version: "1.0", namespace: "com.amazonaws.sqs#", queryCode: sqs.QueryCode},
				throttled: apierror.Error{Code: codeThrottledQueues, Message: "Rate exceeded", Status: http.StatusBadRequest},
			},
			"AWSEvents": {
				name: "EventBridge", operations: byName(eventOperations()), protocol: jsonProtocol{version: "1.1"},
				throttled: apierror.Error{Code: codeThrottledJSON, Message: "Rate exceeded", Status: http.StatusBadRequest},
			},
			"AmazonSSM": {
				name: "Systems Manager", operations: byName(parameterOperations()), protocol: jsonProtocol{version: "1.1"},
				throttled: apierror.Error{Code: codeThrottledJSON, Message: "Rate exceeded", Status: http.StatusBadRequest},
			},
		},
	}
}

func byName(operations []operation) map[string]operation {
	named := map[string]operation{}
	for _, o := range operations {
		named[o.name] = o
	}
	return named
}

// of returns the service of a call. EC2 also answers calls that are signed for no service.
func (all services) of(r *http.Request) service {
	target, _, _ := strings.Cut(r.Header.Get(headerTarget), ".")
	if known, ok := all.byTarget[target]; ok {
		return known
	}
	// EC2 refuses a request that cannot be parsed.
	if r.ParseForm() == nil {
		if known, ok := all.byVersion[r.Form.Get("Version")]; ok {
			return known
		}
	}
	if signed := signedService(r); signed != "" && signed != "ec2" {
		return unmodelledService(r)
	}
	return all.ec2
}

// models reports whether any service has an action of that name.
func (all services) models(action string) bool {
	known := func(s service) bool { return s.operations[action].do != nil }
	modelled := func(s iter.Seq[service]) bool { return slices.ContainsFunc(slices.Collect(s), known) }
	return known(all.ec2) || modelled(maps.Values(all.byVersion)) || modelled(maps.Values(all.byTarget))
}

// flat is the parameters of a call, for the ring of recent calls.
func flat(form url.Values) map[string]string {
	parameters := map[string]string{}
	for name := range form {
		if name != "Action" && name != "Version" {
			parameters[name] = form.Get(name)
		}
	}
	return parameters
}

// values returns all values of a call, which include the IDs that it names.
func values(form url.Values) []string {
	var all []string
	for _, given := range form {
		all = append(all, given...)
	}
	slices.Sort(all)
	return all
}
