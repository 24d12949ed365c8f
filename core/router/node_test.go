package router

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"troupe/core/route"
	"troupe/core/schedule"
)

// start starts a node, or restarts its router after a crash.
func (w *world) start(name string, crashed *node) {
	w.starts++
	n := &node{
		w: w, name: name, process: fmt.Sprint(w.starts), incarnation: uint64(w.starts), truth: newTruth(),
		contacts: map[string]*contact{}, kept: map[string]Status{}, stored: map[string]bool{},
		levels: map[string]Stored{}, held: map[string]bool{},
		watched: map[string]bool{},
	}
	var stored []Stored
	if crashed != nil {
		n.process, n.truth, n.leaving, n.stored = crashed.process, crashed.truth, crashed.leaving, crashed.stored
		for _, name := range sorted(n.stored) {
			stored = append(stored, Stored{Name: name})
		}
	}
	w.nodes[name] = n
	n.m, n.recovering = New(name, stored), true
	n.do(nil, func() []Effect { return n.m.Start(n.observe(), w.now) })
	n.due = w.now.Add(FlushInterval)
	for _, name := range sorted(n.truth.replicas) { // they are asked for reports
		n.report(name, n.truth.replicas[name].state, true, nil, sortedBlocks(n.truth.replicas[name].blocks))
	}
	for _, name := range sorted(n.truth.tiers) {
		n.reportTier(name, true, nil, sortedBlocks(n.truth.tiers[name]))
	}
	for _, name := range sorted(n.truth.statuses) {
		n.reportStatus(name, n.truth.statuses[name])
	}
	n.recovering = false
	n.check()
}

func sortedBlocks(blocks map[uint64]bool) []uint64 { return slices.Sorted(maps.Keys(blocks)) }

// report reports the state of a replica of this node.
func (n *node) report(name string, state route.State, snapshot bool, evicted, committed []uint64) {
	had := n.truth.replicas[name].blocks
	n.truth.replicas[name] = replicaTruth{state, changed(had, snapshot, evicted, committed)}
	r := n.reportOf(name, state, snapshot, evicted, committed)
	effects := n.local(Announcement{Replicas: []Report{r}}, func() []Effect { return n.m.Reported(r, n.w.now) })
	if slices.Contains(effects, Effect(Watch{r.Actor})) == n.watched[name] {
		n.w.Fatalf("watched: %s was watched before: %v; effects %v", name, n.watched[name], effects)
	}
	n.watched[name] = true
}

func (n *node) reportOf(name string, state route.State, snapshot bool, evicted, committed []uint64) Report {
	return Report{
		Replica: route.Replica{Name: name, State: state, BlockTokens: 1, MaxSequences: 8, StepTokens: 8},
		Model:   modelOf(name), Actor: Actor{n.name, name}, Incarnation: n.incarnation, Evicted: evicted,
		Committed: committed, Snapshot: snapshot,
	}
}

// levels are the levels that are drawn.
var levels = []string{"", "", "standby", parked}

// modelOf returns the model of a replica: "m" of a0, "n" of a1.
func modelOf(name string) string { return string("mn"[name[1]-'0']) }

// replicasOf returns the replicas of a model on all nodes.
func replicasOf(model string) (all []string) {
	for _, node := range names {
		all = append(all, node+fmt.Sprint(strings.Index("mn", model)))
	}
	return all
}

func changed(had map[uint64]bool, snapshot bool, evicted, committed []uint64) map[uint64]bool {
	if snapshot {
		return set(committed)
	}
	all := maps.Clone(had)
	for _, b := range evicted {
		delete(all, b)
	}
	for _, b := range committed {
		all[b] = true
	}
	return all
}

func (n *node) reportTier(name string, snapshot bool, evicted, committed []uint64) {
	n.truth.tiers[name] = changed(n.truth.tiers[name], snapshot, evicted, committed)
	t := TierReport{Name: name, Actor: Actor{n.name, name}, Evicted: evicted, Committed: committed, Snapshot: snapshot}
	n.local(Announcement{Tiers: []TierReport{t}}, func() []Effect { return n.m.TierReported(t) })
}

