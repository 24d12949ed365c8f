package router

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/backend"
	"troupe/core/route"
	"troupe/core/schedule"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt on the router of node a. Scripts start at second 0; the word
// t=1.5s sets the clock before an event. The events are:
//
//	start NODE..., members NODE...     b#2 is a new process of b, and b! is leaving
//	tick
//	announced NODE life=N seq=N [snapshot] [REPORT...] [gone=M] [withdrawn=D]
//	report M [STATE] [running=N] [revision=R] [lacks=CAPABILITY,...] [BLOCKS], tier NAME [BLOCKS]
//	status D [term=N] [failed], withdraw D
//	lost NAME                          a replica of this node, or the router of another node
//	stored D [stopped] [asleep] [preempted] [wakes] [at=N] [places=N] [revision=R] [level=L] [without=C,...],
//	deleted D, read D...
//	route REQUEST D [prompt=N] [avoid=M] [revision=R] [adapter=A] [class=N] [deadline=5s] [wait], cancel REQUEST
//	moved REQUEST M from=M
//	find M blocks=N,N,... tiers=N,N,...
//	snapshot, explain REQUEST
//
// A replica m-0 belongs to model m; its blocks have 4 tokens. BLOCKS are +N, -N and the words snapshot
// and delta. A report is a delta, except that the first one of a replica is a snapshot. In an
// announcement, REPORT is replica=m-0, tier=NAME or status=D, with its other words after commas. A line
// after the effects shows what has changed in the state of the router, of its peers, and of the nodes
// that it avoids.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New("a", nil), now: epoch}
		return p.event
	})
}

var epoch = time.Unix(1e9, 0)

// player runs the events of a script.
type player struct {
	t     *testing.T
	m     *Machine
	now   time.Time
	state string // as last shown
}

// line is an event, or a report in an announcement.
type line struct {
	name  string
	words []string
	named map[string]string
}

func parse(words []string) line {
	l := line{name: words[0], named: make(map[string]string)}
	for _, w := range words[1:] {
		if name, value, ok := strings.Cut(w, "="); ok {
			l.named[name] = value
		} else {
			l.words = append(l.words, w)
		}
	}
	return l
}

func (l line) word(i int) string {
	if i < len(l.words) {
		return l.words[i]
	}
	return ""
}

func (l line) has(word string) bool {
	for _, w := range l.words {
		if w == word {
			return true
		}
	}
	return false
}

func (l line) number(name string) uint64 {
	n, _ := strconv.ParseUint(l.named[name], 10, 64)
	return n
}

