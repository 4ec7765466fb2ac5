// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/render"
)

// made is an interface that a hook made for a network.
func made(network, subnetID string, device int) render.Made {
	return render.Made{Network: network, ENIID: "eni-" + network, Subnet: render.Subnet{ID: subnetID}, Slot: &eni.Slot{Device: device},
		Template: render.Template{Required: true, Link: &render.Link{MTU: 1500}}}
}

// TestNetworks has an interface that was made before the node joined.
func TestNetworks(t *testing.T) {
	for title, tc := range map[string]struct {
		made     render.Made
		nodeENIs []render.NodeENI
		change   func(*render.In)
		want     []string
	}{
		"no NodeENI":                           {made("net", "subnet-a", 1), nil, nil, []string{"Create " + name("net", 0)}},
		"no Node":                              {made("net", "subnet-a", 1), nil, func(i *render.In) { i.Nodes = nil }, nil},
		"a paused Node":                        {made("net", "subnet-a", 1), nil, func(i *render.In) { i.Nodes[0].Paused = true }, nil},
		"the NodeENI of its name":              {made("n", "subnet-a", 5), []render.NodeENI{nodeENI("n", "subnet-a")}, nil, []string{"Create " + name("n", 0)}},
		"a NodeENI of its name for other ones": {made("n", "subnet-a", 5), []render.NodeENI{nodeENI("n", "subnet-a")}, unselect, []string{"Create " + name("n", 0)}},
		"the NodeENI of its name, elsewhere":   {made("n", "subnet-b", 5), []render.NodeENI{nodeENI("n", "subnet-a")}, nil, []string{"Create " + name("n", 0), "Create " + name("n", 1)}},
		"the NodeENI of its name, paused":      {made("n", "subnet-b", 5), []render.NodeENI{nodeENI("n", "subnet-a")}, func(i *render.In) { i.NodeENIs[0].Paused = true }, nil},
		"a NodeENI in its slot":                {made("net", "subnet-a", 1), []render.NodeENI{nodeENI("n", "subnet-a")}, nil, []string{"Create " + name("n", 0)}},
		"a NodeENI in another slot":            {made("net", "subnet-a", 2), []render.NodeENI{nodeENI("n", "subnet-a")}, nil, []string{"Create " + name("n", 0), "Create " + name("net", 0)}},
		"a NodeENI in another subnet":          {made("net", "subnet-b", 1), []render.NodeENI{nodeENI("n", "subnet-a")}, nil, []string{"Create " + name("n", 0), "Create " + name("net", 0)}},
	} {
		t.Run(title, func(t *testing.T) {
			i := in(tc.nodeENIs...)
			i.Made = []render.Made{tc.made}
			if tc.change != nil {
				tc.change(&i)
			}
			writes := render.Node(i)
			if diff := cmp.Diff(tc.want, verbs(writes)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestANetworkStaysBesideItsNodeENI has a NodeENI of the name of a network, for another subnet, and then for its subnet.
func TestANetworkStaysBesideItsNodeENI(t *testing.T) {
	i := in(nodeENI("n", "subnet-a"))
	i.Made = []render.Made{made("n", "subnet-b", 5)}
	i = converge(t, i)
	if len(i.Objects) != 2 || i.Objects[1].Spec.Origin != render.OriginNetwork {
		t.Fatalf("got %+v, want the object of the NodeENI and that of the network", i.Objects)
	}
	i = attach(i)
	i.Objects[1].ENIID = i.Made[0].ENIID
	i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-far")
	if i = converge(t, i); len(i.Objects) != 2 || i.Objects[1].Spec.Origin != render.OriginNetwork || len(i.Objects[1].Drift) > 0 {
		t.Errorf("got %+v, want the object of the network as it was", i.Objects)
	}
	i.NodeENIs[0] = found(i.NodeENIs[0], "subnet-a", "subnet-b")
	if i = converge(t, i); len(i.Objects) != 2 || i.Objects[1].Spec.Origin != render.OriginDeclared {
		t.Errorf("got %+v, want the object of the network as one of the NodeENI", i.Objects)
	}
}

// TestANodeENIDeclaresANetworkLater gives a network an object, and then declares its interface.
func TestANodeENIDeclaresANetworkLater(t *testing.T) {
	joined := func(network string) render.In {
		i := in()
		i.Made = []render.Made{made(network, "subnet-a", 1)}
		i = converge(t, i)
		i.Objects[0].ENIID, i.Objects[0].SubnetID, i.Objects[0].Slot = i.Made[0].ENIID, "subnet-a", i.Made[0].Slot
		return i
	}
	t.Run("under its name", func(t *testing.T) {
		i := joined("n")
		i.NodeENIs, i.Nodes[0].Labels = []render.NodeENI{nodeENI("n", "subnet-a")}, map[string]string{"nodeeni": "n"}
		i = converge(t, i)
		if o := i.Objects[0]; len(i.Objects) != 1 || o.Spec.Origin != render.OriginDeclared || o.Spec.NodeENI.UID != "uid-n" {
			t.Errorf("got %+v, want the object of the network as one of the NodeENI", i.Objects)
		}
	})
	t.Run("under another name", func(t *testing.T) {
		i := joined("net")
		i.NodeENIs, i.Nodes[0].Labels = []render.NodeENI{nodeENI("n", "subnet-a")}, map[string]string{"nodeeni": "n"}
		writes := render.Node(i)
		if diff := cmp.Diff([]string{"LetGo " + name("net", 0)}, verbs(writes)); diff != "" {
			t.Fatalf("the object of the network is let go before another is created (-want +got):\n%s", diff)
		}
		i.Objects = nil
		if diff := cmp.Diff([]string{"Create " + name("n", 0)}, verbs(render.Node(i))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
	t.Run("for other nodes", func(t *testing.T) {
		i := joined("n")
		i.NodeENIs = []render.NodeENI{nodeENI("n", "subnet-a")}
		if writes := render.Node(i); len(writes) > 0 {
			t.Errorf("writes %v, want none: the interface belongs to its instance", verbs(writes))
		}
	})
}
