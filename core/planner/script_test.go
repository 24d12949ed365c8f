package planner

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/hbm"
	"troupe/core/schedule"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt. The events are:
//
//	lead TERM, follow             this node takes or loses the lease
//	pause, resume                 an operator pauses the planner
//	node NAME [drains], lose-node NAME, forget-node NAME
//	                              it is away, until it is back or the cluster has forgotten it
//	fail NODE, heal NODE          its device is lost, or works again
//	changed NODE                  its device reports that its quarantine has begun or ended
//	deploy NAME MIN-MAX GIB [PRIORITY] [held=N] [till=TIME] [unsized] [replicas=N]
//	                              store a deployment whose weights have a size; devices have 40 GiB
//	delete NAME
//	other NAME [term=N]           another writer changes the deployment, or a planner of that term
//	work NAME N                   requests wait for the model
//	adapters NAME KEY=USES...     adapters of the model that were requested; each has 2 pages
//	REPLICA up [DEVICE], REPLICA leaving, REPLICA gone, REPLICA failed REASON
//	                              what the deployment reports; on the device if it is not assigned
//	REPLICA outdated FILES GIB    it has files of the deployment before, whose weights devices report with that size
//	REPLICA takes PAGES [KEY...]  the replica serves with these adapters on its device
//	tick [TIME]                   some time later; default 1s
//	answer [refused|unknown]      answer the oldest effect that is not answered
//	lose                          lose that answer
//	round [TIME]                  a tick, and all answers
//	pass TIME                     ticks with all answers; only plans are shown
//	ask ID [MODEL]                an operator asks
//
// The effects are followed by the state.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(schedule.Options{}), now: began, files: make(map[string]int64)}
		return func(words []string) []string {
			p.lines = nil
			p.event(words[0], words[1:])
			return append(p.lines, "= "+p.m.State().String())
		}
	})
}

type player struct {
	t      *testing.T
	m      *Machine
	now    time.Time
	term   uint64
	paused bool
	next   uint64
	all    []*Deployment
	nodes  []Node
	away   []schedule.Away
	failed []string         // nodes whose device is lost
	files  map[string]int64 // bytes of the weights on each device
	calls  []Effect
	lines  []string
}

func (p *player) at() At { return At{p.now, p.term, p.paused} }

func (p *player) event(name string, args []string) {
	switch name {
	case "lead":
		p.term = uint64(p.number(args[0]))
	case "follow":
		p.term = 0
	case "pause", "resume":
		p.paused = name == "pause"
	case "node", "lose-node", "forget-node":
		p.nodes = slices.DeleteFunc(p.nodes, func(n Node) bool { return n.Name == args[0] })
		p.away = slices.DeleteFunc(p.away, func(a schedule.Away) bool { return a.Node == args[0] })
		switch name {
		case "node":
			p.nodes = append(p.nodes, Node{Name: args[0], GPUs: []string{"gpu-0"}, Draining: len(args) > 1})
		case "lose-node":
			p.away = append(p.away, schedule.Away{Node: args[0], Since: p.now})
		}
	case "fail", "heal":
		p.failed = slices.DeleteFunc(p.failed, func(node string) bool { return node == args[0] })
		if name == "fail" {
			p.failed = append(p.failed, args[0])
		}
	case "changed":
		p.m.DeviceChanged(args[0]+"/gpu-0", p.now)
	case "deploy":
		p.deploy(args)
	case "delete":
		p.find(args[0]).Revision = 0
	case "other":
		p.next++
		p.find(args[0]).Revision = p.next
		if len(args) > 1 {
			p.find(args[0]).Term = uint64(p.number(strings.TrimPrefix(args[1], "term=")))
		}
	case "adapters":
		d := p.find(args[0])
		d.Adapters = nil
		for _, word := range args[1:] {
			key, uses, _ := strings.Cut(word, "=")
			d.Adapters = append(d.Adapters, schedule.Adapter{Key: key, Pages: 2, Uses: float64(p.number(uses))})
		}
	case "work":
		p.find(args[0]).Model.Demand.Pending = p.number(args[1])
	case "tick":
		p.pass(args)
		p.perform(p.m.Tick(p.at()))
	case "round":
		p.pass(args)
		p.perform(p.m.Tick(p.at()))
		for len(p.calls) > 0 {
			p.answer("")
		}
	case "pass":
		for end := p.now.Add(p.duration(args[0])); p.now.Before(end); {
			lines := p.lines
			p.lines = nil
			if p.event("round", nil); slices.Contains(p.lines, "survey") {
				lines = append(append(lines, fmt.Sprintf("at %s:", p.now.Sub(began))), p.lines[2:]...)
			}
			p.lines = lines
		}
	case "answer":
		p.answer(strings.Join(args, ""))
	case "lose":
		p.calls = p.calls[1:]
	case "ask":
		p.perform(p.m.Asked(Ask{ID: args[0], Model: strings.Join(args[1:], "")}, p.at()))
	default:
		p.report(name, args)
	}
}

