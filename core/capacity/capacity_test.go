package capacity

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// article has four models on sixteen devices, each with devices of its own.
var article = []Model{
	{"Llama 70B", Known(140e9), Known(2), Known(8), Known(0.85), Known(0.35)},
	{"Mistral 7B", Known(14e9), Known(1), Known(2), Known(0.60), Known(0.20)},
	{"Llama 13B", Known(26e9), Known(1), Known(4), Known(0.70), Known(0.15)},
	{"Qwen 7B", Known(14e9), Known(1), Known(2), Known(0.90), Known(0.10)},
}

// show formats figures with one decimal, and unknown ones with their reason.
func show(figures ...Figure) string {
	var all []string
	for _, f := range figures {
		if v, known := f.Value(); known {
			all = append(all, fmt.Sprintf("%.1f", v))
		} else {
			all = append(all, f.Why())
		}
	}
	return strings.Join(all, " ")
}

// TestArticle checks the table of four models that have devices of their own: 288 device-hours a day are wasted. If
// they share devices, 12.6 devices are enough if the peaks coincide, and 6.8 if they are apart.
func TestArticle(t *testing.T) {
	r := New(Input{Models: article, Price: Known(2)})
	for i, want := range []string{"124.8 384.0 249.6", "38.4 96.0 76.8", "81.6 192.0 163.2", "43.2 96.0 86.4"} {
		if got := show(r.Models[i].Wasted, r.Models[i].Cost, r.Models[i].WastedCost); got != want {
			t.Errorf("%s: %s, want %s", r.Models[i].Name, got, want)
		}
	}
	for i, want := range []string{
		"static 16.0 0.2 288.0 768.0 576.0",
		"shared, peaks coincide 13.0 0.3 216.0 624.0 432.0",
		"shared, peaks apart 7.0 0.6 72.0 336.0 144.0",
	} {
		p := r.Pools[i]
		if got := p.Kind.String() + " " + show(p.Devices, p.Average, p.Wasted, p.Cost, p.WastedCost); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// TestWholeDevices checks that a pool has enough devices for one replica of each model, and none because of a rounding
// error: the sum of the peaks below is 2.0000000000000004.
func TestWholeDevices(t *testing.T) {
	var models []Model
	for _, peak := range []float64{0.9, 0.8, 0.1, 0.1, 0.1} {
		models = append(models, Model{MinDevices: Known(1), Devices: Known(1), Peak: Known(peak), Average: Known(0)})
	}
	if r := New(Input{Models: models}); r.Pools[1].Devices != Known(2) {
		t.Errorf("%+v", r.Pools[1].Devices)
	}
	for i := range models {
		models[i].Average = Known(0.3)
	}
	if r := New(Input{Models: models}); r.Pools[2].Devices != Known(2) {
		t.Errorf("%+v for an average use of 1.5", r.Pools[2].Devices)
	}
	models[1].MinDevices = Known(4)
	if r := New(Input{Models: models}); r.Pools[1].Devices != Known(4) || r.Pools[2].Devices != Known(4) {
		t.Errorf("%+v", r.Pools)
	}
}

// TestSeries checks peaks and averages of two models with opposite use, which need only three devices together.
func TestSeries(t *testing.T) {
	models := []Model{
		{Name: "day", MinDevices: Known(1), Devices: Known(4)},
		{Name: "night", MinDevices: Known(2), Devices: Known(2)},
	}
	s := Series{Used: [][]Figure{{Known(2.5), Known(0)}, {Known(0.5), Known(1.5)}, {Known(0), Known(2)}}}
	in := Input{Models: Observe(models, s), Together: s.Together(), Present: Known(6)}
	if got := show(in.Models[0].Peak, in.Models[0].Average, in.Models[1].Peak); got != "0.6 0.2 1.0" {
		t.Error(got)
	}
	r := New(in)
	for i, want := range []string{"static 6.0 0.4 92.0", "cluster 6.0 0.4 92.0", "shared 3.0 0.7 20.0"} {
		p := r.Pools[i]
		if got := p.Kind.String() + " " + show(p.Devices, p.Average, p.Wasted); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if r.Pools[0].Cost.Why() != "not measured" {
		t.Errorf("cost %+v without a price", r.Pools[0].Cost)
	}
}

// TestUnknown checks that what depends on an unknown figure says why it is unknown, and nothing else is.
func TestUnknown(t *testing.T) {
	models := []Model{
		{Name: "a", MinDevices: Known(1), Devices: Known(2), Peak: Unknown("one moment"), Average: Known(0.5)},
		{Name: "b", MinDevices: Known(1), Devices: Known(0), Peak: Unknown("asleep"), Average: Unknown("asleep")},
	}
	r := New(Input{Models: models, Price: Unknown("no price")})
	if got := show(r.Models[0].Wasted, r.Models[0].Cost, r.Models[1].Wasted); got != "24.0 no price 0.0" {
		t.Error(got)
	}
	if got := show(r.Pools[0].Devices, r.Pools[0].Wasted, r.Pools[1].Devices); got != "2.0 24.0 peak of a: one moment" {
		t.Error(got)
	}
	models[1].Devices = Known(1)
	r = New(Input{Models: models})
	got := show(r.Pools[0].Devices, r.Pools[0].Average, r.Models[1].Wasted)
	if got != "3.0 average of b: asleep asleep" {
		t.Error(got)
	}
	peak, mean := (Series{Models: []string{"a"}}).Peak(0)
	if show(peak, mean) != "nothing was observed nothing was observed" {
		t.Error(show(peak, mean))
	}
}

// randomFigure draws a figure that is unknown at times.
func randomFigure(t *rapid.T, name string, high float64) Figure {
	if rapid.IntRange(0, 9).Draw(t, name+" unknown") == 0 {
		return Unknown("why")
	}
	return Known(rapid.Float64Range(0, high).Draw(t, name))
}

// TestInvariants checks the invariants of the package's documentation by name.
func TestInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var in Input
		unknown := false
		for range rapid.IntRange(0, 4).Draw(t, "models") {
			m := Model{MinDevices: Known(float64(rapid.IntRange(1, 3).Draw(t, "least")))}
			m.Devices = Known(float64(rapid.IntRange(1, 8).Draw(t, "devices")))
			m.Peak = randomFigure(t, "peak", 1)
			high, known := m.Peak.Value()
			m.Average = Known(high / 2)
			unknown = unknown || !known
			in.Models = append(in.Models, m)
		}
		in.Present, in.Price = randomFigure(t, "present", 20), randomFigure(t, "price", 5)
		r := New(in)
		var sums, least float64
		for _, m := range in.Models {
			v, _ := m.Used(m.Peak).Value()
			n, _ := m.MinDevices.Value()
			sums, least = sums+v, math.Max(least, n)
		}
		together, apart := r.Pools[len(r.Pools)-2].Devices, r.Pools[len(r.Pools)-1].Devices
		if _, known := together.Value(); known == unknown || known == (together.Why() != "") {
			t.Fatalf("unknown: %+v of %+v", together, in)
		}
		for _, p := range r.Pools {
			d, known := p.Devices.Value()
			a, _ := p.Average.Value()
			w, _ := p.Wasted.Value()
			if known && a <= 1 && math.Abs(d*a*24+w-d*24) > 1e-6 {
				t.Fatalf("balanced: %+v", p)
			}
		}
		if v, known := together.Value(); known && v > math.Max(math.Ceil(sums), least) {
			t.Fatalf("bounded: %v devices for %v", v, sums)
		}
		a, _ := apart.Value()
		if b, known := together.Value(); known && a > b {
			t.Fatalf("apart: %v, together %v", a, b)
		}
	})
}
