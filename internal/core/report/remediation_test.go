// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/multieni/multieni/internal/core/floating"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/report"
)

// advised are the reasons with advice of their own, each with what a user has to change.
var advised = map[string]string{
	string(plan.SubnetNotFound):         "subnet's region and account",
	string(plan.NoSubnetInZone):         "narrow its nodeSelector",
	string(plan.SecurityGroupNotFound):  "Create the security group",
	string(plan.SecurityGroupAmbiguous): "by its ID",
	string(plan.SlotTaken):              "deviceIndexPolicy: Prefer",
	string(plan.NotImported):            "kubectl eni import",
	string(plan.NoSuchNetworkCard):      "networkCardIndex",
	string(plan.NoSuchDeviceIndex):      "Lower deviceIndex",
	string(plan.InstanceFull):           "fewer warm ENIs",
	string(plan.InstanceOutsideCluster): "--instance-tags",
	string(plan.AddressLimit):           "fewer addresses or prefixes",
	string(plan.SubnetFull):             "larger or further subnet",
	string(plan.NoFreePrefix):           "prefix reservation",
	string(plan.LimitReached):           "Service Quotas",
	string(plan.Unauthorized):           "deploy/iam/controller.json",
	string(plan.RefusedByEC2):           "EC2 refuses the request",
	string(plan.TooManyUnattached):      "why attaching fails",
	string(plan.AttachedElsewhere):      "Detach the interface",
	string(plan.AttachStuck):            "Check the instance",
	string(plan.RemovedExternally):      "who removes the interface",
	string(plan.Reverted):               "CloudTrail",
	string(plan.Retained):               "settle what the message names",
	string(plan.PrefixesLimited):        "pods.ipv4.prefixes.max",
	string(plan.UnsupportedByType):      "another instance type",
	floating.ReasonAddressesLimited:     "Move pods to other nodes",
	floating.ReasonContended:            "all pods but one",
	string(plan.InUseByPods):            "pods.onRemoval: Evict",
	string(plan.EvictionRefused):        "PodDisruptionBudget",
	string(plan.Orphaned):               "under the same name",
	string(plan.Replacing):              "change the NodeENI back",
	string(plan.AwaitsTurn):             "maxUnavailable",
	string(plan.AddressesKept):          "the command that the message names",
	string(plan.AddressesInUse):         "kubectl delete eni NAME",
	"Paused":                            "networking.k8s.aws/paused",
	"Drifted":                           "updatePolicy: Replace",
	"Unreadable":                        "controller's log",
	"NoNodes":                           "Label a node",
}

func TestRemediationNamesWhatToChange(t *testing.T) {
	for reason, want := range advised {
		t.Run(reason, func(t *testing.T) {
			if got := report.Remediation(reason); !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		})
	}
}

// reasonsOfPlans returns the values of plan's constants, so that a new reason cannot lack its advice.
func reasonsOfPlans(t *testing.T) []string {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("..", "plan", "reasons.go"))
	if err != nil {
		t.Fatal(err)
	}
	var reasons []string
	for _, match := range regexp.MustCompile(`Reason = "([A-Za-z0-9]+)"`).FindAllSubmatch(source, -1) {
		reasons = append(reasons, string(match[1]))
	}
	if !slices.Contains(reasons, string(plan.SubnetNotFound)) || !slices.Contains(reasons, string(plan.EvictionRefused)) {
		t.Fatalf("the first or the last reason is not among %v", reasons)
	}
	return reasons
}

func TestEveryReasonHasAdvice(t *testing.T) {
	for _, reason := range reasonsOfPlans(t) {
		if report.Remediation(reason) == "" {
			t.Errorf("%s has no advice", reason)
		}
	}
}

// A reason that passes has no next step for a user, unless its advice has one. A word that is no reason of multieni has
// none either.
func TestRemediationSaysWhatGoesOnByItself(t *testing.T) {
	const nothing = "Nothing: it goes on by itself."
	for reason, want := range map[string]string{
		string(plan.InstanceNotReady): nothing,
		string(plan.Throttled):        nothing,
		string(plan.Retrying):         nothing,
		string(plan.NotVisible):       nothing,
		string(plan.InProgress):       nothing,
		string(plan.Removing):         nothing,
		"":                            "",
		"LinkMissing":                 "",
		"throttled":                   "",
	} {
		t.Run(reason, func(t *testing.T) {
			if got := report.Remediation(reason); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// An issue that passes can have advice, and one that does not pass must not ask for patience.
func TestRemediationAsksForPatienceOnlyIfTheIssuePasses(t *testing.T) {
	for reason := range advised {
		issue := troublesOf(report.Interface{Phase: "Attached", Reason: reason, Message: "so"})[0]
		if strings.HasPrefix(issue.Advice, "Nothing: ") && !issue.Passing {
			t.Errorf("%s: %q, and it does not pass", reason, issue.Advice)
		}
	}
}

// allAdvice is the advice for every reason, and what else the commands print as next steps.
func allAdvice() map[string]string {
	all := map[string]string{
		"an empty fleet":           report.WhyFleet(report.Fleet{}).Text(report.Page{}),
		"a node without a NodeENI": strings.Join(report.WhyNode(report.Fleet{}, report.Node{Name: "a"}).Notes, " "),
	}
	for reason := range advised {
		all[reason] = report.Remediation(reason)
	}
	return all
}

// repository is the path of the repository from this folder.
const repository = "../../.."

func TestAdviceNamesFilesThatExist(t *testing.T) {
	file := regexp.MustCompile(`[a-z]+/[a-z/-]+\.(json|yaml)`)
	found := 0
	for reason, advice := range allAdvice() {
		for _, name := range file.FindAllString(advice, -1) {
			found++
			if _, err := os.Stat(filepath.Join(repository, name)); err != nil {
				t.Errorf("%s: %v", reason, err)
			}
		}
	}
	if found != 3 {
		t.Errorf("found %d names of files, want those of the policy and twice of the example", found)
	}
}

// Fields and commands that an advice names are in the documents too, so a rename there has to change the advice.
func TestAdviceNamesFieldsAndCommandsOfTheDocuments(t *testing.T) {
	pages, err := filepath.Glob(filepath.Join(repository, "docs", "*.md"))
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	var documents strings.Builder
	for _, page := range pages {
		content, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		documents.Write(content)
	}
	name := regexp.MustCompile(strings.Join([]string{
		`kubectl eni [a-z]+`, `--[a-z-]+[a-z]`, `\bpods\.[a-zA-Z0-9.]+[a-z]`, `\b[a-z]+[A-Z][A-Za-z]+(: [A-Z][a-z]+)?`,
		`networking\.k8s\.aws/[a-z]+`,
	}, "|"))
	for reason, advice := range allAdvice() {
		for _, word := range name.FindAllString(advice, -1) {
			if !strings.Contains(documents.String(), word) {
				t.Errorf("%s: no document has %q", reason, word)
			}
		}
	}
}
