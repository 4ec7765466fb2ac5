// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"cmp"
	_ "embed"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/awssim/autoscaling"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/events"
	"github.com/multieni/multieni/awssim/lambda"
	"github.com/multieni/multieni/awssim/sqs"
)

// World is the initial state of the simulated account.
type World struct {
	// World has the resources of EC2, and Systems Manager's parameters.
	ec2.World
	// AutoScalingGroups begin to launch at once, from the launch templates of the world.
	AutoScalingGroups []autoscaling.WorldGroup `json:"autoScalingGroups,omitempty"`
	// Queues of SQS.
	Queues []sqs.WorldQueue `json:"queues,omitempty"`
	// Rules of EventBridge.
	Rules []events.Rule `json:"rules,omitempty"`
	// Functions of Lambda, and their event source mappings.
	Functions           []lambda.Function           `json:"functions,omitempty"`
	EventSourceMappings []lambda.EventSourceMapping `json:"eventSourceMappings,omitempty"`
}

//go:embed worlds/example.yaml
var exampleWorld []byte

// LoadWorld reads a world from YAML. A member that World does not have is an error.
func LoadWorld(r io.Reader) (World, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return World{}, fmt.Errorf("read world: %w", err)
	}
	var world World
	if err := yaml.UnmarshalStrict(data, &world); err != nil {
		return World{}, fmt.Errorf("read world: %s%w (awssim/worlds/example.yaml shows all members)", place(data, err), err)
	}
	if err := world.Validate(); err != nil {
		return World{}, fmt.Errorf("world: %w", err)
	}
	return world, nil
}

// misplaced matches the errors of encoding/json about a member: its name, or the path of one with a wrong type.
var misplaced = regexp.MustCompile(`unknown field "([^"]+)"|Go struct field \S*?([^. ]+) of type`)

// place names the lines of the member that an error is about; the errors of YAML itself name theirs.
func place(data []byte, err error) string {
	found := misplaced.FindStringSubmatch(err.Error())
	var document yamlv3.Node
	if found == nil || yamlv3.Unmarshal(data, &document) != nil {
		return ""
	}
	name, lines := cmp.Or(found[1], found[2]), []string{}
	var walk func(*yamlv3.Node)
	walk = func(node *yamlv3.Node) {
		for i, child := range node.Content {
			if node.Kind == yamlv3.MappingNode && i%2 == 0 && child.Value == name {
				lines = append(lines, strconv.Itoa(child.Line))
			}
			walk(child)
		}
	}
	walk(&document)
	switch len(lines) {
	case 0:
		return ""
	case 1:
		return "line " + lines[0] + ": "
	default:
		return "one of the lines " + strings.Join(lines, ", ") + ": "
	}
}

// LoadWorldFile reads a world from a YAML file.
func LoadWorldFile(path string) (World, error) {
	file, err := os.Open(path)
	if err != nil {
		return World{}, fmt.Errorf("open world: %w", err)
	}
	defer file.Close()
	world, err := LoadWorld(file)
	if err != nil {
		return World{}, fmt.Errorf("%s: %w", path, err)
	}
	return world, nil
}

// ExampleWorld returns the world of the examples: three zones, six instances, and the subnets and groups that the
// example manifests name.
func ExampleWorld() World {
	var world World
	// The file is part of this package, and a test reads it strictly.
	if err := yaml.Unmarshal(exampleWorld, &world); err != nil {
		panic(fmt.Sprintf("awssim: example world: %v", err))
	}
	return world
}
