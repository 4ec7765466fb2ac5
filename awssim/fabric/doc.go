// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fabric delivers packets as EC2's model says: a VPC is a network namespace, an attached interface is a link in
// its instance's namespace, and an address that EC2 does not know reaches no one.
//
//	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld()})
//	network, err := fabric.New(sim)
//	defer network.Close()
//	err = network.AddNode(fabric.Node{InstanceID: "i-0a10000000000000a", Namespace: "/run/netns/node-a"})
//	go network.Follow(ctx)
//	// … a program attaches interfaces and assigns addresses by EC2's API; something in the namespace configures the links …
//	_, err = fabric.Ping(ctx, "/run/netns/node-a", netip.Addr{}, netip.MustParseAddr("10.0.80.16"))
//
// # What it delivers
//
//   - A link appears in a node's namespace, down and with the interface's MAC address, when EC2 has attached the
//     interface, and vanishes when EC2 detaches it, also from another namespace to which it was moved.
//   - A packet reaches the interface that has its destination as a primary or secondary address or in a prefix. Other
//     packets vanish.
//   - An interface with the source/destination check sends only from such addresses. Without the check it sends from
//     all.
//   - The router of each subnet, the first address of its IPv4 range, and fe80:ec2::1 answer ARP and neighbour
//     solicitations, but no ping. So does the VPC for IPv6 addresses of interfaces in the same subnet; for those in an
//     IPv6 prefix it does not, and hosts send by the router.
//   - A change of EC2's model shows within milliseconds. An address that moves to another interface moves by one change
//     of a route.
//
// # What it does not
//
// Security groups, route tables, other VPCs, the internet, instance metadata, DHCP and router advertisements are not
// modelled, nor is the delay of EC2's network. The fabric does not compare MAC addresses: EC2 drops what macvlan sends,
// and the fabric delivers it.
//
// # What it needs
//
// Linux, root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and a kernel with veth. [Possible] says why it does not work. Nothing
// is left when it is closed: the namespaces of VPCs have no name, and links end with them.
package fabric
