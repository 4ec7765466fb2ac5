// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// proof is a test that fails if a defect comes back: its package, its function, and its case if it has several.
type proof struct{ of, test, named string }

const (
	hook    = "internal/lifecyclehook"
	command = "internal/cli/lifecyclehook"
	joining = "internal/join"
)

// The defects of the samples for Multus node groups: those of the function, which runs when an instance is launched, and those
// of the user data, which runs when it boots.
var (
	defectsOfTheFunction = map[string][]proof{
		"1 every group's launches invoke it, and those it is not for fail":    {{hook, "TestHandle", "an instance without the tag is a success"}, {"deploy/cloudformation", "TestTheRuleIsOfTheGroups", ""}},
		"2 an instance without tags is a crash":                               {{hook, "TestHandle", "so is one without any tags"}},
		"3 error paths fail by themselves":                                    {{hook, "TestEventsAreCounted", "no event"}, {hook, "TestLambdaNamesWhatIsToComeAgain", ""}},
		"4 the interfaces' tags are ignored":                                  {{joining, "TestAnInstanceGetsItsNetworks", ""}},
		"5 the second zone is not optional":                                   {{"lifecycle", "TestZonesMayBeAnyNumber", "one, as the second list is optional"}},
		"6 a retry, or a second hook, makes a second interface":               {{joining, "TestAnybodyFinishesWhatADeadProcessBegan", ""}, {command, "TestTheFunctionIsKilledAtEveryCall", ""}},
		"7 an index that the VPC CNI took is the end":                         {{joining, "TestASlotThatIsTakenIsNotTheEnd", "before"}},
		"8 a part of the networks is kept, and nobody knows":                  {{joining, "TestAllOrNothing", "a required network that cannot be had takes the others with it"}},
		"9 a crash between create and attach leaks":                           {{joining, "TestWhatWasNeverAttachedIsFoundWhenItsInstanceEnds", ""}},
		"10 a crash before delete on termination is set leaks at the end":     {{joining, "TestTheEndOfAnInstance", ""}, {command, "TestTheFunctionIsKilledAtEveryCall", ""}},
		"11 deleting after a failure is tried once":                           {{joining, "TestAllOrNothing", "what cannot be taken away at once is tried again"}},
		"12 a failed attach leaks, and leaves the hook to time out":           {{joining, "TestAllOrNothing", "an attachment that is refused leaves nothing"}, {hook, "TestHandle", "a launch that cannot be prepared"}},
		"13 parallel launches race for addresses, and give up":                {{"internal/addresses", "TestManyProcesses", ""}, {command, "TestScaleOutByTheFunction", ""}},
		"14 prefixes and reservations count as free":                          {{"addressing", "TestFree", "a delegated prefix is used as a whole"}, {"addressing", "TestFree", "a reservation is left to the pods"}},
		"15 there are two zones":                                              {{"lifecycle", "TestZonesMayBeAnyNumber", "eleven, in the order of their numbers"}},
		"16 the hook holds nothing back":                                      {{hook, "TestHandle", "heartbeats while it takes long"}, {command, "TestScaleOutByTheFunction", ""}},
		"17 terminations are not handled, nor instances that are in no group": {{hook, "TestHandle", "a termination"}, {joining, "TestWhatWaitsToBeTerminatedWillGoWithItsInstance", ""}, {hook, "TestAnInstanceOfNoGroupIsServed", ""}},
		"18 nothing says how it went":                                         {{hook, "TestEventsAreCounted", "one that cannot be"}, {hook, "TestEmbeddedMetrics", ""}, {command, "TestScaleOutBesideAQueue", ""}},
	}
	defectsOfTheUserData = map[string][]proof{
		"1 the attachment's ID is cut out of a text, and the interface stays behind": {{joining, "TestAnInstanceGetsItsNetworks", ""}},
		"2 instance metadata is asked without a token":                               {{"internal/imds", "TestEveryQuestionCarriesAToken", ""}, {"internal/imds", "TestVersion1IsNotAsked", ""}, {"deploy/cloudformation", "TestNodesWantTokens", ""}},
		"3 a throttled call leaves an orphan, and the node joins":                    {{joining, "TestAllOrNothing", "throttled calls are made again"}, {"test/netns", "TestBoot", "that fails"}},
		"4 links are looked for before they are there":                               {{"internal/bootstrap", "TestLinks", ""}},
		"5 links are found by the form of their names, and are down after a reboot":  {{"internal/bootstrap", "TestLinks", "enp40s0"}, {"internal/bootstrap", "TestBootsOfADisk", ""}},
		"6 it runs once in an instance's life, and finishes and mends nothing":       {{"userdata", "TestTheScriptInstallsAndStartsTheUnit", ""}, {"internal/bootstrap", "TestBootsOfADisk", ""}, {"test/netns", "TestBoot", "cut short"}},
		"7 reverse path filtering goes for the whole host":                           {{"hostnet", "TestModes", "no address"}},
		"8 the MTU is never set":                                                     {{"internal/bootstrap", "TestLinks", ""}},
		"9 there is one zone":                                                        {{joining, "TestZones", ""}, {"deploy/cloudformation", "TestTheUserDataHoldsAConfiguration", ""}},
		"10 every node may change every interface":                                   {{"test/ship", "TestANodeMayTouchWhatIsItsOwn", "changes another's"}, {"deploy/cloudformation", "TestNodesMayDoWhatIsPrinted", ""}},
		"11 the index is fixed":                                                      {{joining, "TestASlotThatIsTakenIsNotTheEnd", "meanwhile"}},
		"12 the system takes the links for its own, and gives them addresses":        {{"hostnet", "TestModes", "no address, where a network manager was first"}, {"internal/bootstrap", "TestLinks", ""}},
	}
)

func TestDefectsOfTheSamples(t *testing.T) {
	if len(defectsOfTheFunction) != 18 || len(defectsOfTheUserData) != 12 {
		t.Errorf("%d defects of the function and %d of the user data; there are 18 and 12", len(defectsOfTheFunction), len(defectsOfTheUserData))
	}
	known := map[string]map[string]*ast.FuncDecl{}
	for whose, defects := range map[string]map[string][]proof{"the function": defectsOfTheFunction, "the user data": defectsOfTheUserData} {
		for defect, proofs := range defects {
			t.Run(whose+"/"+defect, func(t *testing.T) {
				for _, p := range proofs {
					if known[p.of] == nil {
						known[p.of] = testsOf(t, p.of)
					}
					test := known[p.of][p.test]
					if test == nil || p.named != "" && !names(test, p.named) {
						t.Errorf("%s has no %s %q any more", p.of, p.test, p.named)
					}
				}
			})
		}
	}
}

// testsOf returns the tests of a package by name.
func testsOf(t *testing.T, of string) map[string]*ast.FuncDecl {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", of, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]*ast.FuncDecl{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), file, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, declared := range parsed.Decls {
			if function, ok := declared.(*ast.FuncDecl); ok && strings.HasPrefix(function.Name.Name, "Test") {
				tests[function.Name.Name] = function
			}
		}
	}
	return tests
}

// names reports whether a test has a case of that name.
func names(test *ast.FuncDecl, name string) bool {
	found := false
	ast.Inspect(test, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING && literal.Value == strconv.Quote(name) {
			found = true
		}
		return !found
	})
	return found
}
