// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package fabric_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/netip"

	"github.com/multieni/multieni/awssim"
	"github.com/multieni/multieni/awssim/fabric"
	"github.com/multieni/multieni/awssim/namespace"
)

// Two instances get a network, and one pings the other's primary interface. Then it pings an address that EC2 does not
// have.
func Example() {
	ctx := context.Background()
	sim, err := awssim.New(awssim.Options{World: awssim.ExampleWorld()})
	if err != nil {
		log.Fatal(err)
	}
	network, err := fabric.New(sim)
	if err != nil {
		log.Fatal(err) // not Linux, or not root
	}
	defer network.Close()

	var addresses []netip.Addr
	var nodes []*namespace.Namespace
	for _, instance := range sim.State().Instances[:2] {
		node, err := namespace.New()
		if err != nil {
			log.Fatal(err)
		}
		defer node.Close()
		if err := network.AddNode(fabric.Node{InstanceID: instance.InstanceID, Namespace: node.Path()}); err != nil {
			log.Fatal(err)
		}
		// The link of the primary interface exists. On EC2, DHCP configures it.
		for _, command := range []string{
			"address add " + instance.PrivateIPAddress.String() + "/20 dev eth0", "link set eth0 up", "route add default dev eth0",
		} {
			if _, err := node.IP(command); err != nil {
				log.Fatal(err)
			}
		}
		nodes, addresses = append(nodes, node), append(addresses, instance.PrivateIPAddress)
	}

	_, err = fabric.Ping(ctx, nodes[0].Path(), netip.Addr{}, addresses[1])
	fmt.Println("its address:", err == nil)
	_, err = fabric.Ping(ctx, nodes[0].Path(), netip.Addr{}, netip.MustParseAddr("10.0.90.90"))
	fmt.Println("an unknown address:", errors.Is(err, fabric.ErrNoReply))
}
