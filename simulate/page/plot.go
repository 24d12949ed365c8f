package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"troupe/simulate"
)

// Sizes of plots, in pixels.
const (
	plotWidth, plotHeight = 560.0, 170.0
	left, right           = 56.0, 14.0
	top, bottom           = 10.0, 36.0
)

// line is the values of a model over time, or for each alternative. A nil value is a gap.
type line struct {
	model  string
	values []*float64
}

// column returns the plots over time of an alternative. All columns have the same axes of values.
func (p *page) column(i int) column {
	s := p.all[i].Runs[0].Series
	c := column{Heading: p.labels[i]}
	if len(p.all[i].Set) > 0 {
		c.Heading = p.all[i].Name
	}
	if len(p.all) == 1 {
		c.Heading = fmt.Sprintf("Over time: seed %d", p.all[i].Runs[0].Seed)
	}
	for _, n := range panels {
		if !p.has(n) {
			continue
		}
		c.Plots = append(c.Plots, figurePlot{n.heading, p.overTime(n, s)})
	}
	c.Plots = append(c.Plots, p.devices(i), p.deviceHours(i))
	return c
}

// has reports whether an alternative has values of a panel.
func (p *page) has(n panel) bool {
	for _, a := range p.all {
		if s := a.Runs[0].Series; s != nil && slices.ContainsFunc(s.Models, func(m simulate.ModelSeries) bool {
			return n.of(s, m) != nil
		}) {
			return true
		}
	}
	return false
}

// largest returns the largest value of a panel in all alternatives.
func (p *page) largest(n panel) (most float64) {
	for _, a := range p.all {
		if a.Runs[0].Series == nil {
			continue
		}
		for _, m := range a.Runs[0].Series.Models {
			for _, v := range n.of(a.Runs[0].Series, m) {
				if v != nil {
					most = max(most, *v)
				}
			}
		}
	}
	return most
}

// longest returns the length of the longest run.
func (p *page) longest() (length float64) {
	for _, a := range p.all {
		length = max(length, a.Runs[0].Seconds)
	}
	return length
}

// overTime draws a panel.
func (p *page) overTime(n panel, s *simulate.Series) template.HTML {
	most := n.most
	if most == 0 {
		most = p.largest(n)
	}
	marks := n.unit.ticks(most, 4)
	x := scale{p.longest(), plotWidth - left - right}
	y := scale{marks[len(marks)-1], plotHeight - top - bottom}
	d := &drawing{}
	d.begin(plotHeight, n.heading)
	d.valueAxis(marks, y, n.unit)
	d.timeAxis(x, plotHeight-bottom)
	titles := make([][]string, len(s.Models[0].Arrivals))
	for _, m := range s.Models {
		values := n.of(s, m)
		d.steps(line{m.Model, values}, p.class(m.Model), s, x, y)
		for i, v := range values {
			text := "none"
			if v != nil {
				text = n.unit.written(*v)
			}
			titles[i] = append(titles[i], m.Model+": "+text)
		}
	}
	for i, lines := range titles {
		from, to := bucket(s, i)
		d.put(`<rect class="hover" x="%s" y="%s" width="%s" height="%s"><title>%s to %s&#10;%s</title></rect>`,
			num(left+x.at(from)), num(top), num(x.at(to-from)), num(y.size), duration(from), duration(to),
			strings.Join(escaped(lines), "&#10;"))
	}
	return d.end()
}

func escaped(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = template.HTMLEscapeString(s)
	}
	return out
}

// begin begins a plot.
func (d *drawing) begin(height float64, heading string) {
	d.put(`<svg viewBox="0 0 %s %s" role="img" aria-label="%s">`, num(plotWidth), num(height),
		template.HTMLEscapeString(heading))
}

func (d *drawing) end() template.HTML {
	d.put("</svg>")
	return template.HTML(d.String()) //nolint:gosec // names are escaped
}

// valueAxis draws the axis of values, with a line for each tick.
func (d *drawing) valueAxis(marks []float64, y scale, u unit) {
	for i, v := range marks {
		at := top + y.size - y.at(v)
		text := u.text(v)
		if i == len(marks)-1 {
			text = u.written(v) // the highest one has the unit
		}
		d.put(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(left), num(plotWidth-right), num(at), num(at))
		d.put(`<text class="end" x="%s" y="%s">%s</text>`, num(left-6), num(at+4), text)
	}
}

// timeAxis draws the axis of time.
func (d *drawing) timeAxis(x scale, y float64) {
	for _, t := range timeTicks(x.max, 8) {
		at := left + x.at(t)
		d.put(`<line class="tick" x1="%s" x2="%s" y1="%s" y2="%s"/>`, num(at), num(at), num(y), num(y+4))
		d.put(`<text class="middle" x="%s" y="%s">%s</text>`, num(at), num(y+16), duration(t))
	}
	d.put(`<text class="middle label" x="%s" y="%s">virtual time</text>`, num(left+x.size/2), num(y+31))
}

// steps draws the values of buckets as steps. A value that is not known is a gap.
func (d *drawing) steps(l line, class string, s *simulate.Series, x, y scale) {
	var path strings.Builder
	gap := true
	for i, v := range l.values {
		if v == nil {
			gap = true
			continue
		}
		from, to := bucket(s, i)
		command := "L"
		if gap {
			command = "M"
		}
		at := num(top + y.size - y.at(min(*v, y.max)))
		fmt.Fprintf(&path, "%s%s %sH%s", command, num(left+x.at(from)), at,
			num(left+x.at(to)))
		gap = false
	}
	if path.Len() > 0 {
		d.put(`<path class="line %s" d="%s"/>`, class, path.String())
	}
}