func (n *node) reportStatus(name string, term uint64) {
	if isOwn(name) {
		n.truth.statuses[name] = term
	}
	s := Status{Deployment: name, Node: n.name, Term: term}
	if rapid.IntRange(0, 2).Draw(n.w.T, "failed") == 0 {
		s.Failure.Reason = rapid.SampledFrom([]Reason{NoMemory, WeightsDiffer}).Draw(n.w.T, "failure")
	}
	s.Level = rapid.SampledFrom(levels).Draw(n.w.T, "reported level")
	n.local(Announcement{Statuses: []Status{s}}, func() []Effect { return n.m.StatusReported(s, n.w.now) })
}

// local carries out a change on this node. news describes the change.
func (n *node) local(news Announcement, event func() []Effect) []Effect {
	n.changes++
	return n.do(&news, event)
}

func (n *node) changeReplica() {
	name := n.name + rapid.SampledFrom([]string{"0", "1"}).Draw(n.w.T, "replica")
	state := rapid.SampledFrom([]route.State{route.Serving, route.Serving, route.Suspended, route.Draining,
		route.Loading}).
		Draw(n.w.T, "state")
	_, exists := n.truth.replicas[name]
	n.report(name, state, !exists, n.blocks(0), n.blocks(0))
}

func (n *node) changeTier() {
	name := rapid.SampledFrom([]string{"dram", "disk"}).Draw(n.w.T, "tier")
	_, exists := n.truth.tiers[name]
	n.reportTier(name, !exists || rapid.Bool().Draw(n.w.T, "snapshot"), n.blocks(10), n.blocks(10))
}

// blocks returns some blocks. Replicas and tiers use different fingerprints for the same blocks.
func (n *node) blocks(from uint64) []uint64 {
	return rapid.SliceOfNDistinct(rapid.Uint64Range(from+1, from+4), 0, 4, rapid.ID).Draw(n.w.T, "blocks")
}

func (n *node) changeStatus() {
	name := rapid.SampledFrom([]string{"m-" + n.name, contested, "m", "n"}).Draw(n.w.T, "deployment")
	if rapid.IntRange(0, 3).Draw(n.w.T, "withdraw") > 0 {
		term := rapid.Uint64Range(0, 3).Draw(n.w.T, "term")
		if isOwn(name) {
			n.w.terms[name] += term
			term = n.w.terms[name]
		}
		n.reportStatus(name, term)
		return
	}
	delete(n.truth.statuses, name)
	if n.m.statuses[name].Node == n.name {
		n.changes++
	}
	n.do(nil, func() []Effect { return n.m.Withdrawn(name) })
}

func (n *node) endReplica() {
	if len(n.truth.replicas) == 0 {
		return
	}
	name := rapid.SampledFrom(sorted(n.truth.replicas)).Draw(n.w.T, "ended")
	delete(n.truth.replicas, name)
	n.watched[name] = false
	n.local(Announcement{}, func() []Effect { return n.m.Lost(Actor{n.name, name}, n.w.now) })
}

// disconnect breaks the connection to a peer.
func (n *node) disconnect() {
	if len(n.members) == 0 {
		return
	}
	peer := rapid.SampledFrom(n.members).Draw(n.w.T, "peer")
	n.contacts[peer].heard = false
	n.do(nil, func() []Effect { return n.m.Lost(routerOf(peer), n.w.now) })
	n.route()
}

