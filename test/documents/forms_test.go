// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package documents_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/multieni/multieni/test/documents"
)

// formField is a field of an issue form (GitHub documentation, "Syntax for GitHub's form schema").
type formField struct {
	Type       string `json:"type"`
	ID         string `json:"id"`
	Attributes struct {
		Label       string `json:"label"`
		Description string `json:"description"`
		Render      string `json:"render"`
		Value       string `json:"value"`
	} `json:"attributes"`
	Validations struct {
		Required bool `json:"required"`
	} `json:"validations"`
}

type form struct {
	Name        string      `json:"name"`
	Description string      `json:"description"`
	Labels      []string    `json:"labels"`
	Body        []formField `json:"body"`
}

// GitHub shows no form that it cannot read, and a page names each form by its name.
func TestIssueForms(t *testing.T) {
	words, support := words(t), read(t, filepath.Join(root, "SUPPORT.md"))
	files, err := filepath.Glob(filepath.Join(root, ".github/ISSUE_TEMPLATE/*.yml"))
	if err != nil || len(files) < 2 {
		t.Fatalf("%d forms, %v", len(files), err)
	}
	for _, file := range files {
		if filepath.Base(file) == "config.yml" {
			continue
		}
		content := read(t, file)
		var f form
		if err := yaml.UnmarshalStrict([]byte(content), &f); err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if f.Name == "" || f.Description == "" || !strings.Contains(support, `"`+f.Name+`"`) {
			t.Errorf("%s: the name %q with the description %q is not in SUPPORT.md", file, f.Name, f.Description)
		}
		var ids []string
		required := false
		for _, field := range f.Body {
			required = required || field.Validations.Required
			switch {
			case field.Type == "markdown" && field.Attributes.Value != "":
				continue
			case field.Type != "textarea" && field.Type != "input", field.Attributes.Label == "":
				t.Errorf("%s: a field of type %q has the label %q", file, field.Type, field.Attributes.Label)
			case field.ID == "" || slices.Contains(ids, field.ID):
				t.Errorf("%s: the ID %q is empty or not unique", file, field.ID)
			}
			ids = append(ids, field.ID)
		}
		if !required {
			t.Errorf("%s: no field is required", file)
		}
		for _, offence := range documents.InPage(documents.Parse(file, content), words) {
			t.Errorf("%s: %s", file, offence)
		}
	}
}

func TestContactLinksLeadToPagesThatExist(t *testing.T) {
	const repository = "https://github.com/multieni/multieni/"
	var config struct {
		Blank bool                                `json:"blank_issues_enabled"`
		Links []struct{ Name, URL, About string } `json:"contact_links"`
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, filepath.Join(root, ".github/ISSUE_TEMPLATE/config.yml"))), &config); err != nil {
		t.Fatal(err)
	}
	for _, link := range config.Links {
		page, isPage := strings.CutPrefix(link.URL, repository+"blob/main/")
		if _, err := os.Stat(filepath.Join(root, page)); isPage && err != nil || !strings.HasPrefix(link.URL, repository) {
			t.Errorf("%s leads to %s: %v", link.Name, link.URL, err)
		}
	}
	if len(config.Links) == 0 {
		t.Error("there are no links")
	}
}
