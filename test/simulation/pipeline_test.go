// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"slices"
	"strings"
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
	"github.com/multieni/multieni/internal/aws/executor"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/simulation"
)

// TestPipeline runs the product's EC2 client, which lies below the ports of the step driver, against the simulator in a
// bubble of virtual time, seed after seed: batches with unknown IDs in them, and bursts of several actions.
func TestPipeline(t *testing.T) {
	first, last := *seed, *seed
	if first == 0 {
		first, last = uint64(number("SIM_FIRST", 1)), uint64(number("SIM_FIRST", 1)+min(number("SIM_SEEDS", 20), 200)-1)
	}
	for seed := first; seed <= last; seed++ {
		if v := pipe(t, seed); v != nil {
			t.Errorf("%v\nreplay: go test ./test/simulation -run TestPipeline -v -seed=%d", v, seed)
			return
		}
	}
}

// pipe makes one run of the EC2 client.
func pipe(t *testing.T, seed uint64) (v *simulation.Violation) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, seed)
		if v = b.batches(t.Context()); v == nil {
			v = b.bursts(t.Context())
		}
		if v == nil {
			v = b.wrongReplies(t.Context())
		}
	})
	return v
}

const benchSubnet, benchCluster = "subnet-0000000000000000a", "red"

// bench is an account with a few instances, and a client for it.
type bench struct {
	random    *rand.Rand
	sim       *awssim.Simulator
	client    *awsec2.Client
	instances []string
}

