// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/report"
)

// fill sets every string in a value to the text, with one element in each list and map.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(v.Field(i), text)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	}
}

// Agents, tags and EC2 write texts that users read. No view passes on what controls a terminal, or imitates a line.
func TestNoViewControlsTheTerminal(t *testing.T) {
	var fleet report.Fleet
	fill(reflect.ValueOf(&fleet).Elem(), "x\x1b[2J\u009b31m\u202e\rover\nfake line")
	var check report.Checks
	fill(reflect.ValueOf(&check).Elem(), "x\x1b[2J\u009b31m\u202e\rover\nfake line")
	remains := report.Remains{Nodes: 1, Held: []report.Held{{Object: "o", Message: "x\x1b[2J\nfake line"}}}
	nodeMap := report.NewNodeMap(fleet.Nodes[0], nil, eni.Limits{}, "x\x1b[2J\nfake line")
	for name, view := range map[string]interface{ Text(report.Page) string }{
		"fleet": report.WhyFleet(fleet), "an interface": report.WhyInterface(fleet, fleet.Nodes[0].Interfaces[0]), "topology": report.NewTopology(fleet), "why a NodeENI": report.WhyNodeENI(fleet, fleet.NodeENIs[0]),
		"why a node": report.WhyNode(fleet, fleet.Nodes[0]), "node": nodeMap, "checks": check, "remains": remains,
	} {
		for _, page := range []report.Page{{}, {Width: 80, Wide: true}, {Width: 80, Colours: true}} {
			text := regexp.MustCompile("\x1b\\[[0-9]{1,2}m").ReplaceAllString(view.Text(page), "")
			if at := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) }); at >= 0 {
				t.Errorf("%s on %+v passes on %q", name, page, text[at:min(len(text), at+40)])
			}
			if strings.Contains("\n"+text, "\nfake line") {
				t.Errorf("%s on %+v has a line that is not its own:\n%s", name, page, text)
			}
		}
	}
}
