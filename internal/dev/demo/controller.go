// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import "github.com/multieni/multieni/internal/dev/child"

// controller is the controller's process; after a kill it is the next one.
type controller struct {
	options child.Options
	process *child.Process
}

func startController(o child.Options) (*controller, error) {
	process, err := child.Start(o)
	if err != nil {
		return nil, err
	}
	return &controller{o, process}, nil
}

// restart kills the process and starts another one.
func (c *controller) restart() error {
	if err := c.process.Kill(); err != nil {
		return err
	}
	process, err := child.Start(c.options)
	if err != nil {
		return err
	}
	c.process = process
	return nil
}
