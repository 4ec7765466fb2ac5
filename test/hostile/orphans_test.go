// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile_test

import (
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/size"
)

// TestOrphans creates thousands of interfaces in EC2 by hand: orphans, which name an object that does not exist, and an
// equal number of look-alikes, which lack one property of orphans. The controller deletes the orphans at the rate that
// EC2 allows, and changes neither the look-alikes nor the interfaces of the nodes.
func TestOrphans(t *testing.T) {
	size.NeedsAll(t, "faults of a minute, with an API server of its own")
	t.Parallel()
	count := size.Of(200, 400, 5000)
	// Calls by hand are not limited.
	limits := awssim.DocumentedLimits()
	delete(limits, "CreateNetworkInterface")
	world := fleet("node")
	world.Quotas.NetworkInterfaces = 20000
	s := setStage(t, simulate(t, world, speed, limits), speed)
	s.join(0)
	s.apply(both())
	s.label(names("node", 0, 4)...)
	s.keepsTargets = false
	s.run("--resync-period=2s")
	s.holds(afterwards, wanted(names("node", 0, 4)))

	alike := s.putLookAlikes(count)
	before := s.interfaces(alike)
	orphans := s.putOrphans(count)
	s.cloud.ResetCalls()
	s.eventually(identity.ConfirmInterval+afterwards, "the orphans are gone", func() string {
		if left := len(s.interfaces(orphans)); left > 0 {
			return fmt.Sprintf("%d are left", left)
		}
		return ""
	})
	s.deletedOnce(orphans)
	s.label(names("node", 4, 8)...)
	s.eventually(afterwards, "all nodes have their interfaces", func() string {
		return cmp.Diff(wanted(names("node", 0, 8)), attached(held(s.cloud.State(), s.name)))
	})
	if diff := cmp.Diff(before, s.interfaces(alike), cmpopts.EquateComparable(ec2.NetworkInterface{}.PrivateIPAddress)); diff != "" {
		t.Errorf("look-alikes were touched:\n%s", diff)
	}
}

// deletedOnce asserts that the controller deleted each interface by one call, apart from throttled calls, made no other
// calls, and kept to EC2's documented rate: EC2 refused few calls. test/synctest asserts that EC2 refuses none and that
// the calls are not slower either, since there that does not depend on the machine.
func (s *stage) deletedOnce(ids []string) {
	s.Helper()
	tried := map[string]int{}
	for _, c := range s.calls() {
		if c.removes() {
			tried[c.form.Get("NetworkInterfaceId")]++
		}
	}
	again := -s.cloud.Calls().Mutating.Throttled
	for _, id := range ids {
		if tried[id] == 0 {
			s.Errorf("%s is gone without a call", id)
		}
		again += tried[id] - 1
		delete(tried, id)
	}
	if len(tried) > 0 {
		s.Errorf("calls to remove what is no orphan: %v", slices.Collect(maps.Keys(tried)))
	}
	if again != 0 {
		s.Errorf("%d interfaces were asked to be deleted although EC2 had done so", again)
	}
	bucket := awssim.DocumentedLimits()["DeleteNetworkInterface"]
	deletions := s.cloud.Calls().Actions["DeleteNetworkInterface"]
	limit := time.Duration(max(0, float64(len(ids)-bucket.Capacity)/bucket.Refill) * float64(time.Second))
	s.Logf("%d deletions, %d throttled, took %s of EC2's time, at least %s by its limits",
		deletions.Count, deletions.Throttled, deletions.LastAt.Sub(deletions.FirstAt).Round(time.Second), limit.Round(time.Second))
	if deletions.Throttled > deletions.Count/10 {
		s.Errorf("%d of %d deletions were throttled", deletions.Throttled, deletions.Count)
	}
}

// attached returns the lines of attached interfaces.
func attached(lines []string) []string {
	return slices.DeleteFunc(lines, func(l string) bool { return !strings.Contains(l, " device ") })
}

