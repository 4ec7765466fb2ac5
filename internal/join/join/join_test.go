// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package join_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/awssim/fault"
	"github.com/multieni/multieni/internal/aws/addresses"
	"github.com/multieni/multieni/internal/aws/awsec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/lifecycle"
	"github.com/multieni/multieni/internal/join/join"
)

const (
	subnetA  = "subnet-0f59b4f14737be9ad" // zone a, with IPv6
	subnetA2 = "subnet-abcdef1234567890"  // zone a
	group    = "sg-05da196f3314d4af8"
)

// scene is a simulated EC2 with one instance for a Joiner, on virtual time.
type scene struct {
	t   *testing.T
	sim *awssim.Simulator
	cfg aws.Config
	id  string
}

func play(t *testing.T) *scene {
	t.Helper()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld(), Behavior: new(ec2.LaggingBehavior())})
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{t: t, sim: sim, cfg: aws.Config{
		Region: "us-east-1", BaseEndpoint: aws.String("http://awssim"), Credentials: credentials.NewStaticCredentialsProvider("a", "b", ""),
		HTTPClient: &http.Client{Transport: sim.Transport()},
	}}
	s.id = s.launch("us-east-1a")
	return s
}

func (s *scene) launch(zone string) string {
	i, err := s.sim.Launch(ec2.WorldInstance{InstanceType: "m5.xlarge", AvailabilityZone: zone, Tags: ec2.Tags{"multus-ng": "true"}})
	if err != nil {
		s.t.Fatal(err)
	}
	return i[0].InstanceID
}

// joiner returns a Joiner as a new process has it, which shares nothing with others.
func (s *scene) joiner(change ...func(*lifecycle.Config)) *join.Joiner {
	s.t.Helper()
	p, err := lifecycle.ParseParameters(map[string]string{
		"ClusterName": "c", "EksNodeGroupTagKey": "multus-ng", "MultusSubnetsAz1": subnetA + "," + subnetA2, "MultusSecurityGroupIds": group,
		"useIPsFromStartOfSubnet": "true", "MultusInterfaceTags": "cnf=upf",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range change {
		f(&p.Config)
	}
	cloud := awsec2.New(s.cfg, awsec2.Options{Cluster: "c"})
	return join.New(join.Options{
		Config: p.Config, Cloud: cloud, Addresses: addresses.NewReservations(cloud, time.Now), Now: time.Now, Log: slog.New(slog.DiscardHandler),
	})
}

func (s *scene) ensure(ctx context.Context, j *join.Joiner, request join.Request) join.Result {
	s.t.Helper()
	request.InstanceID = cmp.Or(request.InstanceID, s.id)
	if request.Timeout == 0 {
		request.Timeout = 5 * time.Minute
	}
	result, err := j.Ensure(ctx, request)
	if err != nil {
		s.t.Fatal(err)
	}
	return result
}

// has describes our interfaces: slot or status, subnet, address, and unusual attributes.
func (s *scene) has() []string {
	var all []string
	for _, i := range s.sim.State().NetworkInterfaces {
		if i.Tags[identity.TagCluster] == "" {
			continue
		}
		where := i.Status
		if i.Attachment != nil {
			where = fmt.Sprintf("device %d", i.Attachment.DeviceIndex)
			if !i.Attachment.DeleteOnTermination {
				where += " stays"
			}
		}
		if i.SourceDestCheck {
			where += " checked"
		}
		all = append(all, fmt.Sprintf("%s %s %s ipv6=%d", where, i.SubnetID, i.PrivateIPAddress, len(i.IPv6Addresses)))
	}
	slices.Sort(all)
	return all
}

func (s *scene) want(lines ...string) {
	s.t.Helper()
	if diff := gocmp.Diff(lines, s.has(), cmpopts.EquateEmpty()); diff != "" {
		s.t.Errorf("(-want +got):\n%s", diff)
	}
}

// both are the two interfaces of the networks.
func both() []string {
	return []string{
		"device 1 " + subnetA + " 10.0.64.4 ipv6=1",
		"device 2 " + subnetA2 + " 10.0.112.4 ipv6=0",
	}
}

func TestAnInstanceGetsItsNetworks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		result := s.ensure(t.Context(), s.joiner(), join.Request{})
		if result.Outcome != lifecycle.Ready {
			t.Fatalf("%+v", result.Result)
		}
		s.want(both()...)
		for _, i := range s.sim.State().NetworkInterfaces {
			if i.Tags[identity.TagCluster] == "" {
				continue
			}
			if i.Tags["cnf"] != "upf" || i.Tags[identity.TagNoManage] != "true" {
				t.Errorf("%s has the tags %v", i.NetworkInterfaceID, i.Tags)
			}
			if want := fmt.Sprintf("VRF%d", i.Attachment.DeviceIndex); i.Description != want {
				t.Errorf("%s is called %q, want %q as the published templates have it", i.NetworkInterfaceID, i.Description, want)
			}
		}
		calls := s.sim.Calls()
		if n := calls.Mutating.Count; n != 8 {
			t.Errorf("%d calls that change something, for two interfaces: create, source/dest check, attach, delete on termination", n)
		}
		s.sim.ResetCalls()
		again := s.ensure(t.Context(), s.joiner(), join.Request{})
		if n := s.sim.Calls().Mutating.Count; n != 0 || again.Outcome != lifecycle.Ready {
			t.Errorf("again: %d calls that change something, %+v", n, again.Result)
		}
	})
}

