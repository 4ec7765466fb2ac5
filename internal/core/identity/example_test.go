// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// An interface carries its identity in its tags. The client token is the UID of its object, so that EC2 creates only one
// interface for it even if a controller crashes repeatedly.
func Example() {
	const instance = "i-0123456789abcdef0"
	i := identity.Interface{
		Cluster: "prod", UID: "0bf0a4c2", Name: identity.ObjectName("storage", instance, 1), NodeENI: "storage",
		Node: "node-1", InstanceID: instance, Ordinal: 1,
	}
	tags := i.Tags(time.Unix(1700000000, 0), map[string]string{"team": "network"})
	fmt.Println(tags["team"], tags[identity.TagName], tags[identity.TagInterface])

	read, verdict := identity.Read("prod", tags)
	fmt.Println("ours:", verdict == identity.Owned, "the same identity:", read == i, "the token:", read.Token())

	_, verdict = identity.Read("another cluster", tags)
	fmt.Println("foreign to another cluster:", verdict == identity.Foreign)
	// Output:
	// network storage/node-1 storage-i-0123456789abcdef0-1
	// ours: true the same identity: true the token: 0bf0a4c2
	// foreign to another cluster: true
}
