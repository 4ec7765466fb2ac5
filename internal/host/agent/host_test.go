// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"errors"

	"github.com/multieni/multieni/internal/core/hostnet"
)

// paper is a host that has only facts. It changes nothing, and keeps the attempts.
type paper struct {
	facts      hostnet.Facts
	touched    map[int]int
	operations []hostnet.Operation
	events     chan struct{}
}

func (p *paper) Facts([]string) (hostnet.Facts, error) { return p.facts, nil }

func (p *paper) Apply(op hostnet.Operation) error {
	p.touched[op.LinkIndex()]++
	p.operations = append(p.operations, op)
	return errors.New("it is paper")
}

func (p *paper) Events() <-chan struct{} { return p.events }

// passing is a host that reports each time that the agent reads it.
type passing struct {
	paper
	read chan struct{}
}

func (p *passing) Facts(devices []string) (hostnet.Facts, error) {
	p.read <- struct{}{}
	return p.paper.Facts(devices)
}
