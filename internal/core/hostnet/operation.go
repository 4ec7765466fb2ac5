// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package hostnet

import (
	"fmt"
	"net/netip"
)

// Operation is one change of the kernel's state. The set of operations is closed.
type Operation interface {
	// LinkIndex returns the index of the link that is changed, or 0 for a rule.
	LinkIndex() int
	// String describes the operation in one line.
	String() string
	operation()
}

// The operations on a link. Each names it by its index, which the kernel does not use again.
type (
	// SetAlias replaces the alias; "" removes it.
	SetAlias struct {
		Link  int
		Alias string
	}
	// AddAltName adds an alternative name.
	AddAltName struct {
		Link int
		Name string
	}
	// RemoveAltName removes an alternative name.
	RemoveAltName struct {
		Link int
		Name string
	}
	// Set changes a setting.
	Set struct {
		Link    int
		Setting Setting
		Value   int
	}
	// SetMTU changes the largest packet, in bytes.
	SetMTU struct{ Link, MTU int }
	// SetUp brings the link up.
	SetUp struct{ Link int }
	// SetDown takes the link down, with its routes.
	SetDown struct{ Link int }
	// AddAddress adds an address, without a route to its subnet.
	AddAddress struct {
		Link    int
		Address netip.Prefix
	}
	// RemoveAddress removes an address.
	RemoveAddress struct {
		Link    int
		Address netip.Prefix
	}
)

// The operations on routes and rules.
type (
	// AddRoute adds a route.
	AddRoute struct{ Route Route }
	// RemoveRoute removes a route.
	RemoveRoute struct{ Route Route }
	// AddRule adds a rule.
	AddRule struct{ Rule Rule }
	// RemoveRule removes a rule.
	RemoveRule struct{ Rule Rule }
)

// LinkIndex implements [Operation].
func (o SetAlias) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o AddAltName) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o RemoveAltName) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o Set) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o SetMTU) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o SetUp) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o SetDown) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o AddAddress) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o RemoveAddress) LinkIndex() int { return o.Link }

// LinkIndex implements [Operation].
func (o AddRoute) LinkIndex() int { return o.Route.Link }

// LinkIndex implements [Operation].
func (o RemoveRoute) LinkIndex() int { return o.Route.Link }

// LinkIndex implements [Operation].
func (AddRule) LinkIndex() int { return 0 }

// LinkIndex implements [Operation].
func (RemoveRule) LinkIndex() int { return 0 }

func (SetAlias) operation()      {}
func (AddAltName) operation()    {}
func (RemoveAltName) operation() {}
func (Set) operation()           {}
func (SetMTU) operation()        {}
func (SetUp) operation()         {}
func (SetDown) operation()       {}
func (AddAddress) operation()    {}
func (RemoveAddress) operation() {}
func (AddRoute) operation()      {}
func (RemoveRoute) operation()   {}
func (AddRule) operation()       {}
func (RemoveRule) operation()    {}

func (o SetAlias) String() string   { return fmt.Sprintf("link %d: set alias %q", o.Link, o.Alias) }
func (o AddAltName) String() string { return fmt.Sprintf("link %d: add altname %s", o.Link, o.Name) }
func (o RemoveAltName) String() string {
	return fmt.Sprintf("link %d: remove altname %s", o.Link, o.Name)
}
func (o Set) String() string        { return fmt.Sprintf("link %d: set %s to %d", o.Link, o.Setting, o.Value) }
func (o SetMTU) String() string     { return fmt.Sprintf("link %d: set MTU to %d", o.Link, o.MTU) }
func (o SetUp) String() string      { return fmt.Sprintf("link %d: set up", o.Link) }
func (o SetDown) String() string    { return fmt.Sprintf("link %d: set down", o.Link) }
func (o AddAddress) String() string { return fmt.Sprintf("link %d: add address %s", o.Link, o.Address) }
func (o RemoveAddress) String() string {
	return fmt.Sprintf("link %d: remove address %s", o.Link, o.Address)
}
func (o AddRoute) String() string {
	return "add route " + o.Route.describe(fmt.Sprint(o.Route.Link))
}
func (o RemoveRoute) String() string {
	return "remove route " + o.Route.describe(fmt.Sprint(o.Route.Link))
}
func (o AddRule) String() string    { return "add rule " + o.Rule.String() }
func (o RemoveRule) String() string { return "remove rule " + o.Rule.String() }
