// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetypes

import (
	"strconv"
	"strings"
)

// memoryPerVCPU is GiB of memory per vCPU, for the families in which every size obeys it and in which the size gives
// the vCPUs: medium 1, large 2, xlarge 4, Nxlarge and metal-Nxl 4N.
// A family is listed only when both hold for all its sizes (EC2 instance types guide, specification tables).
var memoryPerVCPU = map[string]int{
	"c5": 2, "c5a": 2, "c5ad": 2, "c5d": 2,
	"c6a": 2, "c6g": 2, "c6gd": 2, "c6gn": 2, "c6i": 2, "c6id": 2, "c6in": 2,
	"c7a": 2, "c7g": 2, "c7gd": 2, "c7gn": 2, "c7i": 2, "c7i-flex": 2,
	"c8a": 2, "c8g": 2, "c8gd": 2, "c8gn": 2, "c8i": 2, "c8i-flex": 2,
	"inf1": 2,

	"m5": 4, "m5a": 4, "m5ad": 4, "m5d": 4, "m5dn": 4, "m5n": 4, "m5zn": 4,
	"m6a": 4, "m6g": 4, "m6gd": 4, "m6i": 4, "m6id": 4, "m6idn": 4, "m6in": 4,
	"m7a": 4, "m7g": 4, "m7gd": 4, "m7i": 4, "m7i-flex": 4,
	"m8a": 4, "m8g": 4, "m8gd": 4, "m8gn": 4, "m8i": 4, "m8i-flex": 4,
	"g4dn": 4, "g5": 4, "g6": 4, "inf2": 4,

	"r5": 8, "r5a": 8, "r5ad": 8, "r5b": 8, "r5d": 8, "r5dn": 8, "r5n": 8,
	"r6a": 8, "r6g": 8, "r6gd": 8, "r6i": 8, "r6id": 8, "r6idn": 8, "r6in": 8,
	"r7a": 8, "r7g": 8, "r7gd": 8, "r7i": 8, "r7iz": 8,
	"r8a": 8, "r8g": 8, "r8gd": 8, "r8gn": 8, "r8i": 8, "r8i-flex": 8,
	"g6e": 8, "gr6": 8, "i3en": 8, "i4g": 8, "i4i": 8, "i7i": 8, "i7ie": 8, "i8g": 8, "z1d": 8,

	"x2gd": 16, "x2idn": 16, "x8g": 16,
	"x2iedn": 32, "x2iezn": 32,
}

// previousGeneration holds the families that the EC2 instance types guide lists under "previous generation".
var previousGeneration = map[string]bool{
	"a1": true, "c1": true, "c3": true, "c4": true, "i2": true,
	"m1": true, "m2": true, "m3": true, "m4": true, "p2": true,
	"r3": true, "r4": true, "t1": true,
}

// withoutIPv6 holds the families without IPv6: of the previous generations only C3, R3 and I2 and later have it
// (EC2 user guide, IP addressing, IPv6).
var withoutIPv6 = map[string]bool{"c1": true, "m1": true, "m2": true, "m3": true, "t1": true}

func familyOf(name string) string {
	family, _, _ := strings.Cut(name, ".")
	return family
}

// architectureOf follows the naming convention: a "g" among the letters after the generation means Graviton.
func architectureOf(family string) string {
	digit := strings.IndexAny(family, "0123456789")
	switch {
	case family == "mac1":
		return "x86_64_mac"
	case strings.HasPrefix(family, "mac"):
		return "arm64_mac"
	case family == "a1", digit >= 0 && strings.Contains(family[digit:], "g"):
		return "arm64"
	default:
		return "x86_64"
	}
}

// bySize computes vCPUs and memory in MiB for a family with a rule, and returns zeros for any other.
func bySize(name string) (vcpus, memory int) {
	family, size, _ := strings.Cut(name, ".")
	vcpus = vcpusOf(size)
	perVCPU := memoryPerVCPU[family]
	if vcpus == 0 || perVCPU == 0 {
		return 0, 0
	}
	return vcpus, vcpus * perVCPU * gib
}

// vcpusOf returns 0 for a size that does not say, such as "metal".
func vcpusOf(size string) int {
	switch size {
	case "medium":
		return 1
	case "large":
		return 2
	case "xlarge":
		return 4
	}
	count, isVirtual := strings.CutSuffix(size, "xlarge")
	if !isVirtual {
		count = strings.TrimSuffix(strings.TrimPrefix(size, "metal-"), "xl")
	}
	n, err := strconv.Atoi(count)
	if err != nil {
		return 0
	}
	return 4 * n
}
