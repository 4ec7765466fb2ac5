// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package message

import (
	"time"

	"github.com/multieni/multieni/internal/core/eni"
)

// Failed adds to the error of a call what a user can do about its class, and the longest wait before the next attempt.
func Failed(err string, class eni.Class, wait time.Duration) string {
	return err + "; " + advice(class) + "it is tried again at least every " + duration(wait)
}

func advice(class eni.Class) string {
	switch class {
	case eni.NoAddresses:
		return "free addresses of the subnet, or add another subnet; "
	case eni.NoPrefixes:
		return reservePrefixes + "; "
	case eni.LimitExceeded:
		return "delete what is not needed, or raise the quota in Service Quotas; "
	case eni.Unauthorized:
		return "give the controller's role the permissions of deploy/iam/controller.json, which `kubectl eni doctor` tries " +
			"one by one; "
	case eni.Invalid, eni.WrongZone:
		return "correct the NodeENI; "
	default:
		return ""
	}
}

// reservePrefixes is what a user can do about a subnet without a free block.
const reservePrefixes = "declare a prefix reservation in an unused part of the subnet (aws ec2 " +
	"create-subnet-cidr-reservation --reservation-type prefix), " +
	"or add a subnet; kubectl eni subnets shows the free addresses and blocks"
