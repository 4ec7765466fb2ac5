// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/rogpeppe/go-internal/testscript"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/importer"
)

// patience is how long a story waits for an expected state. Each step of a story takes a second or two.
const patience = time.Minute

// command is a command of a story. With an exclamation mark before it neg is set.
type command = func(ts *testscript.TestScript, neg bool, args []string)

// commands are the commands of stories in addition to those of testscript.
func commands() map[string]command {
	return map[string]command{
		// [!] kubectl ARGUMENTS: the real one.
		"kubectl": kubectl,
		// await-event OBJECT PATTERN: waits until a line of kubectl events for the object matches.
		"await-event": awaitEvent,
		// save NAME: stores the output of the last command in a variable.
		"save": save,
		// same-recording FILE FILE: asserts that two recordings of the demo differ only in IDs and times.
		"same-recording": sameRecording,
		// await-file FILE: waits until it exists.
		"await-file": awaitFile,
		// controller start [FLAGS] | stop | kill
		"controller": controller,
		// ec2-holds [FILE]: waits until our interfaces in EC2 are those of the file, which has one line for each;
		// without a file, until there are none.
		"ec2-holds": holds,
		// [!] ec2-interface ID: prints an interface as /_sim/state has it.
		"ec2-interface": showInterface,
		// ec2-reservations SUBNET: prints the reserved blocks of a subnet as /_sim/state has them.
		"ec2-reservations": showReservations,
		// ec2-calls: prints how often each action that changes something was called, and how many calls failed.
		"ec2-calls": showCalls,
		// ec2-calls-reset: counts from zero.
		"ec2-calls-reset": resetCalls,
		// ec2-quiet N: waits for N resyncs, and asserts that there were no other calls since the count began.
		"ec2-quiet": quiet,
		// ec2-calls-at-least ACTION N: waits for that many calls.
		"ec2-calls-at-least": awaitCalls,
		// ec2-refuse [ACTION]: makes EC2 refuse that action to all principals; without an action, ends all refusals.
		"ec2-refuse": refuse,
		// [!] ec2-query ACTION KEY=VALUE...: makes a call as another program, and prints the answer.
		"ec2-query": query,
		// ec2-terminate NODE, ec2-launch NODE TYPE ZONE
		"ec2-terminate": terminate,
		"ec2-launch":    launch,
		// [!] ec2-launch-from AWSNODETEMPLATE NODE TYPE ZONE: launches an instance as a fleet does, from the launch
		// template in the status.
		"ec2-launch-from": launchFrom,
		// ec2-user-data AWSNODETEMPLATE: prints the user data of the launch template that its status names first.
		"ec2-user-data": showUserData,
		// drifts AWSNODETEMPLATE NODE TABLE: makes each change of the table, checks the drift that the node reports,
		// and reverts the change.
		"drifts": drifts,
		// ec2-foreign-template NAME FILE: makes a launch template of another program, or a new version of it.
		"ec2-foreign-template": foreignTemplate,
		// asg create NAME AWSNODETEMPLATE | delete NAME: an Auto Scaling group that is scaled to zero.
		"asg": group, "ec2-fleet": fleet,
		// ssm-put NAME VALUE: writes a parameter of Systems Manager.
		"ssm-put": putParameter,
		// ec2-born NODE: prints the interfaces of its instance.
		"ec2-born": born,
		// ec2-event NODE STATE: prints the event with which EC2 reports a state of its instance.
		"ec2-event": showEvent,
		// ec2-metadata NODE: prints the URL of its instance's metadata.
		"ec2-metadata": showMetadata,
		// ec2-legacy NODE SUBNET NODEENI INDEX: makes and attaches an interface as the aws-multi-eni-controller does.
		"ec2-legacy": legacy,
		// ec2-unowned NODE SUBNET INDEX: makes and attaches an interface as the published Multus functions do.
		"ec2-unowned": unowned,
	}
}

func kubectl(ts *testscript.TestScript, neg bool, args []string) {
	err := ts.Exec("kubectl", args...)
	if (err != nil) != neg {
		ts.Fatalf("kubectl: %v, and failure was expected: %t", err, neg)
	}
}

