package router

import (
	"slices"
	"time"

	"troupe/core/route"
	"troupe/core/schedule"
)

// check checks the invariants that hold between events.
func (n *node) check() {
	w := n.w
	var known []string
	for model, t := range n.m.models {
		for name, r := range t.replicas {
			known = append(known, model+"/"+name)
			n.checkMember(r.node, name)
		}
	}
	for name, s := range n.m.statuses {
		known = append(known, name)
		n.checkMember(s.Node, name)
	}
	for name := range n.m.tiers {
		n.checkMember(name.node, name.tier)
	}
	slices.Sort(known)
	if kept := sorted(n.kept); !slices.Equal(kept, known) {
		w.Fatalf("kept: %s keeps %v and knows %v", n.name, kept, known)
	}
	if got, want := view(n.m, n.name), n.truth.String(); got != want && !n.recovering {
		w.Fatalf("shared: %s knows of itself\n%s, want\n%s", n.name, got, want)
	}
	if !slices.Equal(sorted(n.m.stored), sorted(n.stored)) {
		w.Fatalf("kept: stored %v, want %v", sorted(n.m.stored), sorted(n.stored))
	}
	ready := n.read
	for _, c := range n.contacts {
		ready = ready && c.adopted
	}
	if n.synced > 1 || (n.synced == 1) != (n.m.phase == Ready) || ready && n.synced == 0 {
		w.Fatalf("once: %s reported %d times that it is synced, in %s; could: %v", n.name, n.synced, n.m.phase, ready)
	}
	if n.ticks > 5 {
		w.Fatalf("numbered: %s sent nothing for %d ticks", n.name, n.ticks)
	}
}

func (n *node) checkMember(of, what string) {
	if of != n.name && !slices.Contains(n.members, of) {
		n.w.Fatalf("members: %s knows %s of %s, and the members %v", n.name, what, of, n.members)
	}
}

// silent reports whether this node's router must avoid a peer because it does not hear from it.
func (n *node) silent(peer string) bool {
	c := n.contacts[peer]
	return c != nil && (!c.heard || n.w.now.Sub(c.heardAt) >= time.Second)
}

// checkSilence checks which nodes are avoided after an event that updates them.
func (n *node) checkSilence() {
	for _, name := range append(n.members, n.name) {
		want := n.silent(name) || n.leavers[name]
		if n.m.avoid[name] != want {
			n.w.Fatalf("silence: %s avoids %s: %v, want %v", n.name, name, n.m.avoid[name], want)
		}
	}
}

// choices returns the replicas that may get a request: those that serve and are not avoided, or else those
// that serve, or else, for a request with output, those on standby.
func (n *node) choices(r Request) []string {
	var serving, preferred, standby []string
	for _, name := range n.replicas(r.Model) {
		switch have := n.m.models[r.Model].replicas[name]; {
		case have.state == route.Suspended && r.Revision != "":
			standby = append(standby, name)
		case have.state == route.Serving:
			serving = append(serving, name)
			if !n.silent(have.node) && !n.leavers[have.node] && !slices.Contains(r.Avoid, name) {
				preferred = append(preferred, name)
			}
		}
	}
	switch {
	case len(preferred) > 0:
		return preferred
	case len(serving) > 0:
		return serving
	}
	return standby
}

// replicas returns the replicas of a model that the node knows.
func (n *node) replicas(model string) []string {
	if t := n.m.models[model]; t != nil {
		return sorted(t.replicas)
	}
	return nil
}

// level returns the level at which an operator keeps all replicas of a deployment from serving; empty: some
// are to serve. If none of those that the node knows is to serve, and the store does not decide it for all
// others, the status does.
func (n *node) level(name string) string {
	s := n.m.stored[name]
	active := s.Level == "" // a replica that the node does not know is to serve, or may be
	for _, level := range s.Levels {
		active = active || level == ""
	}
	for _, replica := range n.replicas(name) {
		level, single := s.Levels[replica]
		if single && level == "" || !single && s.Level == "" {
			return ""
		}
	}
	if !active {
		return s.Level
	}
	if s.Level == "" && len(s.Levels) == 0 {
		return ""
	}
	return n.kept[name].Level
}

