// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"slices"

	"github.com/multieni/multieni/api/v1alpha1"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/plan"
)

// Resources of the simulator's example world.
const (
	subnetA = "subnet-0f59b4f14737be9ad" // us-east-1a, Name my-subnet-name, network multus
	subnetB = "subnet-abcdef1234567890"  // us-east-1a

	private1 = "subnet-0cc0000000000000a" // us-east-1a, Name eks-private-subnet-1
	private2 = "subnet-0cc0000000000000b" // us-east-1a, Name eks-private-subnet-2

	multusB = "subnet-0bb0000000000000b" // us-east-1b, network multus
	multusC = "subnet-0bb0000000000000c" // us-east-1c, network multus
)

// unknownAddress is in the subnet multusB. No interface has it.
const unknownAddress = "10.0.95.230"

// The nodes by zone. In addition to its primary interface, the first of each supports three, the second two.
var (
	inA = []string{"node-a1", "node-a2"}
	inB = []string{"node-b1", "node-b2"}
	inC = []string{"node-c1", "node-c2"}
)

// story has all chapters. Each outcome lists everything that EC2 must have then.
func story() []chapter {
	return []chapter{
		oneSubnet(), byName(), twoSubnets(), byLabel(), severalSubnets(), threeZones(), onTheNodes(), podsWithAddresses(),
		whatCannotBe(), aNodeLess(), theEnd(),
	}
}

func apply(file string) kubectl  { return kubectl{"apply", "-f", "examples/" + file} }
func remove(file string) kubectl { return kubectl{"delete", "-f", "examples/" + file} }

// cleanUp deletes all objects that the story may have applied.
func cleanUp() kubectl {
	words := kubectl{"delete", "--ignore-not-found"}
	for _, c := range story() {
		for _, s := range c.steps {
			for _, command := range s.do {
				if k, ok := command.(kubectl); ok && k[0] == "apply" {
					words = append(words, k[1:]...)
				}
			}
		}
	}
	return words
}

func label(nodes []string, labels ...string) kubectl {
	return slices.Concat(kubectl{"label", "node"}, nodes, labels)
}

func oneSubnet() chapter {
	const name = "multus-eni-config"
	return chapter{title: "One subnet, one label", steps: []step{{
		say: "A NodeENI says which nodes get an interface, in which subnet and at which device index.\n" +
			"A node gets it when it carries the label.",
		do:   []command{apply("single-subnet.yaml"), label(inA, "ng=multi-eni")},
		then: outcome{holds: each(inA, name, subnetA, 2)},
		show: []command{
			kubectl{"get", "nodeeni", name},
			kubectl{"get", "nodeeni", name, "-o", "jsonpath={.status.attachments[0].eniID}"},
			kubectl{"get", "eni"},
		},
	}, {
		say:  "Take the label away, and the interface is detached and deleted.",
		do:   []command{label(inA[1:], "ng-")},
		then: outcome{holds: each(inA[:1], name, subnetA, 2)},
	}, {
		say: "Delete the NodeENI, and the last one goes too. The object stays until EC2 has confirmed that.",
		do:  []command{kubectl{"delete", "nodeeni", name, "--wait=false"}},
	}}}
}

func byName() chapter {
	return chapter{title: "A subnet by its name", steps: []step{{
		say:  "The same subnet, found by its Name tag.",
		do:   []command{apply("subnet-name.yaml"), label(inA[1:], "ng=multi-eni")},
		then: outcome{holds: each(inA, "multus-eni-subnet-name", subnetA, 2)},
	}}}
}

func twoSubnets() chapter {
	return chapter{title: "Two NodeENIs, two subnets, and a controller that dies", steps: []step{{
		say: "Both NodeENIs select the same nodes, so each of them gets two interfaces.\n" +
			"While EC2 is at work the controller is killed. It holds nothing in memory that could be lost.",
		do:   []command{remove("subnet-name.yaml"), apply("two-subnets.yaml")},
		kill: true,
		then: outcome{holds: slices.Concat(each(inA, "nodeeni-subnet-a", subnetA, 1),
			each(inA, "nodeeni-subnet-b", subnetB, 2))},
	}}}
}

