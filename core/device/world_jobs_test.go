package device

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"troupe/core/hbm"
	"troupe/core/quarantine"
	"troupe/core/residency"
)

// carryOut carries out one effect.
func (w *world) carryOut(e Effect) {
	switch e := e.(type) {
	case Inspect, LoadWeights, FreeWeights, Open, Free, Resize, Allocate, ChangePages:
		w.startJob(e)
	case RevokeReaders:
		for r, copy := range w.readers {
			w.revoked[r] = w.revoked[r] || copy == e.Copy
		}
	case AskShrink:
		w.checkAsk(e)
		w.asks[e.Lease] = e
		w.timers = append(w.timers, timer{w.now.Add(e.Timeout), e.Lease, e.Attempt, false})
	case AskPool:
		w.checkRecall(e)
		w.recalls[e.Lease] = e
		w.timers = append(w.timers, timer{w.now.Add(e.Timeout), e.Lease, e.Attempt, true})
	case NotifyPool:
		if model, ok := w.models[e.Lease]; ok && !w.outstanding(e.Lease) && e.Pages != model.AdapterPages {
			w.Fatalf("notified: %s has %d pages for adapters, and its pool learns %d", e.Lease, model.AdapterPages,
				e.Pages)
		}
		if w.recalls[e.Lease].Attempt <= e.Attempt {
			delete(w.given, e.Lease)
		}
	case NotifyReplica:
		if model, ok := w.models[e.Lease]; ok && !w.outstanding(e.Lease) && e.Blocks != model.Blocks {
			w.Fatalf("notified: %s has %d blocks, and its replica learns %d", e.Lease, model.Blocks, e.Blocks)
		}
	case AnswerLoad:
		w.answered(e.To)
		lease := e.Model.Lease
		if model, ok := w.models[lease]; !ok || model.Blocks != e.Model.Blocks || w.phase(lease) == Freeing {
			w.Fatalf("answered: %s is not in memory as answered: %+v", lease, e.Model)
		}
	case RefuseLoad:
		w.answered(e.To)
	case AnswerEvict:
		w.answered(e.To)
	case RefuseEvict:
		w.answered(e.To)
	case AnswerUnload:
		w.answered(e.To)
		if _, ok := w.models[e.Lease]; ok {
			w.Fatalf("answered: %s is still in memory", e.Lease)
		}
	case RefuseUnload:
		w.answered(e.To)
	case AnswerAdapters:
		w.answered(e.To)
		if model := w.models[e.Lease]; model.AdapterPages != e.Pages && !w.outstanding(e.Lease) &&
			w.phase(e.Lease) == Resident {
			w.Fatalf("answered: %s has %d pages for adapters, not %d", e.Lease, model.AdapterPages, e.Pages)
		}
	case RefuseAdapters:
		w.answered(e.To)
	}
}

func (w *world) answered(r Request) {
	if !w.wait[r.ID] {
		w.Fatalf("answered: %s twice, or without a request", r.ID)
	}
	delete(w.wait, r.ID)
}

// checkAsk checks that a request to shrink leaves at least the guaranteed share and the replica's
// minimum.
func (w *world) checkAsk(e AskShrink) {
	if _, again := w.askedAt[e.Attempt]; again {
		return
	}
	w.askedAt[e.Attempt] = w.now
	h := w.m.holders[e.Lease]
	if least := max(w.m.shares()[e.Lease].guaranteed, h.kv.report.MinBlocks); e.Blocks < least && !w.refused {
		w.Fatalf("guaranteed: %s is asked to shrink to %d blocks, of which %d are guaranteed", e.Lease, e.Blocks, least)
	}
}

// checkRecall checks that a pool is asked for no page of its minimum.
func (w *world) checkRecall(e AskPool) {
	if _, again := w.askedAt[e.Attempt]; again {
		return
	}
	w.askedAt[e.Attempt] = w.now
	if model := w.models[e.Lease]; e.Pages < model.AdapterMin {
		w.Fatalf("minimum: the pool of %s is asked to shrink to %d pages, below %d", e.Lease, e.Pages, model.AdapterMin)
	}
}

