// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"time"
)

// callerIdentity is the answer of STS' GetCallerIdentity: every caller is the root of the account.
type callerIdentity struct {
	ARN     string `json:"Arn"`
	UserID  string `json:"UserId"`
	Account string `json:"Account"`
}

// stsOperations are those that programs use to identify their account.
func stsOperations() []operation {
	return []operation{{
		name:     "GetCallerIdentity",
		newInput: func() any { return new(struct{}) },
		do: func(a *account, _ time.Time, _ any) (any, error) {
			owner := a.ec2.Account()
			return &callerIdentity{ARN: "arn:aws:iam::" + owner + ":root", UserID: owner, Account: owner}, nil
		},
	}}
}