// interfaces returns those of the given IDs that EC2 has.
func (s *stage) interfaces(ids []string) map[string]*ec2.NetworkInterface {
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	found := map[string]*ec2.NetworkInterface{}
	for _, eni := range s.cloud.State().NetworkInterfaces {
		if wanted[eni.NetworkInterfaceID] {
			found[eni.NetworkInterfaceID] = eni
		}
	}
	return found
}

// orphan returns the tags of an interface that was created an hour ago for an object that does not exist any more. Some
// name an existing node, some a deleted one.
func (s *stage) orphan(n int) map[string]string {
	m := identity.Interface{
		Cluster: s.name, NodeENI: "forgotten", Node: nodeName("node", n%fleetSize), InstanceID: instanceID(0, n%fleetSize),
		UID: identity.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)), Ordinal: n % 100,
	}
	switch n % 3 {
	case 1:
		m.Node, m.InstanceID = fmt.Sprintf("gone-%d", n%300), fmt.Sprintf("i-0dead%012d", n%300)
	case 2:
		m.InstanceID = fmt.Sprintf("i-0beef%012d", n%fleetSize)
	}
	m.Name = identity.ObjectName(m.NodeENI, m.InstanceID, m.Ordinal)
	return m.Tags(time.Now().Add(-time.Hour), nil)
}

func (s *stage) putOrphans(count int) []string {
	s.Helper()
	var ids []string
	for n := range count {
		ids = append(ids, s.put(n, s.orphan(n)))
	}
	return ids
}

// putLookAlikes creates interfaces that look like orphans. Only a few of them are ours without a known age, because
// unattached interfaces of ours count against the unattached limit.
func (s *stage) putLookAlikes(count int) []string {
	s.Helper()
	foreign := []func(tags map[string]string){
		func(tags map[string]string) { tags[identity.TagCluster] = s.name + "-2" },
		func(tags map[string]string) { tags[identity.TagCluster] = strings.ToUpper(s.name) },
		func(tags map[string]string) { delete(tags, identity.TagCluster) },
		func(tags map[string]string) { delete(tags, identity.TagInterface) },
		func(tags map[string]string) { tags[identity.TagInterface] += "9999" },
		func(tags map[string]string) { tags[identity.TagUID] = "" },
		func(tags map[string]string) { clear(tags); tags["Name"] = "forgotten/node-1" },
	}
	doubtful := []func(tags map[string]string){
		func(tags map[string]string) { delete(tags, identity.TagCreatedAt) },
		func(tags map[string]string) { tags[identity.TagCreatedAt] = "long ago" },
		func(tags map[string]string) { tags[identity.TagCreatedAt] = "0" },
		func(tags map[string]string) {
			tags[identity.TagCreatedAt] = strconv.FormatInt(time.Now().Add(time.Hour).Unix(), 10)
		},
		func(tags map[string]string) {
			tags[identity.TagCreatedAt] = strconv.FormatInt(time.Now().Unix(), 10)
		},
	}
	const doubted = 100
	var ids []string
	for n := range count {
		tags := s.orphan(n)
		if n < doubted {
			doubtful[n%len(doubtful)](tags)
		} else {
			foreign[n%len(foreign)](tags)
		}
		ids = append(ids, s.put(n, tags))
	}
	return ids
}

var interfaceID = regexp.MustCompile(`eni-[0-9a-f]{17}`)

// put creates an interface as a person does, in the subnets by turns, and returns its ID.
func (s *stage) put(n int, tags map[string]string) string {
	s.Helper()
	form := url.Values{
		"Action": {"CreateNetworkInterface"}, "Version": {"2016-11-15"}, "SubnetId": {subnet(n%2, n%3)},
		"TagSpecification.1.ResourceType": {"network-interface"},
	}
	for t, key := range slices.Sorted(maps.Keys(tags)) {
		form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Key", t+1), key)
		form.Set(fmt.Sprintf("TagSpecification.1.Tag.%d.Value", t+1), tags[key])
	}
	id := interfaceID.FindString(s.byHand(form))
	if id == "" {
		s.Fatal("no interface was made by hand")
	}
	return id
}