func (p *player) pass(args []string) {
	d := time.Second
	if len(args) > 0 {
		d = p.duration(args[0])
	}
	p.now = p.now.Add(d)
}

func (p *player) find(name string) *Deployment {
	for _, d := range p.all {
		if d.Model.Name == name {
			return d
		}
	}
	d := &Deployment{Leader: "a"}
	d.Model.Name = name
	p.all = append(p.all, d)
	return d
}

func (p *player) deploy(args []string) {
	d := p.find(args[0])
	least, most, _ := strings.Cut(args[1], "-")
	p.next++
	d.Revision, d.Replicas = p.next, p.number(least)
	d.Model = schedule.Model{Name: args[0], Min: p.number(least), Max: p.number(most), Priority: schedule.Standard,
		Weights: int64(p.number(args[2])) * gib, Need: hbm.Need{Fixed: gib, Min: gib, MinAlone: gib}, Sized: true,
		Group:  1,
		Demand: schedule.Demand{Rate: -1, Recent: -1, TTFT: -1, TPOT: -1, KV: -1, Utilization: -1}}
	for _, word := range args[3:] {
		switch key, value, _ := strings.Cut(word, "="); key {
		case "critical", "high", "batch":
			d.Model.Priority = map[string]schedule.Priority{"critical": schedule.Critical, "high": schedule.High,
				"batch": schedule.Batch}[key]
		case "held":
			d.Model.HeldBy, d.Model.Replicas, d.Replicas = "ops", p.number(value), p.number(value)
		case "idle":
			d.Model.IdleAfter = p.duration(value)
		case "till":
			d.Model.HeldTill = p.now.Add(p.duration(value))
		case "replicas":
			d.Replicas = p.number(value)
		case "unsized":
			d.Model.Sized = false
		}
	}
}

// report changes what a deployment reports of a replica.
func (p *player) report(replica string, args []string) {
	d := p.find(replica[:strings.LastIndexByte(replica, '-')])
	i := slices.IndexFunc(d.Reports, func(r Report) bool { return r.Name == replica })
	switch args[0] {
	case "gone":
		d.Reports = slices.Delete(d.Reports, i, i+1)
		return
	case "parked", "activated":
		d.Reserved = slices.DeleteFunc(slices.Clone(d.Reserved), func(name string) bool { return name == replica })
		if args[0] == "parked" {
			d.Reserved = append(d.Reserved, replica)
		}
		p.next++
		d.Revision, d.Model.HeldBy, d.Model.Replicas = p.next, "ops", d.Replicas-len(d.Reserved)
		return
	}
	a, _ := d.assignment(replica)
	if i < 0 {
		i, d.Reports = len(d.Reports), append(d.Reports, Report{At: a.At, Placed: schedule.Placed{Name: replica,
			Model: d.Model.Name, Devices: a.Devices}})
	}
	r := &d.Reports[i]
	switch r.Since = p.now; args[0] {
	case "up":
		if r.Progress = schedule.Up; len(args) > 1 {
			r.Devices = args[1:]
		}
	case "leaving":
		r.Progress = schedule.Leaving
	case "outdated":
		r.Outdated, r.Files = true, args[1]
		p.files = maps.Clone(p.files)
		p.files[args[1]] = int64(p.number(args[2])) * gib
	case "takes":
		r.Progress = schedule.Up
		pool := schedule.AdapterPool{Replica: replica, Pages: p.number(args[1])}
		for _, key := range args[2:] {
			pool.Held = append(pool.Held, schedule.HeldAdapter{Key: key})
		}
		d.Pools = append(slices.DeleteFunc(slices.Clone(d.Pools),
			func(o schedule.AdapterPool) bool { return o.Replica == replica }), pool)
	case "quarantined", "released":
		r.Quarantined = args[0] == "quarantined"
	case "failed":
		r.Progress, r.Failure = schedule.Leaving, strings.Join(args[1:], " ")
	default:
		p.t.Fatalf("unknown event %s %q", replica, args)
	}
}

