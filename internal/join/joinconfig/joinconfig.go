// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package joinconfig reads an operator's configuration for instances that join, in either of the two forms of package
// lifecycle: a document, or the parameters of the CloudFormation templates for Multus node groups.
package joinconfig

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/core/selector"
)

// parameters matches the names of parameters in every source of names and values, for example the environment. The
// names of subnets are numbered without a limit.
var parameters = [...]string{
	lifecycle.ParameterAllZones, lifecycle.ParameterGroups, lifecycle.ParameterTagKey, lifecycle.ParameterLowest,
	lifecycle.ParameterTags, lifecycle.ParameterCluster,
	lifecycle.ParameterHooks, lifecycle.ParameterFailure,
}

// Parameters keeps the names that are parameters.
func Parameters(values map[string]string) map[string]string {
	kept := map[string]string{}
	for name, value := range values {
		for _, known := range parameters {
			if name == known || strings.HasPrefix(name, lifecycle.ParameterSubnets) {
				kept[name] = value
			}
		}
	}
	return kept
}

// Pairs reads NAME=VALUE. It keeps names of the published Multus functions, for which [lifecycle.ParseParameters]
// returns an error.
func Pairs(lines []string) (map[string]string, error) {
	values := map[string]string{}
	for _, line := range lines {
		name, value, found := strings.Cut(line, "=")
		if !found || len(Parameters(map[string]string{name: value})) == 0 && !lifecycle.LegacyEnvironment(name) {
			return nil, fmt.Errorf("%q is not NAME=VALUE with the name of a parameter: %s1 and so on, %s", line,
				lifecycle.ParameterSubnets, strings.Join(parameters[:], ", "))
		}
		values[name] = value
	}
	return values, nil
}

// Environment reads parameters from NAME=VALUE lines that also have other variables, and keeps the names of the
// published Multus functions as [Pairs] does.
func Environment(lines []string) map[string]string {
	values := map[string]string{}
	for _, line := range lines {
		name, value, _ := strings.Cut(line, "=")
		maps.Copy(values, Parameters(map[string]string{name: value}))
		if lifecycle.LegacyEnvironment(name) {
			values[name] = value
		}
	}
	return values
}

// Document reads the document form, in YAML or JSON. Its errors name the source.
func Document(from string, text []byte) (lifecycle.Parameters, error) {
	asJSON, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return lifecycle.Parameters{}, fmt.Errorf("%s: %w", from, err)
	}
	config, err := lifecycle.ParseConfig(asJSON)
	if err != nil {
		return lifecycle.Parameters{}, fmt.Errorf("%s: %w", from, err)
	}
	return lifecycle.Parameters{Config: config}, nil
}

// Reader reads subnets.
type Reader interface {
	Subnets(context.Context, selector.SubnetTerms) ([]eni.Subnet, error)
}

// Check compares the configuration with EC2 at the start: the parameter form must have one list of subnets for each
// zone.
func Check(ctx context.Context, p lifecycle.Parameters, reader Reader) error {
	var ids []string
	for _, zone := range p.Zones {
		ids = append(ids, zone.IDs...)
	}
	if len(ids) == 0 {
		return nil
	}
	subnets, err := reader.Subnets(ctx, selector.SubnetTerms{IDs: ids})
	if err != nil {
		return err
	}
	return p.CheckZones(subnets)
}
