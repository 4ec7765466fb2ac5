// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package awssim_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
)

// TestALoadedSimulatorAnswersAsTheSavedOne makes random calls to a simulator, saves it and loads it into a second one,
// and makes more random calls to both. Each answer of the second, to the byte, is that of the first: everything is
// described alike, client tokens find the same resources, what was in flight ends at the same time, and what is created
// afterwards has the same IDs and addresses.
func TestALoadedSimulatorAnswersAsTheSavedOne(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		first := newPlayer(rt)
		first.play(rapid.IntRange(0, 40).Draw(rt, "calls before"))

		var saved bytes.Buffer
		if err := first.sim.Save(&saved); err != nil {
			rt.Fatalf("save: %v", err)
		}
		state, err := awssim.ReadState(saved.Bytes())
		if err != nil {
			rt.Fatalf("read: %v", err)
		}
		if diff := cmp.Diff(text(rt, first.world()), text(rt, state.World)); diff != "" {
			rt.Fatalf("the world has changed (-before +after):\n%s", diff)
		}
		loaded, err := awssim.New(awssim.Options{State: state, Clock: first.clock, Behavior: &first.behavior})
		if err != nil {
			rt.Fatalf("load: %v", err)
		}

		first.twin = loaded
		first.describe()
		first.play(rapid.IntRange(0, 40).Draw(rt, "calls after"))
		first.wait(time.Hour) // all that was in flight ends
		first.describe()
		first.wait(72 * time.Hour) // all that is remembered for a time is forgotten
		first.describe()
	})
}

func text(t *rapid.T, value any) string {
	encoded, err := json.MarshalIndent(value, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(encoded)
}

// player makes random calls to a simulator, and to its twin, if there is one.
type player struct {
	t         *rapid.T
	clock     *handClock
	behavior  ec2.Behavior
	sim, twin *awssim.Simulator
}

// handClock shows the time that a test sets.
type handClock struct{ now time.Time }

func (c *handClock) Now() time.Time { return c.now }

func (c *handClock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func newPlayer(rt *rapid.T) *player {
	p := &player{t: rt, clock: &handClock{now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}}
	p.behavior = ec2.DefaultBehavior()
	if rapid.Bool().Draw(rt, "lag") {
		p.behavior = ec2.LaggingBehavior()
	}
	p.behavior.Available = ec2.Latency{Max: time.Second}
	p.behavior.Calls = ec2.CallLatencies()
	sim, err := awssim.New(awssim.Options{World: p.world(), Clock: p.clock, Behavior: &p.behavior, Seed: rapid.Uint64().Draw(rt, "seed")})
	if err != nil {
		rt.Fatal(err)
	}
	p.sim = sim
	return p
}

func (*player) world() awssim.World {
	world := workers(2)
	world.Instances[0].CNI = &ec2.CNI{WarmENIs: 1}
	// Without a call, an instance stays, and is not replaced again and again for three days.
	world.AutoScalingGroups[0].LifecycleHooks[0].DefaultResult = "CONTINUE"
	return world
}

func (p *player) wait(d time.Duration) { p.clock.now = p.clock.now.Add(d) }

// pick draws one of some values; "none" if there is none.
func (p *player) pick(of string, among ...string) string {
	if len(among) == 0 {
		return "none"
	}
	return rapid.SampledFrom(among).Draw(p.t, of)
}

func (p *player) play(calls int) {
	steps := p.steps()
	names := make([]string, 0, len(steps))
	for name := range steps {
		names = append(names, name)
	}
	slices.Sort(names)
	for range calls {
		steps[p.pick("step", names...)]()
		p.wait(time.Duration(rapid.IntRange(0, 5000).Draw(p.t, "pause")) * time.Millisecond)
	}
}

// state reads the state of both, since a read lets happen what is due.
func (p *player) state() ec2.State {
	if p.twin != nil {
		p.twin.State()
	}
	return p.sim.State()
}

// ec2 makes a call to EC2 with parameters in pairs.
func (p *player) ec2(action string, parameters ...string) {
	form := url.Values{"Action": {action}, "Version": {"2016-11-15"}}
	for i := 0; i < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	p.post("/", form.Encode(), "application/x-www-form-urlencoded", "")
}

// groups makes a call to Auto Scaling.
func (p *player) groups(action string, parameters ...string) {
	form := url.Values{"Action": {action}, "Version": {"2011-01-01"}}
	for i := 0; i < len(parameters); i += 2 {
		form.Set(parameters[i], parameters[i+1])
	}
	p.post("/", form.Encode(), "application/x-www-form-urlencoded", "")
}

// json makes a call to a service that speaks JSON.
func (p *player) json(target, body string) { p.post("/", body, "application/x-amz-json-1.1", target) }

func (p *player) post(path, body, kind, target string) {
	p.t.Helper()
	p.compare(func() *http.Request {
		r := p.request(http.MethodPost, path, body)
		r.Header.Set("Content-Type", kind)
		r.Header.Set("X-Amz-Target", target)
		return r
	})
}

func (p *player) get(path string) {
	p.t.Helper()
	p.compare(func() *http.Request { return p.request(http.MethodGet, path, "") })
}

func (p *player) request(method, path, body string) *http.Request {
	request, err := http.NewRequestWithContext(context.Background(), method, "http://simulated"+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	return request
}

// compare makes a request to both simulators, which must give the same answer.
func (p *player) compare(request func() *http.Request) {
	p.t.Helper()
	want := answerOf(p.t, p.sim, request())
	if p.twin == nil {
		return
	}
	if got := answerOf(p.t, p.twin, request()); got != want {
		p.t.Fatalf("%s answers otherwise after a save (-saved +loaded):\n%s", request().URL, cmp.Diff(want, got))
	}
}

func answerOf(t *rapid.T, sim *awssim.Simulator, request *http.Request) string {
	response, err := sim.Transport().RoundTrip(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%d %s", response.StatusCode, body)
}

// describe reads all that a simulator shows.
func (p *player) describe() {
	for _, o := range ec2.Operations() {
		if o.IsMutating || o.Name == "DescribeInstanceTypes" {
			continue
		}
		p.ec2(o.Name)
	}
	for _, subnet := range p.state().Subnets {
		p.ec2("GetSubnetCidrReservations", "SubnetId", subnet.SubnetID)
	}
	p.ec2("DescribeLaunchTemplateVersions", "Version.1", "$Latest")
	p.groups("DescribeAutoScalingGroups")
	p.groups("DescribeLifecycleHooks", "AutoScalingGroupName", "workers")
	p.groups("DescribeScalingActivities")
	p.json("AmazonSQS.ListQueues", "{}")
	p.json("AmazonSQS.GetQueueAttributes", `{"QueueUrl":"http://simulated/1/hooks","AttributeNames":["All"]}`)
	p.json("AWSEvents.ListRules", "{}")
	p.json("AmazonSSM.GetParameter", `{"Name":"/p"}`)
	for _, path := range []string{"state", "calls", "calls/recent", "faults"} {
		p.get("/_sim/" + path)
	}
	for _, instance := range p.state().Instances {
		for _, path := range []string{"mac", "network/interfaces/macs/", "autoscaling/target-lifecycle-state"} {
			p.get("/_imds/" + instance.InstanceID + "/latest/meta-data/" + path)
		}
	}
}
