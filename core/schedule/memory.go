package schedule

import (
	"maps"
	"strings"
	"time"
)

// Memory is what a plan passes to the next one: times, learned bounds, failed starts and substitutes. A plan without
// it is valid, but may repeat a failed start, or change a number of replicas sooner.
type Memory struct {
	Models      map[string]ModelMemory // by name
	Avoid       map[string]Attempt     // by model and device, as "model on node-a/gpu-0"
	Substitutes map[string]Substitute  // by the name of the substitute
}

// ModelMemory is what is remembered of a model.
type ModelMemory struct {
	LowSince  time.Time // since when one replica fewer is enough; zero: it is not
	HighSince time.Time // since when the load is too high, by the policy "threshold"; zero: it is not
	// Overload is the least rate of arrivals per replica at which there was too little headroom, although all
	// wanted replicas served. 0: none was seen.
	Overload float64
	// Queued is the highest rate of arrivals per replica while sequences queued, by the policy "threshold".
	Queued  float64
	Changed time.Time // when its number of replicas was last changed
	// MissedSince is since when the P99 has been over the SLO, with too few requests to be certain; zero: it is not.
	MissedSince time.Time
	Learned     Learned
	Gaps        Gaps
	NoMove      time.Time // no replica of it moves before
	// Priority is the priority with which the model is planned, and Ranked when it last changed; zero: never.
	Priority Priority
	Ranked   time.Time
	// Revision is the last revision of the model.
	Revision string
}

// Attempt is a start that failed or timed out.
type Attempt struct {
	At       time.Time // of the last one
	Until    time.Time // no other attempt before
	Failures int       // in a row
	Replica  string    // the last one
	Why      string
}

// Substitute names the replica whose place a substitute takes when it serves.
type Substitute struct {
	Replaces string
	Moves    bool // to a better device
}

// clone returns a copy whose maps may be changed.
func (m Memory) clone() Memory {
	out := Memory{make(map[string]ModelMemory, len(m.Models)), make(map[string]Attempt, len(m.Avoid)),
		make(map[string]Substitute, len(m.Substitutes))}
	maps.Copy(out.Models, m.Models)
	maps.Copy(out.Avoid, m.Avoid)
	maps.Copy(out.Substitutes, m.Substitutes)
	return out
}

// prune forgets models that are gone and old attempts. If the clock has gone back, times in the future become the
// present, so that periods begin again, such as backoffs.
func (m Memory) prune(now time.Time, o Options, models map[string]*model) {
	for name, memory := range m.Models {
		memory.LowSince, memory.HighSince = past(now, memory.LowSince), past(now, memory.HighSince)
		memory.Changed, memory.MissedSince = past(now, memory.Changed), past(now, memory.MissedSince)
		memory.Learned.At, memory.Ranked = past(now, memory.Learned.At), past(now, memory.Ranked)
		memory.Gaps.At, memory.Gaps.Last = past(now, memory.Gaps.At), past(now, memory.Gaps.Last)
		if most := now.Add(o.MoveBackoff); memory.NoMove.After(most) {
			memory.NoMove = most
		}
		m.Models[name] = memory
		if models[name] == nil {
			delete(m.Models, name)
		}
	}
	for key, a := range m.Avoid {
		if a.At.After(now) {
			a.At, a.Until = now, now.Add(a.Until.Sub(a.At))
		}
		if most := now.Add(o.MaxBackoff); a.Until.After(most) {
			a.Until = most
		}
		m.Avoid[key] = a
		model, _, _ := strings.Cut(key, " on ")
		if now.Sub(a.Until) > o.MaxBackoff || models[model] == nil {
			delete(m.Avoid, key)
		}
	}
}

// avoidKey returns the key of a model and a device in Avoid.
func avoidKey(model, device string) string { return model + " on " + device }

// failed notes a failed attempt. It counts once, even if the replica is still there in later plans.
func (m Memory) failed(o Options, now time.Time, r *replica, why string) {
	for _, d := range r.Devices {
		key := avoidKey(r.Placed.Model, d)
		a := m.Avoid[key]
		if a.Replica == r.Name && now.Before(a.Until) {
			continue
		}
		wait := o.Backoff << min(a.Failures, 16)
		m.Avoid[key] = Attempt{now, now.Add(min(wait, o.MaxBackoff)), a.Failures + 1, r.Name, why}
	}
}

// revise forgets the failures of a model whose revision has changed.
func (m Memory) revise(name, revision string, devices []*device) {
	memory := m.Models[name]
	if memory.Revision != revision {
		memory.Revision, memory.NoMove = revision, time.Time{}
		for _, d := range devices {
			delete(m.Avoid, avoidKey(name, d.Name))
		}
	}
	m.Models[name] = memory
}

// rank returns the priority that the model is planned with. A changed priority takes effect at once, but at most
// once per residence time. Otherwise models whose priorities keep changing would keep displacing each other.
func (w *world) rank(m *model) Priority {
	memory, known := w.memory.Models[m.Name]
	switch {
	case !known:
		memory.Priority = m.Priority
	case memory.Priority == m.Priority || !memory.Ranked.IsZero() && w.at.Sub(memory.Ranked) < w.residence(m):
		return memory.Priority
	default:
		memory.Priority, memory.Ranked = m.Priority, w.at
	}
	w.memory.Models[m.Name] = memory
	return memory.Priority
}

// succeeded forgets earlier failed attempts on the devices of a replica that serves.
func (m Memory) succeeded(r *replica) {
	for _, d := range r.Devices {
		if key := avoidKey(r.Placed.Model, d); r.Since.After(m.Avoid[key].At) {
			delete(m.Avoid, key)
		}
	}
}