// answer answers the oldest call.
func (p *player) answer(how string) {
	call := p.calls[0]
	p.calls = p.calls[1:]
	switch e := call.(type) {
	case Acquire:
		p.perform(p.m.Acquired(p.at()))
	case Observe:
		o := &Observation{Nodes: slices.Clone(p.nodes), Away: slices.Clone(p.away)}
		for _, d := range p.all {
			seen := *d
			seen.Assigned, seen.Reports = slices.Clone(d.Assigned), slices.Clone(d.Reports)
			seen.Active = d.Model.Demand.Pending > 0
			if how == "behind" {
				seen.Revision--
			}
			o.Deployments = append(o.Deployments, seen)
		}
		if how == "failed" {
			o = nil
		}
		p.perform(p.m.Viewed(e.Round, o, p.at()))
	case Survey:
		var all []Device
		for _, n := range e.Nodes {
			all = append(all, Device{Device: schedule.Device{Name: n.Name + "/gpu-0", Node: n.Name, Memory: 40 * gib,
				Draining: n.Draining, Failed: slices.Contains(p.failed, n.Name), Utilization: -1}, Files: p.files})
		}
		p.perform(p.m.Surveyed(e.Round, all, nil, p.at()))
	case MakePlan:
		r := &Result{Plan: schedule.Make(e.Snapshot), Verdicts: make(map[string][]schedule.Verdict)}
		for _, name := range e.Explain {
			r.Verdicts[name] = schedule.Explain(e.Snapshot, name)
		}
		p.perform(p.m.Planned(e.Round, r, p.at()))
	case Store:
		p.stored(e, how)
	}
}

func (p *player) stored(e Store, how string) {
	d := p.find(e.Name)
	switch {
	case d.Revision != e.Revision:
		p.perform(p.m.Stored(e.Round, Conflict, 0, "it has changed", p.at()))
		return
	case how == "refused":
		p.perform(p.m.Stored(e.Round, NotStored, 0, "no quorum", p.at()))
		return
	}
	p.next++
	d.Revision, d.Replicas, d.Intended, d.Assigned, d.Planned = p.next, e.To, e.Intended, e.Replicas, true
	d.Withdrawn = e.Withdrawn
	if e.Released != "" {
		d.Model.HeldBy, d.Model.HeldTill = "", time.Time{}
	}
	if how == "unknown" {
		p.perform(p.m.Stored(e.Round, Unknown, 0, "no answer", p.at()))
		return
	}
	p.perform(p.m.Stored(e.Round, Done, p.next, "", p.at()))
}

func (p *player) perform(effects []Effect) {
	for _, effect := range effects {
		switch e := effect.(type) {
		case Acquire, Observe, Survey, MakePlan, Store:
			p.calls = append(p.calls, e)
		}
		p.lines = append(p.lines, p.text(effect))
	}
}

func (p *player) text(effect Effect) string {
	switch e := effect.(type) {
	case MakePlan:
		return "plan: " + strings.Join(p.m.round.record.Causes, "; ")
	case Store:
		text := fmt.Sprintf("store %s (revision %d), %d to %d replicas", e.Name, e.Revision, e.From, e.To)
		if e.Released != "" {
			text += "; no longer held by " + e.Released
		}
		for _, c := range e.Changes {
			sign := "; +"
			if c.Withdrawn {
				sign = "; -"
			}
			text += sign + c.Replica + ": " + c.Why
		}
		for _, a := range e.Replicas {
			if len(a.After) > 0 {
				text += fmt.Sprintf("; %s after %s", a.Replica, strings.Join(a.After, ", "))
			}
		}
		return text
	case Refuse:
		if e.Unmet.Missing == 0 {
			return fmt.Sprintf("refuse %s (revision %d): nothing is missing", e.Name, e.Revision)
		}
		return fmt.Sprintf("refuse %s (revision %d): %d missing, later: %v", e.Name, e.Revision, e.Unmet.Missing,
			e.Unmet.Later)
	case Prefetch:
		return fmt.Sprintf("prefetch %s %v", e.Replica, e.Adapters)
	case Ended:
		return "ended: " + e.Record.Outcome
	case Forget:
		text := "forget"
		for _, a := range e.Asks {
			text += " " + a.ID
		}
		return text
	case Answer:
		text := "answer"
		for _, a := range e.Asks {
			text += " " + a.ID
		}
		if e.Record == nil {
			return text + " without a plan"
		}
		return text + ": " + e.Record.Outcome
	case Ignored:
		return fmt.Sprintf("ignored %s in %s: %s", e.Event, e.State, e.Why)
	}
	return strings.ToLower(strings.TrimPrefix(fmt.Sprintf("%T", effect), "planner."))
}

func (p *player) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}