func numbers(list string) (all []uint64) {
	for word := range strings.SplitSeq(list, ",") {
		if n, err := strconv.ParseUint(word, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

func (p *player) event(words []string) []string {
	l := parse(words)
	if at, ok := l.named["t"]; ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = epoch.Add(d)
	}
	out, handled := p.query(l)
	if !handled {
		for _, e := range p.step(words, l) {
			shown := text(e)
			if l.name == "route" {
				shown = strings.TrimPrefix(shown, l.word(0)+" ")
			}
			out = append(out, shown)
		}
	}
	if state := p.summary(); state != p.state {
		p.state = state
		out = append(out, "now "+state)
	}
	return out
}

func (p *player) step(words []string, l line) []Effect {
	m := p.m
	switch l.name {
	case "start":
		return m.Start(membersOf(l.words), p.now)
	case "members":
		return m.Members(membersOf(l.words), p.now)
	case "tick":
		return m.Tick(p.now)
	case "announced":
		return m.Announced(p.announcementOf(words, l), p.now)
	case "report":
		return m.Reported(p.reportOf(l), p.now)
	case "tier":
		return m.TierReported(tierOf(l))
	case "status":
		return m.StatusReported(statusOf(l, "a"), p.now)
	case "withdraw":
		return m.Withdrawn(l.word(0))
	case "lost":
		return m.Lost(Actor{ID: l.word(0)}, p.now)
	case "stored":
		return m.Stored(storedOf(l), p.now)
	case "deleted":
		return m.Deleted(l.word(0), p.now)
	case "read":
		return m.StoreRead(l.words, p.now)
	case "route":
		return m.Route(requestOf(l, p.now), p.now)
	case "cancel":
		return m.CancelRoute(l.word(0), p.now)
	}
	p.t.Fatalf("unknown event %q", l.name)
	return nil
}

// query answers a query. It returns false for an event.
func (p *player) query(l line) (out []string, ok bool) {
	m := p.m
	switch l.name {
	case "moved":
		m.Moved(l.word(0), Move{Replica: l.word(1), From: l.named["from"]}, p.now)
	case "find":
		q := Query{"f", "m", l.word(0), numbers(l.named["blocks"]), numbers(l.named["tiers"])}
		for _, run := range m.Find(q, p.now) {
			out = append(out, fmt.Sprintf("from %d: %d in %s", run.First, run.Blocks, run.Name))
		}
	case "snapshot":
		s := m.Snapshot()
		out = append(out, fmt.Sprintf("number %d, statuses %v", s.Sequence, s.Statuses))
		for _, r := range s.Replicas {
			out = append(out, fmt.Sprintf("replica %s %v", r.Name, r.Blocks))
		}
		for _, t := range s.Tiers {
			out = append(out, fmt.Sprintf("tier %s %v", t.Name, t.Committed))
		}
	case "explain":
		for _, e := range m.Explain(l.word(0)) {
			out = append(out, explanation(e))
		}
	default:
		return nil, false
	}
	return out, true
}

func explanation(e Entry) string {
	at := e.Time.Sub(epoch)
	if e.Move != nil {
		return fmt.Sprintf("%s moved from %s to %s", at, e.Move.From, e.Move.Replica)
	}
	return fmt.Sprintf("%s %s", at, e.Decision.Why())
}

// summary formats the state of the router, its peers and the nodes that it avoids.
func (p *player) summary() string {
	out := []string{p.m.phase.String()}
	for _, name := range sorted(p.m.peers) {
		peer := p.m.peers[name]
		out = append(out, fmt.Sprintf("%s %s %s", name, peer.sync, peer.contact))
	}
	if avoid := sorted(p.m.avoid); len(avoid) > 0 {
		out = append(out, "avoids "+strings.Join(avoid, " "))
	}
	return strings.Join(out, "; ")
}

// answer formats the answer to a request.
func answer(a Answer) string {
	switch {
	case a.Waits():
		return a.ID + " waits"
	case a.Refusal != Refusal{}:
		return fmt.Sprintf("%s refused with %d: %s", a.ID, a.Refusal.Reason, a.Refusal.Detail)
	}
	return fmt.Sprintf("%s to %s on %s", a.ID, a.Routed.Replica, a.Routed.Node)
}

func requestOf(l line, now time.Time) Request {
	r := Request{
		ID: l.word(0), Model: l.word(1), Revision: l.named["revision"], Prompt: make([]uint32, l.number("prompt")),
		Session: Actor{ID: l.word(0)}, Class: int(l.number("class")), Arrived: now, Wait: l.has("wait"),
		Begun: l.has("begun") || l.named["revision"] != "", Adapter: l.named["adapter"],
	}
	if avoid, ok := l.named["avoid"]; ok {
		r.Avoid = strings.Split(avoid, ",")
	}
	if seconds, ok := l.named["deadline"]; ok {
		d, _ := time.ParseDuration(seconds)
		r.Deadline = epoch.Add(d)
	}
	return r
}

// storedOf returns a stored deployment. A replica in its name is at level standby, active with "!", or at
// the level after its name, as in m-0:parked.
func storedOf(l line) Stored {
	s := Stored{
		Name: l.word(0), At: l.number("at"), Revision: l.named["revision"], MaxWaiting: 100,
		Level: l.named["level"], Levels: make(map[string]string),
	}
	if without, ok := l.named["without"]; ok {
		s.Engine = backend.Spec{Kind: backend.Simulated, Without: backend.SetOf(strings.Split(without, ","))}
	}
	if n, ok := l.named["places"]; ok {
		s.MaxWaiting, _ = strconv.Atoi(n)
	}
	for _, w := range l.words[1:] {
		name, active := strings.CutSuffix(w, "!")
		switch {
		case w == "wakes":
			s.Wakes = true
		case w == "stopped":
			s.Rest = schedule.Stopped
		case w == "asleep":
			s.Rest = schedule.Asleep
		case w == "preempted":
			s.Preempted = true
		case active:
			s.Levels[name] = ""
		default:
			name, level, _ := strings.Cut(w, ":")
			s.Levels[name] = cmp.Or(level, "standby")
		}
	}
	return s
}

func membersOf(words []string) (all []Member) {
	for _, w := range words {
		name, leaving := strings.CutSuffix(w, "!")
		name, id, _ := strings.Cut(name, "#")
		all = append(all, Member{Name: name, ID: name + id, Router: Actor{ID: name}, Leaving: leaving,
			Deployments: Actor{ID: "deployments of " + name}})
	}
	return all
}

// announcementOf parses an announcement. It takes the words themselves, because a report may occur
// several times.
func (p *player) announcementOf(words []string, l line) Announcement {
	a := Announcement{
		Node: l.word(0), Incarnation: l.number("life"), Sequence: l.number("seq"), Snapshot: l.has("snapshot"),
	}
	for _, w := range words {
		kind, value, _ := strings.Cut(w, "=")
		report := parse(append([]string{kind}, strings.Split(value, ",")...))
		switch kind {
		case "replica":
			a.Replicas = append(a.Replicas, p.reportOf(report))
		case "tier":
			a.Tiers = append(a.Tiers, tierOf(report))
		case "status":
			a.Statuses = append(a.Statuses, statusOf(report, a.Node))
		case "gone":
			a.Gone = append(a.Gone, value)
		case "withdrawn":
			a.Withdrawn = append(a.Withdrawn, value)
		}
	}
	return a
}

var states = map[string]route.State{"loading": route.Loading, "suspended": route.Suspended,
	"draining": route.Draining, "failed": route.Failed}

func (p *player) reportOf(l line) Report {
	name := l.word(0)
	model, _, _ := strings.Cut(name, "-")
	r := Report{
		Replica: route.Replica{Name: name, State: route.Serving, BlockTokens: 4, MaxSequences: 8, StepTokens: 64},
		Model:   model, Actor: Actor{ID: name}, Snapshot: l.has("snapshot"),
	}
	if m := p.m.models[model]; (m == nil || m.replicas[name] == replica{}) && !l.has("delta") {
		r.Snapshot = true
	}
	for word, state := range states {
		if l.has(word) {
			r.State = state
		}
	}
	r.Lacks = backend.SetOf(strings.Split(l.named["lacks"], ","))
	r.Replica.Revision, r.Replica.Running = l.named["revision"], int(l.number("running"))
	r.Faulty = l.has("faulty")
	r.Evicted, r.Committed = blocksOf(l)
	return r
}

func blocksOf(l line) (evicted, committed []uint64) {
	for _, w := range l.words {
		switch n, _ := strconv.ParseUint(w[min(1, len(w)):], 10, 64); {
		case strings.HasPrefix(w, "+"):
			committed = append(committed, n)
		case strings.HasPrefix(w, "-"):
			evicted = append(evicted, n)
		}
	}
	return evicted, committed
}

func tierOf(l line) TierReport {
	t := TierReport{Name: l.word(0), Actor: Actor{ID: l.word(0)}, Snapshot: l.has("snapshot")}
	t.Evicted, t.Committed = blocksOf(l)
	return t
}

func statusOf(l line, node string) Status {
	s := Status{Deployment: l.word(0), Node: node, Term: l.number("term"), Level: l.named["level"]}
	if l.has("failed") {
		s.Failure = Refusal{Reason: 5, Detail: "no GPU has room"}
	}
	return s
}

// text formats an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case Answer:
		return answer(e)
	case WakeModel:
		shown := fmt.Sprintf("wake %s at %s: %d wait", e.Deployment, e.To.ID, e.Waiting)
		if e.Wakes != e.Waiting {
			shown += fmt.Sprintf(", %d wake", e.Wakes)
		}
		if e.Oldest > 0 {
			shown += fmt.Sprintf(", for %s", e.Oldest)
		}
		if e.Stored > 0 {
			shown += fmt.Sprintf(" (revision %d)", e.Stored)
		}
		return shown
	case AskSnapshot:
		return "ask " + e.Peer.ID + " for a snapshot"
	case SendSnapshot:
		return "send " + e.Peer.ID + " a snapshot"
	case Watch:
		return "watch " + e.Actor.ID
	case KeepReplica:
		return fmt.Sprintf("keep replica %s, report %d", e.Name, e.At)
	case DropReplica:
		return "drop replica " + e.Name
	case KeepStatus:
		return fmt.Sprintf("keep status of %s, number %d", e.Deployment, e.At)
	case DropStatus:
		return "drop status of " + e.Deployment
	case Share:
		return "share"
	case Announce:
		to := make([]string, len(e.To))
		for i, a := range e.To {
			to[i] = a.ID
		}
		return fmt.Sprintf("announce %d to %v gone=%v withdrawn=%v", e.Sequence, to, e.Gone, e.Withdrawn)
	case AskBlocks:
		return "ask " + e.Replica.ID + " for its blocks"
	case CorrectAdapters:
		return "correct adapters of " + e.Replica.ID
	case Store:
		return "store"
	case DropStored:
		return "drop stored " + e.Deployment
	case ReportSynced:
		return "report synced"
	case Ignored:
		return fmt.Sprintf("ignored %s of %s: %s", e.Event, e.Node, e.Why)
	}
	return fmt.Sprintf("%#v", e)
}
