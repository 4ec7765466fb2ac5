// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/apierror"
)

// maxTargets of a rule (EventBridge user guide, "Quotas").
const maxTargets = 5

// defaultBus is the name of the one bus.
const defaultBus = "default"

var ruleName = regexp.MustCompile(`^[.\-_A-Za-z0-9]{1,64}$`)

// Nothing is the answer of actions that return no data.
type Nothing struct{}

// PutRuleInput is the request of PutRule. awssim does not model other parameters.
type PutRuleInput struct {
	Name         string `json:"Name"`
	EventPattern string `json:"EventPattern"`
	Description  string `json:"Description"`
	State        string `json:"State"`
	EventBusName string `json:"EventBusName"`
}

// PutRuleOutput is its answer.
type PutRuleOutput struct {
	RuleARN string `json:"RuleArn"`
}

// PutRule creates a rule, or replaces one without changing its targets.
func (b *Bus) PutRule(in *PutRuleInput) (*PutRuleOutput, error) {
	if err := checkBus(in.EventBusName); err != nil {
		return nil, err
	}
	rule := &Rule{Name: in.Name, Description: in.Description, State: in.State}
	if err := json.Unmarshal([]byte(in.EventPattern), &rule.EventPattern); err != nil {
		return nil, apierror.New("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", err)
	}
	if known, _ := b.rule(in.Name); known != nil {
		rule.Targets = known.Targets
	}
	if err := b.put(rule); err != nil {
		return nil, err
	}
	return &PutRuleOutput{b.arn(in.Name)}, nil
}

// put adds or replaces a rule.
func (b *Bus) put(rule *Rule) error {
	rule.State = cmp.Or(rule.State, Enabled)
	switch {
	case !ruleName.MatchString(rule.Name):
		return apierror.New("ValidationException", "Value '%s' at 'name' failed to satisfy constraint: %s",
			rule.Name, ruleName)
	case rule.State != Enabled && rule.State != Disabled:
		return apierror.New("ValidationException", "Value '%s' at 'state' is not one of %s, %s", rule.State,
			Enabled, Disabled)
	case len(rule.EventPattern) == 0:
		return apierror.New("ValidationException",
			"Parameter EventPattern must be specified: awssim does not model schedules.")
	case len(rule.Targets) > maxTargets:
		return tooManyTargets(rule.Name)
	}
	if err := validate(rule.EventPattern); err != nil {
		return apierror.New("InvalidEventPatternException", "Event pattern is not valid. Reason: %v", err)
	}
	at, exists := b.find(rule.Name)
	if exists {
		b.rules[at] = rule
	} else {
		b.rules = slices.Insert(b.rules, at, rule)
	}
	return nil
}

func (b *Bus) find(name string) (int, bool) {
	return slices.BinarySearchFunc(b.rules, name, func(r *Rule, name string) int { return strings.Compare(r.Name, name) })
}

func (b *Bus) rule(name string) (*Rule, error) {
	at, exists := b.find(name)
	if !exists {
		return nil, apierror.New("ResourceNotFoundException", "Rule %s does not exist on EventBus default.", name)
	}
	return b.rules[at], nil
}

func (b *Bus) arn(name string) string {
	return fmt.Sprintf("arn:aws:events:%s:%s:rule/%s", b.options.Region, b.options.Account, name)
}

func checkBus(name string) error {
	if name != "" && name != defaultBus {
		return apierror.New("ResourceNotFoundException",
			"Event bus %s does not exist: awssim models only the default bus.", name)
	}
	return nil
}

// RuleInput names a rule.
type RuleInput struct {
	Name         string `json:"Name"`
	EventBusName string `json:"EventBusName"`
	Force        bool   `json:"Force"`
}

// DeleteRule deletes a rule that has no targets. It succeeds if the rule does not exist.
func (b *Bus) DeleteRule(in *RuleInput) (*Nothing, error) {
	at, exists := b.find(in.Name)
	switch {
	case exists && len(b.rules[at].Targets) > 0:
		return nil, apierror.New("ValidationException", "Rule can't be deleted since it has targets.")
	case exists:
		b.rules = slices.Delete(b.rules, at, at+1)
	}
	return &Nothing{}, nil
}

// EnableRule enables a rule.
func (b *Bus) EnableRule(in *RuleInput) (*Nothing, error) { return b.setState(in, Enabled) }

// DisableRule disables a rule.
func (b *Bus) DisableRule(in *RuleInput) (*Nothing, error) { return b.setState(in, Disabled) }

func (b *Bus) setState(in *RuleInput, state string) (*Nothing, error) {
	rule, err := b.rule(in.Name)
	if err != nil {
		return nil, err
	}
	rule.State = state
	return &Nothing{}, nil
}

// RuleDescription is a rule in answers.
type RuleDescription struct {
	Name         string `json:"Name"`
	ARN          string `json:"Arn"`
	EventPattern string `json:"EventPattern"`
	Description  string `json:"Description,omitempty"`
	State        string `json:"State"`
	EventBusName string `json:"EventBusName"`
}

// DescribeRule describes a rule.
func (b *Bus) DescribeRule(in *RuleInput) (*RuleDescription, error) {
	rule, err := b.rule(in.Name)
	if err != nil {
		return nil, err
	}
	return b.describe(rule), nil
}

func (b *Bus) describe(rule *Rule) *RuleDescription {
	// It came from JSON.
	pattern, _ := json.Marshal(rule.EventPattern)
	return &RuleDescription{rule.Name, b.arn(rule.Name), string(pattern), rule.Description, rule.State, defaultBus}
}

// ListRulesInput is the request of ListRules.
type ListRulesInput struct {
	NamePrefix   string `json:"NamePrefix"`
	EventBusName string `json:"EventBusName"`
}

// ListRulesOutput is its answer.
type ListRulesOutput struct {
	Rules []*RuleDescription `json:"Rules"`
}

// ListRules lists rules, all on one page.
func (b *Bus) ListRules(in *ListRulesInput) (*ListRulesOutput, error) {
	out := &ListRulesOutput{Rules: []*RuleDescription{}}
	for _, rule := range b.rules {
		if strings.HasPrefix(rule.Name, in.NamePrefix) {
			out.Rules = append(out.Rules, b.describe(rule))
		}
	}
	return out, nil
}
