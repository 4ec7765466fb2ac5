// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package observer

import "github.com/aws/aws-sdk-go-v2/service/ec2"

var _ *ec2.Client
