package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/core/deployment"
	"troupe/core/planner"
	"troupe/core/router"
	"troupe/core/session"
	"troupe/workload"
)

// epoch is the beginning of virtual time. What is before it is after the beginning of Unix time.
var epoch = time.Unix(3600, 0).UTC()

// routerNode is the node of the router, through which all requests come in.
const routerNode = "simulated"

const (
	// routerTick is the time between two ticks of the router while requests wait there.
	routerTick = 500 * time.Millisecond
	// patience is how long after the duration a run goes on in which no request ends.
	patience = time.Hour
)

// simulation is one run.
type simulation struct {
	cfg      Config
	queue    queue
	handlers []handler // by index of the queue
	free     []int     // indices without a handler
	key      key       // event being handled
	posts    []func()  // what follows the event, in order
	agenda   agenda
	copies   copies

	nodes     map[string]*node
	nodeOrder []*node
	between   map[pair]*pipe // networks between two nodes of which the scenario has a fault
	devices   []*device
	located   map[deployment.Location]*device
	byDevice  map[string]*device  // by their full names
	byID      map[string]*replica // that have not ended, as far as others know
	started   uint64              // replicas so far
	preempted int                 // replicas so far
	planner   *planner.Machine
	routing   bool // the router ticks
	models    map[string]*model
	router    *router.Machine
	requests  map[string]*request // those that run or wait, by id
	arrived   int
	mail      []message // to replicas, in order
	changed   []*replica
	record    recorder
	series    series
	reported  time.Time // last call of Progress
	last      time.Time // end of the last request
}

// message is a message of a device to a replica.
type message struct {
	to      *replica
	turn    uint64
	granted bool // else recalled
	open    bool
}

// Run simulates the requests of a source until all of them have ended. Requests that arrive after the
// duration are left out.
func Run(cfg Config, requests workload.Source) (Result, error) {
	s, err := start(cfg)
	if err != nil {
		return Result{}, err
	}
	for r, err := range requests {
		if err != nil {
			return Result{}, err
		}
		if r.At >= cfg.Duration {
			break
		}
		k := key{epoch.Add(r.At), arrival, s.arrived}
		if k.at.Before(s.key.at) {
			return Result{}, fmt.Errorf("request %d arrives at %v, before the one ahead of it; sort the requests "+
				"by time", s.arrived, r.At)
		}
		if s.runUntil(k); s.record.err != nil {
			break
		}
		s.begin(k)
		if err := s.arrive(r); err != nil {
			return Result{}, err
		}
		s.deliver()
	}
	s.finish()
	return s.result(), s.record.close()
}

// finish runs until all requests have ended, and the duration is over.
func (s *simulation) finish() {
	end := epoch.Add(s.cfg.Duration)
	for {
		k, ok := s.queue.first()
		switch {
		case !ok:
			return
		case k.at.Before(end):
		case len(s.requests) == 0, k.at.Sub(s.last) > patience && k.at.Sub(end) > patience:
			s.key = key{at: end}
			return
		}
		s.runUntil(key{k.at, k.kind, k.index + 1})
	}
}

// begin notes the event that is handled from now on.
func (s *simulation) begin(k key) {
	s.key = k
	if s.cfg.Progress != nil && k.at.Sub(s.reported) >= time.Minute {
		s.reported = k.at
		s.cfg.Progress(k.at.Sub(epoch))
	}
}

// runUntil handles all events before one.
func (s *simulation) runUntil(end key) {
	for {
		k, ok := s.queue.first()
		if !ok || !k.before(end) {
			return
		}
		s.queue.clear(k.index)
		s.begin(k)
		s.handlers[k.index].handle(k)
		s.deliver()
	}
}

// post does something after the effects that are being carried out, at the same time.
func (s *simulation) post(do func()) { s.posts = append(s.posts, do) }

// starting reports whether the simulation has not begun.
func (s *simulation) starting() bool { return s.key.at.Before(epoch) }

// freeIndex frees an index of the queue.
func (s *simulation) freeIndex(index int) { s.free = append(s.free, index) }

// deliver sends the messages of devices, does what was posted, and plans the next events of all replicas that
// changed.
func (s *simulation) deliver() {
	for at := 0; len(s.mail) > 0 || at < len(s.posts); {
		for i := 0; i < len(s.mail); i++ {
			s.mail[i].deliver(s.key.at)
		}
		if s.mail = s.mail[:0]; at < len(s.posts) {
			s.posts[at]()
			at++
		}
	}
	clear(s.posts)
	s.posts = s.posts[:0]
	for _, r := range s.changed {
		r.changed = false
		r.plan()
	}
	s.changed = s.changed[:0]
}

func (m message) deliver(now time.Time) {
	if m.to.ended {
		return
	}
	if m.granted {
		m.to.perform(m.to.machine.Granted(m.turn, m.open, now), now)
		return
	}
	m.to.perform(m.to.machine.Recalled(m.turn, now), now)
}

// arrive routes a request and submits it to its replica.
func (s *simulation) arrive(r workload.Request) error {
	id := "r" + strconv.Itoa(s.arrived)
	s.arrived++
	m, err := s.modelOf(r)
	if err != nil {
		return err
	}
	q := &request{id: id, number: uint32(s.arrived), model: m, at: s.key.at, prompt: max(1, r.Prompt),
		output: max(1, r.Output), client: r.Client, adapter: r.Adapter, machine: session.New(session.Config{})}
	q.tokens = promptOf(r, q.number)
	m.requests++
	m.promptTokens += q.prompt
	s.series.arrived(m, s.key.at)
	m.window.Arrived(s.key.at)
	s.requests[id] = q
	q.perform(q.machine.Start(0, "", s.key.at))
	return nil
}

// modelOf returns the model of a request. A trace without models is for the only one.
func (s *simulation) modelOf(r workload.Request) (*model, error) {
	name := r.Model
	if name == "" && len(s.cfg.Deployments) == 1 {
		name = s.cfg.Deployments[0].Name
	}
	switch m := s.models[name]; {
	case m == nil:
		return nil, fmt.Errorf("request %d is for model %q; there are deployments of %s", s.arrived-1, name,
			strings.Join(slices.Sorted(maps.Keys(s.models)), ", "))
	case r.Adapter != "" && m.Adapters == nil:
		return nil, fmt.Errorf("request %d is for adapter %q, and deployment %s takes none; give it adapters, with "+
			"their sizes and pages", s.arrived-1, r.Adapter, name)
	default:
		return m, nil
	}
}

// refused ends a request that was refused or interrupted for good.
func (s *simulation) refused(q *request, why string) {
	q.model.refused++
	q.model.window.Refused(s.key.at)
	s.series.ended(q.model, false, s.key.at)
	s.record.refuse(s.key.at, q.id, why)
	s.ended(q)
}

// ended forgets a request.
func (s *simulation) ended(q *request) {
	q.replica = nil
	delete(s.requests, q.id)
	s.last = s.key.at
}
