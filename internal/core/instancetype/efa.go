// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetype

import (
	_ "embed" // the table
	"strconv"
	"strings"
	"sync"
)

// Architecture returns "arm64" or "amd64", as Kubernetes names them, by EC2's naming convention: a g among the letters
// after the generation means Graviton (EC2 instance types guide, "Naming conventions").
func Architecture(instanceType string) string {
	family, _, _ := strings.Cut(instanceType, ".")
	digit := strings.IndexAny(family, "0123456789")
	arm := family == "a1" || digit >= 0 && strings.Contains(family[digit:], "g") ||
		strings.HasPrefix(family, "mac") && family != "mac1"
	if arm {
		return "arm64"
	}
	return "amd64"
}

//go:embed efa.tsv
var efaTable string

// efas has the number of Elastic Fabric Adapters of each type, 0 included: EC2's EfaInfo.MaximumEfaInterfaces. For a
// type that is missing, the number is unknown: the table has EC2's published answers of one day (hack/instancetypes).
var efas = sync.OnceValue(func() map[string]int {
	known := map[string]int{}
	for row := range strings.Lines(efaTable) {
		name, count, ok := strings.Cut(strings.TrimSuffix(row, "\n"), "\t")
		if n, err := strconv.Atoi(count); ok && err == nil {
			known[name] = n
		}
	}
	return known
})
