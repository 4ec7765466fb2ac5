// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Command instancetypes writes the tables of instance types from EC2's own answers to DescribeInstanceTypes, as the
// Python package moto publishes them (moto/ec2/resources/instance_types.json.gz, Apache-2.0;
// https://pypi.org/project/moto):
//
//	pip install moto
//	go run ./hack/instancetypes
//
// The simulator's table has the answers of its DescribeInstanceTypes. The product's table has the Elastic Fabric
// Adapters, which are not in the Go package of AWS that has its other limits.
package main

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// The tables, from the root of the module.
const (
	simulated = "awssim/instancetypes/described.tsv"
	adapters  = "internal/core/instancetype/efa.tsv"
)

func main() {
	if err := write(context.Background(), "."); err != nil {
		fmt.Fprintln(os.Stderr, "instancetypes:", err)
		os.Exit(1)
	}
}

func write(ctx context.Context, root string) error {
	version, path, err := locate(ctx)
	if err != nil {
		return err
	}
	tables, err := generate(version, path)
	if err != nil {
		return err
	}
	for name, content := range tables {
		if err := os.WriteFile(filepath.Join(root, name), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// locate returns the version of the installed moto, and the path of its answers of EC2.
func locate(ctx context.Context) (version, path string, err error) {
	out, err := exec.CommandContext(ctx, "python3", "-c", "import importlib.metadata as m, importlib.util as u; "+
		"print(m.version('moto'), u.find_spec('moto').submodule_search_locations[0])").Output()
	if err != nil {
		return "", "", fmt.Errorf("find the Python package moto (pip install moto): %w", err)
	}
	version, folder, _ := strings.Cut(strings.TrimSpace(string(out)), " ")
	return version, filepath.Join(folder, "ec2", "resources", "instance_types.json.gz"), nil
}

// described is the part of a type in EC2's answer that the tables use.
type described struct {
	BareMetal, CurrentGeneration                            bool
	BurstablePerformanceSupported, InstanceStorageSupported bool
	SupportedUsageClasses, SupportedRootDeviceTypes         []string
	EBSInfo                                                 struct{ EBSOptimizedSupport, NvmeSupport string } `json:"EbsInfo"`
	PlacementGroupInfo                                      struct{ SupportedStrategies []string }
	Hypervisor                                              string
	MemoryInfo                                              struct{ SizeInMiB int }
	ProcessorInfo                                           struct{ SupportedArchitectures []string }
	VCPUInfo                                                struct{ DefaultVCpus, DefaultCores int } `json:"VCpuInfo"`
	NetworkInfo                                             struct {
		EFAInfo                   struct{ MaximumEfaInterfaces int } `json:"EfaInfo"`
		ENASupport                string                             `json:"EnaSupport"`
		ENASRDSupported           bool                               `json:"EnaSrdSupported"`
		IPv4AddressesPerInterface int                                `json:"Ipv4AddressesPerInterface"`
		IPv6AddressesPerInterface int                                `json:"Ipv6AddressesPerInterface"`
		MaximumNetworkInterfaces  int
		NetworkPerformance        string
		NetworkCards              []struct {
			MaximumNetworkInterfaces int
			NetworkPerformance       string
		}
	}
}

// generate returns the content of each table.
func generate(version, path string) (map[string][]byte, error) {
	compressed, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer compressed.Close()
	content, err := gzip.NewReader(compressed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var types map[string]described
	if err := json.NewDecoder(io.Reader(content)).Decode(&types); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var all, efas bytes.Buffer
	const source = "# Written by hack/instancetypes from EC2's answers to DescribeInstanceTypes in moto %s; do not edit.\n"
	fmt.Fprintf(&all, source, version)
	fmt.Fprintln(&all, "# type\tvCPUs\tMiB\tinterfaces\ton each card\tIPv4\tIPv6\tEFAs\tENA "+
		"Express\tcurrent\thypervisor\tarchitectures\tbandwidth\tof a card\tENA\tcores\tburstable\tstorage\tpurchase\t"+
		"root devices\tEBS-optimized\tNVMe\tplacement")
	fmt.Fprintf(&efas, source, version)
	fmt.Fprintln(&efas, "# type\tElastic Fabric Adapters")
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t := types[name]
		row, err := t.row(name)
		if err != nil {
			return nil, err
		}
		fmt.Fprintln(&all, strings.Join(row, "\t"))
		fmt.Fprintf(&efas, "%s\t%d\n", name, t.NetworkInfo.EFAInfo.MaximumEfaInterfaces)
	}
	return map[string][]byte{simulated: all.Bytes(), adapters: efas.Bytes()}, nil
}

// row is the type in the simulator's table, column by column. It fails if cards of one type differ in bandwidth, which
// the table cannot express and no type of EC2 has.
func (t described) row(name string) ([]string, error) {
	n := t.NetworkInfo
	var cards []string
	for _, card := range n.NetworkCards {
		cards = append(cards, strconv.Itoa(card.MaximumNetworkInterfaces))
		if card.NetworkPerformance != n.NetworkCards[0].NetworkPerformance {
			return nil, fmt.Errorf("%s has cards of several bandwidths", name)
		}
	}
	if len(cards) == 0 {
		return nil, fmt.Errorf("%s has no network card", name)
	}
	return []string{
		name, strconv.Itoa(t.VCPUInfo.DefaultVCpus), strconv.Itoa(t.MemoryInfo.SizeInMiB),
		strconv.Itoa(n.MaximumNetworkInterfaces), strings.Join(cards, ","),
		strconv.Itoa(n.IPv4AddressesPerInterface), strconv.Itoa(n.IPv6AddressesPerInterface),
		strconv.Itoa(n.EFAInfo.MaximumEfaInterfaces), strconv.FormatBool(n.ENASRDSupported),
		strconv.FormatBool(t.CurrentGeneration), cmp.Or(t.Hypervisor, "none"),
		strings.Join(t.ProcessorInfo.SupportedArchitectures, ","), n.NetworkPerformance, n.NetworkCards[0].NetworkPerformance,
		n.ENASupport, strconv.Itoa(t.VCPUInfo.DefaultCores), strconv.FormatBool(t.BurstablePerformanceSupported),
		strconv.FormatBool(t.InstanceStorageSupported), strings.Join(t.SupportedUsageClasses, ","),
		strings.Join(t.SupportedRootDeviceTypes, ","), t.EBSInfo.EBSOptimizedSupport, t.EBSInfo.NvmeSupport,
		strings.Join(t.PlacementGroupInfo.SupportedStrategies, ","),
	}, nil
}
