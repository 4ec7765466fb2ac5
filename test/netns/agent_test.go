// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build linux

package netns_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/host/agent"
	"github.com/multieni/multieni/test/size"
)

// patience is how long one step may take on a busy machine that also runs an API server.
const patience = 20 * time.Second

// ready checks that the node accepts pods, and that Node and state report it.
func ready(node *corev1.Node, state *v1alpha1.NodeENIState) string {
	switch c := condition(node); {
	case c.Status != corev1.ConditionTrue:
		return fmt.Sprintf("the condition is %q (%s): %s", c.Status, c.Reason, c.Message)
	case tainted(node):
		return "the startup taint is still there"
	case !slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "dedicated" }):
		return "the taint of others is gone"
	case node.Labels[v1alpha1.InterfaceLabelPrefix+"net-web"] != interfaceOf(1, "").ENIID:
		return fmt.Sprintf("the labels are %v", node.Labels)
	case !strings.Contains(node.Annotations[v1alpha1.InterfacesAnnotation], mac(1)):
		return fmt.Sprintf("the annotations are %v", node.Annotations)
	case len(state.Status.Links) == 0 || state.Status.Links[0].State != v1alpha1.LinkReady || state.Status.Links[0].AltName != "net-web":
		return fmt.Sprintf("the links are %+v", state.Status.Links)
	}
	return ""
}

// unready returns a check that the condition has the reason why the node is not ready, and that the taint is present or
// absent.
func unready(status corev1.ConditionStatus, reason string, taint bool) func(*corev1.Node, *v1alpha1.NodeENIState) string {
	return func(node *corev1.Node, _ *v1alpha1.NodeENIState) string {
		if c := condition(node); c.Status != status || c.Reason != reason || tainted(node) != taint {
			return fmt.Sprintf("the condition is %s (%s), tainted %t; want %s (%s), %t", c.Status, c.Reason, tainted(node), status, reason, taint)
		}
		return ""
	}
}

func condition(node *corev1.Node) corev1.NodeCondition {
	for _, c := range node.Status.Conditions {
		if c.Type == v1alpha1.NodeConditionInterfacesReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == v1alpha1.NotReadyTaint })
}

// A node without interfaces becomes one that accepts pods, and then one without interfaces again, regardless of the
// name of the link.
func TestLifeOfALink(t *testing.T) {
	for _, name := range []string{"eth1", "ens6", "enp39s0"} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "node-"+name, false)
			bare := n.State()
			n.becomes(patience, unready(corev1.ConditionUnknown, "NoInterfaces", true))
			n.promise(interfaceOf(1, v1alpha1.PhaseAttaching))
			n.becomes(patience, unready(corev1.ConditionFalse, "InterfaceAttaching", true))
			n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
			n.becomes(patience, unready(corev1.ConditionFalse, hostnet.ReasonNotFound, true))
			n.Attach(name, mac(1), n.vpc, "peer1")
			t.Logf("ready %s after the link appeared", n.becomes(patience, ready))
			n.promise(interfaceOf(1, v1alpha1.PhaseDetaching))
			n.becomes(patience, func(*corev1.Node, *v1alpha1.NodeENIState) string {
				if strings.Contains(n.IP("link show "+name), "net-web") {
					return "the link still has its altname"
				}
				return ""
			})
			n.IP("link del " + name)
			n.becomes(patience, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
				if diff := cmp.Diff(bare, n.State()); diff != "" || len(state.Status.Links) > 0 || len(node.Labels) > 0 {
					return fmt.Sprintf("there is left: %s %v %v", diff, state.Status.Links, node.Labels)
				}
				return ""
			})
		})
	}
}

