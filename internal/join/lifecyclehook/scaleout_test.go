// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecyclehook_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
	"github.com/multieni/multieni/internal/join/lifecyclehook"
)

// scaling is an Auto Scaling group whose instances all wait in one hook.
type scaling struct {
	mu        sync.Mutex
	waits     map[string]bool
	completed map[string]int
}

func (s *scaling) Complete(_ context.Context, _ lifecycle.HookRef, instanceID string, result lifecycle.Policy) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waits[instanceID] && result == lifecycle.Continue {
		s.completed[instanceID]++
		s.waits[instanceID] = false
	}
	return nil
}

func (s *scaling) Heartbeat(context.Context, lifecycle.HookRef, string) error { return nil }

func (s *scaling) Waiting(_ context.Context, instanceID string, _ lifecycle.Kind) ([]lifecycle.HookRef, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waits[instanceID] {
		return nil, nil
	}
	return []lifecycle.HookRef{{Group: "multus-group", Name: "multus-hook"}}, nil
}

// The subnets of the three zones.
var subnets = map[string]string{
	"us-east-1a": "subnet-0f59b4f14737be9ad", "us-east-1b": "subnet-0bb0000000000000b", "us-east-1c": "subnet-0bb0000000000000c",
}

// Instances start in three zones. Each has a launch event that is duplicated, late or lost. The processes share
// nothing, every other one is killed, and EC2 throttles and loses answers. Scheduled checks run now and then.
func TestScaleOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const instances = 45
		sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: new(ec2.LaggingBehavior())})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range []fault.Fault{{Kind: fault.LoseReply, Probability: 0.05}, {Kind: fault.Throttle, Probability: 0.05}} {
			if _, err := sim.AddFault(f); err != nil {
				t.Fatal(err)
			}
		}
		group := &scaling{waits: map[string]bool{}, completed: map[string]int{}}
		ids := launchAll(t, sim, group, instances)
		config := parameters(t)
		random := rand.New(rand.NewPCG(1, 2))
		var wg sync.WaitGroup
		invoke := func(body string, after, dies time.Duration) {
			wg.Go(func() {
				time.Sleep(after)
				ctx, cancel := context.WithTimeout(t.Context(), dies)
				defer cancel()
				// Another event or a scheduled check repeats what failed.
				_ = process(sim, config, group).Handle(ctx, []byte(body))
			})
		}
		for n, id := range ids {
			if n%10 == 0 {
				continue // lost
			}
			for range 1 + random.IntN(2) {
				dies := 5 * time.Minute
				if random.IntN(2) == 0 {
					dies = deadlineMargin + time.Duration(random.IntN(20_000))*time.Millisecond
				}
				invoke(launchOf(id), time.Duration(random.IntN(30_000))*time.Millisecond, dies)
			}
		}
		for n := range 6 {
			invoke(tick, time.Duration(n+1)*2*time.Minute, 10*time.Minute)
		}
		wg.Wait()
		time.Sleep(time.Minute)
		check(t, sim, group, ids)
	})
}

const deadlineMargin = 10 * time.Second

func launchAll(t *testing.T, sim *awssim.Simulator, group *scaling, n int) []string {
	var ids []string
	zones := []string{"us-east-1a", "us-east-1b", "us-east-1c"}
	for i := range n {
		made, err := sim.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zones[i%3], Tags: ec2.Tags{
			"multus-ng": "true", "aws:autoscaling:groupName": "multus-group",
		}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made[0].InstanceID)
		group.waits[made[0].InstanceID] = true
	}
	return ids
}

func parameters(t *testing.T) lifecycle.Config {
	p, err := lifecycle.ParseParameters(map[string]string{
		"ClusterName": "c", "EksNodeGroupTagKey": "multus-ng", "LifecycleHooks": "multus-hook", "OnFailure": "ABANDON",
		"MultusSubnetsAz1": subnets["us-east-1a"], "MultusSubnetsAz2": subnets["us-east-1b"], "MultusSubnetsAz3": subnets["us-east-1c"],
		"MultusSecurityGroupIds": "sg-05da196f3314d4af8", "useIPsFromStartOfSubnet": "true",
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Config
}

// process is a handler that shares nothing with others.
func process(sim *awssim.Simulator, config lifecycle.Config, group *scaling) *lifecyclehook.Handler {
	cloud := awsec2.New(aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: sim.Transport()},
	}, awsec2.Options{Cluster: config.Cluster})
	log := slog.New(slog.DiscardHandler)
	return lifecyclehook.New(lifecyclehook.Options{
		Config: config, Instances: cloud, AutoScaling: group, Patience: 8 * time.Minute, Heartbeat: 20 * time.Second, Log: log, Observer: lifecyclehook.EmbeddedMetrics{To: io.Discard},
		Joiner: join.New(join.Options{Config: config, Cloud: cloud, Addresses: join.NewQueue(config, cloud, time.Now), Now: time.Now, Log: log}),
	})
}

func launchOf(instanceID string) string {
	return fmt.Sprintf(`{"LifecycleTransition": "autoscaling:EC2_INSTANCE_LAUNCHING", "AutoScalingGroupName": "multus-group", "LifecycleHookName": "multus-hook", "EC2InstanceId": %q}`, instanceID)
}

// check requires that each instance has exactly its network at device 1, that its hook was completed once, and that the
// interfaces have the first addresses of each subnet.
func check(t *testing.T, sim *awssim.Simulator, group *scaling, ids []string) {
	t.Helper()
	of := map[string]int{}
	addresses := map[string][]netip.Addr{}
	for _, i := range sim.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == "" {
			continue
		}
		if i.Attachment == nil || i.Attachment.DeviceIndex != 1 || !i.Attachment.DeleteOnTermination || i.SourceDestCheck {
			t.Errorf("%s is %s, %+v", i.NetworkInterfaceID, i.Status, i.Attachment)
			continue
		}
		of[i.Attachment.InstanceID]++
		addresses[i.SubnetID] = append(addresses[i.SubnetID], i.PrivateIPAddress)
	}
	for _, id := range ids {
		if of[id] != 1 || group.completed[id] != 1 {
			t.Errorf("%s has %d interfaces, and its hook was completed %d times", id, of[id], group.completed[id])
		}
	}
	for subnet, got := range addresses {
		slices.SortFunc(got, netip.Addr.Compare)
		if first := got[0].As4(); first[3] != 4 {
			t.Errorf("%s begins with %s", subnet, got[0])
		}
		for n := 1; n < len(got); n++ {
			if got[n] != got[n-1].Next() {
				t.Errorf("%s has a gap between %s and %s", subnet, got[n-1], got[n])
			}
		}
	}
	calls := sim.Calls().Actions["CreateNetworkInterface"]
	t.Logf("%d interfaces; %d CreateNetworkInterface calls, of which %v were refused", len(of), calls.Count, calls.Errors)
}
