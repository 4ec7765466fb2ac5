// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report_test

import (
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/identity"
	"github.com/multieni/multieni/internal/core/report"
)

// anyInterface draws an interface in one of the situations that a user can meet.
func anyInterface(rt *rapid.T, device int) report.Interface {
	name := rapid.SampledFrom([]string{"multus", "user-plane", "sig"}).Draw(rt, "NodeENI")
	i := attached(name, device)
	switch rapid.IntRange(0, 5).Draw(rt, "situation") {
	case 0:
		i = blocked(name)
		i.Slot.Device, i.Asked = device, device
	case 1:
		i.Drift = []string{"subnet: a wanted, b there"}
	case 2:
		i.Phase, i.Link = "Attaching", nil
	case 3:
		i.Link.State = rapid.SampledFrom([]string{"Missing", "Refused", "Configuring"}).Draw(rt, "link")
		i.Link.Message = "the link is not as wanted; look at the agent's log"
	}
	return i
}

func anyFleet(rt *rapid.T) report.Fleet {
	var f report.Fleet
	for n := range rapid.IntRange(0, 8).Draw(rt, "nodes") {
		var interfaces []report.Interface
		for device := range rapid.IntRange(0, 3).Draw(rt, "interfaces") {
			interfaces = append(interfaces, anyInterface(rt, device+1))
			interfaces[device].Name += fmt.Sprintf("-on-%d-at-%d", n, device)
		}
		f.Nodes = append(f.Nodes, node(fmt.Sprintf("node-%d", n), rapid.SampledFrom([]string{"us-east-1a", "us-east-1b", ""}).Draw(rt, "zone"), interfaces...))
	}
	for _, name := range []string{"multus", "sig", "user-plane"} {
		desired := rapid.IntRange(0, 9).Draw(rt, "desired")
		have := rapid.IntRange(0, desired).Draw(rt, "attached")
		f.NodeENIs = append(f.NodeENIs, nodeENI(name, rapid.SampledFrom([]string{"True", "False", ""}).Draw(rt, "ready"), desired, desired, have))
	}
	return f
}

// texts are the views of a fleet on a page.
func texts(f report.Fleet, p report.Page) map[string]string {
	all := map[string]string{
		"fleet": report.WhyFleet(f).Text(p), "topology": report.NewTopology(f).Text(p),
	}
	for _, n := range f.NodeENIs {
		all["why "+n.Name] = report.WhyNodeENI(f, n).Text(p)
	}
	for _, n := range f.Nodes {
		for _, i := range n.Interfaces {
			all["why "+i.Name] = report.WhyInterface(f, i).Text(p)
		}
		all["why "+n.Name] = report.WhyNode(f, n).Text(p)
		all["map "+n.Name] = report.NewNodeMap(n, nil, eni.Limits{}, "no credentials").Text(p)
	}
	return all
}

func TestNoViewIsWiderThanThePage(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := report.Page{Width: rapid.IntRange(60, 200).Draw(rt, "width"), Wide: rapid.Bool().Draw(rt, "wide")}
		for name, text := range texts(anyFleet(rt), p) {
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > p.Width {
					rt.Fatalf("%s: %d columns on a page of %d: %s", name, n, p.Width, line)
				}
			}
		}
	})
}

var escapes = regexp.MustCompile("\x1b\\[[0-9;]*m")

func TestColoursChangeNoText(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f, width := anyFleet(rt), rapid.IntRange(40, 160).Draw(rt, "width")
		plain, coloured := texts(f, report.Page{Width: width}), texts(f, report.Page{Width: width, Colours: true})
		for name, text := range coloured {
			if diff := cmp.Diff(plain[name], escapes.ReplaceAllString(text, "")); diff != "" {
				rt.Fatalf("%s without and with colours:\n%s", name, diff)
			}
			if strings.Contains(plain[name], "\x1b") {
				rt.Fatalf("%s has colours that it was not given", name)
			}
		}
	})
}

func TestTheTopologyHasEachNodeWithInterfacesOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyFleet(rt)
		topology := report.NewTopology(f)
		drawn := map[string]int{}
		for _, zone := range topology.Zones {
			for _, group := range zone.Groups {
				for _, name := range group.Nodes {
					drawn[name]++
					n, _ := f.Node(name)
					if n.Zone != zone.Name || len(n.Interfaces) != len(group.Interfaces) || n.Type != group.Type {
						rt.Fatalf("%s is drawn as %+v in zone %q", name, group, zone.Name)
					}
				}
			}
		}
		for _, n := range f.Nodes {
			if want := map[bool]int{true: 1, false: 0}[len(n.Interfaces) > 0]; drawn[n.Name] != want {
				rt.Fatalf("%s is drawn %d times, want %d", n.Name, drawn[n.Name], want)
			}
		}
		decoder := xml.NewDecoder(strings.NewReader(topology.SVG()))
		for {
			if _, err := decoder.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				rt.Fatal(err)
			}
		}
	})
}

func TestTheFleetNamesEachInterfaceThatIsNotAsWanted(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyFleet(rt)
		status := report.WhyFleet(f)
		passing := false
		for _, issue := range status.Troubles {
			if passing && !issue.Passing {
				rt.Fatalf("what needs a person comes behind what passes: %+v", status.Troubles)
			}
			passing = issue.Passing
			if len(issue.Nodes) == 0 || issue.Message == "" {
				rt.Fatalf("an issue without node or message: %+v", issue)
			}
		}
		for _, n := range f.Nodes {
			for _, i := range n.Interfaces {
				if i.Phase == "Attached" && len(i.Drift) == 0 && i.Link != nil && i.Link.State == "Ready" {
					continue
				}
				if !hasIssue(status.Troubles, i.NodeENI, n.Name) {
					rt.Fatalf("nothing is said of %s on %s: %+v", i.NodeENI, n.Name, status.Troubles)
				}
			}
		}
	})
}