// The next attempt finds the interfaces of a dead process by their tags or by the client token.
func TestAnybodyFinishesWhatADeadProcessBegan(t *testing.T) {
	for calls := range 9 {
		t.Run(fmt.Sprintf("after %d calls", calls), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				dying, die := context.WithCancel(t.Context())
				s.cfg.HTTPClient = &http.Client{Transport: &mortal{RoundTripper: s.sim.Transport(), left: calls, die: die}}
				_, err := s.joiner().Ensure(dying, join.Request{InstanceID: s.id, Timeout: time.Minute})
				if err == nil && calls < 8 {
					t.Error("it survived")
				}
				s.cfg.HTTPClient = &http.Client{Transport: s.sim.Transport()}
				if result := s.ensure(t.Context(), s.joiner(), join.Request{}); result.Outcome != lifecycle.Ready {
					t.Fatalf("%+v", result.Result)
				}
				s.want(both()...)
			})
		})
	}
}

// mortal passes a number of changing calls to EC2, loses the answer of the last one, and ends the process.
type mortal struct {
	http.RoundTripper
	mu   sync.Mutex
	left int
	die  func()
}

// call reports whether one more call is passed to EC2, and whether it is the last.
func (m *mortal) call() (alive, last bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left--
	return m.left >= 0, m.left <= 0
}

func (m *mortal) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if bytes.Contains(body, []byte("Action=Describe")) || bytes.Contains(body, []byte("Action=Get")) {
		return m.RoundTripper.RoundTrip(r)
	}
	alive, last := m.call()
	if !alive {
		m.die()
		return nil, errors.New("the process is dead")
	}
	response, err := m.RoundTripper.RoundTrip(r)
	if last {
		m.die()
		return nil, errors.New("the process is dead")
	}
	return response, err
}

