// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance_test

import (
	"context"
	"testing"
)

func remove(eni string) call {
	return func(ctx context.Context, ec *endpoint) error { return ec.deleteENI(ctx, eni) }
}

// inUse: EC2's documentation has the first code, EC2 returns the second.
const inUse = "InvalidNetworkInterface.InUse|InvalidParameterValue"

func TestDeleteNetworkInterface(t *testing.T) {
	ec := open(t)
	host := ec.instance(t)
	eni := *ec.eni(t).NetworkInterfaceId
	ec.attach(t, eni, *host.InstanceId, 0, 1)
	verify(t, ec, []check{
		{name: "an unknown interface", run: refused("InvalidNetworkInterfaceID.NotFound", remove(noENI))},
		{name: "an attached one", run: refused(inUse, remove(eni))},
		{name: "a primary one", run: refused(inUse, remove(*host.NetworkInterfaces[0].NetworkInterfaceId))},
		{name: "one that an AWS service manages", strict: true,
			run: refusedOnSimulator("OperationNotPermitted|"+inUse, remove(managedENI))},
		{name: "one that is available: once", run: func(t *testing.T, ec *endpoint) {
			eni := *ec.eni(t).NetworkInterfaceId
			ok(t, remove(eni)(t.Context(), ec))
			ec.awaitGone(t, eni)
			refused("InvalidNetworkInterfaceID.NotFound", remove(eni))(t, ec)
			ec.awaitFound(t, []string{}, filter("network-interface-id", eni))
		}},
	})
}
