// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// UnknownParameterError is a parameter without a field in the input.
type UnknownParameterError struct{ Parameter string }

func (e *UnknownParameterError) Error() string {
	return "unknown parameter " + e.Parameter
}

// InvalidValueError is a value that does not fit the type of its parameter.
type InvalidValueError struct{ Parameter, Value string }

func (e *InvalidValueError) Error() string {
	return fmt.Sprintf("invalid value %q for parameter %s", e.Value, e.Parameter)
}

// Decode sets the fields of the struct that input points to, from a form. It ignores Action and Version.
//
// The `query` tag of a field is the name of the parameter. Nested structs are reached by a dot, list members by their
// number, from 1: SourceDestCheck.Value, Filter.1.Value.2. The fields of an embedded struct belong to the outer one.
// A pointer field stays nil when the parameter is absent.
//
// Services other than EC2 have a "member" between a list and the number, as in Names.member.1; Decode skips it.
//
// A parameter without a field is an [*UnknownParameterError], a value that cannot be parsed an [*InvalidValueError].
func Decode(form url.Values, input any) error {
	root := &node{}
	for name, values := range form {
		if name != "Action" && name != "Version" {
			root.insert(strings.Split(name, "."), values[0])
		}
	}
	return root.into(reflect.ValueOf(input).Elem(), "")
}

// listMember is between a list and the number of a member, and around a member in an answer, in services other than
// EC2.
const listMember = "member"

// node is a parameter name's part between two dots.
type node struct {
	value    *string
	children map[string]*node
}

func (n *node) insert(path []string, value string) {
	for _, part := range path {
		if part == listMember {
			continue
		}
		if n.children == nil {
			n.children = map[string]*node{}
		}
		if n.children[part] == nil {
			n.children[part] = &node{}
		}
		n = n.children[part]
	}
	n.value = &value
}

// into sets target. Path is the name of the parameter in the request.
func (n *node) into(target reflect.Value, path string) error {
	switch target.Kind() {
	case reflect.Pointer:
		target.Set(reflect.New(target.Type().Elem()))
		return n.into(target.Elem(), path)
	case reflect.Struct:
		return n.intoStruct(target, path)
	case reflect.Slice:
		return n.intoSlice(target, path)
	default:
		return n.intoScalar(target, path)
	}
}

func (n *node) intoStruct(target reflect.Value, path string) error {
	if n.value != nil {
		return &UnknownParameterError{path}
	}
	for _, name := range n.names() {
		field, ok := fieldNamed(target, name)
		if !ok {
			return &UnknownParameterError{join(path, n.children[name].firstLeaf(name))}
		}
		if err := n.children[name].into(field, join(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (n *node) intoSlice(target reflect.Value, path string) error {
	numbers := make([]int, 0, len(n.children))
	for name := range n.children {
		number, err := strconv.Atoi(name)
		if err != nil || number < 1 {
			return &UnknownParameterError{join(path, name)}
		}
		numbers = append(numbers, number)
	}
	slices.Sort(numbers)
	list := reflect.MakeSlice(target.Type(), len(numbers), len(numbers))
	for i, number := range numbers {
		name := strconv.Itoa(number)
		child, ok := n.children[name]
		if !ok {
			return &UnknownParameterError{path}
		}
		if err := child.into(list.Index(i), join(path, name)); err != nil {
			return err
		}
	}
	target.Set(list)
	return nil
}

func (n *node) intoScalar(target reflect.Value, path string) error {
	if n.value == nil {
		return &UnknownParameterError{join(path, n.firstLeaf(""))}
	}
	switch target.Kind() {
	case reflect.String:
		target.SetString(*n.value)
		return nil
	case reflect.Bool:
		parsed, err := strconv.ParseBool(*n.value)
		if err != nil {
			return &InvalidValueError{path, *n.value}
		}
		target.SetBool(parsed)
		return nil
	case reflect.Int:
		parsed, err := strconv.ParseInt(*n.value, 10, 32)
		if err != nil {
			return &InvalidValueError{path, *n.value}
		}
		target.SetInt(parsed)
		return nil
	default:
		panic(fmt.Sprintf("query: parameter %s has a field of type %s", path, target.Type()))
	}
}

// names returns the names of the children, sorted, so that the same one of several errors is always reported.
func (n *node) names() []string {
	names := make([]string, 0, len(n.children))
	for name := range n.children {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// firstLeaf returns the dotted name of the first parameter at or below the node.
func (n *node) firstLeaf(path string) string {
	for n.value == nil && len(n.children) > 0 {
		name := n.names()[0]
		path, n = join(path, name), n.children[name]
	}
	return path
}

func join(path, name string) string {
	if path == "" || name == "" {
		return path + name
	}
	return path + "." + name
}

// fieldNamed finds the field whose query tag is name, in the struct or in what it embeds.
func fieldNamed(target reflect.Value, name string) (reflect.Value, bool) {
	structure := target.Type()
	for i := range structure.NumField() {
		field := structure.Field(i)
		if field.Anonymous {
			if found, ok := fieldNamed(target.Field(i), name); ok {
				return found, true
			}
		} else if field.Tag.Get("query") == name {
			return target.Field(i), true
		}
	}
	return reflect.Value{}, false
}
