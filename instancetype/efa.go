// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package instancetype

import "strings"

// Architecture returns "arm64" or "amd64", as Kubernetes names them, by EC2's naming convention: a g among the letters
// after the generation stands for Graviton (EC2 instance types guide, "Naming conventions").
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

// efas holds how many Elastic Fabric Adapters a type takes (EC2 user guide, "Elastic Fabric Adapter"; EC2's
// EfaInfo.MaximumEfaInterfaces). A type that is missing counts as one without: an interface that EC2 would refuse is worse
// than one type fewer to choose from.
var efas = map[string]int{
	"m5n.24xlarge":     1,
	"m5dn.24xlarge":    1,
	"m6a.48xlarge":     1,
	"m6i.32xlarge":     1,
	"m7g.16xlarge":     1,
	"m7i.48xlarge":     1,
	"m8g.48xlarge":     1,
	"m8i.96xlarge":     1,
	"c5n.9xlarge":      1,
	"c5n.18xlarge":     1,
	"c5n.metal":        1,
	"c6a.48xlarge":     1,
	"c6gn.16xlarge":    1,
	"c6i.32xlarge":     1,
	"c7gn.16xlarge":    1,
	"c7i.48xlarge":     1,
	"r5n.24xlarge":     1,
	"r5dn.24xlarge":    1,
	"r6i.32xlarge":     1,
	"i3en.24xlarge":    1,
	"i4i.32xlarge":     1,
	"g4dn.8xlarge":     1,
	"g4dn.12xlarge":    1,
	"g4dn.16xlarge":    1,
	"g4dn.metal":       1,
	"g5.8xlarge":       1,
	"g5.12xlarge":      1,
	"g5.16xlarge":      1,
	"g5.24xlarge":      1,
	"g5.48xlarge":      1,
	"g6.8xlarge":       1,
	"g6.48xlarge":      1,
	"inf1.24xlarge":    1,
	"p3dn.24xlarge":    1,
	"p5.4xlarge":       1,
	"hpc6a.48xlarge":   1,
	"hpc7g.4xlarge":    1,
	"hpc7g.8xlarge":    1,
	"hpc7g.16xlarge":   1,
	"m6in.32xlarge":    2,
	"m6idn.32xlarge":   2,
	"c6in.32xlarge":    2,
	"c8gn.48xlarge":    2,
	"r6in.32xlarge":    2,
	"g6e.24xlarge":     2,
	"hpc6id.32xlarge":  2,
	"hpc7a.12xlarge":   2,
	"hpc7a.24xlarge":   2,
	"hpc7a.48xlarge":   2,
	"hpc7a.96xlarge":   2,
	"g6e.48xlarge":     4,
	"p4d.24xlarge":     4,
	"p4de.24xlarge":    4,
	"dl1.24xlarge":     4,
	"p6-b200.48xlarge": 8,
	"trn1.32xlarge":    8,
	"p5en.48xlarge":    16,
	"p6-b300.48xlarge": 16,
	"trn1n.32xlarge":   16,
	"trn2.48xlarge":    16,
	"p5.48xlarge":      32,
	"p5e.48xlarge":     32,
}
