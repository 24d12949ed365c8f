package deployment

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"troupe/core/backend"
	"troupe/core/hbm"
	"troupe/core/preempt"
	"troupe/core/schedule"
	"troupe/testkit/script"
)

const need = 8 << 20 // bytes per replica

// TestScripts plays testdata/*.txt on deployment m, which node a runs. The events are:
//
//	members a b! c#2 d~ -e    the live members, each with gpu-0; b is draining, c is a new process, d is
//	                          leaving, and e, which has departed, was last seen now
//	list NODE M...            its replicas
//	apply [stored=N] [engine=simulated] [replicas=1] [min=N] [digest=X] [deploy=N] [path=P] [priority=N] [sequences=N]
//	[drop=yes] [level=standby|parked] [m-0=standby|parked]
//	[preempt=M,M... [deadline=30s] [free=yes|park]], remove [drop=yes], stale
//	[assigned=M:NODE[/GPUS][#AT][<OTHER],...|none|later] [withdrawn=M,M...]
//	                          the assignments: the number of GPUs if it is not 1, the time in seconds, and
//	                          the replica that has to leave; later: it waits for the planner
//	inspected [fault=X]
//	gpu NODE [quarantined]
//	accepted M [ACTOR], report M STATE [actor=X] [load=N] [digest=X] [found=X] [reason=N]
//	wanted NODE [waiting=N] [stored=N], level-stored
//	refused [missing=N] [stored=N] [later=yes]
//	                          by the planner
//	drained M [migrated=N], migrated M, saved M, preempt-timer M, freed REQUEST, freed-earlier M, recorded
//	exited ACTOR, unreachable ACTOR
//	tick, wait 1s
//
// The actor of a replica has its name. The effects are followed by the replicas and the status.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		s := &scripted{t: t, d: New("m", "a"), now: time.Unix(1000, 0), spec: Spec{Replicas: 1}}
		s.spec.Path, s.spec.Revision.Deploy = "p", 1
		return func(words []string) []string {
			if words[0] == "wait" {
				d, err := time.ParseDuration(words[1])
				if err != nil {
					t.Fatal(err)
				}
				s.now = s.now.Add(d)
				return nil
			}
			effects := s.d.Handle(s.event(parse(words)), s.now)
			lines := make([]string, len(effects))
			for i, e := range effects {
				lines[i] = format(e)
			}
			return append(lines, s.summary())
		}
	})
}

// scripted is a deployment that a script plays on.
type scripted struct {
	t    *testing.T
	d    *Deployment
	now  time.Time
	spec Spec
	// detail is the status detail at the last summary. A summary omits an unchanged detail.
	detail string
}

// line is one event of a script.
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

func (l line) word(n int) string {
	if n < len(l.words) {
		return l.words[n]
	}
	return ""
}

func (l line) ref(otherwise string) Ref {
	if a, ok := l.named["actor"]; ok {
		return Ref{ID: a}
	}
	return Ref{ID: otherwise}
}

func (l line) number(name string) (n int) {
	_, _ = fmt.Sscan(l.named[name], &n)
	return n
}

func (s *scripted) event(l line) Event {
	first := l.word(0)
	switch l.name {
	case "members":
		return s.members(l.words)
	case "list":
		list := ReplicaList{Node: first}
		for _, name := range l.words[1:] {
			spec := ReplicaSpec{Settings: s.spec.Settings, Name: name, Model: "m", Revision: s.spec.Revision}
			spec.At = Location{first, "gpu-0"}
			list.Replicas = append(list.Replicas, Running{name, spec, Ref{ID: name}})
		}
		return list
	case "apply":
		s.apply(l)
		return Apply{s.spec, uint64(l.number("stored")), hbm.Need{Fixed: need}}
	case "remove":
		return Remove{Drop: l.named["drop"] == "yes"}
	case "stale":
		return StaleTerm{"term 2 has begun"}
	case "inspected":
		return Inspected{s.spec.Engine.Kind, s.spec.Path, hbm.Need{Fixed: need}, l.named["fault"]}
	case "gpu":
		return GPUReport{Location{first, "gpu-0"}, l.word(1) == "quarantined"}
	case "report":
		return s.report(l)
	case "recorded":
		return Recorded{}
	case "wanted":
		n := l.number("waiting")
		return Wanted{Node: first, Waiting: n, Wakes: n, Stored: uint64(l.number("stored"))}
	case "level-stored":
		return LevelStored{}
	case "refused":
		return PlacementRefused{
			Stored: uint64(l.number("stored")), Missing: l.number("missing"), Later: l.named["later"] != "",
			Failure: Failure{Reason: NoMemory, Detail: "no device has room"},
		}
	}
	events := map[string]Event{
		"tick": Tick{}, "accepted": Accepted{first, l.ref(first)},
		"drained": Drained{first, preempt.Counts{Migrated: l.number("migrated")}},
		"saved":   Saved{Replica: first, Blocks: l.number("blocks")}, "preempt-timer": PreemptTimer{first},
		"migrated": Migrated{first, s.migrating(first)}, "freed": Freed{s.stopping(first)},
		"freed-earlier": Freed{first + "#1"},
		"exited":        Exited{Ref{ID: first}, "crashed"},
		"unreachable":   Unreachable{Ref{ID: first}, "cut off"},
	}
	e := events[l.name]
	if e == nil {
		s.t.Fatalf("unknown event %q", l.name)
	}
	return e
}

