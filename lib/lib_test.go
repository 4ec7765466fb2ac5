// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lib_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/lib"
)

var update = flag.Bool("update", false, "write api.txt instead of comparing")

// TestTheExampleCompiles builds the example for users of the aws-multi-eni-controller. The import path differs, and one
// unused import of the original is removed, because it does not compile.
func TestTheExampleCompiles(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "vet", "../examples/library-usage")
	if out, err := command.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestAPI compares the exported API with the promised one: a removed or changed line breaks users' programs.
func TestAPI(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "doc", "-all", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	exported := declarations(string(out))
	if *update {
		if err := os.WriteFile("api.txt", []byte(exported), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	promised, err := os.ReadFile("api.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(promised), exported); diff != "" {
		t.Errorf("the exported API is not that of api.txt; if nothing was taken away or changed, run go test ./lib -update (-promised +is):\n%s", diff)
	}
}

// firstSection is the heading of the first declarations that go doc prints.
var firstSection = regexp.MustCompile(`(?m)^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$`)

// declarations returns the output of go doc without comments.
func declarations(doc string) string {
	var kept strings.Builder
	// The output begins with the comment of the package.
	doc = doc[firstSection.FindStringIndex(doc)[0]:]
	for line := range strings.Lines(doc) {
		words := strings.HasPrefix(line, "    ") || strings.HasPrefix(strings.TrimSpace(line), "//")
		if !words && strings.TrimSpace(line) != "" {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// simulated returns a manager of the example world, which runs twenty times as fast as EC2.
func simulated(t *testing.T) *lib.ENIManager {
	manager, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return manager
}

func start() (*lib.ENIManager, error) {
	simulator, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Clock: awssim.ScaledClock(50), Seed: 1})
	if err != nil {
		return nil, err
	}
	return lib.NewENIManagerWithConfig(aws.Config{
		Region: "us-east-1", HTTPClient: &http.Client{Transport: simulator.Transport()},
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""),
	}, logr.Discard()), nil
}

const (
	instanceID = "i-0a20000000000000a" // supports three interfaces
	subnetID   = "subnet-0f59b4f14737be9ad"
	groupID    = "sg-05da196f3314d4af8"
)

func options() lib.ENIOptions {
	return lib.ENIOptions{
		SubnetID: subnetID, SecurityGroupIDs: []string{groupID}, Description: "test", DeviceIndex: 1, DeleteOnTermination: true,
		Tags: map[string]string{"Name": "test-eni"},
	}
}

func TestTheLifeOfAnInterface(t *testing.T) {
	manager := simulated(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	id, err := manager.CreateENI(ctx, options())
	must(t, err)
	must(t, manager.AttachENI(ctx, id, instanceID, 1, true))
	must(t, manager.WaitForENI(ctx, id, lib.Attached))
	info, err := manager.GetENI(ctx, id)
	must(t, err)
	if a := info.Attachment; a == nil || a.DeviceIndex != 1 || !a.DeleteOnTermination || a.ID == "" || info.Tags["Name"] != "test-eni" {
		t.Errorf("%+v", info)
	}
	all, err := manager.GetENIsByInstance(ctx, instanceID)
	must(t, err)
	if len(all) != 2 {
		t.Errorf("the instance has %d interfaces", len(all))
	}
	must(t, manager.DetachENI(ctx, info.Attachment.ID))
	must(t, manager.WaitForENI(ctx, id, lib.Available))
	must(t, manager.DeleteENI(ctx, id))
	must(t, manager.WaitForENI(ctx, id, lib.Deleted))
	must(t, manager.DeleteENI(ctx, id)) // it is already deleted
	if _, err := manager.GetENI(ctx, id); !errors.Is(err, lib.ErrNotFound) {
		t.Errorf("a deleted interface: %v", err)
	}
}

func TestAdoptionMakesNoSecondInterface(t *testing.T) {
	manager := simulated(t)
	first, adopted, err := manager.AdoptENI(t.Context(), options())
	must(t, err)
	if adopted {
		t.Error("something was adopted that nobody made")
	}
	must(t, manager.WaitForENI(t.Context(), first, lib.Available))
	second, adopted, err := manager.AdoptENI(t.Context(), options())
	must(t, err)
	if !adopted || second != first {
		t.Errorf("%s was made beside %s", second, first)
	}
	another, err := manager.CreateENI(t.Context(), options())
	must(t, err)
	must(t, manager.WaitForENI(t.Context(), another, lib.Available))
	if _, _, err := manager.AdoptENI(t.Context(), options()); err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("two that match: %v", err)
	}
	if _, _, err := manager.AdoptENI(t.Context(), lib.ENIOptions{SubnetID: subnetID}); err == nil {
		t.Error("adopts without tags")
	}
}

func TestAClientTokenMakesCreationIdempotent(t *testing.T) {
	manager, o := simulated(t), options()
	o.ClientToken = "once"
	first, err := manager.CreateENI(t.Context(), o)
	must(t, err)
	second, err := manager.CreateENI(t.Context(), o)
	must(t, err)
	if first != second {
		t.Errorf("%s and %s", first, second)
	}
}

func TestAPlanChangesNothingAndSaysWhatDoesNotFit(t *testing.T) {
	manager := simulated(t)
	got, err := manager.PlanENIs(t.Context(), instanceID, []lib.ENIOptions{options(), options(), options()})
	must(t, err)
	for i := range got {
		got[i].Message = ""
	}
	want := []lib.Placement{{DeviceIndex: 1}, {DeviceIndex: 2}, {DeviceIndex: 1, Blocked: "InstanceFull"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if all, _ := manager.GetENIsByInstance(t.Context(), instanceID); len(all) != 1 {
		t.Errorf("the plan attached something: %d interfaces", len(all))
	}
	if _, err := manager.PlanENIs(t.Context(), "i-00000000000000000", nil); !errors.Is(err, lib.ErrNotFound) {
		t.Errorf("an instance nobody knows: %v", err)
	}
}

func TestLookups(t *testing.T) {
	manager := simulated(t)
	subnets, err := manager.GetSubnetsByVPC(t.Context(), "vpc-0b1f1e5a2c3d4e5f6")
	must(t, err)
	groups, err := manager.GetSecurityGroupsByVPC(t.Context(), "vpc-0b1f1e5a2c3d4e5f6")
	must(t, err)
	if len(subnets) != 9 || len(groups) < 2 || subnets[0].CIDRBlock == "" || groups[0].Name == "" {
		t.Errorf("%d subnets, %d groups", len(subnets), len(groups))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Create an interface, attach it, and wait until it is attached.
func Example() {
	manager, err := start() // against EC2: lib.NewENIManager(ctx, "us-east-1", logger)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	eniID, err := manager.CreateENI(ctx, lib.ENIOptions{
		SubnetID: "subnet-0f59b4f14737be9ad", SecurityGroupIDs: []string{"sg-05da196f3314d4af8"}, Tags: map[string]string{"Name": "example-eni"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	attachmentID, err := manager.Attach(ctx, eniID, "i-0a10000000000000a", lib.AttachOptions{DeviceIndex: 1, DeleteOnTermination: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := manager.WaitForENI(ctx, eniID, lib.Attached); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("attached, and can be detached by its attachment ID:", attachmentID != "")
	// Output: attached, and can be detached by its attachment ID: true
}

// A plan shows which interfaces fit before any is created.
func ExampleENIManager_PlanENIs() {
	manager, err := start()
	if err != nil {
		fmt.Println(err)
		return
	}
	wanted := lib.ENIOptions{SubnetID: "subnet-0f59b4f14737be9ad", SecurityGroupIDs: []string{"sg-05da196f3314d4af8"}, DeviceIndex: 1}
	placements, err := manager.PlanENIs(context.Background(), "i-0a20000000000000a", []lib.ENIOptions{wanted, wanted, wanted})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, p := range placements {
		fmt.Printf("%d %q\n", p.DeviceIndex, p.Blocked)
	}
	// Output:
	// 1 ""
	// 2 ""
	// 1 "InstanceFull"
}
