package main

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"time"

	"troupe/simulate/recorded"
	"troupe/tools/pages"
)

// page returns the page.
func (m *measurement) page() (string, error) {
	var b strings.Builder
	const date = "2 January 2006"
	b.WriteString("# The simulator's error\n\n")
	if m.from == "" {
		fmt.Fprintf(&b, "`make sim-error` measured this page on %s, with %d cores (%s/%s), in %v. The load\naverage "+
			"was %s before.\n\n", m.began.UTC().Format(date), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH,
			time.Since(m.began).Round(time.Second), m.load)
	} else {
		fmt.Fprintf(&b, "`make sim-error` recorded clusters with %d cores (%s/%s). What it kept was simulated again "+
			"on\n%s.\n\n", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, m.began.UTC().Format(date))
	}
	if m.chosen[steps] {
		if err := m.stepsPage(&b); err != nil {
			return "", err
		}
	}
	for _, s := range m.sections {
		s.write(&b)
	}
	return b.String(), nil
}

// write writes the section, with its worst error.
func (s section) write(b *strings.Builder) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n", s.title, pages.Wrap(s.about))
	if worst, ok := recorded.Worst(s.metrics); ok {
		fmt.Fprintf(b, "The worst error is %s of %s: %s.\n\n", worst.Name, worst.Model, worst.ErrorText())
	}
	b.WriteString("| model | metric | recorded | simulated | error |\n| --- | --- | --- | --- | --- |\n")
	for _, m := range s.metrics {
		if m.Recorded != nil && m.Simulated != nil {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", m.Model, m.Name, m.RecordedText(), m.SimulatedText(),
				m.ErrorText())
		}
	}
	b.WriteString("\n")
}

// stepsPage writes what workloads A and B gave.
func (m *measurement) stepsPage(b *strings.Builder) error {
	worst, ok := recorded.Worst(m.b.fitted)
	if !ok {
		return errors.New("no figure of workload B was recorded and simulated")
	}
	fmt.Fprintf(b, `Three nodes ran as processes of one machine, with one software device of one core each, and were
recorded while they served two workloads of the model that ships, at real time. Workload A ran on one device, workload B
on two. B has other arrivals and lengths, and more shared prefixes. Requests came in at nodes whose devices were idle.

- **calibrated**: simulated with the costs that `+"`troupe calibrate`"+` measured before, as
  `+"`troupe simulate --recording`"+` does.
- **fitted**: the same costs times %.3f, and %.2f ms outside of steps for each request. These two figures make the
  TPOT P50 and the TTFT P50 of workload A right, and are used for B as they are. So the errors of A show what the fit
  leaves, and those of B are the error of the simulator.

Devices share the cores of the machine: beside another busy device, a step took %.2f times as long. For B the costs are
raised by the share of time in which the other device was busy: %.3f times.

**The worst error of workload B, fitted, is %s: %s.**

`, m.factor, 1e3*m.outside, m.slowdown(), m.b.sharing, worst.Name,
		worst.ErrorText())
	for _, w := range []struct {
		title string
		of    judged
	}{{"Workload A: one device, fitted", m.a}, {"Workload B: two devices, judged", m.b}} {
		fmt.Fprintf(b, "## %s\n\n%d requests in %.0f s; %d of %d recorded decisions are the same.\n\n", w.title,
			len(w.of.recording.Requests), w.of.recording.End.At,
			len(w.of.recording.Decisions)-w.of.different, len(w.of.recording.Decisions))
		table(b, w.of)
	}
	return nil
}

// table writes the metrics of a workload.
func table(b *strings.Builder, w judged) {
	b.WriteString("| metric | recorded | calibrated | error | fitted | error |\n")
	b.WriteString("| --- | --- | --- | --- | --- | --- |\n")
	for i, c := range w.calibrated {
		if f := w.fitted[i]; c.Error != nil || f.Error != nil {
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s |\n", c.Name, c.RecordedText(), c.SimulatedText(),
				c.ErrorText(), f.SimulatedText(), f.ErrorText())
		}
	}
	b.WriteString("\n")
}
