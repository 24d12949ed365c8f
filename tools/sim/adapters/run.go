package adapters

import (
	"math"
	"slices"
	"strconv"
	"time"

	"troupe/core/lora"
	"troupe/workload"
)

// Setting is a model, its limits, and its scheduling.
type Setting struct {
	Model      Model
	Rank       int
	Resident   int           // adapters that fit on the device
	Sequences  int           // per step
	StepTokens int           // per step
	From       time.Duration // earlier events are not counted
	Policy     lora.Policy
	Popular    int // maximum number of adapters prefetched by popularity every 100 ms
	Waiting    int // maximum number of waiting requests; others are refused

	HalfLife time.Duration           // of popularity; 0 means the pool's default
	Order    func(r *run) lora.Order // of eviction; nil means the pool's own
	Streamed bool                    // a step may start when an adapter's first layer is loaded
}

const tickInterval = 100 * time.Millisecond

// Outcome is the result of a run; rates are per second.
type Outcome struct {
	Mean, P99                   time.Duration // time to first token
	Tokens                      float64       // output tokens
	Loads, Cold, Visible, Ahead float64       // explained on the page
	Refused                     float64       // share of all requests
	first                       []time.Duration
}

// run is a running simulation. A request's id is its index in the trace.
type run struct {
	Setting
	trace     []workload.Request
	pool      *lora.Pool
	admission *lora.Admission
	layout    *lora.Layout

	now, linkFree, stepEnd, tick time.Duration
	nextRequest                  int // index of the next request
	copies                       []pendingCopy
	waiting                      []lora.Waiting
	running                      []*sequence
	stepping                     bool
	delayed                      map[string]bool // requests whose cold start is visible
	out                          Outcome
	tokens, loads, cold, visible int
	refused                      int
}

type sequence struct {
	id     string
	index  int
	output int // tokens so far
}

// pendingCopy is a copy that ends at a given time.
type pendingCopy struct {
	at      time.Duration
	adapter string
}

var epoch = time.Unix(0, 0)

const never = time.Duration(math.MaxInt64)

// simulate runs a trace to its end.
func simulate(s Setting, trace []workload.Request) Outcome {
	r := newRun(s, trace)
	r.finish()
	return r.outcome()
}

func newRun(s Setting, trace []workload.Request) *run {
	r := &run{Setting: s, trace: trace, layout: s.Model.Layout(s.Rank), delayed: map[string]bool{}}
	pages := make([]uint32, s.Resident*r.layout.Pages())
	for i := range pages {
		pages[i] = uint32(i)
	}
	cfg := lora.Config{Pages: pages, HalfLife: s.HalfLife}
	if s.Order != nil {
		cfg.Order = s.Order(r)
	}
	r.pool = lora.NewPool(cfg)
	r.admission = lora.NewAdmission(s.Policy, r.pool)
	for _, q := range trace {
		r.pool.Register(q.Adapter, r.layout) // repeated registrations are refused without effect
	}
	return r
}

// finish runs the simulation and returns the number of visible cold starts.
func (r *run) finish() int {
	for r.nextRequest < len(r.trace) || len(r.waiting)+len(r.running) > 0 {
		r.step()
	}
	return r.visible
}

// step processes the next event. Events at the same time are processed in the order of the cases.
func (r *run) step() {
	arrival, copied, step := never, never, never
	if r.nextRequest < len(r.trace) {
		arrival = r.trace[r.nextRequest].At
	}
	if len(r.copies) > 0 {
		copied = r.copies[0].at
	}
	if r.stepping {
		step = r.stepEnd
	}
	r.now = min(arrival, copied, step, r.tick)
	switch r.now {
	case copied:
		r.pool.Loaded(r.copies[0].adapter, lora.DRAM, nil)
		r.copies = r.copies[1:]
	case arrival:
		r.arrive()
	case r.tick:
		r.tick += tickInterval
		r.pool.Prefetch(r.Popular, epoch.Add(r.now))
	case step:
		r.endStep()
	}
	r.execute()
	if !r.stepping {
		r.startStep()
	}
}

func (r *run) arrive() {
	q := r.trace[r.nextRequest]
	if len(r.waiting) == r.Waiting {
		r.nextRequest++
		r.refused++
		return
	}
	if state, _ := r.pool.State(q.Adapter); state != lora.Idle && state != lora.Active && q.At >= r.From {
		r.cold++
	}
	r.waiting = append(
		r.waiting, lora.Waiting{ID: strconv.Itoa(r.nextRequest), Adapter: q.Adapter, Arrived: epoch.Add(q.At)},
	)
	r.nextRequest++
	r.pool.Requested(q.Adapter, epoch.Add(r.now))
	r.admission.PrefetchAdapters(r.waiting)
}

