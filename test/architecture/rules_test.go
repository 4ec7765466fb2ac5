// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package architecture_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// core is the folder of the packages that turn values into values. The other rules build on it.
const core = "internal/core"

// dataOnly are foreign packages that have only facts or turn values into values, and depend only on the standard
// library and parts of their own: EC2's published data about instance types, sets of addresses, and parsers.
var dataOnly = []string{
	"github.com/aws/amazon-vpc-resource-controller-k8s/pkg/aws/vpc", "go4.org/netipx", "github.com/pelletier/go-toml/v2",
	"go.yaml.in/yaml/v3",
}

// impure are the parts of the standard library with a clock, randomness or I/O. net/netip is values and stays allowed.
var impure = []string{
	"crypto/rand", "io/ioutil", "log", "log/slog", "math/rand", "math/rand/v2", "net", "net/http", "os", "os/exec", "os/signal", "plugin",
	"syscall", "testing",
}

const (
	awsSDK     = "github.com/aws/aws-sdk-go-v2"
	serviceEC2 = awsSDK + "/service/ec2"
	netlink    = "github.com/vishvananda/netlink"
)

// kubernetesClients are the packages with clients of the Kubernetes API.
var kubernetesClients = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime/pkg/client"}

// rule lists imports that some of our packages must not have.
type rule struct {
	name   string
	reason string
	// of selects the packages of the rule, by their path within the module.
	of func(path string) bool
	// refuses reports whether an import, or with deep any dependency, breaks the rule.
	refuses func(imported string) bool
	deep    bool
	// unless narrows the rule to packages with such a dependency.
	unless func(dependency string) bool
}

// groups are the folders under internal, each with the groups that its packages may import besides their own.
var groups = map[string][]string{
	"core":       {},
	"base":       {},
	"aws":        {"core", "base"},
	"host":       {"core", "base"},
	"join":       {"core", "base", "aws"},
	"controller": {"core", "base", "aws"},
	"cli":        {"core", "base", "aws", "host", "join", "controller"},
	"dev":        {"core", "base", "aws", "host", "join", "controller", "cli"},
}

// groupOf returns the group of one of our packages; "" for none.
func groupOf(imported string) string {
	path, ours := strings.CutPrefix(imported, module+"/internal/")
	if !ours {
		return ""
	}
	group, _, _ := strings.Cut(path, "/")
	return group
}

// groupRules returns a rule for each group.
func groupRules() (all []rule) {
	for group, others := range groups {
		all = append(all, rule{
			name:   "what " + group + " imports",
			reason: "a reader of one group needs to know only the groups that it may import",
			of:     beneath("internal/" + group),
			refuses: func(imported string) bool {
				of := groupOf(imported)
				return of != "" && of != group && !slices.Contains(others, of)
			},
		})
	}
	return all
}