func byLabel() chapter {
	const a, b = "nodeeni-subnet-a", "nodeeni-subnet-b"
	return chapter{title: "Node labels choose the subnet", steps: []step{{
		say: "The same subnets, but a second label says which node gets which.",
		do: []command{
			remove("two-subnets.yaml"), apply("node-labels.yaml"), label(inA[:1], "subnet=a"), label(inA[1:], "subnet=b"),
		},
		then: outcome{holds: slices.Concat(each(inA[:1], a, subnetA, 1), each(inA[1:], b, subnetB, 1))},
	}, {
		say:  "Change the label, and the node moves to the other subnet: one interface goes, then the other takes its place.",
		do:   []command{label(inA[1:], "subnet=a", "--overwrite")},
		then: outcome{holds: each(inA, a, subnetA, 1)},
	}}}
}

func severalSubnets() chapter {
	const byID, byName = "multi-subnet-eni", "multi-subnet-name-eni"
	return chapter{title: "One NodeENI, several subnets", steps: []step{{
		say:  "A list of subnets gives a node one interface in each, at device indices that count up from deviceIndex.",
		do:   []command{remove("node-labels.yaml"), apply("subnet-ids.yaml")},
		then: outcome{holds: slices.Concat(each(inA, byID, subnetA, 1), each(inA, byID, subnetB, 2))},
	}, {
		say: "The same by Name tag, from index 2 up. The second node has the indices 0 to 2, so its second\n" +
			"interface gets the next lower one.",
		do: []command{remove("subnet-ids.yaml"), apply("subnet-names.yaml")},
		then: outcome{holds: slices.Concat(each(inA, byName, private1, 2), each(inA[:1], byName, private2, 3),
			each(inA[1:], byName, private2, 1))},
	}}}
}

// everywhere has the interfaces of examples/zones.yaml.
func everywhere() []holding {
	const name = "multus-all-zones"
	return slices.Concat(each(inA, name, subnetA, 1), each(inB, name, multusB, 1), each(inC, name, multusC, 1))
}

func threeZones() chapter {
	return chapter{title: "One NodeENI, three zones", steps: []step{{
		say: "A subnet is in one zone, and so is a node. This NodeENI finds its subnets by tag, one in each zone.\n" +
			"Every node gets the one of its own zone, at the same device index everywhere.",
		do: []command{
			remove("subnet-names.yaml"), apply("zones.yaml"),
			kubectl{"label", "node", "-l", "networking.k8s.aws/simulated", "ng=multi-eni"},
		},
		then: outcome{holds: everywhere()},
	}}}
}

// onTheNodes shows how agents configure the interfaces of threeZones.
func onTheNodes() chapter {
	withAgents := []string{inA[0], inB[0], inC[0]}
	const name = "multus-all-zones"
	altName := hostnet.AltName(name)
	var links []command
	for _, node := range withAgents {
		links = append(links, onNode(node, "ip", "-brief", "link", "show", altName))
	}
	return chapter{title: "From an interface to a link that pods can use", needs: networks, steps: []step{{
		say: "An attached interface is a link that is down, with a name that depends on the order of the attachments. The " +
			"agent on\n" +
			"a node finds it by its MAC address, brings it up, gives it one more name, the same on every\n" +
			"node, and takes the node's startup taint away. Three nodes have a network namespace and an\n" +
			"agent here; their systems name links in three ways.",
		then: outcome{holds: everywhere(), open: withAgents},
		show: append(links,
			kubectl{"get", "nodes", "-L", v1alpha1.InterfaceLabelPrefix + altName},
			kubectl{"get", "eni", "-l", v1alpha1.NodeENILabel + "=" + name}),
	}}}
}

