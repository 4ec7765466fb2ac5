// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"

	"github.com/multieni/multieni/test/bench/scenario"
)

// The sizes of the picture in pixels: panels below each other, each with its plot inside margins.
const (
	pictureWidth = 880
	panelHeight  = 300
	header       = 64
	left         = 72
	right        = 150
	top          = 44
	bottom       = 44
)

//go:embed plot.svg.tmpl
var plotSource string

// panel is the curve of one scenario, ready to be drawn.
type panel struct {
	ID, Title    string
	Top          int
	X, Y, XE, YE float64 // edges of the plot: left, top, right, bottom
	XTicks       []mark
	YTicks       []mark
	Ready, Limit string // as points of a polyline
	Area         string // under the ready curve
	Label        []label
}

// mark is a tick of an axis.
type mark struct {
	At   float64
	Text string
}

// label is the name of a curve at its end.
type label struct {
	X, Y  float64
	Class string
	Text  string
	Sub   string
}

// Plot returns an SVG picture of ready nodes over time against EC2's limit, with a panel for each scenario with such a
// curve. It is "" if none has one.
func (r Report) Plot() (string, error) {
	var panels []panel
	for _, result := range r.Results {
		if len(result.Ready) > 1 && len(result.Limit) > 1 {
			panels = append(panels, result.panel(header+len(panels)*panelHeight))
		}
	}
	if len(panels) == 0 {
		return "", nil
	}
	drawing, err := template.New("plot").Parse(plotSource)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	err = drawing.Execute(&text, map[string]any{
		"Width": pictureWidth, "Height": header + len(panels)*panelHeight + 28, "Panels": panels, "Origin": r.origin(),
		"Foot": header + len(panels)*panelHeight + 12,
	})
	return text.String(), err
}

func (r Result) panel(at int) panel {
	lastReady, lastLimit := r.Ready[len(r.Ready)-1], r.Limit[len(r.Limit)-1]
	p := panel{ID: r.ID, Title: r.Title, Top: at, X: left, XE: pictureWidth - right, Y: float64(at + top),
		YE: float64(at + panelHeight - bottom)}
	longest, most := max(lastReady.Seconds, lastLimit.Seconds)*1.02, float64(r.Nodes)*1.04
	x := func(seconds float64) float64 { return round1(p.X + (p.XE-p.X)*seconds/longest) }
	y := func(nodes float64) float64 { return round1(p.YE - (p.YE-p.Y)*nodes/most) }
	for _, at := range ticks(longest/60, 7) {
		p.XTicks = append(p.XTicks, mark{x(at * 60), trim(at) + " min"})
	}
	for _, at := range ticks(float64(r.Nodes), 5) {
		p.YTicks = append(p.YTicks, mark{y(at), thousands(int(at))})
	}
	p.Ready, p.Limit = polyline(r.Ready, x, y), polyline(r.Limit, x, y)
	p.Area = fmt.Sprintf("%g,%g %s %g,%g", x(0), p.YE, p.Ready, x(lastReady.Seconds), p.YE)
	p.Label = r.labels(p, y)
	return p
}

// labels returns the names of the curves in the right margin, without overlaps.
func (r Result) labels(p panel, y func(float64) float64) []label {
	const apart = 40
	lastReady, lastLimit := r.Ready[len(r.Ready)-1], r.Limit[len(r.Limit)-1]
	edge := y(float64(r.Nodes))
	ours := label{X: p.XE + 10, Y: edge + 4 + apart, Class: "ready", Text: "measured", Sub: clock(lastReady.Seconds)}
	if ratio := lastReady.Seconds / lastLimit.Seconds; lastLimit.Seconds > 0 {
		ours.Sub += fmt.Sprintf(" (%.2f x)", ratio)
	}
	return []label{{X: p.XE + 10, Y: edge + 4, Class: "limit", Text: "EC2's limit", Sub: clock(lastLimit.Seconds)}, ours}
}

// clock writes a time as minutes and seconds.
func clock(seconds float64) string {
	whole := int(math.Round(seconds))
	return fmt.Sprintf("%d min %02d s", whole/60, whole%60)
}

func polyline(points []scenario.Point, x, y func(float64) float64) string {
	text := make([]string, len(points))
	for n, p := range points {
		text[n] = fmt.Sprintf("%g,%g", x(p.Seconds), y(float64(p.Nodes)))
	}
	return strings.Join(text, " ")
}

// ticks returns about that number of round values from 0 to at most the end.
func ticks(end float64, about int) []float64 {
	if end <= 0 {
		return []float64{0}
	}
	rough := end / float64(about)
	step := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5, 10} {
		if step*factor >= rough {
			step *= factor
			break
		}
	}
	var all []float64
	for n := 0; float64(n)*step <= end; n++ {
		all = append(all, float64(n)*step)
	}
	return all
}

func trim(value float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", value), ".0") }

func round1(value float64) float64 { return math.Round(value*10) / 10 }