func (s *scripted) members(words []string) (all Members) {
	for _, w := range words {
		if name, departed := strings.CutPrefix(w, "-"); departed {
			all.Departed = append(all.Departed, Departed{name, s.now})
			continue
		}
		name, draining := strings.CutSuffix(w, "!")
		name, leaving := strings.CutSuffix(name, "~")
		name, id, _ := strings.Cut(name, "#")
		all.Members = append(all.Members, Member{Name: name, ID: id, Schedulable: !draining && !leaving,
			Leaving: leaving, GPUs: []string{"gpu-0"}})
	}
	return all
}

func (s *scripted) apply(l line) {
	if r, ok := l.named["replicas"]; ok {
		_, _ = fmt.Sscan(r, &s.spec.Replicas)
	}
	if kind, ok := l.named["engine"]; ok {
		s.spec.Engine = backend.Spec{Kind: backend.Kind(kind)}
	}
	if p, ok := l.named["path"]; ok {
		s.spec.Path = p
	}
	if _, ok := l.named["priority"]; ok {
		s.spec.Priority = int32(l.number("priority"))
	}
	if _, ok := l.named["sequences"]; ok {
		s.spec.MaxSequences = uint32(l.number("sequences"))
	}
	if _, ok := l.named["deploy"]; ok {
		s.spec.Revision = schedule.Revision{Deploy: uint64(l.number("deploy"))}
	}
	if _, ok := l.named["min"]; ok {
		s.spec.Sleeps = l.number("min") == 0
	}
	s.spec.Rest = schedule.Awake
	if s.spec.Replicas == 0 {
		if s.spec.Rest = schedule.Stopped; s.spec.Sleeps {
			s.spec.Rest = schedule.Asleep
		}
	}
	s.spec.Drop = l.named["drop"] != ""
	levels := map[string]Level{"active": OnActive, "standby": OnStandby, "parked": Parked}
	if level, ok := l.named["level"]; ok {
		s.spec.Level, s.spec.Levels = levels[level], map[string]Level{}
	}
	single := make(map[string]Level)
	for _, name := range []string{"m-0", "m-1"} {
		if level, ok := l.named[name]; ok {
			single[name] = levels[level]
		}
	}
	if len(single) > 0 {
		s.spec.Levels = single
	}
	if digest, ok := l.named["digest"]; ok {
		s.spec.Revision.Digest = digest
	}
	s.preempt(l)
	s.assign(l)
}

// assign stores assignments.
func (s *scripted) assign(l line) {
	all, ok := l.named["assigned"]
	if !ok {
		return
	}
	s.spec.Planned, s.spec.Assigned = all != "later", make(map[string]Assignment)
	s.spec.Withdrawn = strings.FieldsFunc(l.named["withdrawn"], func(r rune) bool { return r == ',' })
	for _, text := range strings.Split(all, ",") {
		name, to, ok := strings.Cut(text, ":")
		if !ok {
			continue
		}
		a, count, seconds := Assignment{Why: "planned"}, 1, 0
		to, other, waits := strings.Cut(to, "<")
		if waits {
			a.After = []string{other}
		}
		to, at, _ := strings.Cut(to, "#")
		node, gpus, _ := strings.Cut(to, "/")
		_, _ = fmt.Sscan(at, &seconds)
		_, _ = fmt.Sscan(gpus, &count)
		a.Node, a.At = node, time.Unix(1000+int64(seconds), 0)
		for i := range count {
			a.GPUs = append(a.GPUs, fmt.Sprint("gpu-", i))
		}
		s.spec.Assigned[name] = a
	}
}

// preempt stores preemptions of replicas on node a, or of m:b on node b.
func (s *scripted) preempt(l line) {
	names, ok := l.named["preempt"]
	if !ok {
		return
	}
	stored := s.spec.Preemptions
	s.spec.Preemptions = nil
	for _, name := range strings.Fields(strings.ReplaceAll(names, ",", " ")) {
		i := slices.IndexFunc(stored, func(p Preemption) bool { return p.Replica == name })
		if i >= 0 {
			s.spec.Preemptions = append(s.spec.Preemptions, stored[i])
			continue
		}
		after, _ := time.ParseDuration(l.named["deadline"])
		at := Location{"a", "gpu-0"}
		if r := s.d.replicas[name]; r != nil {
			at = r.spec.At
		}
		s.spec.Preemptions = append(s.spec.Preemptions, Preemption{ID: "p-" + name, Replica: name, At: at,
			Deadline: s.now.Add(after), Drop: l.named["free"] == "yes",
			Park: l.named["free"] == "park"})
	}
}

