// Command bench measures the figures of docs/benchmarks.md, or with -shares those of
// docs/benchmarks-shares.md, and writes the page to standard output. With -switch it writes a table of the
// switches alone. Every figure is a ratio of two
// alternating measurements of one run.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"troupe/node"
	"troupe/tools/pages"
)

// row is one line of a table.
type row struct{ what, figure, aim, met string }

// section is a table with a description of its measurements.
type section struct {
	title, how string
	rows       []row
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run() error {
	only := flag.String("only", "", "measure only the sections, or floods, whose names contain this text")
	shares := flag.Bool("shares", false, "measure two tenants, one of which floods, instead of the other sections")
	switching := flag.Bool("switch", false, "measure only the switches, and write one table")
	flag.Parse()
	node.SetGCPercent()
	if *shares {
		text, err := sharesPage(*only)
		fmt.Print(text)
		return err
	}
	if *switching {
		text, err := switchPage()
		fmt.Print(text)
		return err
	}
	var sections []section
	for _, measure := range []struct {
		name string
		run  func() (section, error)
	}{
		{"gateway and actors", gatewayPath}, {"legs of a request", requestLegs}, {"engine", engineSpeed},
		{"turns of replicas", turns}, {"LoRA modes", loraModes}, {"supervision tree", treeCost},
		{"memory of sessions", sessionMemory}, {"routing", routing},
		{"standby", standby}, {"preempt", preemption}, {"weights", weightLoads}, {"loads of adapters", adapterLoads},
		{"bulk data plane", dataPlane}, {"KV tiers", kvTiers}, {"remote tier", remoteTier},
		{"driver layer", driverLayer}, {"cost model", costModel},
		{"lost nodes", outages}, {"lost leaders", lostLeaders},
	} {
		if !strings.Contains(measure.name, *only) {
			continue
		}
		began := time.Now()
		fmt.Fprintf(os.Stderr, "%s … ", measure.name)
		s, err := measure.run()
		if err != nil {
			return fmt.Errorf("%s: %w", measure.name, err)
		}
		fmt.Fprintf(os.Stderr, "%.0f s\n", time.Since(began).Seconds())
		sections = append(sections, s)
	}
	fmt.Print(page(sections))
	return nil
}

func page(sections []section) string {
	var b strings.Builder
	fmt.Fprintf(&b, `# Benchmarks

Written by `+"`make bench`"+`; do not edit. Each figure compares two alternating measurements of one run,
and is the median of several rounds. Absolute times depend on this machine; ratios are more portable.

Machine: %d cores, %s, %s/%s. Devices are software devices: real arithmetic on the CPU,
which client, gateway, actors and kernels share. Model: the shipped kjv-2m.
`, runtime.NumCPU(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, s := range sections {
		b.WriteString(s.table())
	}
	return b.String()
}

// table returns the section with its title.
func (s section) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n## %s\n\n%s\n\n| what | measured | aim | met |\n| --- | --- | --- | --- |\n", s.title,
		pages.Wrap(s.how))
	for _, r := range s.rows {
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.what, r.figure, r.aim, r.met)
	}
	return b.String()
}

// yesNo formats whether an aim was met.
func yesNo(met bool) string {
	if met {
		return "yes"
	}
	return "no"
}

func median[T int64 | float64 | time.Duration](all []T) T {
	s := slices.Clone(all)
	slices.Sort(s)
	return s[len(s)/2]
}

// paired runs a and b alternately and returns the medians of their times, and of the ratio a/b.
func paired(rounds int, a, b func() error) (ta, tb time.Duration, ratio float64, err error) {
	var as, bs []time.Duration
	var ratios []float64
	for range rounds {
		x, err := timed(a)
		if err != nil {
			return 0, 0, 0, err
		}
		y, err := timed(b)
		if err != nil {
			return 0, 0, 0, err
		}
		as, bs, ratios = append(as, x), append(bs, y), append(ratios, float64(x)/float64(y))
	}
	return median(as), median(bs), median(ratios), nil
}

func timed(f func() error) (time.Duration, error) {
	began := time.Now()
	err := f()
	return time.Since(began), err
}
