// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
)

// proof is a test that fails if a defect returns: its package, its function, and its case if it has several.
type proof struct{ of, test, named string }

const (
	hook    = "internal/join/lifecyclehook"
	command = "internal/cli/lifecyclehook"
	joining = "internal/join/join"
)

// The defects of the samples for Multus node groups: those of the function, which runs when an instance is launched, and those
// of the user data, which runs when it boots.
var (
	defectsOfTheFunction = map[string][]proof{
		"1 every group's launches invoke it, and those it is not for fail":    {{hook, "TestHandle", "an instance without the tag is a success"}, {"deploy/cloudformation", "TestTheRuleIsOfTheGroups", ""}},
		"2 an instance without tags is a crash":                               {{hook, "TestHandle", "so is one without any tags"}},
		"3 error paths fail by themselves":                                    {{hook, "TestEventsAreCounted", "no event"}, {hook, "TestLambdaNamesWhatIsToComeAgain", ""}},
		"4 the interfaces' tags are ignored":                                  {{joining, "TestAnInstanceGetsItsNetworks", ""}},
		"5 the second zone is not optional":                                   {{"internal/core/lifecycle", "TestZonesMayBeAnyNumber", "one, as the second list is optional"}},
		"6 a retry, or a second hook, makes a second interface":               {{joining, "TestAnybodyFinishesWhatADeadProcessBegan", ""}, {command, "TestTheFunctionIsKilledAtEveryCall", ""}},
		"7 an index that the VPC CNI took is the end":                         {{joining, "TestASlotThatIsTakenIsNotTheEnd", "before"}},
		"8 a part of the networks is kept, and nobody knows":                  {{joining, "TestAllOrNothing", "a required network that cannot be had takes the others with it"}},
		"9 a crash between create and attach leaks":                           {{joining, "TestWhatWasNeverAttachedIsFoundWhenItsInstanceEnds", ""}},
		"10 a crash before delete on termination is set leaks at the end":     {{joining, "TestTheEndOfAnInstance", ""}, {command, "TestTheFunctionIsKilledAtEveryCall", ""}},
		"11 deleting after a failure is tried once":                           {{joining, "TestAllOrNothing", "what cannot be taken away at once is tried again"}},
		"12 a failed attach leaks, and leaves the hook to time out":           {{joining, "TestAllOrNothing", "an attachment that is refused leaves nothing"}, {hook, "TestHandle", "a launch that cannot be prepared"}},
		"13 parallel launches race for addresses, and give up":                {{"internal/aws/addresses", "TestManyProcesses", ""}, {command, "TestScaleOutByTheFunction", ""}},
		"14 prefixes and reservations count as free":                          {{"internal/core/ipam", "TestFree", "a delegated prefix is used as a whole"}, {"internal/core/ipam", "TestFree", "a reservation is left to the pods"}},
		"15 there are two zones":                                              {{"internal/core/lifecycle", "TestZonesMayBeAnyNumber", "eleven, in the order of their numbers"}},
		"16 the hook holds nothing back":                                      {{hook, "TestHandle", "heartbeats while it takes long"}, {command, "TestScaleOutByTheFunction", ""}},
		"17 terminations are not handled, nor instances that are in no group": {{hook, "TestHandle", "a termination"}, {joining, "TestWhatWaitsToBeTerminatedWillGoWithItsInstance", ""}, {hook, "TestAnInstanceOfNoGroupIsServed", ""}},
		"18 nothing says how it went":                                         {{hook, "TestEventsAreCounted", "one that cannot be"}, {hook, "TestInstancesAreCounted", "what cannot be had"}, {hook, "TestEmbeddedMetrics", ""}, {command, "TestScaleOutBesideAQueue", ""}},
	}
	defectsOfTheUserData = map[string][]proof{
		"1 the attachment's ID is cut out of a text, and the interface stays behind": {{joining, "TestAnInstanceGetsItsNetworks", ""}},
		"2 instance metadata is asked without a token":                               {{"internal/aws/imds", "TestEveryQuestionCarriesAToken", ""}, {"internal/aws/imds", "TestVersion1IsNotAsked", ""}, {"deploy/cloudformation", "TestNodesWantTokens", ""}},
		"3 a throttled call leaves an orphan, and the node joins":                    {{joining, "TestAllOrNothing", "throttled calls are made again"}, {"test/netns", "TestBoot", "that fails"}},
		"4 links are looked for before they are there":                               {{"internal/join/bootstrap", "TestLinks", ""}},
		"5 links are found by the form of their names, and are down after a reboot":  {{"internal/join/bootstrap", "TestLinks", "enp40s0"}, {"internal/join/bootstrap", "TestBootsOfADisk", ""}},
		"6 it runs once in an instance's life, and finishes and mends nothing":       {{"internal/core/userdata", "TestTheScriptInstallsAndStartsTheUnit", ""}, {"internal/join/bootstrap", "TestBootsOfADisk", ""}, {"test/netns", "TestBoot", "cut short"}},
		"7 reverse path filtering goes for the whole host":                           {{"internal/core/hostnet", "TestModes", "no address"}},
		"8 the MTU is never set":                                                     {{"internal/join/bootstrap", "TestLinks", ""}},
		"9 there is one zone":                                                        {{joining, "TestZones", ""}, {"deploy/cloudformation", "TestTheUserDataHoldsAConfiguration", ""}},
		"10 every node may change every interface":                                   {{"test/ship", "TestANodeMayTouchWhatIsItsOwn", "changes another's"}, {"deploy/cloudformation", "TestNodesMayDoWhatIsPrinted", ""}},
		"11 the index is fixed":                                                      {{joining, "TestASlotThatIsTakenIsNotTheEnd", "meanwhile"}},
		"12 the system takes the links for its own, and gives them addresses":        {{"internal/host/networkd", "TestLeave", ""}, {joining, "TestAttachingIsAnnounced", ""}, {"internal/join/bootstrap", "TestTheNetworkManagerIsTold", ""}, {"internal/core/hostnet", "TestModes", "no address, where a network manager was first"}, {"internal/join/bootstrap", "TestLinks", ""}},
	}
)