// awaitEvent is a command of its own since the controller writes an Event after the status that it is about, and not
// before it continues.
func awaitEvent(ts *testscript.TestScript, _ bool, args []string) {
	pattern := regexp.MustCompile("(?m)" + args[1])
	eventually(ts, func() string {
		ts.Check(ts.Exec("kubectl", "events", "--for", args[0]))
		if out := ts.ReadFile("stdout"); !pattern.MatchString(out) {
			return fmt.Sprintf("no event matches %s:\n%s", args[1], out)
		}
		return ""
	})
}

func save(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[0], strings.TrimSpace(ts.ReadFile("stdout")))
}

func awaitFile(ts *testscript.TestScript, _ bool, args []string) {
	eventually(ts, func() string {
		if !exists(ts.MkAbs(args[0])) {
			return args[0] + " does not exist"
		}
		return ""
	})
}

func controller(ts *testscript.TestScript, _ bool, args []string) {
	s := on(ts)
	switch args[0] {
	case "start":
		ts.Check(s.startController(args[1:]...))
	case "stop":
		ts.Check(s.stopController())
	case "kill":
		ts.Check(s.controller.Kill())
		s.controller = nil
	default:
		ts.Fatalf("controller %s is not known", args[0])
	}
}

// eventually waits for a condition, and fails with the state that it found instead.
func eventually(ts *testscript.TestScript, condition func() (instead string)) {
	var instead string
	err := wait.PollUntilContextTimeout(context.Background(), 20*time.Millisecond, patience, true,
		func(context.Context) (bool, error) {
			instead = condition()
			return instead == "", nil
		})
	if err != nil {
		ts.Fatalf("still not so after %s: %s", patience, instead)
	}
}

func holds(ts *testscript.TestScript, _ bool, args []string) {
	want := ""
	if len(args) > 0 {
		want = ts.ReadFile(args[0])
	}
	eventually(ts, func() string {
		have := interfaces(on(ts).Simulator.State())
		if have == want {
			return ""
		}
		return fmt.Sprintf("EC2 holds\n%s\nand should hold\n%s", have, want)
	})
}

