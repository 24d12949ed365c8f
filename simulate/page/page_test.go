package page

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"troupe/core/batch"
	"troupe/core/cost"
	"troupe/core/schedule"
	"troupe/simulate"
	"troupe/workload"
)

type constant time.Duration

func (c constant) Time(cost.Step) time.Duration { return time.Duration(c) }

// simulated returns the runs of two models on devices, for some seeds.
func simulated(t *testing.T, names []string, devices, seeds int) simulate.Alternative {
	t.Helper()
	cfg := simulate.Config{Name: "test", Duration: time.Minute, KVReserve: 0.3, Buckets: 12}
	for i := range devices {
		cfg.Devices = append(cfg.Devices, simulate.Device{Node: "a<b", Name: fmt.Sprint("gpu-", i), Kind: "k",
			Memory: 8 << 30})
	}
	for _, name := range names {
		cfg.Deployments = append(cfg.Deployments, simulate.Deployment{Name: name, WeightBytes: 1 << 30,
			KVTokenBytes: 1 << 16, ContextTokens: 2048, Replicas: devices, Class: batch.Standard,
			Priority: schedule.Standard, MaxSequences: 4,
			MaxWaiting: 8, StepTokens: 256, BlockTokens: 16, SLO: simulate.SLO{TTFT: time.Second},
			Times: map[string]simulate.StepTimer{"k": constant(50 * time.Millisecond)}})
	}
	out := simulate.Alternative{Name: "file.yaml"}
	for seed := range seeds {
		cfg.Seed = uint64(seed)
		load := workload.Load{Length: cfg.Duration, Rate: 4, Models: workload.Names{List: names},
			Prompt: workload.Lengths{Fixed: 100}, Output: workload.Lengths{Exponential: 20}}
		result, err := simulate.Run(cfg, load.Requests(cfg.Seed))
		if err != nil {
			t.Fatal(err)
		}
		out.Runs = append(out.Runs, result)
	}
	return out
}

