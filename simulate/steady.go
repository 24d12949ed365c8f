package simulate

import (
	"sort"
	"time"

	core "troupe/core/replica"
)

// plan plans the replica's next event. While its steps are steady, that is the end of the first one
// that is not. Its reports are then made by sync, when another part needs them.
func (r *replica) plan() {
	if r.ended {
		return
	}
	k, ok := r.nextTimer()
	if !r.stepEnd.IsZero() {
		end := r.stepEnd
		if !r.sim.cfg.StepByStep {
			r.planRun()
			end = r.ends[len(r.ends)-1]
		}
		if !r.sim.cfg.StepByStep {
			k, ok = r.urgent()
		}
		if step := (key{end, stepEnds, r.index}); !ok || step.before(k) {
			k, ok = step, true
		}
	} else if !r.sim.cfg.StepByStep {
		k, ok = r.urgent()
	}
	if ok {
		r.sim.queue.set(k)
	} else {
		r.sim.queue.clear(r.index)
	}
}

// planRun computes when the steady steps end, unless that is known.
func (r *replica) planRun() {
	if len(r.ends) > 0 {
		return
	}
	n, end, work := min(r.machine.SteadySteps(), maxRun), r.stepEnd, r.work
	if r.tiering != nil || r.migration.busy() {
		n = 0 // after each step, blocks may be offloaded, or a sequence migrates
	}
	r.ends = append(r.endsBuf[:0], end)
	for range n {
		work.Context += int64(work.Decode)
		end = end.Add(r.took(work))
		r.ends = append(r.ends, end)
	}
	r.endsBuf = r.ends
}

// nextTimer returns the replica's next timer. It reports false if none is set.
func (r *replica) nextTimer() (k key, ok bool) {
	if !r.reportAt.IsZero() {
		k, ok = key{r.reportAt, reportTimer, r.index}, true
	}
	if a := (key{r.announceAt, announceTimer, r.index}); !a.at.IsZero() && (!ok || a.before(k)) {
		k, ok = a, true
	}
	if u, set := r.urgent(); set && (!ok || u.before(k)) {
		k, ok = u, true
	}
	return k, ok
}

// urgent returns the next timer of which the effects are not only reports to the router.
func (r *replica) urgent() (k key, ok bool) {
	if !r.retryAt.IsZero() {
		k, ok = key{r.retryAt, retryTimer, r.index}, true
	}
	if w := (key{r.watchAt, watchTimer, r.index}); !w.at.IsZero() && (!ok || w.before(k)) {
		k, ok = w, true
	}
	return k, ok
}

// sync brings the replica to the state before an event: it ends its steady steps, and makes its reports.
func (r *replica) sync(until key) {
	if r.sim.cfg.StepByStep || r.ended {
		return
	}
	for {
		steps := 0
		if len(r.ends) > 1 {
			steps = sort.Search(len(r.ends)-1, func(i int) bool {
				return !(key{r.ends[i], stepEnds, r.index}).before(until)
			})
		}
		timer, set := r.nextTimer()
		due := set && timer.before(until)
		switch {
		case steps == 0 && due:
			r.fire(timer.kind, timer.at)
		case steps == 0:
			return
		case r.announceAt.IsZero() && r.machine.FitsReport(steps):
			r.runAll(steps, until)
		default:
			n := steps
			if set {
				n = r.endsUntil(timer, steps)
			}
			if r.reportAt.IsZero() {
				n = min(n, 1) // it sets the report timer
			}
			if n == 0 {
				r.fire(timer.kind, timer.at)
			}
			r.runSteady(n)
		}
	}
}

// reportDue reports whether a timer of the replica fires before an event, or a steady step ends so much earlier that
// its report is due. If not, sync would only end steps, which the router does not notice.
func (r *replica) reportDue(until key) bool {
	if timer, set := r.nextTimer(); set && timer.before(until) {
		return true
	}
	return r.reportAt.IsZero() && len(r.ends) > 1 &&
		!core.LastReport(time.Time{}, r.ends[:1], until.at).IsZero()
}

// endsUntil returns how many of the next steps end before a timer.
func (r *replica) endsUntil(timer key, steps int) int {
	return sort.Search(steps, func(i int) bool { return !(key{r.ends[i], stepEnds, r.index}).before(timer) })
}

// runAll ends steady steps, and makes only the last of the reports that are due meanwhile.
func (r *replica) runAll(steps int, until key) {
	latest := until.at
	if until.kind <= reportTimer { // its index may be lower, so that a report at this time is not due
		latest = latest.Add(-1)
	}
	last := core.LastReport(r.reportAt, r.ends[:steps], latest)
	if last.IsZero() {
		r.runSteady(steps)
		return
	}
	before := r.endsUntil(key{last, reportTimer, r.index}, steps)
	r.runSteady(before)
	r.fire(reportTimer, last)
	r.runSteady(steps - before)
}

// runSteady ends steady steps at once.
func (r *replica) runSteady(steps int) {
	if steps == 0 {
		return
	}
	ends := r.ends[:steps]
	now := ends[steps-1]
	for _, effect := range r.machine.RunSteady(ends, r.sample()) {
		switch e := effect.(type) {
		case core.SetTimer:
			r.reportAt = now.Add(e.After)
		case core.RunStep:
			r.step = e
		}
	}
	r.work.Context += int64(steps * r.work.Decode)
	r.ends = r.ends[steps:]
	r.stepEnd = r.ends[0]
	r.sim.record.steady(r, steps)
	r.sim.series.stepsEnded(r, now)
}

// since returns the virtual time since the beginning.
func since(at time.Time) time.Duration { return at.Sub(epoch) }
