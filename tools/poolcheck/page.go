package main

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"troupe/core/schedule"
	"troupe/simulate"
	"troupe/testkit/cluster"
)

// page is the result.
type page struct {
	began     time.Time
	average   string // load average of the machine before
	length    time.Duration
	models    []*model
	live      *live
	simulated simulated
}

// check returns an error unless all streams were exact. Requests for a batch model may wait in vain.
func (r *live) check() error {
	var failed []error
	for i, p := range r.played {
		if p.Err != nil && !(p.TimedOut() && r.asked[i].model.priority == schedule.Batch) {
			failed = append(failed, fmt.Errorf("request %d at %v to %s: %w", i, r.asked[i].at, r.asked[i].Model, p.Err))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d streams are not exact: %w", len(failed), len(r.played),
		errors.Join(failed[:min(5, len(failed))]...))
}

// figures are those of a model in the cluster.
type figures struct {
	requests, exact, met, retried, late int
	ttft, tpot                          []time.Duration // ascending
	pause                               time.Duration   // the longest one
	starts                              int
}

func (r *live) figures(m *model) (f figures) {
	for i, p := range r.played {
		a := r.asked[i]
		if a.model != m {
			continue
		}
		f.requests++
		f.retried += p.Retried
		f.pause = max(f.pause, p.Pause.Length)
		if p.TimedOut() {
			f.late++
		}
		if p.Err != nil {
			continue
		}
		f.exact++
		tpot := p.TPOT(a.answer)
		f.ttft, f.tpot = append(f.ttft, p.First), append(f.tpot, tpot)
		if (m.slo.TTFT == 0 || p.First <= m.slo.TTFT) && (m.slo.TPOT == 0 || tpot <= m.slo.TPOT) {
			f.met++
		}
	}
	slices.Sort(f.ttft)
	slices.Sort(f.tpot)
	f.starts = starts(r.decisions, m)
	return f
}

// starts returns how many replicas of a model were placed.
func starts(all []decision, m *model) (n int) {
	for _, d := range all {
		if d.model == m.name && !d.withdrawn {
			n++
		}
	}
	return n
}

func (p *page) text() string {
	var b strings.Builder
	exact, late, retried, pause := 0, 0, 0, time.Duration(0)
	for _, m := range p.models {
		f := p.live.figures(m)
		exact, late, retried, pause = exact+f.exact, late+f.late, retried+f.retried, max(pause, f.pause)
	}
	fmt.Fprintf(&b, `# Six models on a real pool, beside the simulator

`+"`make pool-check`"+` measured this page on %s, with %d cores (%s/%s).
The load average was %s before.

Three nodes ran as processes of one machine, each with a software device (`+"`%s`"+`) and a simulated H200, whose
replicas take the time of a cost model and compute nothing. Six models shared them by the planner for %v of a
generated load with seed %d, at real time. After %v, the node whose planner led, %s, was killed with SIGKILL; it was
started again and served %v after the kill. Requests came in at all nodes. Clients repeat a request whose gateway was
killed, and compare each chunk with the answer of an undisturbed run.

**%d of %d streams were exact**. The time of %d requests, %v each, was up before a replica of their model
served; the batch model has no SLO, and gets what the others leave. %d requests were repeated since their gateway was
killed, and the longest pause within a stream was %v. The next leader had made its first plan %v after the kill.

The simulator had the requests at the same times, the costs that `+"`troupe calibrate`"+` measured just before for the
software devices and those of the cost model for the others, and the loss of the same node for the same time. It has
neither messages nor the other load of the machine, and its planner survives the loss.

`, p.began.UTC().Format("2 January 2006"), runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, p.average, device,
		p.length, seed, p.live.killed.Round(time.Second), p.live.leader, p.live.away.Round(100*time.Millisecond), exact,
		len(p.live.played), late, timeout, retried, pause.Round(time.Millisecond),
		p.live.replanned.Round(100*time.Millisecond))
	header := "| model | priority | replicas | requests |"
	for _, name := range []string{"in SLO", "TTFT P50", "TTFT P99", "TPOT P50", "starts"} {
		header += " " + name + ", real | simulated |"
	}
	b.WriteString(header + "\n" + strings.Repeat("| --- ", strings.Count(header, "|")-1) + "|\n")
	for _, m := range p.models {
		p.row(&b, m)
	}
	b.WriteString(`
## Decisions

Which replicas the planner placed and withdrew, in order. Times are since the beginning of the load.

### Real

`)
	list(&b, p.live.decisions)
	b.WriteString("### Simulated\n\n")
	list(&b, p.simulated.decisions)
	return b.String()
}

// row writes the figures of a model.
func (p *page) row(b *strings.Builder, m *model) {
	f, s := p.live.figures(m), simulate.ModelResult{}
	for _, of := range p.simulated.result.Models {
		if of.Model == m.name {
			s = of
		}
	}
	bounds, kindOf := fmt.Sprintf("%d to %d", m.min, m.max), ""
	if m.shape != nil {
		kindOf = " (simulated)"
	}
	met, said := "no SLO", ""
	if m.slo.TTFT > 0 {
		met = percent(float64(f.met) / float64(f.requests))
		if s.SLOAttainment != nil {
			said = percent(*s.SLOAttainment)
		}
	}
	fmt.Fprintf(b, "| %s%s | %s | %s | %d | %s | %s | %s | %s | %s | %s | %s | %s | %d | %d |\n", m.name, kindOf,
		m.priority, bounds, f.requests, met, said, ms(cluster.Quantile(f.ttft, 0.5)), seconds(s.TTFTP50),
		ms(cluster.Quantile(f.ttft, 0.99)), seconds(s.TTFTP99), ms(cluster.Quantile(f.tpot, 0.5)), seconds(s.TPOTP50),
		f.starts, starts(p.simulated.decisions, m))
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func ms(d time.Duration) string { return fmt.Sprintf("%.1f ms", 1000*d.Seconds()) }

func seconds(s *float64) string {
	if s == nil {
		return ""
	}
	return fmt.Sprintf("%.1f ms", 1000**s)
}

func list(b *strings.Builder, all []decision) {
	b.WriteString("| time | replica | | why |\n| --- | --- | --- | --- |\n")
	for _, d := range all {
		what := "placed"
		if d.withdrawn {
			what = "withdrawn"
		}
		fmt.Fprintf(b, "| %.1f s | %s | %s | %s |\n", d.at.Seconds(), d.replica, what, d.why)
	}
	b.WriteString("\n")
}