// rules are all other rules on dependencies.
var rules = []rule{
	{
		name:   "the core is pure",
		reason: "what is decided can then be tested, simulated and replayed with values alone",
		of:     beneath(core),
		refuses: func(imported string) bool {
			return within(impure...)(imported) || !standard(imported) && !ours(core)(imported) && !slices.Contains(dataOnly, imported)
		},
	},
	{
		name:    "data-only packages stay that",
		reason:  "the core may import them because they bring nothing with them",
		of:      func(path string) bool { return slices.Contains(dataOnly, path) },
		refuses: func(imported string) bool { return !standard(imported) && !within(dataOnly...)(imported) },
		deep:    true,
	},
	{
		name:    "one door to EC2",
		reason:  "pacing, batching, error classes and the list of permissions hold only if nobody goes past internal/aws/awsec2; awssim's conformance suite speaks EC2 for its own sake",
		of:      not(in("internal/aws/awsec2", "awssim/conformance")),
		refuses: within(serviceEC2),
	},
	{
		name:    "one door to the kernel's links",
		reason:  "everything else can be tested on any system; awssim/fabric, which may not import internal/host/netlink, makes the network of simulated VPCs",
		of:      not(in("internal/host/netlink", "awssim/fabric")),
		refuses: within(netlink),
	},
	{
		name:    "Kubernetes and AWS meet only where programs are put together",
		reason:  "a package that holds both clients can be tested only with both; the others declare the port they need",
		of:      not(beneath("cmd", "internal/cli", "internal/dev", "test")),
		deep:    true,
		unless:  within(kubernetesClients...),
		refuses: within(awsSDK),
	},
	{
		name:    "what runs before a node joins knows no Kubernetes",
		reason:  "there is none yet, and a function in AWS Lambda or a node's boot shall not wait for a large program to start",
		of:      in("cmd/lifecycle-hook", "cmd/eni-bootstrap"),
		deep:    true,
		refuses: within("k8s.io", "sigs.k8s.io/controller-runtime"),
	},
	{
		name:    "the simulator's program knows no Kubernetes",
		reason:  "tests of any program run it, and shall not build or download a large one",
		of:      in("cmd/awssim"),
		deep:    true,
		refuses: within("k8s.io", "sigs.k8s.io/controller-runtime", awsSDK),
	},
	{
		name:    "the agent's program is small",
		reason:  "every node of a cluster pays for its memory, and packages that it never uses initialize themselves like all others",
		of:      in("cmd/eni-manager"),
		deep:    true,
		refuses: within("sigs.k8s.io/controller-runtime", "k8s.io/client-go/kubernetes", "github.com/prometheus", "go.opentelemetry.io", awsSDK+"/config", awsSDK+"/credentials", awsSDK+"/service"),
	},
	{
		name:    "the simulator knows nothing of us",
		reason:  "it proves something only if it is EC2 by its own lights, and others can use it",
		of:      beneath("awssim"),
		deep:    true,
		refuses: func(imported string) bool { return isOurs(imported) && !ours("awssim")(imported) },
	},
	{
		name:    "the API types know nothing of the controller",
		reason:  "whoever imports them gets types, and not a program",
		of:      beneath("api"),
		deep:    true,
		refuses: func(imported string) bool { return isOurs(imported) && !ours("api")(imported) },
	},
	{
		name:    "nothing but tests knows the test helpers",
		reason:  "go-cmp, rapid and goleak are no part of a product",
		of:      not(beneath("test", "internal/controller/controllertest", "internal/dev/cluster/clustertest", "internal/host/netlink/netlinktest", "awssim/conformance")),
		refuses: within("testing", "github.com/google/go-cmp", "pgregory.net/rapid", "go.uber.org/goleak", "github.com/rogpeppe/go-internal/testscript"),
	},
}

func in(paths ...string) func(string) bool {
	return func(path string) bool { return slices.Contains(paths, path) }
}

// beneath selects folders with everything below them; within does so for imports.
func beneath(folders ...string) func(string) bool {
	return func(path string) bool {
		return slices.ContainsFunc(folders, func(f string) bool { return path == f || strings.HasPrefix(path, f+"/") })
	}
}

func within(paths ...string) func(string) bool {
	return func(imported string) bool {
		return slices.ContainsFunc(paths, func(p string) bool {
			// For the standard library only the package itself matches: net does not match net/netip.
			return imported == p || !standard(p) && strings.HasPrefix(imported, p+"/")
		})
	}
}

func ours(folders ...string) func(string) bool {
	return func(imported string) bool {
		path, found := strings.CutPrefix(imported, module+"/")
		return found && beneath(folders...)(path)
	}
}

func isOurs(imported string) bool { return strings.HasPrefix(imported, module+"/") }

func not(f func(string) bool) func(string) bool { return func(s string) bool { return !f(s) } }

// standard reports whether an import is of the standard library, whose paths have no dot in their first element.
func standard(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return !strings.Contains(first, ".")
}

// offences returns the imports of a package that break the rule.
func (r rule) offences(p pkg) []string {
	if !r.of(strings.TrimPrefix(p.ImportPath, module+"/")) {
		return nil
	}
	if r.unless != nil && !slices.ContainsFunc(p.Deps, r.unless) {
		return nil
	}
	imports := p.Imports
	if r.deep {
		imports = p.Deps
	}
	var broken []string
	for _, imported := range imports {
		if r.refuses(imported) {
			broken = append(broken, imported)
		}
	}
	return broken
}

func TestDependencies(t *testing.T) {
	all := list(t)
	for _, r := range append(groupRules(), rules...) {
		t.Run(r.name, func(t *testing.T) {
			for _, p := range all {
				if !isOurs(p.ImportPath) && !slices.Contains(dataOnly, p.ImportPath) {
					continue
				}
				if broken := r.offences(p); len(broken) > 0 {
					t.Errorf("%s must not depend on %s: %s", p.ImportPath, strings.Join(broken[:min(len(broken), 3)], ", "), r.reason)
				}
			}
		})
	}
}

// TestEveryPackageHasAGroup compares the folders under internal with the groups.
func TestEveryPackageHasAGroup(t *testing.T) {
	found := map[string][]string{}
	for _, p := range list(t) {
		if group := groupOf(p.ImportPath); group != "" {
			found[group] = groups[group]
		}
	}
	if diff := cmp.Diff(groups, found); diff != "" {
		t.Errorf("the folders under internal differ from the groups (-groups +folders):\n%s", diff)
	}
}

