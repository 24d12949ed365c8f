package device

import (
	"fmt"
	"strings"
	"time"

	"troupe/core/hbm"
	"troupe/core/residency"
)

// WeightsLoaded reports that a copy of weights was loaded.
func (m *Memory) WeightsLoaded(copy uint64, content residency.Content, now time.Time) []Effect {
	return m.handleWeights(m.weights.Loaded(copy, content, now), Failure{}, now)
}

// WeightsFailed reports that a copy could not be loaded and left nothing in memory.
func (m *Memory) WeightsFailed(copy uint64, f Failure, now time.Time) []Effect {
	m.detectLoss(f)
	return m.handleWeights(m.weights.LoadFailed(copy, now), f, now)
}

// WeightsFreed reports that the memory of a copy is free.
func (m *Memory) WeightsFreed(copy uint64, now time.Time) []Effect {
	m.lastDemand = now
	return m.handleWeights(m.weights.Released(copy, now), Failure{}, now)
}

// WeightsNotFreed reports that the memory of a copy could not be freed.
func (m *Memory) WeightsNotFreed(copy uint64, now time.Time) []Effect {
	return m.handleWeights(m.weights.ReleaseFailed(copy, now), Failure{}, now)
}

// ReadAsked begins to read the weights of a revision for another device or node. It returns their copy,
// or 0 if there is none to be read.
func (m *Memory) ReadAsked(reader, revision, layout string, now time.Time) (uint64, []Effect) {
	number := m.weights.Readable(revision, layout)
	if number == 0 {
		return 0, nil
	}
	return number, m.handleWeights(m.weights.Read(reader, number, now), Failure{}, now)
}

// ReadEnded reports that a reader of a copy has ended.
func (m *Memory) ReadEnded(reader string, copy uint64, now time.Time) []Effect {
	return m.handleWeights(m.weights.ReadEnded(reader, copy, now), Failure{}, now)
}

// EvictAsked requests that unused weights be freed: those of a model or of an owner in the ledger, or
// all if none is named. With park, they are copied to the host cache before. Weights in use are refused
// if they are named.
func (m *Memory) EvictAsked(r Request, model string, park bool, now time.Time) []Effect {
	var unused []residency.Copy
	found := model == ""
	for _, c := range m.weights.Copies() {
		if model != "" && c.Source.Model != model && c.Owner() != model {
			continue
		}
		found = true
		switch {
		case c.State >= residency.Leaving:
		case len(c.Users) == 0:
			unused = append(unused, c)
		case model != "":
			return append(m.take(), RefuseEvict{To: r, Refusal: Refusal{Reason: InUse, Detail: fmt.Sprintf(
				"%s: the weights of %s are used by %s; scale the model down or delete it", m.cfg.Name, model,
				leasesOf(c))}})
		}
	}
	if !found {
		return append(m.take(), RefuseEvict{To: r, Model: model, Refusal: Refusal{Reason: NotFound,
			Detail: "weights of " + model + " are not on " + m.cfg.Name + "; gpus.list shows those that are"}})
	}
	for _, c := range unused {
		evict := m.weights.Evict
		if park {
			evict = m.weights.Park
		}
		m.performWeights(evict(c.Number, "by command", now), Failure{}, now)
	}
	m.emit(AnswerEvict{r})
	return m.handled(now)
}

func leasesOf(c residency.Copy) string {
	var all []string
	for _, u := range c.Users {
		all = append(all, u.Lease)
	}
	return strings.Join(all, ", ")
}

// handleWeights carries out the effects of an event of the weights, and then tries the requests that
// wait for memory.
func (m *Memory) handleWeights(effects []residency.Effect, f Failure, now time.Time) []Effect {
	m.performWeights(effects, f, now)
	return m.handled(now)
}

// performWeights carries out effects of the weights. Loads that fail do so because of f.
func (m *Memory) performWeights(effects []residency.Effect, f Failure, now time.Time) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case residency.Load:
			m.emit(LoadWeights{e.Copy, e.Source})
		case residency.Release:
			c, _ := m.weights.Copy(e.Copy)
			c.Source.Revision = c.Content.Revision
			m.emit(FreeWeights{e.Copy, e.Park, e.OrKeep, c.Source})
		case residency.Revoke:
			m.emit(RevokeReaders{e.Copy, e.Why})
		case residency.Ready:
			m.follow(event{kind: WeightsReady, lease: e.Lease, copy: e.Copy, now: now})
		case residency.Failed:
			m.follow(event{kind: WeightsFailed, lease: e.Lease, failure: f, now: now})
		case residency.Merged:
			m.emit(WeightsMerged{e.Copy, e.Into})
		case residency.Evicted:
			c, _ := m.weights.Copy(e.Copy)
			m.emit(WeightsEvicted{c, e.Why})
		case residency.Ignored:
			m.emit(WeightsIgnored{e.Copy, e.Event, e.State, e.Why})
		}
	}
}

// sourceOf returns the source of the weights that a lease needs.
func sourceOf(s Spec, size Size, f Files) residency.Source {
	return residency.Source{Model: s.Model, Path: s.Path, Revision: s.Revision, Expected: f.Revision, Deploy: s.Deploy,
		Layout: f.Layout, Bytes: size.Weights}
}

// needOf returns the memory that a load adds to the budget. Weights that are in use are counted
// already.
func (m *Memory) needOf(h *holder, size Size, f Files) hbm.Need {
	asked := holder{spec: h.spec, size: size}
	need := asked.need()
	c, there := m.weights.Copy(m.weights.Find(sourceOf(h.spec, size, f)))
	if !there || len(c.Users) == 0 {
		need.Fixed += asked.weightBytes()
	}
	return need
}

// missingWeights returns the pages that the weights of a waiting lease still need.
func (m *Memory) missingWeights(h *holder) int {
	if c, _ := m.weights.Copy(h.copy); c.State == residency.Wanted {
		return c.Pages()
	}
	return 0
}

// leaveWeights ends the use of the weights by a lease.
func (m *Memory) leaveWeights(h *holder, fate residency.Fate, now time.Time) {
	if m.suspect {
		fate = residency.Drop
	}
	m.performWeights(m.weights.Gone(h.lease, h.copy, fate, now), Failure{}, now)
	h.copy = 0
}
