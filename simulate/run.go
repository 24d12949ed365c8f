package simulate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/core/router"
	"troupe/workload"
)

// epoch is the beginning of virtual time.
var epoch = time.Unix(0, 0).UTC()

// routerNode is the node of the router, through which all requests come in.
const routerNode = "simulated"

// simulation is one run.
type simulation struct {
	cfg      Config
	queue    queue
	key      key // event being handled
	devices  []*device
	replicas []*replica
	byName   map[string]*replica
	models   map[string]*model
	router   *router.Machine
	requests map[string]*request // those that run or wait, by id
	arrived  int
	mail     []message // to replicas, in order
	agenda   agenda
	draining bool // no further request comes; tiers and pools may go on
	nodes    map[string]*node
	changed  []*replica
	record   recorder
	reported time.Time // last call of Progress
	last     time.Time // end of the last request
}

// message is a message of a device to a replica.
type message struct {
	to      *replica
	turn    uint64
	granted bool // else recalled
	open    bool
	do      func() // instead: of another actor
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
		s.runUntil(k)
		s.begin(k)
		if err := s.arrive(r); err != nil {
			return Result{}, err
		}
		s.deliver()
	}
	s.draining = true
	s.runUntil(key{at: epoch.Add(1<<62 - 1)})
	return s.result(), s.record.close(s.replicas)
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
		if !ok || !k.before(end) || s.draining && k.kind == callDue && len(s.requests) == 0 {
			return
		}
		s.queue.clear(k.index)
		s.begin(k)
		switch {
		case k.kind == callDue:
			s.agenda.run(s)
		case k.index < len(s.replicas):
			s.replicas[k.index].handle(k)
		default:
			s.devices[k.index-len(s.replicas)].onTimer()
		}
		s.deliver()
	}
}

// deliver sends the messages of devices, and plans the next events of all replicas that changed.
func (s *simulation) deliver() {
	for i := 0; i < len(s.mail); i++ {
		s.mail[i].deliver(s.key.at)
	}
	s.mail = s.mail[:0]
	for _, r := range s.changed {
		r.changed = false
		r.plan()
	}
	s.changed = s.changed[:0]
}

func (m message) deliver(now time.Time) {
	switch {
	case m.do != nil:
		m.do()
		return
	case m.granted:
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
	for _, replica := range m.replicas {
		replica.sync(s.key)
	}
	q := &request{number: uint32(s.arrived), model: m, at: s.key.at, prompt: max(1, r.Prompt), output: max(1, r.Output),
		client: r.Client, adapter: r.Adapter}
	q.tokens = promptOf(r, q.number)
	m.requests++
	m.promptTokens += q.prompt
	s.requests[id] = q
	s.performRouter(s.router.Route(router.Request{ID: id, Model: m.Name, Prompt: q.tokens,
		Adapter: keyOf(q.adapter), Session: router.Actor{ID: id}, Class: int(m.Class), Arrived: s.key.at}, s.key.at))
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

// performRouter carries out the effects of the router.
func (s *simulation) performRouter(effects []router.Effect) {
	for _, effect := range effects {
		e, ok := effect.(router.Answer)
		if !ok {
			continue // the others concern other nodes, and what the actor keeps for queries
		}
		switch q := s.requests[e.ID]; {
		case e.Waits():
		case e.Refusal != router.Refusal{}:
			s.refused(e.ID, e.Refusal.Detail)
		default:
			s.record.route(s, e.ID, q)
			s.byName[e.Routed.Replica].submit(e.ID, q, s.key.at)
		}
	}
}

// refused ends a request that was refused or interrupted for good.
func (s *simulation) refused(id, why string) {
	q := s.requests[id]
	q.model.refused++
	s.record.refuse(s.key.at, id, why)
	delete(s.requests, id)
}
