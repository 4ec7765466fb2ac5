// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ec2

import (
	"net/netip"
	"slices"
	"strings"
)

// RouteInput is the request of CreateRoute and ReplaceRoute.
type RouteInput struct {
	RouteKey
	GatewayID          string `query:"GatewayId"`
	NetworkInterfaceID string `query:"NetworkInterfaceId"`
}

// RouteKey names a route, and is the request of DeleteRoute.
type RouteKey struct {
	RouteTableID             string `query:"RouteTableId"`
	DestinationCIDRBlock     string `query:"DestinationCidrBlock"`
	DestinationIPv6CIDRBlock string `query:"DestinationIpv6CidrBlock"`
	DryRun                   bool   `query:"DryRun"`
}

// CreateRoute adds a route to a route table.
func (m *Model) CreateRoute(c Call, in *RouteInput) (*Return, error) {
	m.Advance(c.Now)
	table, at, err := m.route(in.RouteKey)
	if err != nil {
		return nil, err
	}
	if at >= 0 {
		return nil, refuse("RouteAlreadyExists", "The route identified by %s already exists.",
			table.Routes[at].destination())
	}
	return m.setRoute(table, in, func(routes []Route, r Route) []Route { return append(routes, r) })
}

// ReplaceRoute changes the target of a route.
func (m *Model) ReplaceRoute(c Call, in *RouteInput) (*Return, error) {
	m.Advance(c.Now)
	table, at, err := m.existingRoute(in.RouteKey)
	if err != nil {
		return nil, err
	}
	return m.setRoute(table, in, func(routes []Route, r Route) []Route {
		routes[at] = r
		return routes
	})
}

// DeleteRoute removes a route from a route table.
func (m *Model) DeleteRoute(c Call, in *RouteKey) (*Return, error) {
	m.Advance(c.Now)
	table, at, err := m.existingRoute(*in)
	switch {
	case err != nil:
		return nil, err
	case table.Routes[at].GatewayID == gatewayLocal:
		return nil, invalidValue("cannot remove local route %s in route table %s", table.Routes[at].destination(),
			in.RouteTableID)
	case in.DryRun:
		return nil, dryRun()
	}
	m.putRoutes(table, slices.Delete(slices.Clone(table.Routes), at, at+1))
	return &Return{true}, nil
}

// route returns a table and the place of a route in it; -1 without one.
func (m *Model) route(key RouteKey) (*RouteTable, int, error) {
	table, err := m.routeTableOf(key.RouteTableID)
	if err != nil {
		return nil, 0, err
	}
	destination, err := key.destination()
	if err != nil {
		return nil, 0, err
	}
	return table, slices.IndexFunc(table.Routes, func(r Route) bool { return r.destination() == destination }), nil
}

func (m *Model) existingRoute(key RouteKey) (*RouteTable, int, error) {
	table, at, err := m.route(key)
	if err == nil && at < 0 {
		err = refuse("InvalidRoute.NotFound", "no route with destination-cidr-block %s in route table %s",
			key.DestinationCIDRBlock+key.DestinationIPv6CIDRBlock, key.RouteTableID)
	}
	return table, at, err
}

func (k RouteKey) destination() (netip.Prefix, error) {
	switch {
	case k.DestinationCIDRBlock != "" && k.DestinationIPv6CIDRBlock != "":
		return netip.Prefix{}, invalidCombination("A route has one destination")
	case k.DestinationCIDRBlock != "":
		return readRange("destinationCidrBlock", k.DestinationCIDRBlock)
	default:
		return readRange("destinationIpv6CidrBlock", k.DestinationIPv6CIDRBlock)
	}
}

// setRoute puts a route with the target of the request into a table.
func (m *Model) setRoute(table *RouteTable, in *RouteInput, set func([]Route, Route) []Route) (*Return, error) {
	destination, err := in.destination()
	if err != nil {
		return nil, err
	}
	route, err := m.target(table, in)
	if err != nil {
		return nil, err
	}
	if in.DryRun {
		return nil, dryRun()
	}
	if destination.Addr().Is4() {
		route.DestinationCIDRBlock = destination
	} else {
		route.DestinationIPv6CIDRBlock = destination
	}
	m.putRoutes(table, set(slices.Clone(table.Routes), route))
	return &Return{true}, nil
}

func (m *Model) putRoutes(table *RouteTable, routes []Route) {
	changed := *table
	changed.Routes = routes
	put(m, m.routeTables, table.RouteTableID, &changed)
}

// target returns a route without a destination.
func (m *Model) target(table *RouteTable, in *RouteInput) (Route, error) {
	route := Route{State: routeActive, Origin: originCreateRoute}
	switch {
	case in.GatewayID != "" && in.NetworkInterfaceID != "":
		return route, invalidCombination("A route has one target")
	case strings.HasPrefix(in.GatewayID, "igw-"):
		gateway := m.internetGateways.get(in.GatewayID)
		if gateway == nil {
			return route, refuse("InvalidGatewayID.NotFound", "The gateway ID '%s' does not exist", in.GatewayID)
		}
		if !gateway.isAttachedTo(table.VPCID) {
			return route, invalidValue("route table %s and network gateway %s belong to different networks",
				table.RouteTableID, in.GatewayID)
		}
		route.GatewayID = in.GatewayID
	case in.GatewayID == gatewayLocal:
		route.GatewayID = gatewayLocal
	case in.GatewayID != "":
		return route, notModelled("routes to the gateway " + in.GatewayID)
	case in.NetworkInterfaceID != "":
		eni, err := m.interfaceOf(in.NetworkInterfaceID)
		if err != nil {
			return route, err
		}
		if eni.VPCID != table.VPCID {
			return route, foreignTable(table.RouteTableID, "interface "+in.NetworkInterfaceID)
		}
		route.NetworkInterfaceID = in.NetworkInterfaceID
	default:
		return route, missing("gatewayId or networkInterfaceId")
	}
	return route, nil
}

// presentRoutes sets the members of routes that depend on their targets: the instance of an interface, and whether the
// target still exists.
func (m *Model) presentRoutes(table *RouteTable, _ look) *RouteTable {
	complete := *table
	complete.Routes = slices.Clone(table.Routes)
	for i := range complete.Routes {
		r := &complete.Routes[i]
		switch {
		case r.NetworkInterfaceID != "":
			r.State = routeBlackhole
			if eni := m.interfaces.get(r.NetworkInterfaceID); eni != nil && eni.Attachment != nil {
				r.State, r.InstanceID, r.InstanceOwnerID = routeActive, eni.Attachment.InstanceID, eni.Attachment.InstanceOwnerID
			}
		case r.GatewayID != gatewayLocal:
			if gateway := m.internetGateways.get(r.GatewayID); gateway == nil || !gateway.isAttachedTo(table.VPCID) {
				r.State = routeBlackhole
			}
		}
	}
	return &complete
}
