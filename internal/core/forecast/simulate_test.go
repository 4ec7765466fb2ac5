// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package forecast_test

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/fleet"
	"github.com/multieni/multieni/internal/core/forecast"
	"github.com/multieni/multieni/internal/core/plan"
	"github.com/multieni/multieni/internal/core/render"
)

// TestSimulateListsTheCallsOfANewInterface checks which attributes of a new interface are part of its create call, and
// which need separate calls.
func TestSimulateListsTheCallsOfANewInterface(t *testing.T) {
	create := "create an interface in subnet-1 for " + eni.Slot{Device: 1}.String()
	attach := "attach new interface 1 at " + eni.Slot{Device: 1}.String()
	keep := "set delete on termination true of new interface 1"
	for name, tc := range map[string]struct {
		change func(*eni.Spec)
		want   []string
	}{
		"defaults":                            {func(*eni.Spec) {}, []string{create, attach, keep}},
		"EC2 keeps new interfaces by default": {func(s *eni.Spec) { s.DeleteOnTermination = false }, []string{create, attach}},
		"EC2 checks source and destination by default": {
			func(s *eni.Spec) { s.SourceDestCheck = false },
			[]string{create, "set source/dest check false of new interface 1", attach, keep},
		},
		"the creation carries description and tags": {
			func(s *eni.Spec) { s.Description, s.Tags = "storage", map[string]string{"team": "core"} }, []string{create, attach, keep},
		},
		"the creation carries IPv4 addresses": {func(s *eni.Spec) { s.SecondaryIPv4 = 9 }, []string{create, attach, keep}},
		"the creation carries IPv4 prefixes":  {func(s *eni.Spec) { s.IPv4Prefixes = 9 }, []string{create, attach, keep}},
		"the creation carries IPv6 addresses": {func(s *eni.Spec) { s.IPv6 = 10 }, []string{create, attach, keep}},
		"the creation carries IPv6 prefixes":  {func(s *eni.Spec) { s.IPv6Prefixes = 10 }, []string{create, attach, keep}},
	} {
		t.Run(name, func(t *testing.T) {
			outcome := forecast.Simulate(input(declares(func(n *fleet.NodeENI) { tc.change(&n.Template.EC2) }, "subnet-1")), now)
			if diff := cmp.Diff(tc.want, texts(outcome.Calls)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if i := outcome.Interfaces[0]; i.Phase != plan.Attached || i.Problem.Reason != "" {
				t.Errorf("it ends %s: %+v", i.Phase, i.Problem)
			}
		})
	}
}

// TestSimulateCompletesWhatEC2IsDoing checks interfaces that EC2 is changing when the forecast begins. Their calls were
// made before and do not count.
func TestSimulateCompletesWhatEC2IsDoing(t *testing.T) {
	in := func(status eni.Status, attachment eni.AttachmentStatus) eni.Interface {
		i := owned("subnet-1")
		if i.Status = status; attachment == "" {
			i.Attachment = nil
		} else {
			i.Attachment.Status = attachment
		}
		return i
	}
	attach, keep := "attach eni-1 at "+eni.Slot{Device: 1}.String(), "set delete on termination true of eni-1"
	detach, remove := "detach eni-1: the node's labels no longer match its NodeENI", "delete eni-1: the node's labels no longer match its NodeENI"
	attached := []plan.Phase{plan.Attached}
	for name, tc := range map[string]struct {
		selected bool
		now      eni.Interface
		want     []string
		ends     []plan.Phase
	}{
		"a creation":              {true, in(eni.Pending, ""), []string{attach, keep}, attached},
		"an attachment":           {true, in(eni.InUse, eni.AttachmentAttaching), nil, attached},
		"a detachment":            {true, in(eni.InUse, eni.AttachmentDetaching), []string{attach, keep}, attached},
		"a detachment to the end": {false, in(eni.InUse, eni.AttachmentDetaching), []string{remove}, nil},
		"a detachment, read late": {false, in(eni.Detaching, ""), []string{remove}, nil},
		"an attachment to remove": {false, in(eni.InUse, eni.AttachmentAttaching), []string{detach, remove}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			from := serving(declares(nil, "subnet-1"), tc.now)
			if !tc.selected {
				from = unselected(from)
			}
			outcome := forecast.Simulate(from, now)
			if diff := cmp.Diff(tc.want, texts(outcome.Calls)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.ends, phases(outcome)); diff != "" {
				t.Errorf("ends (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSimulateRemovesAnInterfaceOfPods checks what happens to pods before the interface that they use is removed.
func TestSimulateRemovesAnInterfaceOfPods(t *testing.T) {
	removed := []string{"detach eni-1: the node's labels no longer match its NodeENI", "delete eni-1: the node's labels no longer match its NodeENI"}
	for name, tc := range map[string]struct {
		pods   []string
		used   int
		evict  bool
		want   []string
		evicts []string
		reason plan.Reason
	}{
		"no pod has an address, and the agent lets go": {want: removed},
		"a pod has an address, and is not evicted":     {used: 1, pods: []string{"upf/a"}},
		"two pods have addresses, and are evicted": {
			used: 2, pods: []string{"upf/a", "upf/b"}, evict: true, want: removed,
			evicts: []string{"evict the pods upf/a, upf/b, which use eni-1: the node's labels no longer match its NodeENI"},
		},
		"a pod without a name cannot be evicted": {used: 1, evict: true},
	} {
		t.Run(name, func(t *testing.T) {
			pods := func(n *fleet.NodeENI) {
				n.Template.Pods = &render.Pods{Attachment: "MACVLAN", IPv4: &render.PodPrefixes{Min: 1, Max: 2}}
				if tc.evict {
					n.Template.Pods.OnRemoval = "Evict"
				}
			}
			i := owned("subnet-1")
			i.IPv4Prefixes = []netip.Prefix{netip.MustParsePrefix("10.0.0.16/28")}
			outcome := forecast.Simulate(unselected(serving(declares(pods, "subnet-1"), i, func(o *forecast.Object) {
				o.Held, o.Used, o.Pods, o.Granted = true, tc.used, tc.pods, i.IPv4Prefixes
			})), now)
			if diff := cmp.Diff(tc.want, texts(outcome.Calls)); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			var evicts []string
			for _, eviction := range outcome.Evictions {
				evicts = append(evicts, eviction.String())
			}
			if diff := cmp.Diff(tc.evicts, evicts); diff != "" {
				t.Errorf("evictions (-want +got):\n%s", diff)
			}
			if stays := len(outcome.Interfaces) > 0; stays != (len(tc.want) == 0) {
				t.Errorf("%d interfaces are left", len(outcome.Interfaces))
			}
		})
	}
}

// TestSimulateGrowsWithPods checks that one call assigns the prefixes that the agent asks for.
func TestSimulateGrowsWithPods(t *testing.T) {
	pods := func(n *fleet.NodeENI) {
		n.Template.Pods = &render.Pods{Attachment: "MACVLAN", IPv4: &render.PodPrefixes{Max: 8, Spare: 20}}
	}
	outcome := forecast.Simulate(serving(declares(pods, "subnet-1"), owned("subnet-1"), func(o *forecast.Object) {
		o.Held, o.Used, o.Wanted = true, 16, 2
	}), now)
	if diff := cmp.Diff([]string{"set 2 more IPv4 prefixes of eni-1"}, texts(outcome.Calls)); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
	if n := len(outcome.Interfaces[0].Granted); n != 2 {
		t.Errorf("%d prefixes are granted, want 2", n)
	}
}

// TestAForecastFitsTheInstance checks that no more interfaces end attached than the instance supports, each at its own
// slot, that every call names its interface, and that the same input has the same outcome.
func TestAForecastFitsTheInstance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"subnet-1", "subnet-2", "subnet-3"}), 1, 3, rapid.ID).Draw(t, "subnets")
		n := declares(func(n *fleet.NodeENI) {
			n.FirstSlot.Device, n.ExactSlot = rapid.IntRange(1, 3).Draw(t, "device"), rapid.Bool().Draw(t, "exact")
			n.Template.EC2.SourceDestCheck = rapid.Bool().Draw(t, "source/dest check")
			n.Template.EC2.SecondaryIPv4 = rapid.IntRange(0, 12).Draw(t, "IPv4")
			n.Replace, n.Paused, n.Deleting = rapid.Bool().Draw(t, "replace"), rapid.IntRange(0, 4).Draw(t, "paused") == 0, rapid.IntRange(0, 4).Draw(t, "deleting") == 0
		}, ids...)
		in := input(n)
		if rapid.Bool().Draw(t, "exists") {
			in = serving(n, owned(rapid.SampledFrom(ids).Draw(t, "of")))
		}
		if rapid.IntRange(0, 4).Draw(t, "unselected") == 0 {
			in = unselected(in)
		}
		first := forecast.Simulate(in, now)
		slots := map[eni.Slot]bool{{}: true} // that of the primary interface
		for _, i := range first.Interfaces {
			if i.Interface == nil {
				continue
			}
			if a := i.Interface.Attachment; a != nil && slots[a.Slot] {
				t.Fatalf("two interfaces end at %s", a.Slot)
			} else if a != nil {
				slots[a.Slot] = true
			}
		}
		if len(slots) > in.Limits.Interfaces {
			t.Fatalf("%d interfaces end attached, and the instance takes %d", len(slots), in.Limits.Interfaces)
		}
		for _, call := range first.Calls {
			if of := call.Of(); of.InstanceID != instanceID || of.NodeENI != "multus" || of.UID == "" {
				t.Fatalf("%s is for %+v", call, of)
			}
		}
		if diff := cmp.Diff(first, forecast.Simulate(in, now), exact); diff != "" {
			t.Fatalf("the same input (-first +second):\n%s", diff)
		}
	})
}
