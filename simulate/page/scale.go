package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// scale maps values to a length on the page.
type scale struct {
	max  float64 // the value at the end; it begins at 0
	size float64
}

func (s scale) at(v float64) float64 { return v / s.max * s.size }

// unit is how the values of an axis are written.
type unit struct {
	name  string
	text  func(float64) string
	whole bool // ticks are whole numbers
}

var (
	shares    = unit{"%", func(v float64) string { return digits(100 * v) }, false}
	plain     = unit{"", digits, false}
	whole     = unit{"", digits, true}
	perSecond = unit{"1/s", digits, false}
	hours     = unit{"h", digits, false}
	seconds   = unit{"s", digits, false}
)

// digits formats a number with at most four digits, or more if it is large.
func digits(v float64) string {
	if v >= 1000 {
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 4, 64), 64)
	return strconv.FormatFloat(v, 'f', -1, 64)
}

// written returns a value with its unit.
func (u unit) written(v float64) string { return strings.TrimSpace(u.text(v) + " " + u.name) }

// ticks returns the ticks of an axis with the unit.
func (u unit) ticks(largest float64, n int) []float64 {
	values := ticks(largest, n)
	if !u.whole {
		return values
	}
	step := math.Ceil(values[1])
	values = []float64{0, step}
	for values[len(values)-1] < largest {
		values = append(values, values[len(values)-1]+step)
	}
	return values
}

// ticks returns about n round values from 0 to at least the largest value, of which the last is the end of
// the axis.
func ticks(largest float64, n int) (values []float64) {
	if !(largest > 0) {
		largest = 1
	}
	step := math.Pow(10, math.Floor(math.Log10(largest/float64(n))))
	for _, factor := range []float64{1, 2, 2.5, 5, 10} {
		if factor*step*float64(n) >= largest*(1-1e-9) {
			step *= factor
			break
		}
	}
	for i := 0; ; i++ {
		v := float64(i) * step
		values = append(values, v)
		if v >= largest*(1-1e-9) {
			return values
		}
	}
}

// timeSteps are the distances between ticks of an axis of time, in seconds.
var timeSteps = []float64{0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600,
	43200, 86400}

// timeTicks returns at most n+1 times from 0 to a length.
func timeTicks(length float64, n int) (values []float64) {
	step := timeSteps[len(timeSteps)-1]
	for _, s := range timeSteps {
		if length/s <= float64(n) {
			step = s
			break
		}
	}
	for step*float64(n) < length {
		step *= 2
	}
	for v := 0.0; v <= length*(1+1e-9); v += step {
		values = append(values, v)
	}
	return values
}

// duration formats seconds: "1h30m", "10s".
func duration(s float64) string {
	d := time.Duration(s * 1e9)
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	default:
		d = d.Round(10 * time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// drawing collects SVG.
type drawing struct{ strings.Builder }

// put adds formatted SVG. Texts that come from a scenario must be escaped.
func (d *drawing) put(format string, args ...any) { fmt.Fprintf(d, format, args...) }

// num formats a coordinate.
func num(v float64) string {
	return strconv.FormatFloat(math.Round(10*v)/10, 'f', -1, 64)
}
