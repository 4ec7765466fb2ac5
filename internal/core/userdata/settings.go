// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package userdata

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// Table is a table of TOML: values, and further tables, by key.
type Table = map[string]any

// Kubernetes returns the values of [NodeConfig] as Bottlerocket's settings.kubernetes.
func Kubernetes(c Cluster, n Node) Table {
	settings := Table{}
	if c.Complete() {
		settings["cluster-name"] = c.ClusterName
		settings["api-server"] = c.Endpoint
		settings["cluster-certificate"] = c.CA
	}
	if c.ClusterDNS != "" {
		settings["cluster-dns-ip"] = c.ClusterDNS
	}
	if len(n.Labels) > 0 {
		labels := Table{}
		for key, value := range n.Labels {
			labels[key] = value
		}
		settings["node-labels"] = labels
	}
	return settings
}

// Settings returns the user data of Bottlerocket: the table settings with ours and with the user's, who writes TOML.
// Tables merge key by key, and any other value of the user replaces ours. The error says why the user's text cannot be
// merged.
func Settings(ours Table, user string) (string, error) {
	theirs, err := settingsOf(user)
	if err != nil {
		return "", err
	}
	merged, err := merge("settings", ours, theirs)
	if err != nil {
		return "", err
	}
	if err := checkLabels(merged); err != nil {
		return "", err
	}
	text, err := toml.Marshal(Table{"settings": merged})
	if err != nil {
		return "", fmt.Errorf("the merged settings cannot be written as TOML: %w", err)
	}
	return string(text), nil
}

// settingsOf returns the user's table settings.
func settingsOf(user string) (Table, error) {
	text, err := unpack(user)
	switch {
	case err != nil:
		return nil, err
	case kindOf(text) != "", beginsAsMessage(text): // to TOML, a first line with # is a comment
		return nil, errors.New("it is a script, a MIME message or a form of cloud-init, which nothing on Bottlerocket " +
			"reads: write settings in TOML")
	}
	root := Table{}
	if err := toml.Unmarshal([]byte(text), &root); err != nil {
		return nil, notTOML(err)
	}
	for _, key := range slices.Sorted(maps.Keys(root)) {
		if key != "settings" {
			return nil, fmt.Errorf("its key %s is outside the table settings, and Bottlerocket reads nothing else: write "+
				"settings.%s", key, key)
		}
	}
	settings, isTable := root["settings"].(Table)
	if root["settings"] != nil && !isTable {
		return nil, errors.New("its settings is not a table: write [settings]")
	}
	return settings, nil
}

func notTOML(err error) error {
	if at := (*toml.DecodeError)(nil); errors.As(err, &at) {
		line, column := at.Position()
		return fmt.Errorf("it is not TOML: line %d, column %d: %s", line, column, strings.TrimPrefix(at.Error(), "toml: "))
	}
	return fmt.Errorf("it is not TOML: %w", err)
}

// merge returns ours with the values of theirs. A table and another value under one key are a mistake: either would
// lose the other.
func merge(path string, ours, theirs Table) (Table, error) {
	merged := maps.Clone(ours)
	for _, key := range slices.Sorted(maps.Keys(theirs)) {
		at := path + "." + key
		own, ownTable := ours[key].(Table)
		their, theirTable := theirs[key].(Table)
		switch {
		case ownTable && theirTable:
			both, err := merge(at, own, their)
			if err != nil {
				return nil, err
			}
			merged[key] = both
		case ownTable:
			return nil, fmt.Errorf("its %s is not a table: write [%s]", at, at)
		case theirTable && ours[key] != nil:
			return nil, fmt.Errorf("its %s is a table, and must be a value", at)
		default:
			merged[key] = theirs[key]
		}
	}
	return merged, nil
}

// checkLabels checks the values of labels: with another one than a string, Bottlerocket takes no setting at all.
func checkLabels(settings Table) error {
	kubernetes, _ := settings["kubernetes"].(Table)
	labels, _ := kubernetes["node-labels"].(Table)
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if _, isString := labels[key].(string); !isString {
			return fmt.Errorf("the label %s in settings.kubernetes.node-labels is not a string: write its value in quotes, "+
				"and its key too if it has dots", key)
		}
	}
	return nil
}
