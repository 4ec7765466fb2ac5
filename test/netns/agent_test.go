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

// ready checks that the first interface of the node has its link.
func ready(objects []v1alpha1.NetworkInterface) string {
	if len(objects) == 0 {
		return "there is no object"
	}
	if link := reportOf(&objects[0]); link.State != v1alpha1.LinkReady || link.AltName != "net-web" {
		return fmt.Sprintf("the link is %+v", link)
	}
	return ""
}

// unready returns a check that the first interface of the node has a link that is not ready, for a reason.
func unready(reason string) func([]v1alpha1.NetworkInterface) string {
	return func(objects []v1alpha1.NetworkInterface) string {
		if len(objects) == 0 {
			return "there is no object"
		}
		if link := reportOf(&objects[0]); link.State == v1alpha1.LinkReady || link.Reason != reason {
			return fmt.Sprintf("the link is %s (%s), want %s", link.State, link.Reason, reason)
		}
		return ""
	}
}

// unanswered checks that the agent has not reported on the first interface of the node.
func unanswered(objects []v1alpha1.NetworkInterface) string {
	if len(objects) != 1 || objects[0].Status.Node != nil {
		return fmt.Sprintf("there are %d objects, and reports", len(objects))
	}
	return ""
}

// An interface comes and goes, regardless of the name of its link.
func TestLifeOfALink(t *testing.T) {
	for _, name := range []string{"eth1", "ens6", "enp39s0"} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "node-"+name)
			bare := n.State()
			n.promise(declared(1))
			n.becomes(patience, unanswered)
			n.promise(attached(1))
			n.becomes(patience, unready(hostnet.ReasonNotFound))
			n.Attach(name, mac(1), n.vpc, "peer1")
			t.Logf("ready %s after the link appeared", n.becomes(patience, ready))
			n.order(attached(1))
			n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
				if strings.Contains(n.IP("link show "+name), "net-web") {
					return "the link still has its altname"
				}
				return ""
			})
			n.IP("link del " + name)
			n.promise()
			n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
				if diff := cmp.Diff(bare, n.State()); diff != "" || len(objects) > 0 {
					return fmt.Sprintf("there is left: %s %v", diff, objects)
				}
				return ""
			})
		})
	}
}

// A driver that is rebound makes a new link for an old device, possibly with another name; hot-unplugging leaves
// nothing behind.
func TestRebind(t *testing.T) {
	n := newNode(t, "rebind")
	n.promise(attached(1))
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.becomes(patience, ready)
	for _, name := range []string{"ens6", "eth0", "enp39s0"} {
		for _, link := range []string{"ens6", "eth0", "enp39s0"} {
			if strings.Contains(n.IP("link show"), " "+link+"@") {
				n.IP("link del " + link)
			}
		}
		n.Attach(name, mac(1), n.vpc, "peer1")
		n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
			if known := reportOf(&objects[0]).Name; known != name {
				return "the link is still known as " + known
			}
			return ready(objects)
		})
	}
	n.IP("link del enp39s0")
	n.becomes(5*time.Second, unready(hostnet.ReasonNotFound))
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if left := n.IP("-4 rule show") + n.IP("-4 route show table all"); strings.Contains(left, "2000") || strings.Contains(left, "10.0.1.10") {
			return "there is left: " + left
		}
		return ""
	})
}

// The controller and the agent write the same status without undoing each other's part.
func TestTwoWriters(t *testing.T) {
	n := newNode(t, "two-writers")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(attached(1))
	n.becomes(patience, ready)
	again := attached(1)
	again.Spec.DeleteOnTermination, again.Status.AttachmentID = true, "eni-attach-0123456789abcdef0"
	n.promise(again)
	n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
		if objects[0].Status.AttachmentID == "" {
			return "the controller's part is lost"
		}
		if objects[0].Status.Node.ObservedGeneration != objects[0].Generation {
			return "the agent has not seen the change"
		}
		return ready(objects)
	})
}

// The agent does not remove the configuration of an interface because its object is not there: a user tore it away, or the
// kind was deleted.
func TestForgotten(t *testing.T) {
	n := newNode(t, "forgotten")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(attached(1))
	n.becomes(patience, ready)
	var before string
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if before = n.State(); strings.Contains(before, "NO-CARRIER") { // the kernel says LOWER_UP first
			return "the links are not running yet"
		}
		return ""
	})
	n.promise()
	n.stopAgent()
	n.startAgent()
	looks := n.looks.Load()
	n.becomes(patience, func([]v1alpha1.NetworkInterface) string {
		if n.looks.Load() < looks+5 {
			return "the agent has not looked at the network"
		}
		return ""
	})
	n.promise(declared(1))
	n.becomes(patience, unanswered)
	if diff := cmp.Diff(before, n.State()); diff != "" {
		t.Errorf("the node's network changed:\n%s", diff)
	}
	n.promise(attached(1))
	n.becomes(patience, ready)
}

