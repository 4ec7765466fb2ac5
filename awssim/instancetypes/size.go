// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes

import (
	"strconv"
	"strings"
)

// size is the processors and the memory of a type.
type size struct{ vcpus, memoryMiB int }

// sizes are those of types that are not described and whose names do not say it (EC2 user guide, "Instance types").
var sizes = map[string]size{
	"f1.2xlarge": {8, 124_928}, "f1.4xlarge": {16, 249_856}, "f1.16xlarge": {64, 999_424},
	"i3.metal":   {72, 524_288},
	"p3.2xlarge": {8, 62_464}, "p3.8xlarge": {32, 249_856}, "p3.16xlarge": {64, 499_712},
}

// gibPerVCPU is the memory of the series C, M and R for each virtual CPU, since the sixth generation.
var gibPerVCPU = map[byte]int{'c': 2, 'm': 4, 'r': 8}

// sizeOf returns the size of a type that is not described. The names of the series C, M and R say it, and all described
// types of these series agree with their names. It reports false where nothing says the size: the type is unknown then,
// since EC2 describes no type without a size.
func sizeOf(name string) (size, bool) {
	if s, ok := sizes[name]; ok {
		return s, true
	}
	family, suffix, _ := strings.Cut(name, ".")
	if len(family) < 2 || family[1] < '6' || family[1] > '9' || gibPerVCPU[family[0]] == 0 {
		return size{}, false
	}
	vcpus := vcpusOf(suffix)
	return size{vcpus, vcpus * gibPerVCPU[family[0]] << 10}, vcpus > 0
}

// vcpusOf reads a size such as large, 2xlarge or metal-48xl; 0 for any other.
func vcpusOf(suffix string) int {
	switch suffix {
	case "medium":
		return 1
	case "large":
		return 2
	case "xlarge":
		return 4
	}
	times, ok := strings.CutSuffix(strings.TrimPrefix(suffix, "metal-"), "xl")
	if !ok {
		times, ok = strings.CutSuffix(suffix, "xlarge")
	}
	n, err := strconv.Atoi(times)
	if !ok || err != nil {
		return 0
	}
	return 4 * n
}

// hasDisks reports whether the name of a type has the letter of disks after its generation.
func hasDisks(name string) bool {
	family, _, _ := strings.Cut(name, ".")
	return family == "i3" || family == "f1" || strings.Contains(strings.TrimLeft(family, "cmr"), "d")
}