// A driver that is rebound makes a new link for an old device, possibly with another name; hot-unplugging leaves
// nothing behind.
func TestRebind(t *testing.T) {
	n := newNode(t, "rebind", false)
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.becomes(patience, ready)
	for _, name := range []string{"ens6", "eth0", "enp39s0"} {
		for _, link := range []string{"ens6", "eth0", "enp39s0"} {
			if strings.Contains(n.IP("link show"), " "+link+"@") {
				n.IP("link del " + link)
			}
		}
		n.Attach(name, mac(1), n.vpc, "peer1")
		n.becomes(patience, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
			if state.Status.Links[0].Name != name {
				return "the link is still known as " + state.Status.Links[0].Name
			}
			return ready(node, state)
		})
	}
	n.IP("link del enp39s0")
	n.becomes(5*time.Second, unready(corev1.ConditionFalse, hostnet.ReasonNotFound, false))
	n.becomes(patience, func(*corev1.Node, *v1alpha1.NodeENIState) string {
		if left := n.IP("-4 rule show") + n.IP("-4 route show table all"); strings.Contains(left, "2000") || strings.Contains(left, "10.0.1.10") {
			return "there is left: " + left
		}
		return ""
	})
}

// The controller and the agent write the same status without undoing each other's part.
func TestTwoWriters(t *testing.T) {
	n := newNode(t, "two-writers", false)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	n.becomes(patience, ready)
	again := interfaceOf(1, v1alpha1.PhaseAttached)
	again.DeleteOnTermination = true
	n.promise(again)
	n.becomes(patience, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
		if !state.Status.Interfaces[0].DeleteOnTermination {
			return "the controller's part is lost"
		}
		return ready(node, state)
	})
}

// The agent does not remove the configuration of an interface because the controller does not know it: the NodeENIState
// may be deleted, or new, or the controller may wait for an interface that EC2 does not return.
func TestForgotten(t *testing.T) {
	state := func() *v1alpha1.NodeENIState {
		return &v1alpha1.NodeENIState{ObjectMeta: metav1.ObjectMeta{Name: "forgotten"}, Spec: v1alpha1.NodeENIStateSpec{
			InstanceID: "i-0123456789abcdef0", Zone: "us-west-2a", Members: []v1alpha1.Member{interfaceOf(1, "").Member},
		}}
	}
	n := newNode(t, "forgotten", true)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	n.becomes(patience, ready)
	var before string
	n.becomes(patience, func(*corev1.Node, *v1alpha1.NodeENIState) string {
		if before = n.State(); strings.Contains(before, "NO-CARRIER") { // the kernel says LOWER_UP first
			return "the links are not running yet"
		}
		return ""
	})

	unseen := interfaceOf(1, v1alpha1.PhaseCreating)
	unseen.MACAddress, unseen.ENIID, unseen.PrivateIP = "", "", ""
	n.promise(unseen)
	n.becomes(patience, unready(corev1.ConditionFalse, "InterfaceCreating", true))
	if err := n.client.Delete(t.Context(), state()); err != nil {
		t.Fatal(err)
	}
	n.becomes(patience, unready(corev1.ConditionUnknown, "NoInterfaces", true))
	if err := n.client.Create(t.Context(), state()); err != nil {
		t.Fatal(err)
	}
	n.becomes(patience, unready(corev1.ConditionFalse, "StatusPending", true))
	if diff := cmp.Diff(before, n.State()); diff != "" {
		t.Errorf("the node's network changed:\n%s", diff)
	}
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	n.becomes(patience, ready)
}

// Instance metadata explains a missing link, and names the link that must not be changed regardless of default routes.
func TestMetadata(t *testing.T) {
	const here = "i-0123456789abcdef0"
	cases := map[string]struct {
		known  eni.Metadata
		reason string
		says   string
	}{
		"the interface is attached": {eni.Metadata{InstanceID: here, Interfaces: []eni.Interface{{MAC: mac(1)}}}, hostnet.ReasonNotFound, "lists it"},
		"it is not attached":        {eni.Metadata{InstanceID: here}, hostnet.ReasonNotFound, "does not list it"},
		"another instance":          {eni.Metadata{InstanceID: "i-0123456789abcdef1"}, hostnet.ReasonNotFound, "i-0123456789abcdef1"},
		"the primary interface":     {eni.Metadata{InstanceID: here, PrimaryMAC: mac(1)}, hostnet.ReasonPrimary, "primary"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNamespaces(t, "metadata-"+strings.ReplaceAll(name, " ", "-"), false)
			n.configure = func(o *agent.Options) {
				o.Metadata = func(context.Context) (eni.Metadata, error) { return c.known, nil }
			}
			if c.known.PrimaryMAC != "" {
				n.Attach("ens6", c.known.PrimaryMAC, n.vpc, "peer1")
			}
			n.startAgent()
			n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
			n.becomes(patience, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
				if len(state.Status.Links) != 1 || !strings.Contains(state.Status.Links[0].Message, c.says) {
					return fmt.Sprintf("the links are %+v", state.Status.Links)
				}
				return unready(corev1.ConditionFalse, c.reason, true)(node, state)
			})
		})
	}
}

