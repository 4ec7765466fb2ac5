// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"fmt"
	"time"

	"github.com/multieni/multieni/internal/core/identity"
)

// An interface carries its identity in its tags. Every attempt to create one generation has the same client token, so
// that EC2 creates only one interface even if a controller crashes repeatedly.
func Example() {
	m := identity.Member{
		Cluster: "prod", NodeENI: "storage", Node: "node-1", InstanceID: "i-0123456789abcdef0",
		Key: identity.Key{Owner: "0bf0a4c2", Ordinal: 1}, Generation: 1700000000,
	}
	tags := m.Tags(time.Unix(1700000000, 0), map[string]string{"team": "network"})
	fmt.Println(tags["team"], tags[identity.TagName], tags[identity.TagMember])

	read, verdict := identity.Read("prod", tags)
	fmt.Println("ours:", verdict == identity.Owned, "the same member:", read == m, "the same token:", read.Token() == m.Token())

	_, verdict = identity.Read("another cluster", tags)
	fmt.Println("foreign to another cluster:", verdict == identity.Foreign)

	m.Generation++
	fmt.Println("a new generation has the same token:", read.Token() == m.Token())
	// Output:
	// network storage/node-1 1
	// ours: true the same member: true the same token: true
	// foreign to another cluster: true
	// a new generation has the same token: false
}
