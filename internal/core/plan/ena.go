// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"github.com/multieni/multieni/internal/core/eni"
)

// ENA settings are the timeouts of connection tracking and ENA Express. A NodeENI without them leaves those of its
// interfaces as they are. EC2 cannot remove a setting, so the planner writes the default of the instance type once
// after the NodeENI no longer declares a setting that multieni has made.

// TrackingField and ExpressField are the fields of a NodeENI for ENA settings.
const (
	TrackingField = "connectionTracking"
	ExpressField  = "enaExpress"
)

// ENA is the record of the ENA settings of one interface.
type ENA struct {
	// ConnectionTracking and ENAExpress are declared settings that the interface has, or has had.
	ConnectionTracking eni.ConnectionTracking
	// TrackAsPrimary is set if the timeouts are those of the primary interface.
	TrackAsPrimary bool
	ENAExpress     eni.ENAExpress
	// Unsupported are the declared fields that the instance type does not support.
	Unsupported []string
}

// ConnectionTracking sets timeouts of connection tracking, and leaves the others.
type ConnectionTracking struct{ To eni.ConnectionTracking }

// Apply implements [Attribute].
func (c ConnectionTracking) Apply(i eni.Interface) eni.Interface {
	i.ConnectionTracking = c.To.Or(i.ConnectionTracking)
	return i
}

// IsSatisfiedBy implements [Attribute].
func (c ConnectionTracking) IsSatisfiedBy(i eni.Interface) bool {
	return c.To.Differing(i.ConnectionTracking, eni.ConnectionTracking{}).IsZero()
}

func (c ConnectionTracking) String() string { return "connection tracking " + c.To.String() }

// ENAExpress sets ENA Express of an attachment.
type ENAExpress struct {
	AttachmentID string
	Setting      eni.ENAExpress
}

// Apply implements [Attribute].
func (e ENAExpress) Apply(i eni.Interface) eni.Interface {
	if i.Attachment != nil && i.Attachment.ID == e.AttachmentID {
		a := *i.Attachment
		a.ENAExpress = e.Setting
		i.Attachment = &a
	}
	return i
}

// IsSatisfiedBy implements [Attribute]. Without the attachment there is nothing to satisfy.
func (e ENAExpress) IsSatisfiedBy(i eni.Interface) bool {
	a := i.Attachment
	return a == nil || a.ID != e.AttachmentID || a.ENAExpress == e.Setting ||
		!a.ENAExpress.IsOn() && !e.Setting.IsOn()
}

func (e ENAExpress) String() string { return "ENA Express " + string(e.Setting) }