func written(t *testing.T, all ...simulate.Alternative) string {
	t.Helper()
	var page strings.Builder
	if err := Write(&page, all, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

var drawings = regexp.MustCompile(`(?s)<h3>([^<]*)</h3>(<svg.*?</svg>)`)

// plots returns the elements of each plot of a page, by heading. They must be XML.
func plots(t *testing.T, page string) map[string][]xml.StartElement {
	t.Helper()
	all := make(map[string][]xml.StartElement)
	for _, m := range drawings.FindAllStringSubmatch(page, -1) {
		for d := xml.NewDecoder(strings.NewReader(m[2])); ; {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
			if e, ok := token.(xml.StartElement); ok {
				all[m[1]] = append(all[m[1]], e.Copy())
			}
		}
	}
	return all
}

// count returns how many elements have a name and a class that begins with a word.
func count(all []xml.StartElement, name, class string) (n int) {
	for _, e := range all {
		for _, a := range e.Attr {
			if e.Name.Local == name && a.Name.Local == "class" && strings.HasPrefix(a.Value+" ", class+" ") {
				n++
			}
		}
	}
	return n
}

// TestPage checks the plots of one run: a line for each model, titles for each bucket, and a bar for each
// replica. Names of a scenario are escaped, and the page refers to nothing else.
func TestPage(t *testing.T) {
	a := simulated(t, []string{"m", "<script>&"}, 2, 1)
	page := written(t, a)
	for _, want := range []string{"<title>test: simulated</title>", "Simulated, not measured: seed 0, 1m",
		"troupe 1.2.3", "prefers-color-scheme: dark", "100 %", "1/s", "virtual time", "device-hours",
		"<td>&lt;script&gt;&amp;</td>", "SLO attainment"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	for _, other := range []string{"<script", "http://", "https://", "src=", "@import", "url(", "a<b", "ALTERNATIVE"} {
		if strings.Contains(page, other) {
			t.Errorf("the page has %q", other)
		}
	}
	all := plots(t, page)
	buckets := len(a.Runs[0].Series.Models[0].Arrivals)
	for _, heading := range []string{"SLO attainment", "Goodput: requests within the SLO", "Queue: waiting requests",
		"Running sequences", "Arrivals: requests", "Replicas that serve"} {
		if lines, hovers := count(all[heading], "path", "line"), count(all[heading], "rect", "hover"); lines != 2 ||
			hovers != buckets {
			t.Errorf("%s: %d lines and %d titles, want 2 and %d", heading, lines, hovers, buckets)
		}
	}
	devices := all["Devices: replicas, and below them how much of the time steps ran"]
	if bars, areas, rows := count(devices, "rect", "bar"), count(devices, "path", "area"),
		count(devices, "rect", "row"); bars != 4 || areas != 4 || rows != 2 {
		t.Errorf("%d bars, %d areas and %d rows, want 4, 4 and 2", bars, areas, rows)
	}
	if len(all) != 9 { // KV hits and device-hours too, and no changes of replicas
		t.Errorf("%d plots, want 9", len(all))
	}
}

// TestAlternatives checks that alternatives are beside one another, with the same scales of values.
func TestAlternatives(t *testing.T) {
	a, b := simulated(t, []string{"m", "n"}, 2, 3), simulated(t, []string{"m"}, 1, 3)
	page := written(t, a, b)
	for _, want := range []string{"<title>2 alternatives: simulated</title>", "seeds 0 to 2 of each", "A: file.yaml",
		"B: file.yaml", `class="columns"`, "ALTERNATIVE"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	all := plots(t, page)
	// Model m has a point for both, and n and all models together: those of A.
	if points := count(all["TTFT P99"], "g", "point"); points != 3 {
		t.Errorf("%d points, want 3", points)
	}
	if points := count(all["Device-hours"], "g", "point"); points != 5 {
		t.Errorf("%d points, want 5", points)
	}
	if rows := strings.Count(page, "<h3>Queue: waiting requests</h3>"); rows != 2 {
		t.Errorf("%d plots of the queue, want 2", rows)
	}
	a.Set, b.Set = []simulate.Setting{{Key: "key", Value: "1"}}, []simulate.Setting{{Key: "key", Value: "2"}}
	a.Runs[0].Series, b.Runs[0].Series = nil, nil
	page = written(t, a, b)
	if lines := count(plots(t, page)["TTFT P99"], "path", "line"); lines != 2 {
		t.Errorf("%d lines through the points of a sweep, want 2", lines)
	}
	if !strings.Contains(page, "Figures over time are left out") || strings.Contains(page, `class="columns"`) {
		t.Error("figures over time are there")
	}
}

// TestChangingReplicas checks that replicas that come and go have lanes of their own, and a plot of their
// changes.
func TestChangingReplicas(t *testing.T) {
	a := simulated(t, []string{"m"}, 1, 1)
	intervals := []simulate.Interval{
		{Model: "m", Replica: "m-1", State: "loading", From: 5, To: 8},
		{Model: "m", Replica: "m-1", State: "starting", From: 8, To: 10},
		{Model: "m", Replica: "m-0", State: "serving", To: 20},
		{Model: "m", Replica: "m-1", State: "serving", From: 10, To: 30},
		{Model: "m", Replica: "m-2", State: "serving", From: 20, To: 60},
	}
	if lanes, n := lanesOf(intervals); n != 2 || !reflect.DeepEqual(lanes, []int{1, 1, 0, 1, 0}) {
		t.Errorf("lanes %v of %d", lanes, n)
	}
	s := a.Runs[0].Series
	s.Devices[0].Intervals = intervals
	begun := 0.0
	for _, n := range changes(s, s.Models[0]) {
		begun += *n
	}
	if begun != 1 {
		t.Errorf("%v changes, want 1: a replica that loads and starts", begun)
	}
	page := written(t, a)
	if all := plots(t, page); count(all["Replicas that begin to load, drain or wait"], "path", "line") != 1 {
		t.Error("no plot of the changes")
	}
	if !strings.Contains(page, "m-1 on a&lt;b/gpu-0: loading, 5s to 8s") ||
		!strings.Contains(page, `class="bar c0 other"`) {
		t.Error("the load is not shown")
	}
}

// TestManyDevices checks that only the first devices are drawn, and that the page says so.
func TestManyDevices(t *testing.T) {
	page := written(t, simulated(t, []string{"m"}, mostDevices+1, 1))
	if rows := strings.Count(page, `<rect class="row"`); rows != mostDevices ||
		!strings.Contains(page, "; the first 64 of 65 devices") {
		t.Errorf("%d rows", rows)
	}
}

// TestTicks checks the values at axes.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		got  []float64
		want string
	}{
		{ticks(1, 4), "[0 0.25 0.5 0.75 1]"}, {ticks(0, 4), "[0 0.25 0.5 0.75 1]"}, {ticks(7, 4), "[0 2 4 6 8]"},
		{ticks(0.03, 4), "[0 0.01 0.02 0.03]"}, {whole.ticks(2, 4), "[0 1 2]"}, {whole.ticks(0.2, 4), "[0 1]"},
		{whole.ticks(9, 4), "[0 3 6 9]"}, {timeTicks(60, 8), "[0 10 20 30 40 50 60]"},
		{timeTicks(86400, 8), "[0 10800 21600 32400 43200 54000 64800 75600 86400]"},
		{timeTicks(86400*10, 8), "[0 172800 345600 518400 691200 864000]"},
	} {
		if got := fmt.Sprint(c.got); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for v, want := range map[float64]string{5400: "1h30m", 3600: "1h", 60: "1m", 61: "1m1s", 0: "0s", 1.5: "1.5s"} {
		if got := duration(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
	for v, want := range map[float64]string{0: "0", 0.1 + 0.2: "0.3", 1.0 / 3: "0.3333", 123456: "123456"} {
		if got := digits(v); got != want {
			t.Errorf("%v is %s, want %s", v, got, want)
		}
	}
}
