// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet_test

import (
	"fmt"

	"github.com/multieni/multieni/internal/core/eni"
	"github.com/multieni/multieni/internal/core/hostnet"
	"github.com/multieni/multieni/internal/core/hostnet/hostnettest"
)

// The kernel shows a link that was just attached. A second run after the operations on the kernel of a test finds
// nothing to do.
func Example() {
	kernel := hostnettest.New(hostnet.Facts{PrimaryLink: 2, Links: []hostnet.LinkFacts{
		{Index: 2, Name: "ens5", MAC: "02:00:00:00:00:01", Device: "0000:00:05.0", Up: true, Carrier: true, MTU: 9001},
		{Index: 3, Name: "ens6", MAC: "02:00:00:00:00:0a", Device: "0000:00:06.0", Carrier: true, MTU: 1500, MaxMTU: 9216},
	}})
	links := []hostnet.Link{{Name: "storage", MAC: "02:00:00:00:00:0a", Slot: eni.Slot{Device: 1}}}

	for _, operation := range hostnet.Diff(hostnet.Configure(links, kernel.Facts()), kernel.Facts()) {
		fmt.Println(operation)
		if err := kernel.Apply(operation); err != nil {
			fmt.Println(err)
		}
	}
	facts := kernel.Facts()
	fmt.Println("left to do:", len(hostnet.Diff(hostnet.Configure(links, facts), facts)))
	fmt.Println(hostnet.Observe(links, facts)[0].State)
	// Output:
	// link 3: set alias "multieni name=net-storage up=0 mtu=1500"
	// link 3: add altname net-storage
	// link 3: set MTU to 9001
	// link 3: set up
	// left to do: 0
	// Ready
}
