package capacity

import (
	"math"
	"slices"
)

const hoursPerDay = 24

// Model is the use of devices by a model.
type Model struct {
	Name       string
	Bytes      Figure // of its weights
	MinDevices Figure // of one replica
	Devices    Figure // that it has
	Peak       Figure // greatest share of its devices that was busy
	Average    Figure // mean share
}

// Used returns the number of devices that a share of the model's devices is.
func (m Model) Used(share Figure) Figure {
	if m.Devices == Known(0) {
		return Known(0)
	}
	return compute(product, m.Devices, share)
}

// Use is what devices cost, and what of it is wasted.
type Use struct {
	Wasted     Figure // device-hours a day
	Cost       Figure // a day
	WastedCost Figure // a day
}

// Row is a model in a report.
type Row struct {
	Model
	Use
}

// Kind is a way to divide devices among models.
type Kind int

// The kinds of a pool.
const (
	Static   Kind = iota // devices are dedicated to a model
	Shared               // all models share devices; their greatest use together is known
	Together             // likewise, if the peaks of all models coincide
	Apart                // likewise, if they are as far apart as possible
	Present              // the devices that a cluster has
)

// String returns the name of the kind.
func (k Kind) String() string {
	return [...]string{"static", "shared", "shared, peaks coincide", "shared, peaks apart", "cluster"}[k]
}

// Pool is a number of devices for all models.
type Pool struct {
	Kind    Kind
	Devices Figure
	Average Figure // share of the devices that is busy
	Use
}

// Report has the use of devices by each model, and by pools for all of them.
type Report struct {
	Models []Row
	Pools  []Pool
}

// Input is what a report is computed from.
type Input struct {
	Models   []Model
	Together Figure // greatest number of devices that all models used at the same time
	Present  Figure // devices of the cluster; unknown if there is none
	Price    Figure // of a device-hour
}

// New computes a report. It has a pool of kind Present if their number is known, and one of kind Shared, or
// those of kind Together and Apart.
func New(in Input) Report {
	var r Report
	for _, m := range in.Models {
		r.Models = append(r.Models, Row{m, use(m.Devices, m.Average, in.Price)})
	}
	used := in.sum(func(m Model) Figure { return m.Used(m.Average).about("average of " + m.Name) })
	pool := func(kind Kind, devices Figure) {
		average := compute(func(v []float64) float64 {
			if v[0] == 0 {
				return 0
			}
			return v[1] / v[0]
		}, devices, used)
		r.Pools = append(r.Pools, Pool{kind, devices, average, use(devices, average, in.Price)})
	}
	pool(Static, in.sum(func(m Model) Figure { return m.Devices.about("devices of " + m.Name) }))
	if in.Present.known {
		pool(Present, in.Present)
	}
	peaks := in.figures(func(m Model) Figure { return m.Used(m.Peak).about("peak of " + m.Name) })
	if in.Together.known {
		pool(Shared, in.whole(in.Together))
		return r
	}
	pool(Together, in.whole(compute(sum, peaks...)))
	pool(Apart, in.whole(compute(greatest, append(peaks, used)...)))
	return r
}

// whole returns the number of devices for a use: a whole number, and enough for a replica of each model.
func (in Input) whole(used Figure) Figure {
	least := in.figures(func(m Model) Figure { return m.MinDevices.about("devices of a replica of " + m.Name) })
	return compute(func(v []float64) float64 {
		return math.Max(math.Ceil(v[0]-1e-9), greatest(v[1:])) // sums of shares have rounding errors
	}, append([]Figure{used}, least...)...)
}

func (in Input) figures(of func(Model) Figure) (all []Figure) {
	for _, m := range in.Models {
		all = append(all, of(m))
	}
	return all
}

func (in Input) sum(of func(Model) Figure) Figure { return compute(sum, in.figures(of)...) }

// use computes the waste and the costs of devices. Without devices there is no waste, whatever the share.
func use(devices, average, price Figure) Use {
	wasted := compute(func(v []float64) float64 { return v[0] * hoursPerDay * math.Max(0, 1-v[1]) }, devices, average)
	if devices == Known(0) {
		wasted = Known(0)
	}
	return Use{
		Wasted:     wasted,
		Cost:       compute(func(v []float64) float64 { return v[0] * hoursPerDay * v[1] }, devices, price),
		WastedCost: compute(product, wasted, price),
	}
}

func product(v []float64) float64 { return v[0] * v[1] }

func sum(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// greatest returns the greatest value, or 0 if there is none.
func greatest(v []float64) float64 { return slices.Max(append(v, 0)) }