// TestDefectsOfTheSamples compares the checklist with the tests that it names. Each test must exist, with its case, and
// assert something. For each defect one test must run wherever the suite runs. Reviewers check that a test asserts the
// right thing.
func TestDefectsOfTheSamples(t *testing.T) {
	if len(defectsOfTheFunction) != 18 || len(defectsOfTheUserData) != 12 {
		t.Errorf("%d defects of the function and %d of the user data; there are 18 and 12", len(defectsOfTheFunction), len(defectsOfTheUserData))
	}
	known := map[string]tests{}
	for whose, defects := range map[string]map[string][]proof{"the function": defectsOfTheFunction, "the user data": defectsOfTheUserData} {
		for defect, proofs := range defects {
			t.Run(whose+"/"+defect, func(t *testing.T) {
				always := false
				for _, p := range proofs {
					if known[p.of] == nil {
						known[p.of] = testsOf(t, p.of)
					}
					all := known[p.of]
					if fault := all.fault(p); fault != "" {
						t.Errorf("%s: %s %s", p.of, p.test, fault)
						continue
					}
					always = always || !all.reach(p.test, skips)
				}
				if !always {
					t.Error("all its tests can be skipped")
				}
			})
		}
	}
}

// TestTheChecklistCanFail: a test that is renamed, loses its case, asserts nothing or can be skipped must not count as
// proof.
func TestTheChecklistCanFail(t *testing.T) {
	all := tests{}
	all.add(t, `package x
func TestGood(t *testing.T) { t.Run("a case", func(t *testing.T) { check(t) }) }
func check(t *testing.T) { if true { t.Errorf("%s", err.Error()) } }
func TestEmpty(t *testing.T) { _ = err.Error() }
func TestSkipped(t *testing.T) { need(t); check(t) }
func need(t *testing.T) { t.Skip() }
`)
	for p, want := range map[proof]string{
		{"", "TestGood", "a case"}:  "",
		{"", "TestGood", "another"}: `has no case "another" any more`,
		{"", "TestGone", ""}:        "is not there any more",
		{"", "TestEmpty", ""}:       "asserts nothing any more",
		{"", "TestSkipped", ""}:     "",
	} {
		if got := all.fault(p); got != want {
			t.Errorf("%s %q: %q, want %q", p.test, p.named, got, want)
		}
	}
	if all.reach("TestGood", skips) || !all.reach("TestSkipped", skips) {
		t.Error("what can be skipped is not told from what cannot")
	}
}

// tests are the functions of a package's test files by name; several have one name when they are methods.
type tests map[string][]*ast.FuncDecl

// testsOf reads the test files of a package.
func testsOf(t *testing.T, of string) tests {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../../..", of, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := tests{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.add(t, string(text))
	}
	return all
}

func (all tests) add(t *testing.T, text string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, declared := range parsed.Decls {
		if function, ok := declared.(*ast.FuncDecl); ok {
			all[function.Name.Name] = append(all[function.Name.Name], function)
		}
	}
}

// fault returns why a proof is invalid, or "" if it is valid.
func (all tests) fault(p proof) string {
	switch {
	case all[p.test] == nil:
		return "is not there any more"
	case p.named != "" && !contains(all[p.test][0], func(n ast.Node) bool {
		literal, ok := n.(*ast.BasicLit)
		return ok && literal.Kind == token.STRING && literal.Value == strconv.Quote(p.named)
	}):
		return "has no case " + strconv.Quote(p.named) + " any more"
	case !all.reach(p.test, asserts):
		return "asserts nothing any more"
	}
	return ""
}

// reach reports whether a function, or one of the package's test files that it calls, has a node of the kind.
func (all tests) reach(name string, is func(ast.Node) bool) bool {
	seen, next := map[string]bool{}, []string{name}
	for len(next) > 0 {
		name, next = next[0], next[1:]
		if seen[name] {
			continue
		}
		seen[name] = true
		for _, function := range all[name] {
			if contains(function, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok {
					next = append(next, called(call))
				}
				return is(n)
			}) {
				return true
			}
		}
	}
	return false
}

func contains(function *ast.FuncDecl, is func(ast.Node) bool) bool {
	found := false
	ast.Inspect(function, func(n ast.Node) bool {
		found = found || n != nil && is(n)
		return !found
	})
	return found
}

// called is the name of the function or method that is called.
func called(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		return f.Sel.Name
	}
	return ""
}

// asserts reports whether a call fails a test. A call of an error's Error method has no arguments.
func asserts(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && len(call.Args) > 0 && slices.Contains([]string{"Error", "Errorf", "Fatal", "Fatalf"}, called(call))
}

func skips(n ast.Node) bool {
	call, ok := n.(*ast.CallExpr)
	return ok && slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, called(call))
}