// leaseOf returns the lease and the kind of a job.
func leaseOf(job Effect) (lease, kind string) {
	switch j := job.(type) {
	case Inspect:
		return j.Spec.Lease, "load"
	case LoadWeights:
		return fmt.Sprint("weights-", j.Copy), "load"
	case FreeWeights:
		return fmt.Sprint("weights-", j.Copy), "free"
	case Open:
		return j.Spec.Lease, "load"
	case Free:
		return j.Lease, "free"
	case Resize:
		return j.Lease, "resize"
	case Allocate:
		return j.Lease, "allocate"
	case ChangePages:
		return j.Lease, "change"
	}
	return "", ""
}

// outstanding reports whether the lease has a running job, or a result that was not reported.
func (w *world) outstanding(lease string) bool {
	of := func(job Effect) bool { l, _ := leaseOf(job); return l == lease }
	return slices.ContainsFunc(w.jobs, of) || slices.ContainsFunc(w.notes, func(n note) bool { return of(n.job) })
}

// alone reports whether a lease has no other job while it has one of this kind.
func alone(kind string) bool { return kind == "load" || kind == "free" }

func (w *world) startJob(job Effect) {
	lease, kind := leaseOf(job)
	for _, other := range w.jobs {
		if l, k := leaseOf(other); l == lease && (k == kind || alone(k) || alone(kind)) {
			w.Fatalf("one job: %T of %s starts while %T runs", job, lease, other)
		}
	}
	if r, ok := job.(Resize); ok && r.Blocks < w.models[lease].Blocks && w.confirmed[lease] != r.Attempt {
		w.Fatalf("asked first: %s loses blocks that its replica did not give up", lease)
	}
	if r, ok := job.(Resize); ok && r.Blocks > w.models[lease].Blocks &&
		(w.health != quarantine.Healthy || w.m.Has(Inspecting, Waiting, Loading, Opening, Freeing)) {
		w.Fatalf("last: %s grows to %d blocks while memory is wanted otherwise", lease, r.Blocks)
	}
	if r, ok := job.(Resize); ok && r.Blocks > w.models[lease].Blocks && w.m.holders[lease].standby() {
		w.Fatalf("standby: %s grows to %d blocks", lease, r.Blocks)
	}
	if c, ok := job.(ChangePages); ok && c.Pages > w.models[lease].AdapterPages {
		if w.health != quarantine.Healthy || w.m.Has(Inspecting, Waiting, Loading, Opening, Freeing) {
			w.Fatalf("last: %s gets %d pages for adapters while memory is wanted otherwise", lease, c.Pages)
		}
		if lacking := w.m.lackingKV(); w.m.freePages() < lacking {
			w.Fatalf("last: %s gets %d pages for adapters, and KV memory lacks %d of %d free", lease, c.Pages, lacking,
				w.m.freePages())
		}
	}
	if f, ok := job.(FreeWeights); ok {
		for r, copy := range w.readers {
			if copy == f.Copy {
				w.Fatalf("in use: weights %d are freed while %s reads them", f.Copy, r)
			}
		}
		for _, model := range w.models {
			if model.Copy == f.Copy {
				w.Fatalf("in use: weights %d are freed while %s uses them", f.Copy, model.Lease)
			}
		}
	}
	if o, ok := job.(Open); ok {
		c, there := w.copies[o.Copy]
		if revision, _ := contentOf(o.Spec.Model, o.Spec.Deploy); !there || c.Content.Revision != revision {
			w.Fatalf("in use: %s opens weights %d, which are %+v instead of %s", lease, o.Copy, c, revision)
		}
	}
	w.jobs = append(w.jobs, job)
}

// runJob runs one of the jobs to its end.
func (w *world) runJob() {
	if len(w.jobs) > 0 {
		i := rapid.IntRange(0, len(w.jobs)-1).Draw(w.T, "job")
		w.work(i, rapid.IntRange(0, 3).Draw(w.T, "fails") == 0)
	}
}

// work runs a job to its end.
func (w *world) work(i int, fails bool) {
	job := w.jobs[i]
	w.jobs = slices.Delete(w.jobs, i, i+1)
	w.notes = append(w.notes, note{job, fails, w.result(job, fails)})
}

