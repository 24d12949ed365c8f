package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"troupe/simulate"
)

// deviceHours draws the device-hours of each model, and how much of them its steps ran.
func (p *page) deviceHours(i int) figurePlot {
	run := p.all[i].Runs[0]
	most := 0.0
	for _, a := range p.all {
		for _, m := range a.Runs[0].Models {
			most = max(most, m.DeviceHours)
		}
	}
	marks := ticks(most, 5)
	x := scale{marks[len(marks)-1], plotWidth - nameWidth - right}
	const height = 20.0
	d := &drawing{}
	d.begin(top+float64(len(run.Models))*(height+rowGap)+bottom, "Device-hours")
	end := top + float64(len(run.Models))*(height+rowGap)
	for j, v := range marks {
		text, class := hours.text(v), "middle"
		if j == len(marks)-1 {
			text, class = hours.written(v), "end"
		}
		at := num(nameWidth + x.at(v))
		d.put(`<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, at, at, num(top), num(end))
		d.put(`<text class="%s" x="%s" y="%s">%s</text>`, class, at, num(end+14), text)
	}
	d.put(`<text class="middle label" x="%s" y="%s">device-hours</text>`, num(nameWidth+x.size/2), num(end+30))
	for j, m := range run.Models {
		y := top + float64(j)*(height+rowGap)
		title := fmt.Sprintf("%s: %s device-hours, steps ran in %s of them", m.Model, plain.text(m.DeviceHours),
			shares.written(m.Busy))
		d.put(`<text class="end" x="%s" y="%s">%s</text>`, num(nameWidth-6), num(y+14),
			template.HTMLEscapeString(shortened(m.Model, 12)))
		d.put(`<g class="%s"><title>%s</title><rect class="idle" x="%s" y="%s" width="%s" height="%s"/>`+
			`<rect class="bar %s" x="%s" y="%s" width="%s" height="%s"/></g>`, p.class(m.Model),
			template.HTMLEscapeString(title), num(nameWidth), num(y), num(x.at(m.DeviceHours)), num(height),
			p.class(m.Model), num(nameWidth), num(y), num(x.at(m.DeviceHours*m.Busy)), num(height))
	}
	return figurePlot{"Device-hours: filled where steps ran", d.end()}
}

// overviewFigures are the figures in which alternatives are compared, with the unit of each.
var overviewFigures = []struct {
	key, heading string
	unit         unit
}{
	{"slo_attainment", "SLO attainment", shares}, {"goodput", "Goodput: requests within the SLO", perSecond},
	{"ttft_p99_seconds", "TTFT P99", seconds}, {"tpot_p99_seconds", "TPOT P99", seconds},
	{"device_hours", "Device-hours", hours}, {"busy", "Share of the device-hours in which steps ran", shares},
	{"switches", "Switches", plain}, {"kv_hits", "KV hits: share of the tokens of prompts", shares},
}

// overview draws the figures of all alternatives beside one another. Figures that none has are left out.
func (p *page) overview() (plots []figurePlot) {
	for _, f := range overviewFigures {
		var rows []string
		most := 0.0
		for _, model := range append(slices.Clone(p.models), simulate.AllModels) {
			has := false
			for _, a := range p.all {
				if s, _, ok := a.Figure(f.key, model); ok {
					has, most = true, max(most, s.High)
				}
			}
			if has && (model != simulate.AllModels || len(p.models) > 1) {
				rows = append(rows, model)
			}
		}
		if len(rows) > 0 {
			plots = append(plots, figurePlot{f.heading, p.beside(f.key, f.heading, f.unit, rows, most)})
		}
	}
	return plots
}

// beside draws a figure of all alternatives: for each model the mean as a point, and the lowest and highest
// of the seeds as a line through it.
func (p *page) beside(key, heading string, u unit, rows []string, most float64) template.HTML {
	if u.name == "%" {
		most = 1
	}
	marks := u.ticks(most, 4)
	y := scale{marks[len(marks)-1], plotHeight - top - bottom}
	slot := (plotWidth - left - right) / float64(len(p.all))
	d := &drawing{}
	d.begin(plotHeight, heading)
	d.valueAxis(marks, y, u)
	every := 1 + (len(p.all)-1)/16 // labels have room for few
	for i := range p.all {
		if i%every == 0 {
			d.put(`<text class="middle" x="%s" y="%s"><title>%s</title>%s</text>`, num(left+slot*(float64(i)+0.5)),
				num(plotHeight-bottom+16), template.HTMLEscapeString(p.labels[i]),
				template.HTMLEscapeString(shortened(p.tick(i), max(3, int(slot*float64(every)/7)))))
		}
	}
	d.put(`<text class="middle label" x="%s" y="%s">%s</text>`, num(left+(plotWidth-left-right)/2),
		num(plotHeight-bottom+31), template.HTMLEscapeString(p.axis()))
	for j, model := range rows {
		offset := (float64(j+1)/float64(len(rows)+1) - 0.5) * min(slot, 60) * 0.8
		var path strings.Builder
		for i, a := range p.all {
			s, text, ok := a.Figure(key, model)
			if !ok {
				continue
			}
			x := left + slot*(float64(i)+0.5) + offset
			at := func(v float64) string { return num(top + y.size - y.at(v)) }
			fmt.Fprintf(&path, "%s%s %s", map[bool]string{true: "M", false: "L"}[path.Len() == 0], num(x), at(s.Mean))
			d.put(`<g class="%s"><title>%s&#10;%s: %s</title><line class="range" x1="%s" x2="%s" y1="%s" y2="%s"/>`+
				`<circle cx="%s" cy="%s" r="4"/></g>`, "point "+p.class(model), template.HTMLEscapeString(p.labels[i]),
				template.HTMLEscapeString(model), text, num(x), num(x), at(s.Low), at(s.High), num(x), at(s.Mean))
		}
		if len(p.all[0].Set) == 1 {
			d.put(`<path class="line thin %s" d="%s"/>`, p.class(model), path.String())
		}
	}
	return d.end()
}

// tick returns the label of an alternative at an axis.
func (p *page) tick(i int) string {
	if len(p.all[i].Set) > 0 {
		return p.labels[i]
	}
	return simulate.Letter(i)
}

// axis returns the label of the axis of alternatives.
func (p *page) axis() string {
	var keys []string
	for _, s := range p.all[0].Set {
		keys = append(keys, s.Key)
	}
	if len(keys) == 0 {
		return "scenario"
	}
	return strings.Join(keys, " / ")
}