// The commands of the document work, and print something about a node that is ready.
func TestCommandsOfTheDocument(t *testing.T) {
	n := newNode(t, "documented", false)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	n.becomes(patience, ready)
	document, err := os.ReadFile("../../docs/node-agent.md")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(kubeconfig, server.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile(`(?m)^kubectl (get|wait) .*\bNODE\b.*$`).FindAllString(string(document), -1)
	if len(commands) < 3 {
		t.Errorf("the document has the commands %q only", commands)
	}
	for _, line := range commands {
		line = strings.Replace(line, "kubectl", server.ControlPlane.KubectlPath, 1)
		command := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(line, "NODE", n.name))
		command.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
		output, err := command.CombinedOutput()
		if err != nil || len(bytes.TrimSpace(output)) == 0 {
			t.Errorf("%s: %v, %q", line, err, output)
		}
	}
}

// The agent reports a lost link in time, and keeps pods off the node if that is configured. It does not wait for an
// optional link.
func TestLoss(t *testing.T) {
	cases := map[string]struct {
		reapply, optional bool
		lost              func(*corev1.Node, *v1alpha1.NodeENIState) string
	}{
		"once":    {false, false, unready(corev1.ConditionFalse, hostnet.ReasonNotFound, false)},
		"reapply": {true, false, unready(corev1.ConditionFalse, hostnet.ReasonNotFound, true)},
		"optional": {true, true, func(node *corev1.Node, state *v1alpha1.NodeENIState) string {
			if state.Status.Links[0].State != v1alpha1.LinkMissing {
				return "nobody missed the link"
			}
			return unready(corev1.ConditionTrue, "InterfacesReady", false)(node, state)
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "loss-"+name, c.reapply)
			n.Attach("ens6", mac(1), n.vpc, "peer1")
			i := interfaceOf(1, v1alpha1.PhaseAttached)
			required := !c.optional
			i.Required = &required
			n.promise(i)
			n.becomes(patience, ready)
			n.IP("link del ens6")
			n.becomes(5*time.Second, c.lost)
			n.Attach("eth4", mac(1), n.vpc, "peer1")
			n.becomes(patience, ready)
		})
	}
}

// Another program flaps, renames and strips two links and changes their addresses. The agent repairs them within two
// seconds each time, changes nothing else, and makes no operation afterwards.
func TestAdversary(t *testing.T) {
	n := newNode(t, "adversary", false)
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.Attach("ens7", mac(2), n.vpc, "peer2")
	n.IP("link add pod0 link ens6 address " + mac(1) + " type macvlan mode private")
	n.Attach("foreign", "06:00:00:00:00:01", n.vpc, "peer3")
	n.IP("address add 10.7.7.7/24 dev foreign")
	state := &v1alpha1.NodeENIState{}
	state.Status.Interfaces = []v1alpha1.InterfaceState{interfaceOf(1, v1alpha1.PhaseAttached), interfaceOf(2, v1alpha1.PhaseAttached)}
	n.promise(state.Status.Interfaces...)
	n.becomes(patience, ready)
	links, _ := agent.DesiredLinks(state, 0)
	foreign := n.IP("address show foreign")
	random := rand.New(rand.NewPCG(1, 2))
	var worst time.Duration
	rounds := 0
	for begin := time.Now(); rounds < 40 || size.Long() && time.Since(begin) < 10*time.Minute; rounds++ {
		index := n.indexOf(mac(1 + random.IntN(2)))
		n.disturb(random, index)
		worst = max(worst, n.mended(links))
	}
	t.Logf("mended %d times, after at most %s", rounds, worst)
	if diff := cmp.Diff(foreign, n.IP("address show foreign")); diff != "" {
		t.Errorf("a link of others was touched:\n%s", diff)
	}
	n.peace()
}

