// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/autoscaling"
	"github.com/aws/aws-sdk-go-v2/service/eventbridge"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/ssm"
)

// base returns the address of the services around EC2: an emulator has one for all, AWS one for each (nil).
func (ec *endpoint) base() *string {
	if strings.Contains(ec.url, ".amazonaws.com") {
		return nil
	}
	return &ec.url
}

func (ec *endpoint) autoScaling() *autoscaling.Client {
	return autoscaling.New(autoscaling.Options{
		Region: ec.region, BaseEndpoint: ec.base(), Credentials: ec.credentials, HTTPClient: ec.client, Retryer: ec.retryer(),
	})
}

func (ec *endpoint) sqs() *sqs.Client {
	return sqs.New(sqs.Options{
		Region: ec.region, BaseEndpoint: ec.base(), Credentials: ec.credentials, HTTPClient: ec.client, Retryer: ec.retryer(),
	})
}

func (ec *endpoint) eventBridge() *eventbridge.Client {
	return eventbridge.New(eventbridge.Options{
		Region: ec.region, BaseEndpoint: ec.base(), Credentials: ec.credentials, HTTPClient: ec.client, Retryer: ec.retryer(),
	})
}

func (ec *endpoint) systemsManager() *ssm.Client {
	return ssm.New(ssm.Options{
		Region: ec.region, BaseEndpoint: ec.base(), Credentials: ec.credentials, HTTPClient: ec.client, Retryer: ec.retryer(),
	})
}