// result carries out a job and returns a function that reports its end.
func (w *world) result(job Effect, fails bool) func() []Effect {
	failure := Failure{Cause: Cause(rapid.IntRange(0, int(Unsupported)).Draw(w.T, "cause")), Detail: "fault"}
	switch j := job.(type) {
	case Inspect:
		if fails {
			return func() []Effect { return w.m.InspectFailed(j.Spec.Lease, failure, w.now) }
		}
		lease := j.Spec.Lease
		return func() []Effect { return w.m.Inspected(lease, w.sizes[lease], w.files[lease], w.now) }
	case LoadWeights:
		if fails {
			return func() []Effect { return w.m.WeightsFailed(j.Copy, failure, w.now) }
		}
		c := residency.Copy{Number: j.Copy, Source: j.Source}
		c.Content.Revision, _ = contentOf(j.Source.Model, j.Source.Deploy)
		w.copies[j.Copy] = c
		return func() []Effect { return w.m.WeightsLoaded(j.Copy, c.Content, w.now) }
	case FreeWeights:
		if fails {
			return func() []Effect { return w.m.WeightsNotFreed(j.Copy, w.now) }
		}
		delete(w.copies, j.Copy)
		return func() []Effect { return w.m.WeightsFreed(j.Copy, w.now) }
	case Open:
		if fails {
			return func() []Effect { return w.m.LoadFailed(j.Spec.Lease, failure, w.now) }
		}
		model := Model{
			Lease: j.Spec.Lease, Copy: j.Copy, Owner: j.Owner, Size: w.sizes[j.Spec.Lease],
			Blocks: j.Blocks, BlockBytes: hbm.PageBytes,
			AdapterPages: j.Spec.AdapterPages, AdapterMin: j.Spec.AdapterPages, Deploy: j.Spec.Deploy,
		}
		w.models[model.Lease] = model
		return func() []Effect { return w.m.Loaded(model, w.now) }
	case Free:
		if fails {
			return func() []Effect { return w.m.FreeFailed(j.Lease, failure, w.now) }
		}
		delete(w.models, j.Lease)
		delete(w.given, j.Lease)
		return func() []Effect { return w.m.Freed(j.Lease, 1, w.now) }
	case Resize:
		model, ok := w.models[j.Lease]
		if fails || !ok {
			return func() []Effect { return w.m.NotResized(j.Lease, j.Attempt, failure, w.now) }
		}
		model.Blocks = j.Blocks
		w.models[j.Lease] = model
		return func() []Effect { return w.m.Resized(j.Lease, j.Attempt, j.Blocks, w.now) }
	case Allocate:
		model, ok := w.models[j.Lease]
		if fails || !ok {
			return func() []Effect { return w.m.NotAllocated(j.Lease, j.Attempt, failure, w.now) }
		}
		model.AdapterPages, model.AdapterMin = j.Pages, j.Min
		w.models[j.Lease] = model
		return func() []Effect { return w.m.Allocated(j.Lease, j.Attempt, j.Pages, w.now) }
	case ChangePages:
		return w.changePages(j, fails, failure)
	}
	panic("not a job")
}

// changePages adds pages for adapters, or frees those that the pool has given back.
func (w *world) changePages(j ChangePages, fails bool, failure Failure) func() []Effect {
	model, ok := w.models[j.Lease]
	if fails || !ok {
		return func() []Effect {
			return w.m.PagesNotChanged(j.Lease, j.Attempt, model.AdapterPages, failure, w.now)
		}
	}
	if j.Pages > model.AdapterPages {
		model.AdapterPages = j.Pages
	} else {
		freed := min(model.AdapterPages-j.Pages, w.given[j.Lease])
		model.AdapterPages -= freed
		w.given[j.Lease] -= freed
	}
	w.models[j.Lease] = model
	return func() []Effect { return w.m.PagesChanged(j.Lease, j.Attempt, model.AdapterPages, w.now) }
}

// deliver reports the result of one of the ended jobs.
func (w *world) deliver() {
	if len(w.notes) > 0 {
		i := rapid.IntRange(0, len(w.notes)-1).Draw(w.T, "note")
		n := w.notes[i]
		w.notes = slices.Delete(w.notes, i, i+1)
		w.do(n.report)
	}
}