// interfaces writes our interfaces one per line, in order: node, slot, subnet, NodeENI, status.
func interfaces(state ec2.State) string {
	names := map[string]string{}
	for _, instance := range state.Instances {
		names[instance.InstanceID] = instance.Tags[identity.TagName]
	}
	var lines []string
	for _, i := range state.NetworkInterfaces {
		if i.Tags[identity.TagNodeENI] == "" {
			continue
		}
		where, status := cmp.Or(names[i.Tags[identity.TagInstanceID]], "nowhere"), i.Status
		if i.Attachment != nil {
			where = fmt.Sprintf("%s card %d device %d", names[i.Attachment.InstanceID], i.Attachment.NetworkCardIndex, i.Attachment.DeviceIndex)
			status = i.Attachment.Status
			if i.Attachment.DeleteOnTermination {
				status += ", delete on termination"
			}
		}
		lines = append(lines, fmt.Sprintf("%s: %s for %s, %s\n", where, i.SubnetID, i.Tags[identity.TagNodeENI], status))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

func showInterface(ts *testscript.TestScript, neg bool, args []string) {
	for _, i := range on(ts).Simulator.State().NetworkInterfaces {
		if i.NetworkInterfaceID != args[0] {
			continue
		}
		if neg {
			ts.Fatalf("EC2 has %s", args[0])
		}
		text, err := json.MarshalIndent(i, "", "  ")
		ts.Check(err)
		fmt.Fprintln(ts.Stdout(), string(text))
		return
	}
	if !neg {
		ts.Fatalf("EC2 has no %s", args[0])
	}
}

func showReservations(ts *testscript.TestScript, _ bool, args []string) {
	out := ts.Stdout() // Stdout also clears the output of the last command.
	for _, r := range on(ts).Simulator.State().SubnetCIDRReservations {
		if r.SubnetID == args[0] {
			fmt.Fprintln(out, r.CIDR)
		}
	}
}

func showCalls(ts *testscript.TestScript, _ bool, _ []string) {
	calls := on(ts).Simulator.Calls()
	for _, action := range slices.Sorted(maps.Keys(calls.Actions)) {
		if !strings.HasPrefix(action, "Describe") && !strings.HasPrefix(action, "Get") {
			fmt.Fprintf(ts.Stdout(), "%s %d\n", action, calls.Actions[action].Count)
		}
	}
	m, n := calls.Mutating, calls.NonMutating
	fmt.Fprintf(ts.Stdout(), "failed %d\n", m.Failed+m.Throttled+n.Failed+n.Throttled)
}

func resetCalls(ts *testscript.TestScript, _ bool, _ []string) { on(ts).Simulator.ResetCalls() }

func quiet(ts *testscript.TestScript, _ bool, args []string) {
	const listing = "DescribeNetworkInterfaces"
	listings, err := strconv.Atoi(args[0])
	ts.Check(err)
	eventually(ts, func() string {
		calls := on(ts).Simulator.Calls()
		for action, count := range calls.Actions {
			if action != listing {
				ts.Fatalf("%s was called %d times", action, count.Count)
			}
		}
		if n := calls.Actions[listing].Count; n < listings {
			return fmt.Sprintf("%d listings", n)
		}
		return ""
	})
}

func awaitCalls(ts *testscript.TestScript, _ bool, args []string) {
	least, err := strconv.Atoi(args[1])
	ts.Check(err)
	eventually(ts, func() string {
		if n := on(ts).Simulator.Calls().Actions[args[0]].Count; n < least {
			return fmt.Sprintf("%d calls of %s", n, args[0])
		}
		return ""
	})
}

func refuse(ts *testscript.TestScript, _ bool, args []string) {
	on(ts).Simulator.ClearFaults()
	for _, action := range args {
		_, err := on(ts).Simulator.AddFault(fault.Fault{Kind: fault.Error, Action: action, Code: "UnauthorizedOperation", Status: http.StatusForbidden})
		ts.Check(err)
	}
}

func terminate(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(on(ts).Simulator.Terminate(instanceOf(ts, args[0])))
}

func showEvent(ts *testscript.TestScript, _ bool, args []string) {
	fmt.Fprintf(ts.Stdout(), `{"source": "aws.ec2", "detail-type": "EC2 Instance State-change Notification", "detail": {"instance-id": %q, "state": %q}}`,
		instanceOf(ts, args[0]), args[1])
}

func showMetadata(ts *testscript.TestScript, _ bool, args []string) {
	fmt.Fprintln(ts.Stdout(), strings.Replace(on(ts).Endpoint, "://", "://"+instanceOf(ts, args[0])+"@", 1))
}

// instanceOf returns the ID of a node's instance.
func instanceOf(ts *testscript.TestScript, node string) string {
	for _, instance := range on(ts).Simulator.State().Instances {
		if instance.Tags[identity.TagName] == node {
			return instance.InstanceID
		}
	}
	ts.Fatalf("there is no instance %s", node)
	return ""
}

func legacy(ts *testscript.TestScript, _ bool, args []string) {
	attachAnothers(ts, args[0], args[3], executor.CreateRequest{SubnetID: args[1], Description: "Multus ENI for secondary network interfaces", Tags: map[string]string{
		importer.TagManagedBy: importer.ManagedBy, importer.TagNodeENI: args[2], importer.TagNode: args[0],
	}})
}

func unowned(ts *testscript.TestScript, _ bool, args []string) {
	cloud, made, attachment := attachAnothers(ts, args[0], args[2], executor.CreateRequest{
		SubnetID: args[1], Tags: map[string]string{identity.TagNoManage: "true"},
	})
	ts.Check(cloud.SetSourceDestCheck(context.Background(), made, false))
	ts.Check(cloud.SetDeleteOnTermination(context.Background(), made, attachment, true))
}

// attachAnothers creates an interface of another program, and attaches it to a node at a device index.
func attachAnothers(ts *testscript.TestScript, node, device string, request executor.CreateRequest) (cloud *awsec2.Client, id, attachment string) {
	ctx := context.Background()
	cloud = awsec2.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String(on(ts).Endpoint), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
	}, awsec2.Options{})
	index, err := strconv.Atoi(device)
	ts.Check(err)
	request.Token, request.Groups = node+request.SubnetID+device, []string{"sg-05da196f3314d4af8"}
	made, err := cloud.CreateInterface(ctx, request)
	ts.Check(err)
	attached, err := cloud.AttachInterface(ctx, made.ID, instanceOf(ts, node), eni.Slot{Device: index})
	ts.Check(err)
	return cloud, made.ID, attached.ID
}

func launch(ts *testscript.TestScript, _ bool, args []string) {
	_, err := on(ts).Simulator.Launch(ec2.WorldInstance{Name: args[0], InstanceType: args[1], AvailabilityZone: args[2]})
	ts.Check(err)
}
