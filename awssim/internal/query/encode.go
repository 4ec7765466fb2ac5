// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package query

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/xml"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// timeFormat is EC2's format of times.
const timeFormat = "2006-01-02T15:04:05.000Z"

// Encoder writes Go values as the XML of a response, in EC2's form unless Members is set. It caches the fields of
// types; the zero value is ready, and safe for concurrent use.
//
// It replaces encoding/xml because EC2's lists are elements that wrap <item> elements at every level, and because a
// page of 1,000 interfaces has 50,000 elements: Encoder is several times as fast.
type Encoder struct {
	// Members names the members of lists as services other than EC2 do: member, and not item.
	Members bool

	plans sync.Map // reflect.Type -> []field
}

// Encode appends the fields of the struct value, each as an element.
//
// An element is named by the field's xml tag or, without one, by its json tag: EC2's two notations differ mainly in the
// names of lists. As in encoding/json, "-" omits a field, omitempty and omitzero omit the zero value, and the fields of
// an embedded struct belong to the outer one. The tag wire:"always" overrides omitempty, for lists that EC2 sends
// although they are empty. A map of strings is EC2's list of tags.
func (e *Encoder) Encode(buffer *bytes.Buffer, value any) {
	e.structure(buffer, reflect.Indirect(reflect.ValueOf(value)))
}

// defaultItem is the element of a list's member in EC2.
const defaultItem = "item"

// field has the properties of one field of a struct that Encode needs.
type field struct {
	index    int
	name     string
	item     string // the element of list members
	omitZero bool
	embedded bool
}

func (e *Encoder) structure(b *bytes.Buffer, value reflect.Value) {
	for _, f := range e.plan(value.Type()) {
		member := value.Field(f.index)
		switch {
		case f.embedded:
			e.structure(b, member)
		case f.omitZero && isZero(member):
		default:
			e.element(b, f.name, f.item, member)
		}
	}
}

func (e *Encoder) element(b *bytes.Buffer, name, item string, value reflect.Value) {
	if value.Kind() == reflect.Pointer && value.IsNil() {
		return
	}
	b.WriteByte('<')
	b.WriteString(name)
	b.WriteByte('>')
	e.content(b, item, reflect.Indirect(value))
	b.WriteString("</")
	b.WriteString(name)
	b.WriteByte('>')
}

func (e *Encoder) content(b *bytes.Buffer, item string, value reflect.Value) {
	switch value.Kind() {
	case reflect.String:
		escape(b, value.String())
	case reflect.Bool:
		b.WriteString(strconv.FormatBool(value.Bool()))
	case reflect.Int:
		b.Write(strconv.AppendInt(b.AvailableBuffer(), value.Int(), 10))
	case reflect.Float64:
		b.Write(strconv.AppendFloat(b.AvailableBuffer(), value.Float(), 'f', -1, 64))
	case reflect.Slice:
		for i := range value.Len() {
			e.element(b, item, e.itemName(), value.Index(i))
		}
	case reflect.Map:
		tags(b, value)
	case reflect.Struct:
		e.text(b, value)
	default:
		panic(fmt.Sprintf("query: cannot encode a %s", value.Type()))
	}
}

func (e *Encoder) itemName() string {
	if e.Members {
		return listMember
	}
	return defaultItem
}

// text writes structs that are a single word on the wire, such as times and addresses, and passes all others to
// structure.
func (e *Encoder) text(b *bytes.Buffer, value reflect.Value) {
	switch known := value.Interface().(type) {
	case time.Time:
		b.Write(known.UTC().AppendFormat(b.AvailableBuffer(), timeFormat))
	case encoding.TextAppender:
		word, err := known.AppendText(b.AvailableBuffer())
		if err != nil {
			panic(fmt.Sprintf("query: encode a %s: %v", value.Type(), err))
		}
		b.Write(word)
	default:
		e.structure(b, value)
	}
}

func tags(b *bytes.Buffer, byKey reflect.Value) {
	keys := byKey.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, key := range keys {
		b.WriteString("<item><key>")
		escape(b, key.String())
		b.WriteString("</key><value>")
		escape(b, byKey.MapIndex(key).String())
		b.WriteString("</value></item>")
	}
}

func escape(b *bytes.Buffer, text string) {
	if !strings.ContainsFunc(text, needsEscape) {
		b.WriteString(text)
		return
	}
	// EscapeText fails only when its writer does, and a buffer does not.
	_ = xml.EscapeText(b, []byte(text))
}

func needsEscape(r rune) bool {
	return r < ' ' || r > '~' || r == '<' || r == '>' || r == '&' || r == '"' || r == '\''
}

func isZero(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Slice, reflect.Map:
		return value.Len() == 0
	default:
		return value.IsZero()
	}
}

func (e *Encoder) plan(structure reflect.Type) []field {
	known, _ := e.plans.Load(structure)
	if fields, ok := known.([]field); ok {
		return fields
	}
	var fields []field
	for i := range structure.NumField() {
		f := structure.Field(i)
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		name = cmp.Or(f.Tag.Get("xml"), name)
		if !f.IsExported() || name == "-" {
			continue
		}
		name, item, _ := strings.Cut(name, ">")
		fields = append(fields, field{
			index:    i,
			name:     name,
			item:     cmp.Or(item, e.itemName()),
			omitZero: strings.HasPrefix(options, "omit") && f.Tag.Get("wire") != "always",
			embedded: f.Anonymous && name == "",
		})
	}
	e.plans.Store(structure, fields)
	return fields
}
