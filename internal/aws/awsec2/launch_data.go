// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awsec2

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/multieni/multieni/internal/core/launchtemplate"
)

// CheckLaunchTemplateData reports the path of a member that EC2's RequestLaunchTemplateData does not have in this
// spelling, or whose value has another type. It knows new members of EC2 once the SDK has them.
func CheckLaunchTemplateData(data launchtemplate.Document) error {
	return checkValue("", map[string]any(data), reflect.TypeFor[types.RequestLaunchTemplateData]())
}

func checkValue(path string, value any, kind reflect.Type) error {
	for kind.Kind() == reflect.Pointer {
		kind = kind.Elem()
	}
	members, isObject := value.(map[string]any)
	elements, isList := value.([]any)
	switch {
	case value == nil:
		return nil
	case isObject && kind.Kind() == reflect.Struct && kind != reflect.TypeFor[time.Time]():
		return checkMembers(path, members, kind)
	case isList && kind.Kind() == reflect.Slice:
		return checkElements(path, elements, kind.Elem())
	case !fits(value, kind):
		return fmt.Errorf("%s must be %s, and is %s", path, wordFor(kind), encoded(value))
	default:
		return nil
	}
}

// fits reports whether a scalar value has the kind.
func fits(value any, kind reflect.Type) (fits bool) {
	switch kind.Kind() {
	case reflect.Struct:
		if kind == reflect.TypeFor[time.Time]() {
			_, fits = value.(string)
		}
	case reflect.String:
		_, fits = value.(string)
	case reflect.Bool:
		_, fits = value.(bool)
	case reflect.Int32, reflect.Int64:
		number, is := value.(float64)
		fits = is && number == float64(int64(number)) || !is && isInt(value)
	case reflect.Float64, reflect.Float32:
		_, fits = value.(float64)
	default:
		fits = kind.Kind() != reflect.Slice
	}
	return fits
}

func isInt(value any) bool {
	switch value.(type) {
	case int, int64:
		return true
	default:
		return false
	}
}

func checkMembers(path string, members map[string]any, kind reflect.Type) error {
	var names []string
	for name := range members {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		inner := strings.TrimPrefix(path+"."+name, ".")
		field, is := kind.FieldByName(name)
		if !is || !field.IsExported() {
			return fmt.Errorf("%s: there is no such member%s", inner, suggestion(name, kind))
		}
		if err := checkValue(inner, members[name], field.Type); err != nil {
			return err
		}
	}
	return nil
}

// suggestion names the probably intended member if only the spelling is wrong, else all members.
func suggestion(name string, kind reflect.Type) string {
	var all []string
	for _, field := range reflect.VisibleFields(kind) {
		if !field.IsExported() {
			continue
		}
		if strings.EqualFold(field.Name, name) {
			return fmt.Sprintf("; it is spelt %s", field.Name)
		}
		all = append(all, field.Name)
	}
	return "; there are " + strings.Join(all, ", ")
}

func checkElements(path string, elements []any, kind reflect.Type) error {
	for n, element := range elements {
		if err := checkValue(fmt.Sprintf("%s[%d]", path, n), element, kind); err != nil {
			return err
		}
	}
	return nil
}

func wordFor(kind reflect.Type) string {
	switch kind.Kind() {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	default:
		return "a whole number"
	}
}

func encoded(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return "something else"
	}
	return string(text)
}

// requestData converts a document to the SDK's request.
func requestData(data launchtemplate.Document) (*types.RequestLaunchTemplateData, error) {
	if err := CheckLaunchTemplateData(data); err != nil {
		return nil, fmt.Errorf("launch template data: %w", err)
	}
	var request types.RequestLaunchTemplateData
	if err := convertJSON(data, &request); err != nil {
		return nil, fmt.Errorf("launch template data: %w", err)
	}
	return &request, nil
}

// documentOf converts EC2's answer to a document without the members that the answer lacks.
func documentOf(data *types.ResponseLaunchTemplateData) (launchtemplate.Document, error) {
	var document map[string]any
	if err := convertJSON(data, &document); err != nil {
		return nil, fmt.Errorf("launch template data: %w", err)
	}
	said, _ := prune(document).(map[string]any)
	return launchtemplate.Document(said), nil
}

func convertJSON(from, to any) error {
	text, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.NewDecoder(bytes.NewReader(text)).Decode(to)
}

// prune drops members that are null or empty: the SDK represents an absent enumeration as an empty string.
func prune(value any) any {
	switch v := value.(type) {
	case map[string]any:
		kept := map[string]any{}
		for name, member := range v {
			if member != nil && member != "" && name != "ResultMetadata" {
				kept[name] = prune(member)
			}
		}
		return kept
	case []any:
		for n := range v {
			v[n] = prune(v[n])
		}
	}
	return value
}