// execute executes the pool's actions. The link copies one adapter at a time. An evicted adapter is
// idle, so no step reads it.
func (r *run) execute() {
	for actions := r.pool.Actions(); len(actions) > 0; actions = r.pool.Actions() {
		for _, action := range actions {
			switch a := action.(type) {
			case lora.Load:
				begin := max(r.now, r.linkFree)
				r.linkFree = begin + r.Model.load(r.layout.Bytes())
				there := r.linkFree
				if r.Streamed {
					there = begin + r.Model.load(r.layout.Bytes()/int64(r.Model.Layers))
				}
				r.copies = append(r.copies, pendingCopy{there, a.Adapter})
				if r.now >= r.From {
					r.loads++
				}
			case lora.Evict:
				r.pool.Evicted(a.Adapter)
			}
		}
	}
}

// startStep admits requests and starts a step if there is work.
func (r *run) startStep() {
	inside := make([]string, len(r.running))
	tokens, context := len(r.running), 0
	for i, s := range r.running {
		inside[i] = r.trace[s.index].Adapter
		context += r.trace[s.index].Prompt + s.output
	}
	entered := map[string]bool{}
	full := false
	r.admission.Admit(r.waiting, inside, epoch.Add(r.now), func(w lora.Waiting) bool {
		index, _ := strconv.Atoi(w.ID)
		prompt := r.trace[index].Prompt
		if full = len(r.running) == r.Sequences || tokens > 0 && tokens+prompt > r.StepTokens; full {
			return false
		}
		entered[w.ID] = true
		tokens, context = tokens+prompt, context+prompt
		inside = append(inside, w.Adapter)
		r.running = append(r.running, &sequence{id: w.ID, index: index})
		return true
	})
	r.waiting = slices.DeleteFunc(r.waiting, func(w lora.Waiting) bool { return entered[w.ID] })
	r.admission.PrefetchAdapters(r.waiting)
	different := distinct(inside)
	r.markVisible(different, full)
	r.execute()
	if len(r.running) > 0 {
		r.stepping = true
		r.stepEnd = r.now + r.Model.step(tokens, context, int64(len(different))*r.layout.Bytes())
	}
}

// markVisible marks the requests that only wait for their adapter: the step had room for them.
func (r *run) markVisible(inside map[string]bool, full bool) {
	if full {
		return
	}
	for _, w := range r.waiting {
		state, _ := r.pool.State(w.Adapter)
		place := inside[w.Adapter] || r.Policy.MaxAdapters == 0 || len(inside) < r.Policy.MaxAdapters
		if state == lora.Idle || state == lora.Active || !place || r.delayed[w.ID] {
			continue
		}
		r.delayed[w.ID] = true
		if r.now >= r.From {
			r.visible++
		}
	}
}

func (r *run) endStep() {
	r.stepping = false
	left := r.running[:0]
	for _, s := range r.running {
		q := r.trace[s.index]
		s.output++
		if s.output == 1 && q.At >= r.From {
			r.out.first = append(r.out.first, r.now-q.At)
		}
		if r.now >= r.From {
			r.tokens++
		}
		if s.output == q.Output {
			r.pool.Unpin(s.id)
			continue
		}
		left = append(left, s)
	}
	r.running = left
}

func (r *run) outcome() Outcome {
	o := r.out
	span := (r.now - r.From).Seconds()
	slices.Sort(o.first)
	var sum time.Duration
	for _, d := range o.first {
		sum += d
	}
	o.Mean, o.P99 = sum/time.Duration(len(o.first)), o.first[len(o.first)*99/100]
	o.Tokens, o.Loads = float64(r.tokens)/span, float64(r.loads)/span
	o.Cold, o.Visible = float64(r.cold)/span, float64(r.visible)/span
	o.Refused = float64(r.refused) / float64(len(r.trace))
	o.Ahead = float64(r.pool.Stats().Prefetches) / r.now.Seconds()
	return o
}

func distinct(adapters []string) map[string]bool {
	all := make(map[string]bool, len(adapters))
	for _, a := range adapters {
		all[a] = true
	}
	return all
}
