// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package scenario

import (
	"fmt"
	"math"
	"strconv"
	"time"
)

// Unit is the unit of a figure.
type Unit string

// The units of figures.
const (
	Seconds      Unit = "s"
	Milliseconds Unit = "ms"
	Part         Unit = "part" // of one
	Count        Unit = ""
	PerHour      Unit = "/h"
	MiB          Unit = "MiB"
	Millicores   Unit = "m"
)

// Bound is an upper bound of a figure, or with IsLeast a lower one. With OfLimit it is a multiple of the figure's
// limit.
type Bound struct {
	Value   float64 `json:"value"`
	OfLimit bool    `json:"ofLimit,omitempty"`
	IsLeast bool    `json:"isLeast,omitempty"`
}

// AtMost is an upper bound.
func AtMost(value float64) *Bound { return &Bound{Value: value} }

// AtLeast is a lower bound.
func AtLeast(value float64) *Bound { return &Bound{Value: value, IsLeast: true} }

// TimesLimit is an upper bound that is a multiple of the limit.
func TimesLimit(factor float64) *Bound { return &Bound{Value: factor, OfLimit: true} }

// Figure is one measured quantity with its limit and targets.
type Figure struct {
	// What is its name for people, Key that for programs.
	What string `json:"what"`
	Key  string `json:"key"`
	Unit Unit   `json:"unit"`
	// Measured is nil if it could not be measured.
	Measured *float64 `json:"measured"`
	// Limit is the best possible value, if there is one.
	Limit *float64 `json:"limit,omitempty"`
	// Target is our own target; beyond Fail a miss is a defect. Without a target the figure is only shown.
	Target *Bound `json:"target,omitempty"`
	Fail   *Bound `json:"fail,omitempty"`
	// Timed figures have their targets only with timed calls.
	Timed bool `json:"-"`
}

// Verdict is the judgement of a figure.
type Verdict string

// The verdicts, from the best to the worst.
const (
	Shown  Verdict = "–"
	Pass   Verdict = "pass"
	Miss   Verdict = "MISS"
	Failed Verdict = "FAIL"
)

// fair is the smallest limit, in seconds, with which a figure is compared. The constant costs at the beginning and at
// the end, for example the time that EC2 takes to attach the last interface, do not grow with the fleet, and would
// dominate a smaller figure.
const fair = 300

// isShort reports whether the figure's limit is too short a time for a comparison.
func (f Figure) isShort() bool {
	return f.Unit == Seconds && f.Target != nil && f.Target.OfLimit && f.Limit != nil && *f.Limit < fair
}

// Verdict judges the figure. A figure with a target that could not be measured has failed.
func (f Figure) Verdict() Verdict {
	switch {
	case f.Target == nil && f.Fail == nil, f.isShort() && f.Measured != nil:
		return Shown
	case f.Measured == nil || f.Fail != nil && !f.within(*f.Fail):
		return Failed
	case f.Target != nil && !f.within(*f.Target):
		return Miss
	default:
		return Pass
	}
}

// tolerance is the allowed error of a sum of floating point numbers.
const tolerance = 1e-9

func (f Figure) within(b Bound) bool {
	value := b.Value
	if b.OfLimit {
		if f.Limit == nil {
			return false
		}
		value *= *f.Limit
	}
	if b.IsLeast {
		return *f.Measured >= value-tolerance
	}
	return *f.Measured <= value+tolerance
}

// Ratio is the measured value as a multiple of the limit.
func (f Figure) Ratio() (ratio float64, ok bool) {
	if f.Limit == nil || *f.Limit == 0 || f.Measured == nil {
		return 0, false
	}
	return *f.Measured / *f.Limit, true
}

// Text formats a value of the figure for people.
func (f Figure) Text(value float64) string {
	switch f.Unit {
	case Seconds:
		return seconds(value)
	case Part:
		return strconv.FormatFloat(math.Round(value*10000)/100, 'f', -1, 64) + " %"
	case Count:
		return significant(value)
	default:
		return significant(value) + " " + string(f.Unit)
	}
}

func seconds(value float64) string {
	switch d := time.Duration(value * float64(time.Second)); {
	case d < 10*time.Second:
		return strconv.FormatFloat(value, 'f', 2, 64) + " s"
	default:
		return strconv.FormatFloat(value, 'f', 0, 64) + " s"
	}
}

// significant formats whole numbers exactly and others with three digits.
func significant(value float64) string {
	if value == math.Trunc(value) || math.Abs(value) >= 1000 {
		return strconv.FormatFloat(value, 'f', 0, 64)
	}
	return strconv.FormatFloat(value, 'g', 3, 64)
}

// Promise formats the target for people; it is "" if the figure is compared with none.
func (f Figure) Promise() string {
	switch t := f.Target; {
	case t == nil, f.isShort():
		return ""
	case t.OfLimit:
		return fmt.Sprintf("≤ %s x", strconv.FormatFloat(t.Value, 'f', 2, 64))
	case t.IsLeast:
		return "≥ " + f.Text(t.Value)
	default:
		return "≤ " + f.Text(t.Value)
	}
}
