package bound

import (
	"fmt"
	"slices"
	"strings"
)

// Model is the demand for a model, and what its replicas serve.
type Model struct {
	Name     string
	Group    int       // devices of a replica
	Min, Max int       // replicas
	Rates    []float64 // requests per second by bucket
	Capacity []float64 // requests per second within the SLO of 1, 2 and so on replicas
	Shares   bool      // its replicas may share devices, if the mode allows it
	Batch    bool      // it may be served later, if the mode allows it
}

// Mode is what a schedule may do.
type Mode struct {
	Shared bool // several models use a device
	Later  bool // batch models are served within the day, and not at once
}

// String returns the words for the mode.
func (m Mode) String() string {
	words := [2]string{"whole devices", "batch at once"}
	if m.Shared {
		words[0] = "shared devices"
	}
	if m.Later {
		words[1] = "batch within the day"
	}
	return strings.Join(words[:], ", ")
}

// Day is a day of demand, and a pool.
type Day struct {
	Models  []Model
	Devices int
	Hours   float64 // of a bucket
	Mode    Mode
}

// need returns the least number of replicas for a rate. It returns more than there are devices if none is enough.
func (m Model) need(rate float64, devices int) int {
	if rate <= 0 {
		return m.Min
	}
	at := slices.IndexFunc(m.Capacity, func(c float64) bool { return c >= rate })
	if at < 0 {
		return devices + 1
	}
	return max(m.Min, at+1)
}

// best returns the highest rate for each replica.
func (m Model) best() (rate float64) {
	for i, c := range m.Capacity {
		rate = max(rate, c/float64(i+1))
	}
	return rate
}

// program returns the program for a multiple of the demand, in CPLEX LP format.
func (d Day) program(multiple float64) string {
	var p program
	for t := range d.Models[0].Rates {
		d.bucket(&p, t, multiple)
	}
	for i, m := range d.Models {
		if d.later(m) {
			d.serveLater(&p, i, multiple)
		}
	}
	return p.text()
}

func (d Day) later(m Model) bool  { return d.Mode.Later && m.Batch }
func (d Day) shares(m Model) bool { return d.Mode.Shared && m.Shares }

// bucket adds the devices of a bucket.
func (d Day) bucket(p *program, t int, multiple float64) {
	devices, shared, load := fmt.Sprintf("d_%d", t), fmt.Sprintf("x_%d", t), 0.0
	var used, work []string
	some := false
	for i, m := range d.Models {
		n := fmt.Sprintf("n_%d_%d", i, t)
		least := m.need(multiple*m.Rates[t], d.Devices)
		if d.later(m) {
			least = m.Min
		}
		if !d.shares(m) {
			used = append(used, fmt.Sprintf("- %d %s", m.Group, n))
			p.integer(n, least, m.Max)
			continue
		}
		some = some || least > 0
		if least > m.Max {
			p.integer(n, least, m.Max) // there is no solution
		}
		if d.later(m) {
			work = append(work, fmt.Sprintf("- %.12g s_%d_%d", 1/m.best(), i, t))
		} else {
			load += multiple * m.Rates[t] / m.best()
		}
	}
	if d.Mode.Shared {
		least := 0
		if some {
			least = 1
		}
		p.integer(shared, least, d.Devices)
		p.rows = append(p.rows, fmt.Sprintf("%s %s >= %.12g", shared, strings.Join(work, " "), load))
		used = append(used, "- 1 "+shared)
	}
	p.integer(devices, 0, d.Devices)
	p.rows = append(p.rows, fmt.Sprintf("%s %s >= 0", devices, strings.Join(used, " ")))
	p.costs = append(p.costs, fmt.Sprintf("%.12g %s", d.Hours, devices))
}

// serveLater adds the rows for a batch model, whose requests may be served later: the total served never exceeds
// the total arrived or the capacity of the replicas, and all are served by the end of the day.
func (d Day) serveLater(p *program, i int, multiple float64) {
	m := d.Models[i]
	arrived := 0.0
	var sum []string
	for t, rate := range m.Rates {
		arrived += multiple * rate
		served := fmt.Sprintf("s_%d_%d", i, t)
		sum = append(sum, served)
		sign := "<="
		if t == len(m.Rates)-1 {
			sign = ">="
		}
		p.rows = append(p.rows, fmt.Sprintf("%s %s %.12g", strings.Join(sum, " + "), sign, arrived))
		if d.shares(m) {
			p.rows = append(p.rows, fmt.Sprintf("%s <= %.12g", served, float64(m.Max)*m.best()))
		} else {
			p.rows = append(p.rows, fmt.Sprintf("%s - %.12g n_%d_%d <= 0", served, m.best(), i, t))
		}
	}
}

// program is the text of a program while it is written.
type program struct{ costs, rows, bounds, integers []string }

func (p *program) integer(name string, least, most int) {
	if least > most { // bounds may not contradict each other, but rows may
		p.rows = append(p.rows, fmt.Sprintf("%s >= %d", name, least))
		least = most
	}
	p.bounds = append(p.bounds, fmt.Sprintf("%d <= %s <= %d", least, name, most))
	p.integers = append(p.integers, name)
}

func (p *program) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Minimize\n hours: %s\nSubject To\n", strings.Join(p.costs, "\n + "))
	for i, row := range p.rows {
		fmt.Fprintf(&b, " r%d: %s\n", i, row)
	}
	fmt.Fprintf(&b, "Bounds\n %s\nGeneral\n %s\nEnd\n", strings.Join(p.bounds, "\n "),
		strings.Join(p.integers, "\n "))
	return b.String()
}
