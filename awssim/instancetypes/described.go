// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes

import (
	_ "embed" // the table
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed described.tsv
var table string

// described has the types of EC2's own answers, by name.
var described = sync.OnceValue(func() map[string]Type {
	types := map[string]Type{}
	for row := range strings.Lines(table) {
		if strings.HasPrefix(row, "#") {
			continue
		}
		t := parse(strings.Split(strings.TrimSuffix(row, "\n"), "\t"))
		types[t.Name] = t
	}
	return types
})

// parse reads a row, whose columns the first lines of the table name. Another row is a bug of the program that writes
// the table, so parse panics.
func parse(row []string) Type {
	if len(row) != 23 {
		panic(fmt.Sprintf("instancetypes: a row of %d columns: %q", len(row), row))
	}
	t := Type{
		Name: row[0], VCPUs: number(row[1]), MemoryMiB: number(row[2]), MaxInterfaces: number(row[3]),
		IPv4PerInterface: number(row[5]), IPv6PerInterface: number(row[6]), MaxEFAInterfaces: number(row[7]),
		ENASRDSupported: row[8] == "true", CurrentGeneration: row[9] == "true", Hypervisor: row[10],
		Architectures: strings.Split(row[11], ","), Performance: row[12], ENASupport: row[14], Cores: number(row[15]),
		Burstable: row[16] == "true", InstanceStorage: row[17] == "true", UsageClasses: strings.Split(row[18], ","),
		RootDeviceTypes: strings.Split(row[19], ","), EBSOptimized: row[20], NVMe: row[21],
		PlacementStrategies: strings.Split(row[22], ","),
	}
	if t.Hypervisor == "none" {
		t.Hypervisor, t.BareMetal = "", true
	}
	t.IPv6Supported = t.IPv6PerInterface > 0
	t.EFASupported = t.MaxEFAInterfaces > 0
	for i, interfaces := range strings.Split(row[4], ",") {
		t.Cards = append(t.Cards, Card{Index: i, MaxInterfaces: number(interfaces), Performance: row[13]})
	}
	return t
}

func number(column string) int {
	n, err := strconv.Atoi(column)
	if err != nil {
		panic(fmt.Sprintf("instancetypes: %v", err))
	}
	return n
}