// checkRouted checks the answer to a request.
func (n *node) checkRouted(r Request, a Answer) {
	w := n.w
	var preferred []string
	if n.stored[r.Model] || !n.read {
		preferred = n.choices(r)
	}
	if (a.Routed == Routed{}) != (len(preferred) == 0) || a.Routed != (Routed{}) && a.Refusal != (Refusal{}) {
		w.Fatalf("decided: %v; %v serve", a, preferred)
	}
	if a.Routed.Replica != "" && !slices.Contains(preferred, a.Routed.Replica) {
		w.Fatalf("routed: to %v, want one of %v", a.Routed, preferred)
	}
	if _, waits := n.m.requests[r.ID]; waits != a.Waits() || waits && len(preferred) > 0 {
		w.Fatalf("waits: %s waits: %v; answered with %v; %v serve", r.ID, waits, a, preferred)
	}
	log := n.m.Explain(r.ID)
	if last := log[len(log)-1]; last.Decision.Name != a.Routed.Replica || !a.Waits() && last.Refusal != a.Refusal ||
		len(log) > 8 {
		w.Fatalf("decided: the log has %v", last)
	}
	if len(n.m.log.byRequest) > len(n.m.log.order) {
		w.Fatalf("bounded: the log has %d requests", len(n.m.log.byRequest))
	}
}

// checkAnswers checks the answers of an event. Before it, these requests waited.
func (n *node) checkAnswers(effects []Effect, waiting map[string]Request) {
	w, last := n.w, map[string]Request{}
	for _, e := range effects {
		a, ok := e.(Answer)
		r, waited := waiting[a.ID]
		if !ok || !waited || a.Waits() {
			continue
		}
		before, ok := last[r.Model]
		if a.Routed == (Routed{}) {
			continue
		}
		if ok && (before.Class < r.Class || before.Class == r.Class && before.Arrived.After(r.Arrived)) {
			w.Fatalf("order: %v is answered before %v", before, r)
		}
		last[r.Model] = r
	}
	for _, id := range sorted(waiting) {
		_, waits := n.m.requests[id]
		answered := slices.ContainsFunc(effects, func(e Effect) bool {
			a, ok := e.(Answer)
			return ok && a.ID == id && !a.Waits()
		})
		if waits && answered {
			w.Fatalf("answered: %s is answered and waits", id)
		}
	}
	for _, id := range sorted(n.m.requests) {
		r := n.m.requests[id]
		s, stored := n.m.stored[r.Model]
		failure := n.m.statuses[r.Model].Failure
		failed := failure != Refusal{} && s.Rest == schedule.Awake && !(r.Wait && failure.Reason == NoMemory)
		stopped := s.Rest == schedule.Stopped
		if level := n.level(r.Model); level != "" {
			failed, stopped = false, !r.Wait && (!s.Wakes || n.held[id]) && !(level != parked && r.Begun)
		}
		if !stored || stopped || failed || len(n.choices(r)) > 0 {
			w.Fatalf("waits: %v, with %v and %v", r, s, failure)
		}
	}
}

// checkWake checks the number of requests that may wake a model.
func (n *node) checkWake(e WakeModel) {
	wakes, oldest := 0, time.Duration(0)
	for id, r := range n.m.requests {
		if r.Model == e.Deployment && !(n.held[id] && n.level(r.Model) != "") {
			wakes++
			oldest = max(oldest, n.w.now.Sub(r.Arrived))
		}
	}
	if e.Oldest != oldest {
		n.w.Fatalf("command: %+v, want %s as the age of the oldest request that wakes", e, oldest)
	}
	if e.Wakes != wakes || e.Wakes > e.Waiting || e.Stored != n.m.stored[e.Deployment].At {
		n.w.Fatalf("command: %+v, want %d requests that wake; %v were there when a level was set", e, wakes, n.held)
	}
}

// checkRuns checks the holders of blocks.
func (n *node) checkRuns(q Query, runs []Run) {
	next := 0
	for _, run := range runs {
		blocks, held := q.Blocks[run.First:run.First+run.Blocks], n.m.models[q.Model].routes.BlocksOf(run.Holder.ID)
		if !n.isReplica(q.Model, run.Holder.ID) {
			blocks, held = q.InTiers[run.First:run.First+run.Blocks], n.m.blocks.BlocksOf(run.Name)
		}
		for _, b := range blocks {
			if !slices.Contains(held, b) {
				n.w.Fatalf("runs: %v lacks block %d", run, b)
			}
		}
		if run.First != next || run.Blocks == 0 || run.Holder.ID == q.Replica || n.silent(run.Node) ||
			run.Node == n.name && !n.isReplica(q.Model, run.Holder.ID) {
			n.w.Fatalf("runs: %v in %v", run, runs)
		}
		next += run.Blocks
	}
	if len(runs) > 8 {
		n.w.Fatalf("bounded: %d runs", len(runs))
	}
}

func (n *node) isReplica(model, name string) bool {
	_, ok := n.m.models[model].replicas[name]
	return ok
}
