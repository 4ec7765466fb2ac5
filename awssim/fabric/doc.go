// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fabric delivers packets according to EC2's model: a VPC is a network namespace, an attached interface is a
// link in its instance's namespace, and an address that EC2 does not have is unreachable.
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
//     interface. It disappears when EC2 detaches the interface, also from another namespace to which it was moved.
//   - A packet reaches the interface that has its destination as a primary or secondary address or in a prefix. Other
//     packets are dropped.
//   - An interface with the source/destination check sends only from its addresses and prefixes. Without the check it
//     sends from all addresses.
//   - The router of each subnet, the first address of its IPv4 range, and fe80:ec2::1 answer ARP and neighbour
//     solicitations, but no ping. So does the VPC for IPv6 addresses of interfaces in the same subnet; for those in an
//     IPv6 prefix it does not, and hosts send through the router.
//   - A change of EC2's model takes effect within milliseconds. Moving an address to another interface changes one
//     route.
//
// # What it does not
//
// Security groups, route tables, other VPCs, the internet, instance metadata, DHCP and router advertisements and the
// delay of EC2's network are not modelled. The fabric does not compare MAC addresses: EC2 drops packets of macvlan
// links, and the fabric delivers them.
//
// # What it needs
//
// Linux, root (CAP_SYS_ADMIN and CAP_NET_ADMIN) and a kernel with veth. [Possible] returns why it does not work.
// Closing it leaves nothing behind: the namespaces of VPCs have no name, and links end with them.
package fabric
