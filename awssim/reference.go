// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/multieni/multieni/awssim/ec2"
)

// Action describes a modelled action of a service.
type Action struct {
	// Service is its name in the documents, for example EC2.
	Service, Name string
	// Parameters are those of the request; ".N" marks a list, and braces have the members of a structure. Filters of EC2
	// are not among them.
	Parameters []string
	// Filters that an action of EC2 knows.
	Filters []string
}

// Actions returns all modelled actions, by service and name.
func Actions() []Action {
	services := newServices()
	filters := ec2.Filters()
	var all []Action
	for _, s := range slices.Concat([]service{services.ec2}, slices.Collect(maps.Values(services.byVersion)),
		slices.Collect(maps.Values(services.byTarget))) {
		for name, o := range s.operations {
			a := Action{Service: s.name, Name: name, Parameters: members(reflect.TypeOf(o.newInput()).Elem())}
			if s.name == serviceEC2 {
				a.Filters = filters[name]
			}
			all = append(all, a)
		}
	}
	slices.SortFunc(all, func(a, b Action) int {
		return strings.Compare(a.Service+"\x00"+a.Name, b.Service+"\x00"+b.Name)
	})
	return all
}

// members returns the parameters of a request, or of a structure in it, by their names on the wire.
func members(of reflect.Type) []string {
	tag := "json"
	isQuery := func(f reflect.StructField) bool { return f.Tag.Get("query") != "" }
	if slices.ContainsFunc(reflect.VisibleFields(of), isQuery) {
		tag = "query"
	}
	var all []string
	for i := range of.NumField() {
		field := of.Field(i)
		name, _, _ := strings.Cut(field.Tag.Get(tag), ",")
		switch {
		case field.Anonymous:
			all = append(all, members(field.Type)...)
		case !field.IsExported() || name == "" || name == "-" || name == "Filter":
		default:
			all = append(all, name+shape(field.Type))
		}
	}
	slices.Sort(all)
	return all
}

// shape is what follows the name of a parameter.
func shape(of reflect.Type) string {
	switch of.Kind() {
	case reflect.Pointer:
		return shape(of.Elem())
	case reflect.Slice:
		return ".N" + shape(of.Elem())
	case reflect.Struct:
		return "{" + strings.Join(members(of), ", ") + "}"
	default:
		return ""
	}
}
