// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package query_test

import (
	"bytes"
	"errors"
	"net/netip"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim/internal/query"
)

// Paged is embedded, as in requests.
type Paged struct {
	Max *int `query:"MaxResults"`
}

type request struct {
	Paged
	ID      string   `query:"ResourceId"`
	IDs     []string `query:"InstanceId"`
	DryRun  bool     `query:"DryRun"`
	Filters []struct {
		Name   string   `query:"Name"`
		Values []string `query:"Value"`
	} `query:"Filter"`
	Description *struct {
		Value string `query:"Value"`
	} `query:"Description"`
}

func TestDecode(t *testing.T) {
	form := url.Values{
		"Action": {"X"}, "Version": {"1"}, "ResourceId": {"r"}, "MaxResults": {"5"}, "DryRun": {"true"},
		"InstanceId.2": {"b"}, "InstanceId.10": {"c"}, "InstanceId.1": {"a"},
		"Filter.1.Name": {"n"}, "Filter.1.Value.1": {"v"}, "Filter.1.Value.2": {"w"}, "Description.Value": {""},
	}
	var got request
	if err := query.Decode(form, &got); err != nil {
		t.Fatal(err)
	}
	if got.ID != "r" || *got.Max != 5 || !got.DryRun || got.Description == nil || got.Description.Value != "" {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"a", "b", "c"}, got.IDs); diff != "" {
		t.Errorf("IDs (-want +got):\n%s", diff)
	}
	if len(got.Filters) != 1 || !cmp.Equal(got.Filters[0].Values, []string{"v", "w"}) {
		t.Errorf("filters %+v", got.Filters)
	}
}

func TestDecodeLeavesAbsentParametersUnset(t *testing.T) {
	var got request
	if err := query.Decode(url.Values{}, &got); err != nil || got.Max != nil || got.Description != nil || got.IDs != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestDecodeRefusals(t *testing.T) {
	for name, row := range map[string]struct{ parameter, value, unknown, invalid string }{
		"unknown":                    {parameter: "Colour", unknown: "Colour"},
		"unknown, nested":            {parameter: "Filter.1.Colour.Deep", unknown: "Filter.1.Colour.Deep"},
		"a list without numbers":     {parameter: "InstanceId.first", unknown: "InstanceId.first"},
		"a list that counts from 0":  {parameter: "InstanceId.0", unknown: "InstanceId.0"},
		"a number with a zero":       {parameter: "InstanceId.01", unknown: "InstanceId"},
		"a word that has members":    {parameter: "ResourceId.1", unknown: "ResourceId.1"},
		"a structure that is a word": {parameter: "Description", unknown: "Description"},
		"names are case-sensitive":   {parameter: "resourceId", unknown: "resourceId"},
		"no truth":                   {parameter: "DryRun", value: "maybe", invalid: "DryRun"},
		"no number":                  {parameter: "MaxResults", value: "5.5", invalid: "MaxResults"},
		"too large":                  {parameter: "MaxResults", value: "99999999999", invalid: "MaxResults"},
	} {
		t.Run(name, func(t *testing.T) {
			err := query.Decode(url.Values{row.parameter: {row.value}}, &request{})
			unknown, _ := errors.AsType[*query.UnknownParameterError](err)
			invalid, _ := errors.AsType[*query.InvalidValueError](err)
			switch {
			case row.unknown != "" && (unknown == nil || unknown.Parameter != row.unknown):
				t.Errorf("got %v, want unknown parameter %s", err, row.unknown)
			case row.invalid != "" && (invalid == nil || invalid.Parameter != row.invalid || invalid.Value != row.value):
				t.Errorf("got %v, want invalid parameter %s", err, row.invalid)
			}
		})
	}
}

func TestEncode(t *testing.T) {
	type inner struct {
		Address netip.Addr `json:"address"`
	}
	type Base struct {
		Kind string `json:"kind"`
	}
	value := struct {
		Base
		Text    string            `json:"text"`
		Empty   string            `json:"empty"`
		Omitted string            `json:"omitted,omitempty"`
		Zero    time.Time         `json:"zero,omitzero"`
		Hidden  string            `json:"hidden" xml:"-"`
		Secret  string            `json:"-"`
		Number  int               `json:"number"`
		Share   float64           `json:"share"`
		Truth   bool              `json:"truth"`
		At      time.Time         `json:"at"`
		List    []*inner          `json:"list" xml:"listSet"`
		Words   []string          `json:"words"`
		Nothing *inner            `json:"nothing"`
		Tags    map[string]string `json:"tags" xml:"tagSet"`
		private int
	}{
		Base: Base{"k"}, Text: `a<b>&"é`, Number: -5, Share: 0.5, Truth: true, Hidden: "x", Secret: "x",
		At:   time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC),
		List: []*inner{{netip.MustParseAddr("10.0.0.1")}}, Words: []string{"x", "y"},
		Tags: map[string]string{"b": "<", "a": ""}, private: 1,
	}
	want := `<kind>k</kind><text>a&lt;b&gt;&amp;&#34;é</text><empty></empty><number>-5</number><share>0.5</share>` +
		`<truth>true</truth><at>2026-01-02T03:04:05.006Z</at><listSet><item><address>10.0.0.1</address></item></listSet>` +
		`<words><item>x</item><item>y</item></words>` +
		`<tagSet><item><key>a</key><value></value></item><item><key>b</key><value>&lt;</value></item></tagSet>`
	var encoder query.Encoder
	for range 2 { // the second time from the cache
		var got bytes.Buffer
		encoder.Encode(&got, &value)
		if diff := cmp.Diff(want, got.String()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}
