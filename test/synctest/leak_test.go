// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package synctest_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/ec2"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/test/size"
	"github.com/multieni/multieni/test/synctest/bubble"
)

const leakyCluster = "leaky"

// TestLeaksAreSwept begins with interfaces of objects that do not exist, and with look-alikes.
func TestLeaksAreSwept(t *testing.T) {
	leaks := size.Of(100, 200, 5000)
	lookalikes := map[string]map[string]string{
		"another cluster's":        {identity.TagCluster: "other"},
		"nobody's":                 {identity.TagCluster: ""},
		"one without its identity": {identity.TagUID: ""},
		"one of unknown age":       {identity.TagCreatedAt: "yesterday"},
		"one from the future":      {identity.TagCreatedAt: strconv.FormatInt(time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix(), 10)},
	}
	synctest.Test(t, func(t *testing.T) {
		w := bubble.World()
		for n := range leaks {
			w.NetworkInterfaces = append(w.NetworkInterfaces, leak("leak", n, nil))
			for what, tags := range lookalikes {
				if n%20 == 0 {
					w.NetworkInterfaces = append(w.NetworkInterfaces, leak(what, n, tags))
				}
			}
		}
		c := bubble.New(t, w)
		o := c.Defaults()
		o.ClusterName = leakyCluster
		before := described(c)
		begun := time.Now()
		r := c.Start(o)
		for described(c)["leak"] > 0 {
			if time.Since(begun) > time.Hour {
				t.Fatalf("after an hour %d leaks are left", described(c)["leak"])
			}
			time.Sleep(5 * time.Second)
		}

		bucket := awssim.DocumentedLimits()["DeleteNetworkInterface"]
		pacing := time.Duration((float64(leaks) - float64(bucket.Capacity)) / bucket.Refill * float64(time.Second))
		deletes := r.Changes(time.Time{})
		t.Logf("%d leaks: the first is deleted after %s, the last after %s; EC2's rates take %s",
			leaks, deletes[0].At.Sub(begun), time.Since(begun), pacing.Round(time.Second))
		if sooner := deletes[0].At.Sub(begun); sooner < identity.ConfirmInterval {
			t.Errorf("the first leak was deleted after %s, sooner than %s", sooner, identity.ConfirmInterval)
		}
		// The last delete waits until EC2 shows all interfaces of the leader before, for two reads of its leak, and for the
		// tokens of the others; resyncs and the start take a little more.
		if most := 2*time.Minute + identity.ConfirmInterval + max(0, pacing)*11/10 + time.Minute; time.Since(begun) > most {
			t.Errorf("the leaks were gone after %s, want at most %s", time.Since(begun), most)
		}
		time.Sleep(time.Hour)
		delete(before, "leak")
		if after := described(c); !maps.Equal(before, after) {
			t.Errorf("what is no leak: there was %v, there is %v", before, after)
		}
		if got := len(r.Changes(time.Time{})); got != leaks {
			t.Errorf("%d changing calls for %d leaks", got, leaks)
		}
	})
}

// leak is an interface of an object and an instance that do not exist, created long ago; changed tags override that.
func leak(what string, n int, changed map[string]string) ec2.WorldInterface {
	m := identity.Interface{
		Cluster: leakyCluster, NodeENI: "gone", Node: fmt.Sprintf("gone-%d", n/2), InstanceID: fmt.Sprintf("i-%017x", n/2),
		UID: identity.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", 0xdead0000+n)), Ordinal: n % 2,
	}
	m.Name = identity.ObjectName(m.NodeENI, m.InstanceID, m.Ordinal)
	tags := ec2.Tags(m.Tags(time.Now().Add(-24*time.Hour), nil))
	for key, value := range changed {
		if tags[key] = value; value == "" {
			delete(tags, key)
		}
	}
	return ec2.WorldInterface{SubnetID: bubble.SubnetIDs("data")[0], Description: what, Tags: tags}
}

// described counts the unattached interfaces of the account by their description.
func described(c *bubble.Cluster) map[string]int {
	count := map[string]int{}
	for _, i := range c.EC2.State().NetworkInterfaces {
		if !strings.HasPrefix(i.Description, "Primary") {
			count[i.Description]++
		}
	}
	return count
}