func (s *scripted) report(l line) Event {
	name := l.word(0)
	e := Reported{Report: Report{
		Replica: name, Actor: l.ref(name), Load: l.number("load"), Weights: "w" + l.named["digest"],
		Revision: l.named["digest"], Found: l.named["found"], GPU: "gpu-0", FolderFault: l.named["fault"],
		State: map[string]ReplicaState{
			"loading": ReplicaLoading, "serving": ReplicaServing, "suspending": ReplicaSuspending,
			"standby": ReplicaStandby, "draining": ReplicaDraining, "failed": ReplicaFailed,
		}[l.word(1)],
	}}
	e.Report.Fault = Fault{l.named["hung"] + l.named["corrupt"], l.named["corrupt"] != ""}
	if _, ok := l.named["reason"]; ok {
		e.Failure = &Failure{Reason: Reason(l.number("reason")), Detail: "reason " + l.named["reason"]}
	}
	return e
}

// stopping returns the id of the command that stops a replica. "b/m-0" is that of an orphan, and "m-0#1" that
// of an earlier replica of the name.
func (s *scripted) stopping(name string) string {
	if r := s.d.replicas[name]; r != nil {
		return r.stopRequest()
	}
	return name
}

// migrating returns the id of the migration command in flight from a replica.
func (s *scripted) migrating(name string) string {
	r := s.d.replicas[name]
	if r == nil {
		return ""
	}
	if r.preemption != nil {
		return r.preemption.request
	}
	return r.migrating
}

// format returns an effect with its type and fields.
func format(e Effect) string {
	switch e := e.(type) {
	case Inspect:
		if e.Engine == "" {
			return fmt.Sprintf("Inspect{Path:%s}", e.Path)
		}
	case StartReplica:
		text := fmt.Sprintf("StartReplica{%s at %v, revision %+v}", e.Spec.Name, e.Spec.At, e.Spec.Revision)
		if e.Spec.Standby {
			text += " for standby"
		}
		return text
	case Failed:
		return fmt.Sprintf("Failed{%d: %s}", e.Failure.Reason, e.Failure.Detail)
	case Placed:
		return fmt.Sprintf("Placed{%s at %v}", e.Replica, e.At)
	case Ignored:
		if e.Replica == "" {
			return fmt.Sprintf("Ignored{%v}", e.State)
		}
		return fmt.Sprintf("Ignored{%s of %s, which is %v}", e.Trigger, e.Replica, e.Phase)
	case Watch:
		return fmt.Sprintf("Watch{%s}", e.Actor.ID)
	case ConfirmRevision:
		return fmt.Sprintf("ConfirmRevision{%s: %s}", e.Actor.ID, e.Digest)
	case AskReplica:
		return fmt.Sprintf("AskReplica{%s}", e.Replica)
	case Preempting:
		if n := e.Progress.Counts.Migrated; n > 0 {
			return fmt.Sprintf("Preempting{%s is %v, %d migrated}", e.Replica, e.Phase, n)
		}
		return fmt.Sprintf("Preempting{%s is %v}", e.Replica, e.Phase)
	case MigrateSequences:
		return fmt.Sprintf("MigrateSequences{from %s to %s: %s}", e.Replica, e.Target, e.Cause)
	}
	return strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "deployment.")
}

// planOf returns the replicas that are assigned and not there, and what is wrong with others.
func planOf(all []ReplicaProgress, planned bool) (text string) {
	for _, p := range all {
		if p.Progress == ProgressAssigned {
			text += fmt.Sprintf(", %s assigned to %s/%s", p.Replica, p.Node, strings.Join(p.GPUs, "+"))
		}
		if planned && p.At.IsZero() && p.Progress < ProgressLeaving {
			text += ", " + p.Replica + " is not assigned there"
		}
		if p.Outdated {
			text += ", " + p.Replica + " is outdated"
		}
		if p.Quarantined {
			text += ", the device of " + p.Replica + " is quarantined"
		}
		if p.Failure != "" {
			text += fmt.Sprintf(", %s failed (%s)", p.Replica, p.Failure)
		}
	}
	return text
}

// summary returns the state, the replicas and the status.
func (s *scripted) summary() string {
	text := "= " + s.d.state.String()
	for _, name := range sorted(s.d.replicas) {
		r := s.d.replicas[name]
		text += fmt.Sprintf(", %s %v", name, r.phase)
		if r.spec.At != (Location{}) {
			text += " " + r.spec.At.Node
		}
	}
	status := s.d.Status()
	for _, p := range status.Preemptions {
		text += fmt.Sprintf(", preemption of %s %v", p.Replica, p.Phase)
	}
	text += planOf(status.Replicas, s.d.spec.Planned)
	text += ": " + status.Condition.String()
	if status.Detail != s.detail && status.Detail != "" {
		text += ", " + status.Detail
	}
	s.detail = status.Detail
	return text
}
