// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command terraform checks the files of a Terraform module without Terraform and its provider: their syntax, and each
// name in them. It knows the arguments, the nested blocks and the attributes of resources and data sources from a file
// that test/programs takes from the provider. It evaluates nothing, so it finds no wrong type and no wrong function.
//
// The arguments are that file and the folder of the module.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclparse"
	"github.com/hashicorp/hcl/v2/hclsyntax"
)

// provider has the resources and data sources of a provider, by type.
type provider struct {
	Resources map[string]*block `json:"resources"`
	Data      map[string]*block `json:"data"`
}

// block is what a block can have.
type block struct {
	// Attributes are "required", "optional" or "computed", by name. A module can read all, and set the first two.
	Attributes map[string]string `json:"attributes"`
	Blocks     map[string]*block `json:"blocks,omitempty"`
	// Min is the minimum number of such blocks in the outer one.
	Min int `json:"min,omitempty"`
}

func main() {
	log.SetFlags(0)
	if len(os.Args) != 3 {
		log.Fatal("usage: terraform SCHEMA FOLDER")
	}
	if err := check(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

// check returns an error with all problems of the module.
func check(schema, folder string) error {
	content, err := os.ReadFile(schema)
	if err != nil {
		return err
	}
	m := module{names: map[string]map[string]*block{}}
	if err := json.Unmarshal(content, &m.provider); err != nil {
		return fmt.Errorf("%s: %w", schema, err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.tf"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no *.tf", folder))
	}
	parser := hclparse.NewParser()
	var bodies []*hclsyntax.Body
	for _, file := range files {
		parsed, problems := parser.ParseHCLFile(file)
		m.problems = append(m.problems, problems...)
		if body, is := parsed.Body.(*hclsyntax.Body); is {
			bodies = append(bodies, body)
		}
	}
	for _, body := range bodies {
		m.declare(body)
	}
	for _, body := range bodies {
		m.examine(body)
	}
	var all []error
	for _, problem := range m.problems {
		all = append(all, problem)
	}
	return errors.Join(all...)
}

// module is what a module declares, and the problems that it has.
type module struct {
	provider provider
	// names are the declared objects by group: "var", "local", "data.TYPE" or the type of a resource. Those of
	// variables and locals are nil.
	names    map[string]map[string]*block
	problems hcl.Diagnostics
}

func (m *module) wrong(at hcl.Range, format string, arguments ...any) {
	m.problems = append(m.problems, &hcl.Diagnostic{
		Severity: hcl.DiagError, Summary: "Wrong name", Detail: fmt.Sprintf(format, arguments...), Subject: &at,
	})
}

// declare takes the names of the objects that a file declares.
func (m *module) declare(body *hclsyntax.Body) {
	add := func(group, name string, b *block) {
		if m.names[group] == nil {
			m.names[group] = map[string]*block{}
		}
		m.names[group][name] = b
	}
	for _, b := range body.Blocks {
		switch {
		case b.Type == "variable" && len(b.Labels) == 1:
			add("var", b.Labels[0], nil)
		case b.Type == "locals":
			for name := range b.Body.Attributes {
				add("local", name, nil)
			}
		case b.Type == "resource" && len(b.Labels) == 2:
			add(b.Labels[0], b.Labels[1], m.provider.Resources[b.Labels[0]])
		case b.Type == "data" && len(b.Labels) == 2:
			add("data."+b.Labels[0], b.Labels[1], m.provider.Data[b.Labels[0]])
		}
	}
}

// language has the blocks of Terraform itself whose arguments are fixed.
var language = map[string]*block{
	"variable": {
		Attributes: optional("type", "description", "default", "nullable", "sensitive"),
		Blocks:     map[string]*block{"validation": {Attributes: optional("condition", "error_message")}},
	},
	"output": {Attributes: optional("value", "description", "sensitive")},
}

// meta is what every resource and data source can have.
var meta = block{
	Attributes: optional("for_each", "count", "depends_on", "provider"),
	Blocks: map[string]*block{"lifecycle": {
		Attributes: optional("ignore_changes", "create_before_destroy", "prevent_destroy", "replace_triggered_by"),
		Blocks: map[string]*block{
			"precondition":  {Attributes: optional("condition", "error_message")},
			"postcondition": {Attributes: optional("condition", "error_message")},
		},
	}},
}

func optional(names ...string) map[string]string {
	all := map[string]string{}
	for _, name := range names {
		all[name] = "optional"
	}
	return all
}

// examine checks the blocks of a file, and the references in them.
func (m *module) examine(body *hclsyntax.Body) {
	for _, b := range body.Blocks {
		switch b.Type {
		case "variable", "output":
			m.block(b.Body, language[b.Type], b.DefRange())
		case "resource", "data":
			m.object(b)
		case "terraform", "provider", "locals":
		default:
			m.wrong(b.TypeRange, "Terraform has no block %s", b.Type)
		}
		if b.Type == "variable" || b.Type == "terraform" {
			continue // types of variables and versions look like references
		}
		problems := hclsyntax.VisitAll(b.Body, func(node hclsyntax.Node) hcl.Diagnostics {
			if reference, is := node.(*hclsyntax.ScopeTraversalExpr); is {
				m.reference(reference)
			}
			return nil
		})
		m.problems = append(m.problems, problems...)
	}
}

// object checks a resource or a data source.
func (m *module) object(b *hclsyntax.Block) {
	types := m.provider.Resources
	if b.Type == "data" {
		types = m.provider.Data
	}
	if len(b.Labels) != 2 || types[b.Labels[0]] == nil {
		m.wrong(b.DefRange(), "the schema has no %s of type %v; if the provider has it, write the schema again", b.Type,
			b.Labels)
		return
	}
	can := *types[b.Labels[0]]
	can.Attributes, can.Blocks = maps.Clone(can.Attributes), maps.Clone(can.Blocks)
	if can.Blocks == nil {
		can.Blocks = map[string]*block{}
	}
	maps.Copy(can.Attributes, meta.Attributes)
	maps.Copy(can.Blocks, meta.Blocks)
	m.block(b.Body, &can, b.DefRange())
}

// block checks a block and those in it.
func (m *module) block(body *hclsyntax.Body, can *block, at hcl.Range) {
	for name, attribute := range body.Attributes {
		if is := can.Attributes[name]; is == "" || is == "computed" {
			m.wrong(attribute.NameRange, "there is no argument %s here", name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(can.Attributes)) {
		if can.Attributes[name] == "required" && body.Attributes[name] == nil {
			m.wrong(at, "the argument %s is required", name)
		}
	}
	counts := map[string]int{}
	for _, inner := range body.Blocks {
		kind, content := inner.Type, inner.Body
		if kind == "dynamic" && len(inner.Labels) == 1 {
			kind = inner.Labels[0]
			for _, b := range inner.Body.Blocks {
				content = b.Body
			}
		}
		if counts[kind]++; can.Blocks[kind] == nil {
			m.wrong(inner.TypeRange, "there is no block %s here", kind)
			continue
		}
		m.block(content, can.Blocks[kind], inner.DefRange())
	}
	for _, kind := range slices.Sorted(maps.Keys(can.Blocks)) {
		if least := can.Blocks[kind].Min; counts[kind] < least {
			m.wrong(at, "the block %s is required", kind)
		}
	}
}

// reference checks that what an expression names exists.
func (m *module) reference(expression *hclsyntax.ScopeTraversalExpr) {
	var names []string
	for _, step := range expression.Traversal {
		switch step := step.(type) {
		case hcl.TraverseRoot:
			names = append(names, step.Name)
		case hcl.TraverseAttr:
			names = append(names, step.Name)
		}
	}
	group, rest := names[0], names[1:]
	if group == "data" && len(rest) > 0 {
		group, rest = "data."+rest[0], rest[1:]
	}
	known := m.names[group] != nil || m.provider.Resources[group] != nil || group == "var" || group == "local"
	if len(rest) == 0 || !known {
		return // each.value, path.module, the iterator of a dynamic block, a word such as desired_capacity
	}
	declared, is := m.names[group][rest[0]]
	switch {
	case !is:
		m.wrong(expression.SrcRange, "%s.%s is not declared", group, rest[0])
	case declared != nil && len(rest) > 1 && declared.Attributes[rest[1]] == "" && declared.Blocks[rest[1]] == nil:
		m.wrong(expression.SrcRange, "%s has no attribute %s", group, rest[1])
	}
}