func TestAllOrNothing(t *testing.T) {
	full := fault.Fault{Kind: fault.SubnetFull, Resource: subnetA2}
	fails := func(action string, times int, code string) fault.Fault {
		return fault.Fault{Kind: fault.Error, Action: action, Count: times, Code: code, Status: http.StatusBadRequest}
	}
	optional := func(c *lifecycle.Config) {
		no := false
		second := c.Networks[0]
		c.Networks[0].SubnetIDs, second.SubnetIDs = []string{subnetA}, []string{subnetA2}
		second.Name, second.DeviceIndex, second.Required = "second", 2, &no
		c.Networks = append(c.Networks, second)
	}
	for name, tc := range map[string]struct {
		faults  []fault.Fault
		change  []func(*lifecycle.Config)
		outcome lifecycle.Outcome
		lacking []string
		want    []string
	}{
		"a required network that cannot be had takes the others with it": {faults: []fault.Fault{full}, outcome: lifecycle.Failed},
		"an optional one does not": {
			faults: []fault.Fault{full}, change: []func(*lifecycle.Config){optional}, outcome: lifecycle.Ready, lacking: []string{"second"}, want: both()[:1],
		},
		"what cannot be taken away at once is tried again": {
			faults: []fault.Fault{full, fails("DetachNetworkInterface", 2, "IncorrectState"), fails("DeleteNetworkInterface", 3, "InvalidParameterValue")}, outcome: lifecycle.Failed,
		},
		"an attachment that is refused leaves nothing": {
			faults: []fault.Fault{fails("AttachNetworkInterface", 0, "InvalidParameterValue")}, outcome: lifecycle.Failed,
		},
		"throttled calls are made again": {
			faults: []fault.Fault{{Kind: fault.Throttle, Every: 2, Count: 12}}, outcome: lifecycle.Ready, want: both(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				for _, f := range tc.faults {
					if _, err := s.sim.AddFault(f); err != nil {
						t.Fatal(err)
					}
				}
				result := s.ensure(t.Context(), s.joiner(tc.change...), join.Request{Timeout: time.Minute})
				if result.Outcome != tc.outcome || !slices.Equal(result.Missing, tc.lacking) {
					t.Errorf("%+v", result.Result)
				}
				s.want(tc.want...)
			})
		})
	}
}

// If the VPC CNI uses the first slots of an instance, its networks use the next ones.
func TestASlotThatIsTakenIsNotTheEnd(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before": time.Minute, "meanwhile": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				i, err := s.sim.Launch(ec2.WorldInstance{
					InstanceType: "m5.xlarge", AvailabilityZone: "us-east-1a", Tags: ec2.Tags{"multus-ng": "true"}, CNI: &ec2.CNI{WarmENIs: 1},
				})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(wait)
				result := s.ensure(t.Context(), s.joiner(), join.Request{InstanceID: i[0].InstanceID})
				if result.Outcome != lifecycle.Ready || len(s.has()) != 2 {
					t.Errorf("%+v, with %q", result.Result, s.has())
				}
				slots := map[int]bool{}
				for _, i := range s.sim.State().NetworkInterfaces {
					if i.Attachment != nil && i.Attachment.InstanceID == result.Instance.ID {
						slots[i.Attachment.DeviceIndex] = true
					}
				}
				if len(slots) != 4 {
					t.Errorf("the slots %v are in use: the primary's, the VPC CNI's and ours", slots)
				}
			})
		})
	}
}

// One configuration serves instances of all zones, each with the subnets of its own.
func TestZones(t *testing.T) {
	zones := map[string]string{"us-east-1a": subnetA, "us-east-1b": "subnet-0bb0000000000000b", "us-east-1c": "subnet-0bb0000000000000c"}
	everywhere := func(c *lifecycle.Config) { c.Networks[0].SubnetIDs = slices.Sorted(maps.Values(zones)) }
	for zone, subnet := range zones {
		t.Run(zone, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				result := s.ensure(t.Context(), s.joiner(everywhere), join.Request{InstanceID: s.launch(zone)})
				if len(result.Interfaces) != 1 || result.Interfaces[0].Interface.SubnetID != subnet {
					t.Errorf("%+v", result)
				}
			})
		})
	}
}

// A new network that is not available does not remove an interface that another request gave to an instance in use.
func TestAWorkingInterfaceOfALiveInstanceStays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		s.ensure(t.Context(), s.joiner(), join.Request{})
		more := func(c *lifecycle.Config) {
			another := c.Networks[0]
			another.Name, another.DeviceIndex, another.SubnetIDs = "another", 3, []string{"subnet-00000000000000bad"}
			c.Networks = append(c.Networks, another)
		}
		if result := s.ensure(t.Context(), s.joiner(more), join.Request{}); result.Outcome != lifecycle.Failed {
			t.Errorf("%+v", result.Result)
		}
		s.want(both()...)
	})
}

