// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package iam decides by identity policies which calls a principal may make, like AWS IAM: a call is allowed if, for
// each resource that it concerns, a statement allows it and none denies it. [Parse] refuses elements of a policy that
// this package does not model, so that no decision ignores an element.
package iam

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Policy has the permissions of a principal: one or several identity policies.
type Policy struct{ statements []statement }

// Request is the authorization request for one resource of a call.
type Request struct {
	// Action is the IAM action, for example "ec2:CreateTags".
	Action string
	// Resource is an ARN, or "*" for actions without resources.
	Resource string
	// Context is the condition keys and their values, for example "aws:ResourceTag/team". Keys that are absent have no
	// value, which is not the same as an empty one.
	Context map[string][]string
	// Missing is set for a resource that does not exist. Conditions on its tags are ignored, so that a principal who may
	// use some resource learns that this one does not exist.
	Missing bool
}

type statement struct {
	Sid       string
	Effect    string
	Action    words
	Resource  words
	Condition map[string]map[string]words
}

// words is one string or a list of strings in a policy.
type words []string

// UnmarshalJSON implements [json.Unmarshaler].
func (w *words) UnmarshalJSON(content []byte) error {
	var one string
	if json.Unmarshal(content, &one) == nil {
		*w = words{one}
		return nil
	}
	return json.Unmarshal(content, (*[]string)(w))
}

// Parse reads the policies of a principal, each of version 2012-10-17. Together they are one.
func Parse(documents ...[]byte) (*Policy, error) {
	var all Policy
	for _, document := range documents {
		statements, err := parse(document)
		if err != nil {
			return nil, err
		}
		all.statements = append(all.statements, statements...)
	}
	return &all, nil
}

func parse(document []byte) ([]statement, error) {
	var read struct {
		Version   string
		Statement []statement
	}
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&read); err != nil {
		return nil, fmt.Errorf("read the policy: %w", err)
	}
	if read.Version != "2012-10-17" {
		return nil, fmt.Errorf("the policy's version is %q, and only 2012-10-17 has policy variables", read.Version)
	}
	var faults []error
	for _, s := range read.Statement {
		if err := s.check(); err != nil {
			faults = append(faults, fmt.Errorf("statement %q: %w", s.Sid, err))
		}
	}
	return read.Statement, errors.Join(faults...)
}

func (s statement) check() error {
	switch {
	case s.Effect != "Allow" && s.Effect != "Deny":
		return fmt.Errorf("its effect is %q, want Allow or Deny", s.Effect)
	case len(s.Action) == 0 || len(s.Resource) == 0:
		return errors.New("it has no action or no resource")
	}
	for name := range s.Condition {
		if _, err := parseOperator(name); err != nil {
			return err
		}
	}
	return nil
}

// Allows reports whether all of a call's requests are allowed. A call without requests is not.
func (p *Policy) Allows(requests ...Request) bool {
	for _, r := range requests {
		if p.decide(r) != "Allow" {
			return false
		}
	}
	return len(requests) > 0
}

// decide returns the effect on one request: a denial has precedence, and the default is to deny.
func (p *Policy) decide(r Request) string {
	effect := "Deny"
	for _, s := range p.statements {
		if !s.matches(r) {
			continue
		}
		if s.Effect == "Deny" {
			return "Deny"
		}
		effect = "Allow"
	}
	return effect
}

func (s statement) matches(r Request) bool {
	ofAction := func(pattern string) bool { return like(strings.ToLower(pattern), strings.ToLower(r.Action)) }
	ofResource := func(pattern string) bool { return like(substitute(pattern, r), r.Resource) }
	if !slices.ContainsFunc(s.Action, ofAction) || !slices.ContainsFunc(s.Resource, ofResource) {
		return false
	}
	for name, keys := range s.Condition {
		o, _ := parseOperator(name) // Parse has checked it
		for key, patterns := range keys {
			if !o.holds(key, patterns, r) {
				return false
			}
		}
	}
	return true
}

// operator is a condition operator.
type operator struct {
	base               string
	forAll, forAny     bool
	ifExists, negative bool
}

func parseOperator(name string) (operator, error) {
	var o operator
	rest := name
	if rest, o.forAll = strings.CutPrefix(rest, "ForAllValues:"); !o.forAll {
		rest, o.forAny = strings.CutPrefix(rest, "ForAnyValue:")
	}
	o.base, o.ifExists = strings.CutSuffix(rest, "IfExists")
	o.negative = strings.HasPrefix(o.base, "StringNot")
	if !slices.Contains([]string{"StringEquals", "StringNotEquals", "StringLike", "StringNotLike", "Null"}, o.base) {
		return o, fmt.Errorf("the condition operator %s is not modelled", name)
	}
	return o, nil
}

// holds reports whether the condition holds for a key (IAM user guide, "Condition operators" and "Set operators").
func (o operator) holds(key string, patterns words, r Request) bool {
	values, present := r.Context[key]
	switch {
	case r.Missing && strings.HasPrefix(key, "aws:ResourceTag/"):
		return true
	case o.base == "Null":
		return slices.Contains(patterns, map[bool]string{true: "false", false: "true"}[present])
	case !present && (o.ifExists || o.forAll):
		return true
	case !present:
		return o.negative && !o.forAny
	}
	fits := func(value string) bool {
		matched := slices.ContainsFunc(patterns, func(pattern string) bool {
			return o.compare(substitute(pattern, r), value)
		})
		return matched != o.negative
	}
	if o.forAny {
		return slices.ContainsFunc(values, fits)
	}
	return !slices.ContainsFunc(values, func(value string) bool { return !fits(value) })
}

func (o operator) compare(pattern, value string) bool {
	if strings.HasSuffix(o.base, "Like") {
		return like(pattern, value)
	}
	return pattern == value
}

var variable = regexp.MustCompile(`\$\{([^}]+)\}`)

// substitute replaces policy variables with their values. A variable without a value matches nothing.
func substitute(pattern string, r Request) string {
	return variable.ReplaceAllStringFunc(pattern, func(name string) string {
		if literal, ok := literals[name]; ok {
			return literal
		}
		if values := r.Context[variable.FindStringSubmatch(name)[1]]; len(values) == 1 {
			return values[0]
		}
		return "\x00"
	})
}

// literals are the variables for special characters of patterns, escaped for [like] (IAM user guide, "Policy
// variables", "Special characters").
var literals = map[string]string{"${*}": "\x02", "${?}": "\x03", "${$}": "$"}

// like compares with the wildcards * and ?, which match slashes as well.
func like(pattern, value string) bool {
	const slash = "\x01"
	escaped := strings.NewReplacer(
		"/", slash, "[", `\[`, `\`, `\\`, literals["${*}"], `\*`, literals["${?}"], `\?`,
	).Replace(pattern)
	matched, err := path.Match(escaped, strings.ReplaceAll(value, "/", slash))
	return err == nil && matched
}