// TestLatency measures the time from the moment a link exists until its node accepts pods. It watches the node instead
// of polling it: polling would take CPU time from the measured programs.
func TestLatency(t *testing.T) {
	times := size.Of(5, 20, 300)
	n := newNode(t, "latency", true)
	n.promise(interfaceOf(1, v1alpha1.PhaseAttached))
	watcher, err := client.NewWithWatch(server.Config, client.Options{Scheme: n.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	watch, err := watcher.Watch(t.Context(), &corev1.NodeList{}, client.MatchingFields{"metadata.name": n.name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	until := func(status corev1.ConditionStatus, taint bool) {
		for change := range watch.ResultChan() {
			if node, is := change.Object.(*corev1.Node); is && condition(node).Status == status && tainted(node) == taint {
				return
			}
		}
		t.Fatal("the watch ended")
	}
	var all []time.Duration
	for range times {
		until(corev1.ConditionFalse, true)
		n.Attach("ens6", mac(1), n.vpc, "peer1")
		begin := time.Now()
		until(corev1.ConditionTrue, false)
		all = append(all, time.Since(begin))
		n.IP("link del ens6")
		if size.Long() { // real interfaces do not flap several times a second, and the agent limits its reaction
			time.Sleep(time.Second)
		}
	}
	slices.Sort(all)
	p99 := all[len(all)*99/100]
	t.Logf("of %d, the median is %s, the 99th percentile %s", times, all[len(all)/2], p99)
	if size.Long() && p99 > 300*time.Millisecond {
		t.Errorf("the 99th percentile is %s", p99)
	}
}

func (n *node) indexOf(mac string) hostnet.LinkFacts {
	n.t.Helper()
	facts, err := n.eyes.Facts(nil)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, link := range facts.Links {
		if link.MAC == mac && link.Device != "" {
			return link
		}
	}
	n.t.Fatalf("no link has the address %s", mac)
	return hostnet.LinkFacts{}
}

// disturb makes one of the changes that network managers and people make.
func (n *node) disturb(random *rand.Rand, link hostnet.LinkFacts) {
	n.t.Helper()
	own := "10.0.1." + map[string]string{mac(1): "10", mac(2): "20"}[link.MAC]
	for _, command := range [][]string{
		{"link set NAME down"},
		{"link set NAME down", "link set NAME up"},
		{"link set NAME down", "link set NAME name " + disturbedName(random.IntN(disturbedNames))},
		{"address replace OWN/24 dev NAME", "route replace default via 10.0.1.1 dev NAME onlink proto dhcp metric 512"},
		{"address flush dev NAME"},
		{"route flush table 20001"},
		{"link set NAME mtu 1400"},
		{"-4 rule flush"},
		{"link property del dev NAME altname " + link.AltNames[0]},
	}[random.IntN(9)] {
		n.IP(strings.NewReplacer("NAME", link.Name, "OWN", own).Replace(command))
	}
}

// disturbedNames is how many names disturb gives to links.
const disturbedNames = 1000

func disturbedName(n int) string { return fmt.Sprintf("eth%d", n) }

// It waits until the links need no operation, and returns how long that took.
func (n *node) mended(links []hostnet.Link) time.Duration {
	n.t.Helper()
	begin := time.Now()
	for {
		facts, err := n.eyes.Facts(nil)
		if err != nil {
			n.t.Fatal(err)
		}
		facts.ReadOnly = n.readOnly
		rest := hostnet.Diff(hostnet.Configure(links, facts), facts)
		if len(rest) == 0 {
			return time.Since(begin)
		}
		if time.Since(begin) > 2*time.Second {
			n.t.Fatalf("after two seconds there is still to do: %v", rest)
		}
	}
}

// peace checks that the agent changes nothing on undisturbed links.
func (n *node) peace() {
	n.t.Helper()
	time.Sleep(time.Second) // the last disturbance is repaired, and its events have arrived
	before := n.changes.Load()
	time.Sleep(3 * time.Second) // several resyncs
	if changes := n.changes.Load() - before; changes != 0 {
		n.t.Errorf("%d changes were made although nothing was wrong", changes)
	}
}
