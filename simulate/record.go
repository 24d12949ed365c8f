package simulate

import (
	"bufio"
	"strconv"
	"time"

	"troupe/core/batch"
	core "troupe/core/replica"
	"troupe/core/turns"
)

// recorder writes each decision as a line of JSON. A run of steps of the same sequences is one line,
// whether or not the steps ran at once. The zero value records nothing.
type recorder struct {
	out  *bufio.Writer
	line []byte
	runs map[*replica]*run
	err  error
}

// run is a run of steps of a replica.
type run struct {
	began time.Time
	steps int
	ends  time.Time
}

func (w *recorder) open(cfg Config) {
	if cfg.Record == nil {
		return
	}
	w.out, w.runs = bufio.NewWriterSize(cfg.Record, 1<<16), make(map[*replica]*run)
	w.line = append(w.line[:0], `{"simulated":true`...)
	w.text("scenario", cfg.Name)
	w.number("seed", int(cfg.Seed))
	w.end()
}

// close ends the runs of the replicas, and writes what is buffered.
func (w *recorder) close(replicas []*replica) error {
	if w.out == nil {
		return nil
	}
	for _, r := range replicas {
		w.endRun(r)
	}
	if err := w.out.Flush(); w.err == nil {
		w.err = err
	}
	return w.err
}

// begin begins a line.
func (w *recorder) begin(at time.Time, event string) bool {
	if w.out == nil {
		return false
	}
	w.line = append(w.line[:0], `{"at":`...)
	w.line = appendSeconds(w.line, at)
	w.text("event", event)
	return true
}

func (w *recorder) end() {
	w.line = append(w.line, '}', '\n')
	if _, err := w.out.Write(w.line); w.err == nil {
		w.err = err
	}
}

func (w *recorder) key(key string) {
	w.line = append(append(append(w.line, `,"`...), key...), `":`...)
}

func (w *recorder) text(key, value string) {
	w.key(key)
	w.line = strconv.AppendQuote(w.line, value)
}

func (w *recorder) number(key string, value int) {
	w.key(key)
	w.line = strconv.AppendInt(w.line, int64(value), 10)
}

// appendSeconds appends a virtual time in seconds.
func appendSeconds(b []byte, at time.Time) []byte {
	ns := since(at).Nanoseconds()
	b = strconv.AppendInt(b, ns/1e9, 10)
	b = append(b, '.')
	rest := strconv.AppendInt(nil, ns%1e9+1e9, 10)
	return append(b, rest[1:]...)
}

// route records which replica a request was sent to, and what it would have cost elsewhere.
func (w *recorder) route(s *simulation, id string, q *request) {
	if !w.begin(s.key.at, "route") {
		return
	}
	w.text("request", id)
	w.number("prompt", q.prompt)
	w.number("output", q.output)
	w.line = append(w.line, `,"candidates":[`...)
	log := s.router.Explain(id)
	for i, c := range log[len(log)-1].Decision.Candidates {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, `{"replica":`...)
		w.line = strconv.AppendQuote(w.line, c.Name)
		w.number("cost", c.Cost)
		w.number("cached", c.Cached)
		w.number("running", c.Running)
		w.number("waiting", c.Waiting)
		w.line = append(w.line, '}')
	}
	w.line = append(w.line, ']')
	w.end()
}

func (w *recorder) refuse(at time.Time, id, why string) {
	if w.begin(at, "refuse") {
		w.text("request", id)
		w.text("why", why)
		w.end()
	}
}

// step records the begin of a step, unless it continues the run of the step before.
func (w *recorder) step(r *replica, before core.RunStep, now time.Time) {
	if w.out == nil {
		return
	}
	last := w.runs[r]
	if last != nil && last.ends.Equal(now) && continues(before.Entries, r.step.Entries) {
		last.steps++
		last.ends = r.stepEnd
		return
	}
	w.endRun(r)
	w.runs[r] = &run{began: now, steps: 1, ends: r.stepEnd}
	w.begin(now, "step")
	w.text("replica", r.name)
	w.number("step", int(r.step.Step))
	w.number("prompt", r.work.Prompt)
	w.number("decode", r.work.Decode)
	w.number("context", int(r.work.Context))
	w.line = append(w.line, `,"entries":[`...)
	for i, e := range r.step.Entries {
		if i > 0 {
			w.line = append(w.line, ',')
		}
		w.line = append(w.line, '[')
		w.line = strconv.AppendQuote(w.line, e.ID)
		w.line = append(strconv.AppendInt(append(w.line, ','), int64(e.Position), 10), ',')
		w.line = append(strconv.AppendInt(w.line, int64(len(e.Tokens)), 10), ']')
	}
	w.line = append(w.line, ']')
	w.end()
}

// continues reports whether a step decodes the next token of each sequence of the step before, which
// decoded one of each too.
func continues(before, now []batch.Entry) bool {
	if len(before) != len(now) {
		return false
	}
	for i := range now {
		a, b := &before[i], &now[i]
		if a.ID != b.ID || len(a.Tokens) != 1 || len(b.Tokens) != 1 || !a.Sample || !b.Sample ||
			a.Position+1 != b.Position {
			return false
		}
	}
	return true
}

// steady adds steady steps to the run of a replica.
func (w *recorder) steady(r *replica, steps int) {
	if w.out != nil {
		w.runs[r].steps += steps
		w.runs[r].ends = r.stepEnd
	}
}

// endRun records how long a run of more than one step was.
func (w *recorder) endRun(r *replica) {
	last := w.runs[r]
	if last == nil || last.steps == 1 {
		return
	}
	w.begin(last.ends, "ran")
	w.text("replica", r.name)
	w.number("steps", last.steps)
	w.end()
}

func (w *recorder) preempt(at time.Time, r *replica, e core.Preempted) {
	if w.begin(at, "preempt") {
		w.text("replica", r.name)
		w.text("request", e.ID)
		w.text("why", e.Why)
		w.end()
	}
}

func (w *recorder) finish(at time.Time, r *replica, id string, q *request) {
	if w.begin(at, "finish") {
		w.text("replica", r.name)
		w.text("request", id)
		w.key("first")
		w.line = appendSeconds(w.line, q.first)
		w.end()
	}
}

func (w *recorder) turn(at time.Time, d *device, e turns.Grant) {
	if w.begin(at, "turn") {
		w.text("device", d.name())
		w.text("replica", e.Replica)
		w.text("why", e.Why.String())
		w.end()
	}
}