// TestEveryRuleCanFail gives each rule a package that breaks it, and one that does not.
func TestEveryRuleCanFail(t *testing.T) {
	type example = struct{ broken, kept pkg }
	betweenGroups := func(group, refused, allowed string) example {
		of := func(imported string) pkg {
			return pkg{ImportPath: module + "/internal/" + group + "/x", Imports: []string{module + "/internal/" + imported + "/y"}}
		}
		return example{broken: of(refused), kept: of(allowed)}
	}
	cases := map[string]example{
		"the core is pure": {
			broken: written(t, core+"/plan", "testdata/reads_the_clock.go"), kept: pkg{ImportPath: module + "/internal/core/plan", Imports: []string{"net/netip", "time", module + "/internal/core/eni"}},
		},
		"data-only packages stay that": {
			broken: pkg{ImportPath: dataOnly[0], Deps: []string{awsSDK}}, kept: pkg{ImportPath: dataOnly[0], Deps: []string{"fmt"}},
		},
		"one door to EC2": {
			broken: written(t, "internal/aws/observer", "testdata/calls_ec2.go"), kept: written(t, "internal/aws/awsec2", "testdata/calls_ec2.go"),
		},
		"one door to the kernel's links": {
			broken: pkg{ImportPath: module + "/internal/host/agent", Imports: []string{netlink}}, kept: pkg{ImportPath: module + "/internal/host/netlink", Imports: []string{netlink}},
		},
		"Kubernetes and AWS meet only where programs are put together": {
			broken: pkg{ImportPath: module + "/internal/controller/node", Deps: []string{"k8s.io/client-go/rest", serviceEC2}},
			kept:   pkg{ImportPath: module + "/internal/controller/node", Deps: []string{"k8s.io/client-go/rest"}},
		},
		"what runs before a node joins knows no Kubernetes": {
			broken: pkg{ImportPath: module + "/cmd/lifecycle-hook", Deps: []string{"k8s.io/api/core/v1"}},
			kept:   pkg{ImportPath: module + "/cmd/lifecycle-hook", Deps: []string{"sigs.k8s.io/yaml"}},
		},
		"the simulator's program knows no Kubernetes": {
			broken: pkg{ImportPath: module + "/cmd/awssim", Deps: []string{"k8s.io/apimachinery/pkg/types"}},
			kept:   pkg{ImportPath: module + "/cmd/awssim", Deps: []string{"sigs.k8s.io/yaml"}},
		},
		"the agent's program is small": {
			broken: pkg{ImportPath: module + "/cmd/eni-manager", Deps: []string{awsSDK + "/config"}},
			kept:   pkg{ImportPath: module + "/cmd/eni-manager", Deps: []string{awsSDK + "/feature/ec2/imds", "k8s.io/client-go/rest"}},
		},
		"the simulator knows nothing of us": {
			broken: pkg{ImportPath: module + "/awssim/ec2", Deps: []string{module + "/internal/core/plan"}}, kept: pkg{ImportPath: module + "/awssim/ec2", Deps: []string{module + "/awssim/fault"}},
		},
		"the API types know nothing of the controller": {
			broken: pkg{ImportPath: module + "/api/v1alpha1", Deps: []string{module + "/internal/core/eni"}}, kept: pkg{ImportPath: module + "/internal/core/plan", Deps: []string{module + "/internal/core/eni"}},
		},
		"what core imports":       betweenGroups("core", "base", "core"),
		"what base imports":       betweenGroups("base", "core", "base"),
		"what aws imports":        betweenGroups("aws", "controller", "core"),
		"what host imports":       betweenGroups("host", "aws", "core"),
		"what join imports":       betweenGroups("join", "controller", "aws"),
		"what controller imports": betweenGroups("controller", "host", "aws"),
		"what cli imports":        betweenGroups("cli", "dev", "host"),
		"what dev imports":        betweenGroups("dev", "none", "cli"),
		"nothing but tests knows the test helpers": {
			broken: pkg{ImportPath: module + "/internal/core/plan", Imports: []string{"pgregory.net/rapid"}}, kept: pkg{ImportPath: module + "/test/x", Imports: []string{"pgregory.net/rapid"}},
		},
	}
	for _, r := range append(groupRules(), rules...) {
		t.Run(r.name, func(t *testing.T) {
			tc, ok := cases[r.name]
			if !ok {
				t.Fatal("nothing shows that this rule can fail")
			}
			if len(r.offences(tc.broken)) == 0 {
				t.Error("a package that breaks the rule passes")
			}
			if broken := r.offences(tc.kept); len(broken) > 0 {
				t.Errorf("a package that keeps the rule fails for %v", broken)
			}
		})
	}
}
