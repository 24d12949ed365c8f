package bound

import (
	"math"
	"math/rand/v2"
	"testing"
)

// small returns a day of a few buckets with small numbers.
func small(r *rand.Rand, mode Mode) Day {
	d := Day{Devices: 6, Hours: 1, Mode: mode}
	for i := range 3 {
		m := Model{Group: 1, Min: r.IntN(2), Max: 1 + r.IntN(4), Shares: i > 0, Batch: i == 2}
		if i == 0 {
			m.Group = 2
		}
		for k := range 6 {
			m.Capacity = append(m.Capacity, float64(k+1)*(1+0.05*float64(k)))
		}
		for range 3 {
			m.Rates = append(m.Rates, float64(r.IntN(7))/4)
		}
		m.Max = max(m.Min, m.Max)
		d.Models = append(d.Models, m)
	}
	return d
}

// tryAll returns the least device-hours by trying all numbers of devices for batch work in each bucket. What they can
// serve is served as early as possible.
func tryAll(d Day) float64 {
	least := math.Inf(1)
	buckets := len(d.Models[0].Rates)
	extra := make([]int, buckets)
	for {
		if hours := d.with(extra); hours < least {
			least = hours
		}
		at := 0
		for ; at < buckets && extra[at] == d.Devices; at++ {
			extra[at] = 0
		}
		if at == buckets {
			return least
		}
		extra[at]++
	}
}

// with returns the device-hours with a number of replicas of the batch model in each bucket, or, with shared devices,
// of shared devices. It returns infinity if they do not serve the demand.
func (d Day) with(extra []int) (hours float64) {
	queue := 0.0
	batch := d.Models[2]
	best := batch.Capacity[5] / 6
	for t, x := range extra {
		used, load := 0, 0.0
		for _, m := range d.Models[:2] {
			n := m.Min
			for n == 0 && m.Rates[t] > 0 || n > 0 && m.Rates[t] > m.Capacity[n-1] {
				n++
			}
			if n > m.Max {
				return math.Inf(1)
			}
			if !(d.Mode.Shared && m.Shares) {
				used += n * m.Group
				continue
			}
			if load += m.Rates[t] / best; n > 0 && x == 0 {
				return math.Inf(1)
			}
		}
		queue += batch.Rates[t]
		room := float64(x) - load // of shared devices, or of replicas
		if room < -1e-9 || d.Mode.Shared && batch.Min > 0 && x == 0 ||
			!d.Mode.Shared && (x < batch.Min || x > batch.Max) {
			return math.Inf(1)
		}
		can := min(room, float64(batch.Max)) * best
		if !d.Mode.Later {
			n := batch.Min
			for n == 0 && queue > 0 || n > 0 && queue > batch.Capacity[n-1] {
				n++
			}
			if n > batch.Max || !d.Mode.Shared && x < n || d.Mode.Shared && (n > 0 && x == 0) {
				return math.Inf(1)
			}
			if !d.Mode.Shared {
				can = batch.Capacity[max(0, x-1)]
			} else {
				can = room * best
			}
			if queue > can+1e-9 {
				return math.Inf(1)
			}
		}
		queue = max(0, queue-can)
		if used += x; used > d.Devices {
			return math.Inf(1)
		}
		hours += float64(used) * d.Hours
	}
	if queue > 1e-9 {
		return math.Inf(1)
	}
	return hours
}

// TestDeviceHoursAreLeast compares the solver with a search that tries everything.
func TestDeviceHoursAreLeast(t *testing.T) {
	s, err := NewSolver(".")
	if err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	var days []Day
	var want []float64
	for i := 0; len(days) < 120; i++ {
		d := small(r, Mode{Shared: i%2 == 1, Later: i/2%2 == 1})
		if least := tryAll(d); !math.IsInf(least, 1) {
			days, want = append(days, d), append(want, least)
		}
	}
	got, err := s.DeviceHours(days...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		if math.Abs(got[i]-want[i]) > 1e-3 {
			t.Errorf("%v: %v device-hours, want %v: %+v", days[i].Mode, got[i], want[i], days[i])
		}
	}
}

// TestMultipleIsLargest checks that the largest multiple is carried, and a larger one is not.
func TestMultipleIsLargest(t *testing.T) {
	s, err := NewSolver(".")
	if err != nil {
		t.Skip(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	d := small(r, Mode{Later: true})
	d.Models[0].Rates[0] = 1 // some demand
	most, err := s.Multiple(d)
	if err != nil {
		t.Fatal(err)
	}
	scaled := func(by float64) Day {
		out := d
		out.Models = nil
		for _, m := range d.Models {
			rates := make([]float64, len(m.Rates))
			for i, rate := range m.Rates {
				rates[i] = rate * by
			}
			m.Rates = rates
			out.Models = append(out.Models, m)
		}
		return out
	}
	carried := math.IsInf(tryAll(scaled(most*(1-2*precision))), 1)
	beyond := math.IsInf(tryAll(scaled(most*(1+2*precision))), 1)
	if carried || !beyond {
		t.Errorf("multiple %v: refused below %v, above %v; %+v", most, carried, beyond, d)
	}
}