// Instance metadata explains a missing link, and names the link that must not be changed regardless of default routes.
func TestMetadata(t *testing.T) {
	cases := map[string]struct {
		known  eni.Metadata
		reason string
		says   string
	}{
		"the interface is attached": {eni.Metadata{Interfaces: []eni.Interface{{MAC: mac(1)}}}, hostnet.ReasonNotFound, "lists it"},
		"it is not attached":        {eni.Metadata{}, hostnet.ReasonNotFound, "does not list it"},
		"the primary interface":     {eni.Metadata{PrimaryMAC: mac(1)}, hostnet.ReasonPrimary, "primary"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			n := newNamespaces(t, "metadata-"+strings.ReplaceAll(name, " ", "-"))
			n.configure = func(o *agent.Options) {
				c.known.InstanceID = n.instance
				o.Metadata = func(context.Context) (eni.Metadata, error) { return c.known, nil }
			}
			if c.known.PrimaryMAC != "" {
				n.Attach("ens6", c.known.PrimaryMAC, n.vpc, "peer1")
			}
			n.startAgent()
			n.promise(attached(1))
			n.becomes(patience, func(objects []v1alpha1.NetworkInterface) string {
				if link := reportOf(&objects[0]); !strings.Contains(link.Message, c.says) {
					return fmt.Sprintf("the link is %+v", link)
				}
				return unready(c.reason)(objects)
			})
		})
	}
}

// The commands of the document work, and print something about a node that is ready.
func TestCommandsOfTheDocument(t *testing.T) {
	n := newNode(t, "documented")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(attached(1))
	n.becomes(patience, ready)
	n.accept()
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

// accept makes the node ready, as the controller does.
func (n *node) accept() {
	n.t.Helper()
	object := &corev1.Node{}
	if err := n.client.Get(n.t.Context(), client.ObjectKey{Name: n.name}, object); err != nil {
		n.t.Fatal(err)
	}
	before := object.DeepCopy()
	metav1.SetMetaDataAnnotation(&object.ObjectMeta, v1alpha1.InterfacesAnnotation, "[]")
	if err := n.client.Patch(n.t.Context(), object, client.MergeFrom(before)); err != nil {
		n.t.Fatal(err)
	}
	before = object.DeepCopy()
	object.Status.Conditions = []corev1.NodeCondition{{Type: v1alpha1.NodeConditionInterfacesReady, Status: corev1.ConditionTrue, Reason: "InterfacesReady", Message: "all are ready"}}
	if err := n.client.Status().Patch(n.t.Context(), object, client.MergeFrom(before)); err != nil {
		n.t.Fatal(err)
	}
}

// The agent reports a lost link in time.
func TestLoss(t *testing.T) {
	n := newNode(t, "loss")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.promise(attached(1))
	n.becomes(patience, ready)
	n.IP("link del ens6")
	n.becomes(5*time.Second, unready(hostnet.ReasonNotFound))
	n.Attach("eth4", mac(1), n.vpc, "peer1")
	n.becomes(patience, ready)
}

// Another program flaps, renames and strips two links and changes their addresses. The agent repairs them within two
// seconds each time, changes nothing else, and makes no operation afterwards.
func TestAdversary(t *testing.T) {
	n := newNode(t, "adversary")
	n.Attach("ens6", mac(1), n.vpc, "peer1")
	n.Attach("ens7", mac(2), n.vpc, "peer2")
	n.IP("link add pod0 link ens6 address " + mac(1) + " type macvlan mode private")
	n.Attach("foreign", "06:00:00:00:00:01", n.vpc, "peer3")
	n.IP("address add 10.7.7.7/24 dev foreign")
	interfaces := []*v1alpha1.NetworkInterface{attached(1), attached(2)}
	n.promise(interfaces...)
	n.becomes(patience, ready)
	links, _ := agent.DesiredLinks(interfaces, 0)
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

// TestLatency measures the time from the moment a link exists until its object says so. It watches the object instead of
// polling it: polling would take CPU time from the measured programs.
func TestLatency(t *testing.T) {
	times := size.Of(5, 20, 300)
	n := newNode(t, "latency")
	n.promise(attached(1))
	watcher, err := client.NewWithWatch(server.Config, client.Options{Scheme: n.client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	name := n.named(attached(1)).Name
	watch, err := watcher.Watch(t.Context(), &v1alpha1.NetworkInterfaceList{}, client.MatchingFields{"metadata.name": name})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	until := func(state v1alpha1.LinkPhase) {
		for change := range watch.ResultChan() {
			if object, is := change.Object.(*v1alpha1.NetworkInterface); is && reportOf(object).State == state {
				return
			}
		}
		t.Fatal("the watch ended")
	}
	var all []time.Duration
	for range times {
		until(v1alpha1.LinkMissing)
		n.Attach("ens6", mac(1), n.vpc, "peer1")
		begin := time.Now()
		until(v1alpha1.LinkReady)
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
