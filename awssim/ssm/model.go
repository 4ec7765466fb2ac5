// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package ssm is a model of the Parameter Store of AWS Systems Manager, for reading and writing plain parameters. Its
// parameters are those of the world, from which EC2 also resolves the images of launch templates. Secure strings,
// versions by number or label, and policies are not modelled.
package ssm

import (
	"maps"
	"regexp"
	"strings"
	"time"

	"github.com/multieni/multieni/awssim/apierror"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/timeline"
)

// maxNames of one GetParameters, and maxValue of a standard parameter in bytes (Systems Manager endpoints and quotas).
const (
	maxNames = 10
	maxValue = 4096
)

// typeString is the one type of parameters.
const typeString = "String"

// The tier and the data type of all parameters.
const (
	tierStandard = "Standard"
	dataTypeText = "text"
)

var validName = regexp.MustCompile(`^[A-Za-z0-9_./-]+$`)

// Model is the parameters of an account in a region. Use it from one goroutine at a time.
type Model struct {
	ec2      *ec2.Model
	timeline *timeline.Timeline
	versions map[string]int       // of written parameters
	modified map[string]time.Time // when they were
	began    time.Time
}

// New returns a model of the parameters that EC2 knows.
func New(of *ec2.Model, t *timeline.Timeline) *Model {
	return &Model{ec2: of, timeline: t, versions: map[string]int{}, modified: map[string]time.Time{}, began: t.Now()}
}

// Saved is all that a model holds, as it is saved. The parameters are EC2's.
type Saved struct {
	Versions map[string]int       `json:"versions"`
	Modified map[string]time.Time `json:"modified"`
	Began    time.Time            `json:"began"`
}

// Save returns all that the model holds. It shares memory with the model: encode it before the next call.
func (m *Model) Save() Saved { return Saved{m.versions, m.modified, m.began} }

// Load replaces what the model holds.
func (m *Model) Load(saved Saved) {
	m.versions, m.modified, m.began = map[string]int{}, map[string]time.Time{}, saved.Began
	maps.Copy(m.versions, saved.Versions)
	maps.Copy(m.modified, saved.Modified)
}

// Parameter is a parameter.
type Parameter struct {
	ARN     string `json:"ARN"`
	Name    string `json:"Name"`
	Type    string `json:"Type"`
	Value   string `json:"Value"`
	Version int    `json:"Version"`
	// DataType is text, and LastModifiedDate the seconds since 1970 at which the parameter was written.
	DataType         string  `json:"DataType"`
	LastModifiedDate float64 `json:"LastModifiedDate"`
}

// GetParameterInput is the request of GetParameter. WithDecryption has no effect on plain parameters.
type GetParameterInput struct {
	Name           string `json:"Name"`
	WithDecryption bool   `json:"WithDecryption"`
}

// GetParameterOutput is its answer.
type GetParameterOutput struct {
	Parameter *Parameter `json:"Parameter"`
}

// GetParameter reads a parameter.
func (m *Model) GetParameter(in *GetParameterInput) (*GetParameterOutput, error) {
	if err := plainName(in.Name); err != nil {
		return nil, err
	}
	p := m.find(in.Name)
	if p == nil {
		return nil, apierror.New("ParameterNotFound", "Parameter %s not found.", in.Name)
	}
	return &GetParameterOutput{p}, nil
}

// plainName refuses names with a selector, such as /name:2 and /name:label, and names of other accounts' parameters.
func plainName(name string) error {
	if strings.Contains(name, ":") {
		return apierror.New("ValidationException", "Parameter name %q: awssim does not model versions, labels and ARNs; "+
			"give the name alone", name)
	}
	return nil
}

func (m *Model) find(name string) *Parameter {
	value, ok := m.ec2.Parameter(name)
	if !ok {
		return nil
	}
	return &Parameter{ARN: m.ec2.ParameterARN(name), Name: name, Type: typeString, Value: value,
		Version: m.versions[name] + 1, DataType: dataTypeText, LastModifiedDate: float64(m.written(name).UnixMilli()) / 1000}
}

// written is when a parameter was written: those of the world when the account began.
func (m *Model) written(name string) time.Time {
	if at, ok := m.modified[name]; ok {
		return at
	}
	return m.began
}

// GetParametersInput is the request of GetParameters.
type GetParametersInput struct {
	Names          []string `json:"Names"`
	WithDecryption bool     `json:"WithDecryption"`
}

// GetParametersOutput is its answer.
type GetParametersOutput struct {
	Parameters        []*Parameter `json:"Parameters"`
	InvalidParameters []string     `json:"InvalidParameters"`
}

// GetParameters reads up to ten parameters, and returns the names that do not exist.
func (m *Model) GetParameters(in *GetParametersInput) (*GetParametersOutput, error) {
	if len(in.Names) < 1 || len(in.Names) > maxNames {
		return nil, apierror.New("ValidationException", "%d names were given, and there must be from 1 to %d",
			len(in.Names), maxNames)
	}
	out := &GetParametersOutput{Parameters: []*Parameter{}, InvalidParameters: []string{}}
	for _, name := range in.Names {
		if err := plainName(name); err != nil {
			return nil, err
		}
		if p := m.find(name); p != nil {
			out.Parameters = append(out.Parameters, p)
		} else {
			out.InvalidParameters = append(out.InvalidParameters, name)
		}
	}
	return out, nil
}

// PutParameterInput is the request of PutParameter.
type PutParameterInput struct {
	Name      string `json:"Name"`
	Type      string `json:"Type"`
	Value     string `json:"Value"`
	Overwrite bool   `json:"Overwrite"`
	Tier      string `json:"Tier"`
	DataType  string `json:"DataType"`
}

// PutParameterOutput is its answer.
type PutParameterOutput struct {
	Tier    string `json:"Tier"`
	Version int    `json:"Version"`
}

// PutParameter writes a parameter.
func (m *Model) PutParameter(in *PutParameterInput) (*PutParameterOutput, error) {
	known := m.find(in.Name)
	switch {
	case !validName.MatchString(in.Name):
		return nil, apierror.New("ValidationException", "Parameter name %q: must be of letters, digits and .-_/", in.Name)
	case in.Type != typeString && (in.Type != "" || known == nil):
		return nil, apierror.New("UnsupportedParameterType",
			"The parameter type %q is not supported: awssim models only %s.", in.Type, typeString)
	case in.Tier != "" && in.Tier != tierStandard:
		return nil, apierror.New("ValidationException", "awssim models only the tier %s, not %q", tierStandard, in.Tier)
	case in.DataType != "" && in.DataType != dataTypeText:
		return nil, apierror.New("ValidationException", "awssim models only the data type %s, not %q", dataTypeText,
			in.DataType)
	case in.Value == "" || len(in.Value) > maxValue:
		return nil, apierror.New("ValidationException", "The value has %d bytes, and must have from 1 to %d.",
			len(in.Value), maxValue)
	case known != nil && !in.Overwrite:
		return nil, apierror.New("ParameterAlreadyExists",
			"The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")
	}
	if known != nil {
		m.versions[in.Name]++
	}
	m.modified[in.Name] = m.timeline.Now()
	m.ec2.SetParameter(in.Name, in.Value)
	return &PutParameterOutput{tierStandard, m.versions[in.Name] + 1}, nil
}
