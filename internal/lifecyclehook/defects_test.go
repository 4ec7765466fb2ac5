// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// proof is where a test shows that a defect is not here: a file, and a text in it, the name of the test or of its case.
type proof struct{ file, text string }

// The defects of the sample function and the sample user data for Multus node groups, each with the test that shows that it is
// not here.
var defects = map[string]proof{
	// The function.
	"every group's launches invoke it, and those it is not for fail": {"internal/lifecyclehook/handler_test.go", "an instance without the tag is a success"},
	"an instance without tags is a crash":                            {"internal/lifecyclehook/handler_test.go", "so is one without any tags"},
	"error paths fail by themselves":                                 {"internal/lifecyclehook/handler_test.go", "what is no event"},
	"the interfaces' tags are ignored":                               {"internal/join/join_test.go", `i.Tags["cnf"] != "upf"`},
	"the second zone is not optional":                                {"lifecycle/config_test.go", "one, as the second list is optional"},
	"a retry makes a second interface":                               {"internal/join/join_test.go", "again: %d calls that change something"},
	"an index that is taken is the end":                              {"plan/compute_test.go", "func Test"},
	"a part of the networks is kept":                                 {"internal/join/join_test.go", "func TestAllOrNothing"},
	"a crash between create and attach leaks":                        {"internal/join/join_test.go", "func TestAnybodyFinishesWhatADeadProcessBegan"},
	"a crash before delete on termination leaks at the end":          {"internal/join/join_test.go", "func TestTheEndOfAnInstance"},
	"deleting after a failure is tried once":                         {"internal/join/join_test.go", "a required network that cannot be had takes the others with it"},
	"a failed attach leaves the hook to time out":                    {"internal/lifecyclehook/handler_test.go", "a launch that cannot be prepared"},
	"parallel launches race for addresses":                           {"internal/addresses/addresses_test.go", "func TestManyProcesses"},
	"prefixes and reservations count as free":                        {"internal/addresses/addresses_test.go", "func TestReservationsAreLeftAlone"},
	"there are two zones":                                            {"lifecycle/config_test.go", "eleven, in the order of their numbers"},
	"the hook holds nothing back":                                    {"internal/lifecyclehook/handler_test.go", "heartbeats while it takes long"},
	"terminations are not handled, nor instances without a group":    {"internal/lifecyclehook/handler_test.go", "an instance that runs, of no group"},
	"nothing says how it went":                                       {"internal/lifecyclehook/handler_test.go", "no certainty in time"},
	// The user data.
	"the attachment's ID is cut out of a text":       {"internal/join/join_test.go", "func TestAnInstanceGetsItsNetworks"},
	"instance metadata is asked without a token":     {"deploy/cloudformation/launch-template-bootstrap.yaml", "HttpTokens: required"},
	"a throttled call leaves an orphan":              {"internal/lifecyclehook/scaleout_test.go", "fault.Throttle"},
	"links are looked for before they are there":     {"internal/bootstrap/bootstrap_test.go", "linkAt: time.Now().Add(5 * time.Second)"},
	"links are found by the form of their names":     {"internal/bootstrap/bootstrap_test.go", "func (i *instance) Facts"},
	"after a reboot the links are down":              {"internal/bootstrap/bootstrap_test.go", "func TestBootsOfADisk"},
	"reverse path filtering goes for the whole host": {"hostnet/hostnet_test.go", "func Test"},
	"the MTU is never set":                           {"internal/bootstrap/bootstrap_test.go", "MTU: 1500"},
	"there is one zone":                              {"deploy/cloudformation/launch-template-bootstrap.yaml", "Multus subnets of all zones"},
	"node roles may do anything":                     {"deploy/cloudformation/templates_test.go", "func TestNodesMayCallWhatTheyCall"},
	"a fixed index from 1":                           {"internal/join/join_test.go", "func both"},
	"the system configures the links as it likes":    {"hostnet/networkd.go", "Unmanaged=yes"},
}

func TestDefectsOfTheSamples(t *testing.T) {
	if len(defects) != 30 {
		t.Errorf("%d defects; there are 18 of the function and 12 of the user data", len(defects))
	}
	for defect, shown := range defects {
		t.Run(defect, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("../..", shown.file))
			if err != nil || !strings.Contains(string(text), shown.text) {
				t.Errorf("%s has no %q any more: %v", shown.file, shown.text, err)
			}
		})
	}
}