func newBench(t *testing.T, seed uint64) *bench {
	t.Helper()
	b := &bench{random: rand.New(rand.NewPCG(seed, 0x52))}
	world := awssim.World{World: ec2.World{
		Region:            "us-east-1",
		AvailabilityZones: []ec2.WorldZone{{ZoneName: "us-east-1a", ZoneID: "use1-az1"}},
		VPCs:              []ec2.WorldVPC{{VPCID: "vpc-0000000000000000a", CIDRBlock: netip.MustParsePrefix("10.0.0.0/16")}},
		Subnets: []ec2.WorldSubnet{{
			SubnetID: benchSubnet, VPCID: "vpc-0000000000000000a", AvailabilityZone: "us-east-1a", CIDRBlock: netip.MustParsePrefix("10.0.0.0/20"),
		}},
	}}
	for n := range 3 + b.random.IntN(20) {
		id := fmt.Sprintf("i-%017x", n+1)
		world.Instances = append(world.Instances, ec2.WorldInstance{InstanceID: id, InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a"})
		b.instances = append(b.instances, id)
	}
	var err error
	if b.sim, err = awssim.New(awssim.Options{World: world, Behavior: new(ec2.LaggingBehavior()), Seed: seed}); err != nil {
		t.Fatal(err)
	}
	b.client = awsec2.New(aws.Config{
		Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("AKID", "secret", ""),
		HTTPClient: &http.Client{Transport: b.sim.Transport()},
	}, awsec2.Options{Cluster: benchCluster})
	return b
}

// batches reads all instances at once, some of them unknown to EC2: those must cost the others neither their answer nor
// time (PR05 of the reliability catalogue).
func (b *bench) batches(ctx context.Context) *simulation.Violation {
	asked := slices.Clone(b.instances)
	for n := range 1 + b.random.IntN(3) {
		asked = append(asked, fmt.Sprintf("i-dead%013x", n))
	}
	b.random.Shuffle(len(asked), func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	begun, looks, failures := time.Now(), make([]eni.InstanceSnapshot, len(asked)), make([]error, len(asked))
	var callers sync.WaitGroup
	for n, id := range asked {
		callers.Go(func() { looks[n], failures[n] = b.client.DescribeInstance(ctx, id) })
	}
	callers.Wait()
	for n, id := range asked {
		known := slices.Contains(b.instances, id)
		if failures[n] != nil || (looks[n].Instance.State != eni.InstanceMissing) != known {
			return &simulation.Violation{Invariant: "PR05", Message: fmt.Sprintf(
				"with %d unknown instances in a batch, the look at %s says %q: %v", len(asked)-len(b.instances), id, looks[n].Instance.State, failures[n])}
		}
	}
	if took := time.Since(begun); took > 2*time.Second {
		return &simulation.Violation{Invariant: "PR05", Message: fmt.Sprintf("a batch with unknown instances took %s", took)}
	}
	return nil
}

// bursts makes several kinds of calls at once, more of each than its token bucket holds. Each action has a bucket of
// its own, so all together take no longer than one alone (I8).
func (b *bench) bursts(ctx context.Context) *simulation.Violation {
	of := func(n int) executor.CreateRequest {
		m := named("uid", b.instances[0], n)
		return executor.CreateRequest{Token: m.Token(), SubnetID: benchSubnet, Tags: m.Tags(time.Unix(1, 0), nil)}
	}
	one, err := b.client.CreateInterface(ctx, of(0))
	if err != nil {
		return &simulation.Violation{Invariant: "I8", Message: err.Error()}
	}
	const share = 0.5 // the client must use at least this part of each bucket
	count := 100 + b.random.IntN(60)
	bucket := awsec2.DocumentedBuckets()["CreateNetworkInterface"]
	limit := time.Duration(max(0, float64(count)-share*float64(bucket.Capacity)) / (share * bucket.Refill) * float64(time.Second))
	begun := time.Now()
	var callers sync.WaitGroup
	for n := range count {
		callers.Go(func() { _, _ = b.client.CreateInterface(ctx, of(n+1)) })
		callers.Go(func() { _ = b.client.SetDescription(ctx, one.ID, fmt.Sprint(n)) })
		callers.Go(func() { _ = b.client.PutTags(ctx, one.ID, map[string]string{"n": fmt.Sprint(n)}) })
	}
	callers.Wait()
	took := time.Since(begun)
	if calls := b.sim.Calls().Mutating; float64(calls.Throttled) > mostThrottled*float64(calls.Count) {
		return &simulation.Violation{Invariant: "I8", Message: fmt.Sprintf("EC2 throttled %d of %d calls", calls.Throttled, calls.Count)}
	}
	if took > limit+5*time.Second {
		return &simulation.Violation{Invariant: "I8", Message: fmt.Sprintf(
			"%d calls of each of three actions took %s, and %s would do: %s", count, took.Round(time.Second), limit.Round(time.Second),
			strings.Join([]string{"CreateNetworkInterface", "ModifyNetworkInterfaceAttribute", "CreateTags"}, ", "))}
	}
	return nil
}

// named returns the identity of an interface.
func named(uid, instanceID string, ordinal int) identity.Interface {
	return identity.Interface{
		Cluster: benchCluster, UID: identity.UID(fmt.Sprintf("%s-%d", uid, ordinal)),
		Name: identity.ObjectName("net", instanceID, ordinal), NodeENI: "net", Node: "node", InstanceID: instanceID, Ordinal: ordinal,
	}
}

// mostThrottled is the share of its calls that EC2 may throttle while nothing else uses the account (AW10 of the
// reliability catalogue).
const mostThrottled = 0.02

// wrongReplies replaces EC2's answers by others, with the call executed or not. The product must accept none of them as
// an answer: either the result exists or it reports an error, and an interface that it requests again is the same one
// (I2).
func (b *bench) wrongReplies(ctx context.Context) *simulation.Violation {
	const wanted = 12
	wrong := func(message string, args ...any) *simulation.Violation {
		return &simulation.Violation{Invariant: "I2", Message: fmt.Sprintf(message, args...)}
	}
	for _, reply := range fault.Replies() {
		for _, skip := range []bool{false, true} {
			f := fault.Fault{Kind: fault.WrongReply, Reply: reply, Skip: skip, Probability: 0.03 + 0.07*b.random.Float64()}
			if reply == fault.Huge {
				f.Count = 1
				if b.random.IntN(20) > 0 {
					continue // 50 MB take long
				}
			}
			if _, err := b.sim.AddFault(f); err != nil {
				return wrong("%v", err)
			}
		}
	}
	made := map[string]bool{}
	for n := range wanted {
		m := named("wrong", b.instances[1], n)
		request := executor.CreateRequest{Token: m.Token(), SubnetID: benchSubnet, Tags: m.Tags(time.Unix(1, 0), nil)}
		var one eni.Interface
		for {
			var err error
			if one, err = b.client.CreateInterface(ctx, request); err == nil {
				break
			}
			if class := eni.ErrorClass(err); class != eni.Transient {
				return wrong("an answer that is none has class %s: %v", class, err)
			}
		}
		made[one.ID] = true
		time.Sleep(time.Minute) // until reads return it
		if look, err := b.client.DescribeInstance(ctx, b.instances[1]); err == nil && (look.Instance.State == eni.InstanceMissing || len(look.Interfaces) < len(made)) {
			return wrong("the instance is %s and has %d interfaces, %d were made", look.Instance.State, len(look.Interfaces), len(made))
		}
		if n%3 > 0 {
			continue
		}
		err := b.client.DeleteInterface(ctx, one.ID)
		made[one.ID] = slices.ContainsFunc(b.sim.State().NetworkInterfaces, func(i *ec2.NetworkInterface) bool { return i.NetworkInterfaceID == one.ID })
		if err == nil && made[one.ID] {
			return wrong("the deletion of %s counts as done, and it is there", one.ID)
		}
		maps.DeleteFunc(made, func(_ string, is bool) bool { return !is })
	}
	b.sim.ClearFaults()
	return nil
}
