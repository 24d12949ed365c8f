package page

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"troupe/simulate"
)

// mostDevices is the largest number of devices that are drawn.
const mostDevices = 64

// Sizes of a device's row: a bar for each replica that is there at the same time, and the steps below.
const (
	barHeight, stepsHeight, rowGap = 6.0, 20.0, 8.0
	nameWidth                      = 84.0
)

// devices draws which model ran where.
func (p *page) devices(i int) figurePlot {
	s := p.all[i].Runs[0].Series
	heading := "Devices: replicas, and below them how much of the time steps ran"
	shown := s.Devices[:min(len(s.Devices), mostDevices)]
	if len(shown) < len(s.Devices) {
		heading += fmt.Sprintf("; the first %d of %d devices", len(shown), len(s.Devices))
	}
	x := scale{p.longest(), plotWidth - nameWidth - right}
	d, body := &drawing{}, &drawing{}
	y := top
	for _, device := range shown {
		lanes, count := lanesOf(device.Intervals)
		height := float64(max(1, count))*barHeight + stepsHeight
		body.put(`<text class="end" x="%s" y="%s">%s</text>`, num(nameWidth-6), num(y+height-6),
			template.HTMLEscapeString(shortened(device.Device, 12)))
		body.put(`<rect class="row" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, num(nameWidth),
			num(y), num(x.at(s.Seconds)), num(height), template.HTMLEscapeString(device.Device))
		p.areas(body, device, s, x, y+height)
		for j, at := range device.Intervals {
			p.bar(body, device, at, x, y+float64(lanes[j])*barHeight)
		}
		y += height + rowGap
	}
	d.begin(y+bottom-rowGap, "Devices over time")
	d.WriteString(body.String())
	moved := &drawing{}
	moved.timeAxis(x, y-rowGap+2)
	d.put(`<g transform="translate(%s 0)">%s</g>`, num(nameWidth-left), moved.String())
	return figurePlot{heading, d.end()}
}

// bar draws an interval of a replica.
func (p *page) bar(d *drawing, device simulate.DeviceSeries, i simulate.Interval, x scale, y float64) {
	class := p.class(i.Model)
	if i.State != "serving" {
		class += " other"
	}
	title := fmt.Sprintf("%s on %s: %s, %s to %s", i.Replica, device.Device, i.State, duration(i.From), duration(i.To))
	d.put(`<rect class="bar %s" x="%s" y="%s" width="%s" height="%s"><title>%s</title></rect>`, class,
		num(nameWidth+x.at(i.From)), num(y+0.5), num(max(0.5, x.at(i.To-i.From))), num(barHeight-1),
		template.HTMLEscapeString(title))
}

// areas draws how much of the time steps of each model ran, one area above the other.
func (p *page) areas(d *drawing, device simulate.DeviceSeries, s *simulate.Series, x scale, base float64) {
	below := make([]float64, len(s.Models[0].Arrivals))
	for _, busy := range device.Busy {
		var over, back strings.Builder
		mean := 0.0
		for i, share := range busy.Share {
			from, to := bucket(s, i)
			mean += share * (to - from) / s.Seconds
			command := "L"
			if i == 0 {
				command = "M"
			}
			a, b := num(nameWidth+x.at(from)), num(nameWidth+x.at(to))
			fmt.Fprintf(&over, "%s%s %sH%s", command, a, num(base-stepsHeight*min(1, below[i]+share)), b)
			j := len(busy.Share) - 1 - i
			from, to = bucket(s, j)
			a, b = num(nameWidth+x.at(from)), num(nameWidth+x.at(to))
			fmt.Fprintf(&back, "L%s %sH%s", b, num(base-stepsHeight*min(1, below[j])), a)
		}
		for i, share := range busy.Share {
			below[i] += share
		}
		title := fmt.Sprintf("%s on %s: steps ran %s of the time", busy.Model, device.Device, shares.written(mean))
		d.put(`<path class="area %s" d="%s%sZ"><title>%s</title></path>`, p.class(busy.Model), over.String(),
			back.String(), template.HTMLEscapeString(title))
	}
}

// lanesOf gives intervals that are there at the same time different lanes, and a replica always the same
// one. It returns the lane of each, and their number.
func lanesOf(intervals []simulate.Interval) (lanes []int, count int) {
	type span struct {
		replica  string
		from, to float64
		lane     int
	}
	var spans []span
	for _, i := range intervals {
		at := slices.IndexFunc(spans, func(s span) bool { return s.replica == i.Replica })
		if at < 0 {
			at = len(spans)
			spans = append(spans, span{replica: i.Replica, from: i.From})
		}
		spans[at].from, spans[at].to = min(spans[at].from, i.From), max(spans[at].to, i.To)
	}
	slices.SortStableFunc(spans, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	var free []float64 // when each lane is free
	for i := range spans {
		lane := slices.IndexFunc(free, func(at float64) bool { return at <= spans[i].from })
		if lane < 0 {
			lane = len(free)
			free = append(free, 0)
		}
		spans[i].lane, free[lane] = lane, spans[i].to
	}
	for _, i := range intervals {
		at := slices.IndexFunc(spans, func(s span) bool { return s.replica == i.Replica })
		lanes = append(lanes, spans[at].lane)
	}
	return lanes, len(free)
}

// shortened cuts a name in its middle.
func shortened(name string, most int) string {
	letters := []rune(name)
	if len(letters) <= most {
		return name
	}
	half := (most - 1) / 2
	return string(letters[:half]) + "…" + string(letters[len(letters)-half:])
}