func (n *node) changeStore() {
	name := rapid.SampledFrom([]string{"m", "n"}).Draw(n.w.T, "deployment")
	switch rapid.IntRange(0, 3).Draw(n.w.T, "store") {
	case 0:
		n.do(nil, func() []Effect { return n.m.Deleted(name, n.w.now) })
	case 1:
		n.readStore([]string{name})
	default:
		n.stored[name] = true
		s := Stored{Name: name, MaxWaiting: rapid.IntRange(1, 4).Draw(n.w.T, "places")}
		rests := []schedule.Rest{schedule.Awake, schedule.Asleep, schedule.Stopped}
		s.Rest = rapid.SampledFrom(rests).Draw(n.w.T, "rest")
		s.Wakes = s.Rest != schedule.Stopped && rapid.Bool().Draw(n.w.T, "wakes")
		s.Level = rapid.SampledFrom(levels).Draw(n.w.T, "level")
		s.Levels = rapid.MapOfN(rapid.SampledFrom(replicasOf(name)), rapid.SampledFrom(levels), 0, 2).Draw(n.w.T,
			"single levels")
		s.At = uint64(n.w.now.UnixMilli())
		before := n.levels[name]
		for id, r := range n.m.requests {
			changed := s.Level != before.Level || !maps.Equal(s.Levels, before.Levels)
			n.held[id] = n.held[id] || r.Model == name && changed
		}
		n.levels[name] = s
		n.do(nil, func() []Effect { return n.m.Stored(s, n.w.now) })
	}
}

func (n *node) readStore(names []string) {
	n.read = true
	n.do(nil, func() []Effect { return n.m.StoreRead(names, n.w.now) })
	for name := range n.stored {
		if !slices.Contains(names, name) {
			n.w.Fatalf("kept: %s is not stored", name)
		}
	}
}

// see reports the current members to a node.
func (n *node) see() {
	n.do(nil, func() []Effect { return n.m.Members(n.observe(), n.w.now) })
}

func (n *node) route() {
	r := Request{
		ID:    rapid.SampledFrom([]string{"r1", "r2", "r3", "r4", "r5"}).Draw(n.w.T, "request"),
		Model: rapid.SampledFrom([]string{"m", "n"}).Draw(n.w.T, "model"), Prompt: []uint32{1, 2, 3},
		Class: rapid.IntRange(1, 3).Draw(n.w.T, "class"), Wait: rapid.Bool().Draw(n.w.T, "wait"), Arrived: n.w.now,
		Begun: rapid.Bool().Draw(n.w.T, "begun"),
	}
	if r.Begun && rapid.Bool().Draw(n.w.T, "has output") {
		r.Revision = "x"
	}
	if rapid.Bool().Draw(n.w.T, "has a deadline") {
		r.Deadline = n.w.now.Add(time.Duration(rapid.IntRange(0, 4).Draw(n.w.T, "seconds")) * time.Second)
	}
	if had, waits := n.m.requests[r.ID]; waits { // its session asks again
		r = had
	}
	if t := n.m.models[r.Model]; t != nil && len(t.replicas) > 0 && rapid.Bool().Draw(n.w.T, "lost") {
		r.Avoid = []string{rapid.SampledFrom(sorted(t.replicas)).Draw(n.w.T, "avoid")}
	}
	var a Answer
	for _, e := range n.do(nil, func() []Effect { return n.m.Route(r, n.w.now) }) {
		if e, ok := e.(Answer); ok && e.ID == r.ID {
			a = e
		}
	}
	n.checkSilence()
	n.checkRouted(r, a)
}

// cancel ends the session of a request.
func (n *node) cancel() {
	id := rapid.SampledFrom([]string{"r1", "r2", "r3", "r4", "r5"}).Draw(n.w.T, "cancelled")
	n.do(nil, func() []Effect { return n.m.CancelRoute(id, n.w.now) })
	if _, waits := n.m.requests[id]; waits {
		n.w.Fatalf("answered: %s was cancelled and waits", id)
	}
}

func (n *node) find() {
	q := Query{ID: "f", Model: "m", Replica: n.name + "0", Blocks: n.blocks(0)}
	for _, b := range q.Blocks {
		q.InTiers = append(q.InTiers, b+10)
	}
	if runs := n.m.Find(q, n.w.now); n.m.models[q.Model] != nil {
		n.checkRuns(q, runs)
	}
	n.checkSilence()
}