// takenOver are the tags that an interface gets when the object of NodeENI upf takes it over.
func takenOver(instanceID string) map[string]string {
	key := identity.Interface{Cluster: "c", UID: "uid-upf", Name: identity.ObjectName("upf", instanceID, 0), NodeENI: "upf", Node: "node", InstanceID: instanceID}
	return key.Tags(time.Unix(1, 0), nil)
}

// A rollback does not remove an interface that an object has just taken over: it reads EC2 again before each removal.
func TestWhatANodeENITookOverIsNotUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		if _, err := s.sim.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: subnetA2}); err != nil {
			t.Fatal(err)
		}
		takesOver := func(ctx context.Context) bool {
			for _, i := range s.sim.State().NetworkInterfaces {
				if i.SubnetID == subnetA && i.Tags[identity.TagCluster] != "" {
					if err := s.cloud().PutTags(ctx, i.NetworkInterfaceID, takenOver(s.id)); err != nil {
						t.Error(err)
					}
				}
			}
			time.Sleep(5 * time.Second) // until all reads return it
			return true
		}
		if result := s.ensure(t.Context(), s.joiner(), join.Request{NothingRunning: takesOver, Timeout: 30 * time.Second}); result.Outcome != lifecycle.Failed {
			t.Errorf("%+v", result.Result)
		}
		s.want(both()[0])
	})
}

// Instances keep the interfaces of a network that is no longer listed, and lose those of a network that is listed in
// removed.
func TestRemovedNetworks(t *testing.T) {
	only := func(c *lifecycle.Config) { c.Networks[0].Name, c.Networks[0].SubnetIDs = "first", []string{subnetA} }
	for name, tc := range map[string]struct {
		removed []string
		want    []string
	}{
		"not listed": {want: append([]string{"device 3 " + subnetA + " 10.0.64.5 ipv6=1"}, both()...)},
		"removed":    {removed: []string{"multus"}, want: []string{"device 3 " + subnetA + " 10.0.64.5 ipv6=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := play(t)
				s.ensure(t.Context(), s.joiner(), join.Request{})
				removed := func(c *lifecycle.Config) { c.Removed = tc.removed }
				if result := s.ensure(t.Context(), s.joiner(only, removed), join.Request{}); result.Outcome != lifecycle.Ready {
					t.Errorf("%+v", result.Result)
				}
				slices.Sort(tc.want)
				s.want(tc.want...)
			})
		})
	}
}

// A NodeENI's interface in a network's subnet satisfies the network.
func TestWhatTheControllerMadeIsNotMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		s.ensure(t.Context(), s.joiner(), join.Request{})
		cloud := awsec2.New(s.cfg, awsec2.Options{Cluster: "c"})
		for _, i := range s.sim.State().NetworkInterfaces {
			if i.SubnetID == subnetA && i.Tags[identity.TagCluster] != "" {
				if err := cloud.PutTags(t.Context(), i.NetworkInterfaceID, takenOver(s.id)); err != nil {
					t.Fatal(err)
				}
			}
		}
		time.Sleep(time.Minute)
		s.sim.ResetCalls()
		result := s.ensure(t.Context(), s.joiner(), join.Request{})
		if n := s.sim.Calls().Mutating.Count; n != 0 || result.Outcome != lifecycle.Ready || len(result.Served) != 1 {
			t.Errorf("%d calls that change something, %+v", n, result)
		}
	})
}

// The result does not report a removed interface as present: a boot would label its node with networks that the node
// lost.
func TestAFailureDoesNotClaimWhatIsUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := play(t)
		if _, err := s.sim.AddFault(fault.Fault{Kind: fault.SubnetFull, Resource: subnetA2}); err != nil {
			t.Fatal(err)
		}
		result := s.ensure(t.Context(), s.joiner(), join.Request{NothingRunning: func(context.Context) bool { return true }, Timeout: 30 * time.Second})
		if result.Outcome != lifecycle.Failed || len(result.Interfaces) != 0 {
			t.Errorf("%s with %+v", result.Outcome, result.Interfaces)
		}
		s.want()
	})
}
