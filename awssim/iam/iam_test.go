// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package iam_test

import (
	"fmt"
	"testing"

	"github.com/multieni/multieni/awssim/iam"
)

func TestConditions(t *testing.T) {
	const allow = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ec2:Do*","Resource":"arn:aws:ec2:*:*:thing/*","Condition":%s}]}`
	type context = map[string][]string
	for name, c := range map[string]struct {
		condition string
		context   context
		allowed   bool
	}{
		"none":                          {`{}`, nil, true},
		"equal":                         {`{"StringEquals":{"k":"v"}}`, context{"k": {"v"}}, true},
		"one of several":                {`{"StringEquals":{"k":["u","v"]}}`, context{"k": {"v"}}, true},
		"other case":                    {`{"StringEquals":{"k":"v"}}`, context{"k": {"V"}}, false},
		"absent":                        {`{"StringEquals":{"k":"v"}}`, nil, false},
		"a literal wildcard":            {`{"StringLike":{"k":"a${*}"}}`, context{"k": {"a*"}}, true},
		"no literal wildcard":           {`{"StringLike":{"k":"a${*}"}}`, context{"k": {"ab"}}, false},
		"not a literal question mark":   {`{"StringNotLike":{"k":"*${?}*"}}`, context{"k": {"a?"}}, false},
		"absent, if it exists":          {`{"StringEqualsIfExists":{"k":"v"}}`, nil, true},
		"different, if it exists":       {`{"StringEqualsIfExists":{"k":"v"}}`, context{"k": {"w"}}, false},
		"absent is not equal":           {`{"StringNotEquals":{"k":"v"}}`, nil, true},
		"not equal":                     {`{"StringNotEquals":{"k":"v"}}`, context{"k": {"v"}}, false},
		"a pattern crosses slashes":     {`{"StringLike":{"k":"a*d?"}}`, context{"k": {"a/b/cde"}}, true},
		"a pattern is no bracket class": {`{"StringLike":{"k":"[ab]"}}`, context{"k": {"a"}}, false},
		"any value needs presence":      {`{"StringLike":{"k":"*"}}`, nil, false},
		"both keys":                     {`{"StringEquals":{"k":"v","l":"w"}}`, context{"k": {"v"}}, false},
		"both operators":                {`{"StringEquals":{"k":"v"},"Null":{"l":"true"}}`, context{"k": {"v"}, "l": {""}}, false},
		"absent, as it should be":       {`{"Null":{"k":"true"}}`, nil, true},
		"present, as it should be":      {`{"Null":{"k":"false"}}`, context{"k": {""}}, true},
		"all values":                    {`{"ForAllValues:StringEquals":{"k":["a","b"]}}`, context{"k": {"a", "b", "a"}}, true},
		"not all values":                {`{"ForAllValues:StringEquals":{"k":["a","b"]}}`, context{"k": {"a", "c"}}, false},
		"all of none":                   {`{"ForAllValues:StringEquals":{"k":["a"]}}`, nil, true},
		"any of the values":             {`{"ForAnyValue:StringEquals":{"k":["a"]}}`, context{"k": {"b", "a"}}, true},
		"any of none":                   {`{"ForAnyValue:StringEquals":{"k":["a"]}}`, nil, false},
		"a variable":                    {`{"StringEquals":{"k":"${p}"}}`, context{"k": {"v"}, "p": {"v"}}, true},
		"a variable without value":      {`{"StringLike":{"k":"${p}"}}`, context{"k": {"v"}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			policy, err := iam.Parse(fmt.Appendf(nil, allow, c.condition))
			if err != nil {
				t.Fatal(err)
			}
			got := policy.Allows(iam.Request{Action: "ec2:DoIt", Resource: "arn:aws:ec2:us-east-1:1:thing/a/b", Context: c.context})
			if got != c.allowed {
				t.Errorf("allowed is %t, want %t", got, c.allowed)
			}
		})
	}
}

func TestDecisions(t *testing.T) {
	policy, err := iam.Parse([]byte(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":["ec2:Read","ec2:Write"],"Resource":"*"},
		{"Effect":"Deny","Action":"ec2:Write","Resource":"crown"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	request := func(action, resource string) iam.Request { return iam.Request{Action: action, Resource: resource} }
	for name, c := range map[string]struct {
		requests []iam.Request
		allowed  bool
	}{
		"allowed":                       {[]iam.Request{request("ec2:Write", "hat")}, true},
		"an action in another case":     {[]iam.Request{request("EC2:write", "hat")}, true},
		"a denial wins":                 {[]iam.Request{request("ec2:Write", "crown")}, false},
		"silence denies":                {[]iam.Request{request("ec2:Burn", "hat")}, false},
		"each resource must be allowed": {[]iam.Request{request("ec2:Write", "hat"), request("ec2:Write", "crown")}, false},
		"nothing asked, nothing given":  {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := policy.Allows(c.requests...); got != c.allowed {
				t.Errorf("allowed is %t, want %t", got, c.allowed)
			}
		})
	}
}

func TestAnAbsentObjectIsNotFoundForAPrincipalThatMayChangeSuchObjects(t *testing.T) {
	policy, err := iam.Parse([]byte(`{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Action":"ec2:Write","Resource":"*","Condition":{"StringEquals":{"aws:ResourceTag/k":"v"}}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	if !policy.Allows(iam.Request{Action: "ec2:Write", Resource: "hat", Missing: true}) {
		t.Error("who may write some things is not told that this one is not there")
	}
	if policy.Allows(iam.Request{Action: "ec2:Burn", Resource: "hat", Missing: true}) {
		t.Error("who may burn nothing is told that this one is not there")
	}
}

func TestWhatIsNotModelledIsRefused(t *testing.T) {
	for name, statement := range map[string]string{
		"operator": `{"Effect":"Allow","Action":"a","Resource":"*","Condition":{"NumericEquals":{"k":"1"}}}`,
		"element":  `{"Effect":"Allow","NotAction":"a","Resource":"*"}`,
		"effect":   `{"Effect":"Perhaps","Action":"a","Resource":"*"}`,
		"resource": `{"Effect":"Allow","Action":"a"}`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := iam.Parse([]byte(`{"Version":"2012-10-17","Statement":[` + statement + `]}`)); err == nil {
				t.Error("it is taken")
			}
		})
	}
	if _, err := iam.Parse([]byte(`{"Version":"2008-10-17","Statement":[]}`)); err == nil {
		t.Error("the old version is taken")
	}
}