// podsWithAddresses shows the addresses that examples/pods.yaml gives to pods.
func podsWithAddresses() chapter {
	const name, podA, podB = "upf", "upf-a", "upf-b"
	holds := slices.Concat(everywhere(), each(inA[:1], name, subnetA, 2), each(inB[:1], name, multusB, 2))
	pods := []string{podA, podB}
	return chapter{title: "Pods with addresses of the VPC", needs: podNetworks, steps: []step{{
		say: "With pods, a NodeENI is a network: EC2 creates each interface with a prefix of addresses, and one\n" +
			"NetworkAttachmentDefinition serves all nodes in all zones. A pod gets an address by its\n" +
			"annotation. There are no containers here: the demo calls the plugins of the definition in place\n" +
			"of Multus.",
		do:   []command{apply("pods.yaml"), label([]string{inA[0], inB[0]}, "upf=true")},
		then: outcome{holds: holds, pods: pods},
		show: []command{
			kubectl{"get", "network-attachment-definition", name, "-o", "jsonpath={.spec.config}"},
			kubectl{"get", "pod", podB, "-o", `jsonpath={.metadata.annotations.k8s\.v1\.cni\.cncf\.io/network-status}`},
		},
	}, {
		say: "The pods are on nodes of two zones, and reach each other through the VPC. It delivers only to\n" +
			"addresses that EC2 knows: a ping to one that a pod gives itself has no answer.",
		do: []command{
			ping{from: podA, to: podB},
			inPod(podB, "ip", "address", "add", unknownAddress, "dev", "net1"),
			ping{from: podA, to: unknownAddress, lost: true},
		},
		then: outcome{holds: holds, pods: pods},
	}, {
		say: "Delete the NodeENI while pods use it. The controller takes no interface from under a pod: the\n" +
			"deletion waits, and says for what.",
		do:   []command{kubectl{"delete", "nodeeni", name, "--wait=false"}},
		then: outcome{holds: holds, pods: pods, inUse: []string{name}},
		show: []command{kubectl{"get", "nodeeni", name, "-o", "jsonpath={.status.attachments[0].message}"}},
	}, {
		say: "Without the pods the interfaces go, once the addresses have rested for a minute, and with them the\n" +
			"definition.",
		do:   []command{append(kubectl{"delete", "pod", "--wait=false"}, pods...)},
		then: outcome{holds: everywhere()},
	}}}
}

// elsewhere has the interfaces that examples/single-subnet.yaml cannot provide: its subnet is in zone a.
func elsewhere() []obstacle {
	var all []obstacle
	for _, node := range slices.Concat(inB, inC) {
		all = append(all, obstacle{"multus-eni-config", node, plan.NoSubnetInZone})
	}
	return all
}

func whatCannotBe() chapter {
	const name = "multus-eni-config"
	return chapter{title: "Each refusal has a reason", steps: []step{{
		say: "The first example again: its only subnet is in us-east-1a, but nodes of all zones carry its label by now.\n" +
			"Nothing is tried that cannot work, and the NodeENI says what to do about it.",
		do:   []command{apply("single-subnet.yaml")},
		then: outcome{holds: slices.Concat(everywhere(), each(inA, name, subnetA, 2)), obstacles: elsewhere()},
		show: []command{kubectl{"get", "nodeeni", name, "-o", `jsonpath={.status.conditions[?(@.type=="Ready")].message}`}},
	}}}
}

func aNodeLess() chapter {
	const name, node = "multus-eni-config", "node-c2"
	return chapter{title: "A node is terminated", steps: []step{{
		say: "deleteOnTermination makes EC2 delete the interfaces together with the instance.",
		do:  []command{terminate{node}},
		then: outcome{
			holds: slices.DeleteFunc(slices.Concat(everywhere(), each(inA, name, subnetA, 2)), func(h holding) bool {
				return h.node == node
			}),
			obstacles: slices.DeleteFunc(elsewhere(), func(o obstacle) bool { return o.node == node }),
			gone:      []string{node},
		},
	}}}
}

func theEnd() chapter {
	return chapter{title: "The end", steps: []step{{
		say: "Both NodeENIs go, and with them the last interfaces.",
		do: []command{
			kubectl{"delete", "--wait=false", "-f", "examples/zones.yaml", "-f", "examples/single-subnet.yaml"},
		},
		then: outcome{gone: []string{"node-c2"}, bare: []string{inA[0], inB[0], inC[0]}},
	}}}
}