func hasIssue(issues []report.Issue, nodeENI, node string) bool {
	for _, issue := range issues {
		for _, name := range issue.Nodes {
			if issue.NodeENI == nodeENI && name == node {
				return true
			}
		}
	}
	return false
}

func TestViewsSurviveJSON(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := anyFleet(rt)
		survives(rt, report.NewTopology(f))
		survives(rt, report.WhyFleet(f))
		for _, n := range f.NodeENIs {
			survives(rt, report.WhyNodeENI(f, n))
		}
		for _, n := range f.Nodes {
			for _, i := range n.Interfaces {
				survives(rt, report.WhyInterface(f, i))
			}
		}
		survives(rt, leaks())
	})
}

// survives checks that a view is the same after a round trip through JSON.
func survives[T any](rt *rapid.T, view T) {
	first, err := json.Marshal(view)
	if err != nil {
		rt.Fatal(err)
	}
	var read T
	if err := json.Unmarshal(first, &read); err != nil {
		rt.Fatal(err)
	}
	second, err := json.Marshal(read)
	if err != nil {
		rt.Fatal(err)
	}
	if diff := cmp.Diff(string(first), string(second)); diff != "" {
		rt.Fatalf("%T (-first +second):\n%s", view, diff)
	}
}

// anyOwned draws an interface with the tags of the cluster, or of another one.
// living is an object that has no ENI yet.
var living = report.KnownInterface{Name: identity.ObjectName("multus", "i-00000000000000001", 0), UID: "living"}

func anyOwned(rt *rapid.T, id string) eni.Interface {
	of := identity.Interface{
		Cluster: rapid.SampledFrom([]string{"c", "c", "c", "other"}).Draw(rt, "cluster"),
		UID:     rapid.SampledFrom([]identity.UID{"living", "gone"}).Draw(rt, "uid"), NodeENI: "multus", Node: "node-a1",
		InstanceID: "i-00000000000000001", Ordinal: rapid.IntRange(0, 1).Draw(rt, "ordinal"),
	}
	of.Name = identity.ObjectName(of.NodeENI, of.InstanceID, of.Ordinal)
	age := rapid.SampledFrom([]time.Duration{time.Second, time.Minute, time.Hour, 100 * time.Hour}).Draw(rt, "age")
	i := eni.Interface{ID: id, SubnetID: "subnet-1", Status: eni.Available, Tags: of.Tags(now.Add(-age), nil)}
	if rapid.Bool().Draw(rt, "attached") {
		i.Status, i.Attachment = eni.InUse, &eni.Attachment{InstanceID: of.InstanceID, Slot: eni.Slot{Device: 1}, Status: eni.AttachmentAttached}
	}
	if rapid.IntRange(0, 4).Draw(rt, "edited") == 0 {
		delete(i.Tags, identity.TagInstanceID)
	}
	return i
}

func TestEachInterfaceIsAtMostOneLeak(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		byID := map[string]eni.Interface{}
		var owned []eni.Interface
		for n := range rapid.IntRange(0, 12).Draw(rt, "interfaces") {
			i := anyOwned(rt, fmt.Sprintf("eni-%017d", n))
			byID[i.ID] = i
			owned = append(owned, i)
		}
		view := report.NewLeaks("c", owned, []report.KnownInterface{living}, now)
		text := view.Text(report.Page{})
		told := map[string]int{}
		for _, l := range view.Leaked {
			told[l.ENIID]++
			if n := strings.Count(text, l.ENIID); n != 1 {
				rt.Fatalf("leak %s is printed %d times:\n%s", l.ENIID, n, text)
			}
		}
		for _, r := range view.Retained {
			told[r.ENIID]++
		}
		for id, i := range byID {
			if told[id] > 1 {
				rt.Fatalf("%s is told of %d times", id, told[id])
			}
			of, verdict := identity.Read("c", i.Tags)
			has := of.UID == "living" || of.Name == living.Name
			if told[id] > 0 && (verdict == identity.Foreign || has) {
				rt.Fatalf("%s is no leak, and is told of", id)
			} else if told[id] == 0 && verdict == identity.Owned && !has {
				rt.Fatalf("%s has no object, and nothing is said", id)
			}
		}
		for _, id := range view.Collectable() {
			if i := byID[id]; i.Attachment != nil || i.Status != eni.Available || !identity.PastMinLeakAge(i.Tags, now) {
				rt.Fatalf("%s can be deleted although it is attached or young", id)
			}
		}
	})
}

func TestAllSlotsOfACardAreShown(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limits := eni.Limits{Interfaces: 8, IPv4: 10, IPv6: 10}
		for range rapid.IntRange(1, 3).Draw(rt, "cards") {
			limits.Cards = append(limits.Cards, rapid.IntRange(1, 4).Draw(rt, "slots"))
		}
		n := node("node-a1", "us-east-1a", attached("multus", rapid.IntRange(1, 6).Draw(rt, "device")))
		for _, card := range report.NewNodeMap(n, nil, limits, "no credentials").Cards {
			if want := max(card.Takes, card.Used); len(card.Slots) != want {
				rt.Fatalf("card %d shows %d slots, want %d: %+v", card.Index, len(card.Slots), want, card.Slots)
			}
			for i := 1; i < len(card.Slots); i++ {
				if card.Slots[i-1].Device >= card.Slots[i].Device {
					rt.Fatalf("card %d is not sorted by device index: %+v", card.Index, card.Slots)
				}
			}
		}
	})
}
