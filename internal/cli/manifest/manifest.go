// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package manifest reads the objects of manifests as kubectl does: from a file, from the files of a folder or from
// standard input; YAML or JSON; single objects, several documents, and lists.
package manifest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// extensions are those of the files that kubectl reads in a folder.
var extensions = []string{".json", ".yaml", ".yml"}

// Object is one object of a manifest.
type Object struct {
	metav1.TypeMeta
	Name string
	// Source is the file and, in a list, the item; for people.
	Source string

	content json.RawMessage
	// document is the text that has the object. Only the text shows a key that occurs twice.
	document []byte
}

// Decode writes the object into a value of its type. A field that the type does not have, and a key that occurs twice,
// are errors.
func (o Object) Decode(into any) error {
	if _, err := yaml.YAMLToJSONStrict(o.document); err != nil {
		return plain(err)
	}
	wrong, err := sigsjson.UnmarshalStrict(o.content, into)
	return plain(errors.Join(append(wrong, err)...))
}

// Content returns the object as the API machinery decodes it. The caller may change it.
func (o Object) Content() (map[string]any, error) {
	var content map[string]any
	if err := utiljson.Unmarshal(o.content, &content); err != nil {
		return nil, plain(err)
	}
	return content, nil
}

// plain removes the names of Go packages from an error about YAML or JSON.
func plain(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ",
		"while decoding JSON: ", "json: ", "yaml: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return errors.New(text)
}

// Read returns the objects of a file, of the files in a folder, or of standard input if the name is "-". Like kubectl,
// it reads files ending in .json, .yaml and .yml in a folder, and no subfolders. A folder may have files that are no
// manifests, such as the values of a chart; a named file may not.
func Read(name string, stdin io.Reader) ([]Object, error) {
	if name == "-" {
		return parse("standard input", stdin)
	}
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return readFolder(name)
	}
	return readFile(name)
}

func readFile(name string) ([]Object, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return parse(name, file)
}

func readFolder(folder string) ([]Object, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []Object
	for _, entry := range entries {
		name := filepath.Join(folder, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		if info.IsDir() || !slices.Contains(extensions, filepath.Ext(name)) {
			continue
		}
		some, err := readFile(name)
		var none *noObjectError
		if err != nil && !errors.As(err, &none) {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

// noObjectError is the error of a document without a kind.
type noObjectError struct{ source string }

func (e *noObjectError) Error() string {
	return e.source + " has no apiVersion and kind, so it is no Kubernetes object"
}

// parse returns the objects of a text. The error of a document that is no object comes with the other objects.
func parse(source string, text io.Reader) ([]Object, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(text))
	var all []Object
	var noObjects []error
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, errors.Join(noObjects...)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", source, err)
		}
		for _, value := range values(document) {
			content, err := yaml.YAMLToJSON(value)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", source, plain(err))
			}
			some, err := expand(Object{Source: source, content: content, document: value})
			var none *noObjectError
			if errors.As(err, &none) {
				noObjects = append(noObjects, err)
			} else if err != nil {
				return nil, err
			}
			all = append(all, some...)
		}
	}
}

// values returns the values of a document: any number if it is JSON, and one if it is YAML.
func values(document []byte) [][]byte {
	var all [][]byte
	decoder := json.NewDecoder(bytes.NewReader(document))
	for {
		var value json.RawMessage
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			return [][]byte{document}
		}
		all = append(all, value)
	}
}

// expand returns the object or, of a list, its items. Items of a list of one kind can lack their own kind.
func expand(o Object) ([]Object, error) {
	if string(o.content) == "null" {
		return nil, nil
	}
	var header struct {
		metav1.TypeMeta
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items *[]json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(o.content, &header); err != nil {
		return nil, fmt.Errorf("%s: it is no Kubernetes object: %w", o.Source, plain(err))
	}
	if header.Kind != "" {
		o.TypeMeta = header.TypeMeta
	}
	o.Name = header.Metadata.Name
	kind, isList := strings.CutSuffix(o.Kind, "List")
	switch {
	case o.Kind == "":
		return nil, &noObjectError{o.Source}
	case !isList || header.Items == nil:
		return []Object{o}, nil
	}
	var all []Object
	for n, content := range *header.Items {
		item := Object{Source: fmt.Sprintf("%s, item %d", o.Source, n+1), content: content, document: o.document}
		if kind != "" {
			item.TypeMeta = metav1.TypeMeta{APIVersion: o.APIVersion, Kind: kind}
		}
		some, err := expand(item)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}
