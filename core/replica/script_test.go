package replica

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/core/lora"
	"troupe/core/turns"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. They start at second 0; the word t=1.5s sets the clock.
// A prompt is 0, 1, and so on: each token equals its position. A block holds 4 tokens. After
// "Advance" and "StepEnded" the next step is started, as the actor does. The lines below an event
// are the states of the life cycle, the step, the memory and the adapter pool, and the effects. The
// event startup, which stands for the events of start.txt, shows only the states, and the event
// watch omits the timer of the watch.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t *testing.T
	*driver
	words map[string]string
	arg   string // first word that has no value
}

func (p *player) event(line []string) []string {
	p.words, p.arg = make(map[string]string), ""
	for _, word := range line[1:] {
		key, value, ok := strings.Cut(word, "=")
		if p.words[key] = value; !ok && p.arg == "" {
			p.arg = key
		}
	}
	if at, ok := p.words["t"]; ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = epoch.Add(d)
	}
	if line[0] == "config" {
		p.driver = newDriver(Config{MaxSequences: p.number("sequences", 4), MaxWaiting: p.number("waiting", 2),
			Revision: p.words["revision"], Confirmed: p.words["confirmed"], MaxAdapters: p.number("adapters", 0),
			Router: p.has("router"), CheckFolder: p.has("folder"), Standby: p.has("standby"),
			LeastBlocks: p.number("least", 0),
			Watch:       Watch{p.seconds("timeout"), p.seconds("hung"), p.seconds("canary")}})
		p.manual = p.has("turns")
		return nil
	}
	p.out = nil
	p.play(line[0])
	out := []string{p.states()}
	if line[0] == "startup" {
		return out
	}
	for _, e := range p.out {
		out = append(out, text(e))
	}
	return out
}

// states formats the states. It omits the memory unless it shrinks, a fault and a pool if there is
// none.
func (p *player) states() string {
	s := p.m.state.String() + " " + p.m.step.String()
	if p.m.memory > Whole {
		s += " " + p.m.memory.String()
	}
	if p.manual {
		s += ", turn " + p.m.turnState.String()
	}
	if p.m.Faulty() {
		s += ", " + p.m.fault.String()
	}
	if p.m.lease > NoAdapters {
		s += ", pool " + p.m.lease.String()
	}
	return s
}

func (p *player) play(name string) {
	m, now := p.m, p.now
	switch name {
	case "startup":
		p.startup(p.model())
	case "start":
		p.do(m.Start(now))
	case "loaded":
		p.do(m.Loaded(p.model(), now))
	case "load-refused":
		why := Refusal{Reason: LoadFailed}
		if p.has("not-ready") {
			why.Reason = NotReady
		}
		p.do(m.LoadRefused(why, p.words["found"], now))
	case "adopted":
		p.do(m.Adopted(p.resident(), now))
	case "engine-ready":
		p.do(m.EngineReady(uint64(p.number("crashed", int(m.current.step))),
			Capture{Graphs: p.number("graphs", 0), Took: 30 * time.Millisecond}, now))
	case "confirmed":
		p.do(m.ConfirmRevision(p.arg, now))
	case "folder-checked":
		p.do(m.FolderChecked(Folder{p.words["fault"], p.words["elsewhere"]}, now))
	case "drain":
		p.do(m.Drain(now))
	case "standby":
		p.do(m.Standby(now))
	case "activate":
		p.do(m.Activate(now))
	case "save":
		p.do(m.Save(now))
	case "blocks-saved":
		p.do(m.BlocksSaved(p.number("blocks", 0), p.words["fault"], now))
	case "stop":
		p.do(m.Stop())
	case "fired":
		p.fired()
	case "submit":
		s := submission(p.arg, p.number("prompt", 3), p.number("output", 0), p.number("max", 3), p.words["adapter"])
		s.Revision, s.Arrived = p.words["revision"], now
		if d, err := time.ParseDuration(p.words["timeout"]); err == nil {
			s.Deadline = now.Add(d)
		}
		s.Class = batch.Class(p.number("class", int(batch.Standard)))
		s.Root = kv.Root("m", p.words["adapter"], []byte(p.words["salt"]))
		if c, ok := p.words["client"]; ok {
			s.Client = c
		}
		p.do(m.Submit(s, now))
	case "cancel":
		p.do(m.Cancel(p.arg))
	case "lost":
		p.do(m.Lost(p.arg))
	case "query":
		known, effects := m.Query(p.arg)
		p.do(effects)
		p.out = append(p.out, known)
	case "advance":
		p.advance()
	case "done":
		var bad []int
		if p.has("nan") {
			bad = []int{p.number("nan", 0)}
		}
		p.stepDone(bad...)
	case "watch":
		p.watch()
	case "wrong-done":
		p.do(m.StepDone(m.current.step, []uint32{uint32(p.number("token", 1))}, nil, now))
	case "late-done":
		p.do(m.StepDone(m.current.step-1, nil, nil, now))
	case "restore-next":
		p.restoring = true
	case "abort":
		p.do(p.abort())
	case "restored-soon":
		p.ending, p.complete = true, true
	case "restored":
		p.ending, p.complete = true, true
		p.advance()
	default:
		p.playDevice(name)
	}
}

// playDevice runs the events of turns, the KV memory and the adapters.
func (p *player) playDevice(name string) {
	m := p.m
	switch name {
	case "granted":
		p.granted = uint64(p.number("turn", 1))
		p.do(m.Granted(p.granted, p.has("open"), p.now))
	case "recalled":
		p.do(m.Recalled(uint64(p.number("turn", int(p.granted))), p.now))
	case "device-restarted":
		p.do(m.DeviceRestarted(p.now))
	case "shrink":
		p.do(m.Shrink(p.lease(), p.number("blocks", 0), uint64(p.number("attempt", 1))))
	case "grow":
		p.do(m.Grow(p.lease(), p.number("blocks", 0)))
	case "want":
		p.do(m.Want())
		p.do(m.SyncPins(0))
	case "leased":
		p.do(m.Leased())
	case "lease-refused":
		p.do(m.LeaseRefused())
	case "pool-ready":
		p.do(m.PoolReady())
	case "pinned":
		p.do(m.PinResult(p.arg, nil))
	case "pin-refused":
		p.do(m.PinResult(p.arg, &lora.Refusal{Reason: lora.TooLarge, Detail: "too large"}))
	case "located":
		p.do(m.AdaptersChanged(map[string]lora.Location{p.arg: {State: lora.Active, Tier: lora.GPU}}))
	case "apply":
		p.do(m.Apply(p.adapter(), p.has("pinned")))
	case "prefetch":
		p.do(m.Prefetch([]Adapter{p.adapter()}))
	case "forget":
		p.do(m.Forget(p.adapter()))
	default:
		p.t.Fatalf("unknown event %s", name)
	}
}

func (p *player) adapter() Adapter {
	return Adapter{Name: nameOf(p.arg), Key: p.arg, Base: p.words["base"], HasPath: true, Given: true}
}

func (p *player) lease() string {
	if l, ok := p.words["lease"]; ok {
		return l
	}
	return "m-0"
}

func (p *player) fired() {
	for timer := RetryTimer; timer <= WatchTimer; timer++ {
		if timer.String() == p.arg {
			p.do(p.m.Fired(timer, 0, p.now))
			return
		}
	}
	p.t.Fatalf("unknown timer %s", p.arg)
}

func (p *player) model() Model {
	m := Model{Adopted: p.has("adopted"), Lease: "m-0", Blocks: p.number("blocks", 8), ContextTokens: 16,
		RevisionDigest: p.words["digest"], WeightsDigest: p.words["weights"], AdapterPages: p.number("pages", 0)}
	if p.has("answer") { // as the engine of scripts computes it
		m.Canary = Answer{Prompt: []uint32{8, 9}, Tokens: []uint32{2, 3, 4}}
	}
	return m
}

// resident returns blocks that contain the first prefixes of a prompt.
func (p *player) resident() (all []kv.Committed) {
	for i, h := range submissionHashes(p.number("blocks", 0)) {
		all = append(all, kv.Committed{Block: int32(i), Hash: h})
	}
	return all
}

func submissionHashes(blocks int) []kv.Hash {
	return kv.Hashes(kv.Root("m", "", nil), submission("r", blocks*testBlock, 0, 1, "").Prompt, testBlock)
}

func (p *player) has(word string) bool { _, ok := p.words[word]; return ok }

func (p *player) number(word string, otherwise int) int {
	if !p.has(word) {
		return otherwise
	}
	n, err := strconv.Atoi(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// watch checks the steps once a second, from now on until the given second. With late, only the last
// check takes place.
func (p *player) watch() {
	for at := p.seconds("until"); ; {
		p.now = p.m.watchDue
		if end := epoch.Add(at); p.has("late") || p.now.After(end) {
			p.now = end
		}
		p.do(p.m.Fired(WatchTimer, 0, p.now))
		if !p.now.Before(epoch.Add(at)) {
			break
		}
	}
	p.out = slices.DeleteFunc(p.out, func(e Effect) bool { return e == SetTimer{WatchTimer, watchEvery} })
}

func (p *player) seconds(word string) time.Duration {
	return time.Duration(p.number(word, 0)) * time.Second
}

func (Known) isEffect() {}

// turnText formats what a turn is asked for, with the deadline since the start of the script.
func turnText(r turns.Request) string {
	s := fmt.Sprintf("class %d, step %v", r.Class, r.Estimate)
	if !r.Deadline.IsZero() {
		s += fmt.Sprintf(", due %v", r.Deadline.Sub(epoch))
	}
	return s
}

// text formats an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case StateChanged:
		return "state " + e.State.String()
	case Announce:
		return fmt.Sprintf("announce evicted=%d committed=%d snapshot=%t", len(e.Evicted), len(e.Committed), e.Snapshot)
	case SetTimer:
		return fmt.Sprintf("timer %s %s", e.Timer, e.After)
	case Interrupt:
		return fmt.Sprintf("interrupt %s: %s: %s", e.ID, e.Reason, e.Detail)
	case Refuse:
		return fmt.Sprintf("refuse %s: %s: %s", e.ID, e.Reason, e.Detail)
	case BlocksChanged:
		lines := fmt.Sprintf("blocks evicted=%v committed=", e.Evicted)
		for _, c := range e.Committed {
			lines += fmt.Sprint(c.Block, " ")
		}
		return strings.TrimSpace(lines)
	case RunStep:
		line := fmt.Sprintf("run step %d:", e.Step)
		for _, entry := range e.Entries {
			line += fmt.Sprintf(" %s[%d:%d]", entry.ID, entry.Position, entry.Position+len(entry.Tokens))
		}
		return line
	case AskTurn:
		return "ask for a turn: " + turnText(e.Request)
	case EndTurn:
		line := fmt.Sprintf("end turn %d, used %v", e.Turn, e.Used)
		if e.Next != nil {
			line += ", and ask: " + turnText(*e.Next)
		}
		return line
	case Emit:
		line := "emit"
		for _, t := range e.Tokens {
			line += fmt.Sprintf(" %s[%d]=%d", t.ID, t.Index, t.Token)
		}
		return line
	case KVShrunk:
		if e.Refusal != nil {
			return fmt.Sprintf("shrink %d refused: %s", e.Attempt, e.Refusal.Detail)
		}
		return fmt.Sprintf("shrunk %d", e.Attempt)
	case ReportKV:
		level := map[bool]string{true: " standby=wanted"}[e.StandbyWanted]
		if e.Standby {
			level = " standby=true"
		}
		if e.Serving {
			level += " serving"
		}
		if e.Engine.Graphs > 0 {
			level += fmt.Sprintf(" graphs=%d in %s", e.Engine.Graphs, e.Engine.Took)
		}
		if e.Verify > 0 {
			level += fmt.Sprintf(" verify=%s", e.Verify)
		}
		return fmt.Sprintf("report KV blocks=%d least=%d wanted=%d%s", e.Blocks, e.Least, e.Wanted, level)
	case FaultBegan:
		return fmt.Sprintf("fault: %s; final=%t", e.Detail, e.Final)
	case AdoptPins:
		return fmt.Sprintf("adopt pins %v", e.Pins)
	case SendPin:
		return fmt.Sprintf("pin %s %s", e.Name, e.Adapter)
	case SendUnpin:
		return "unpin " + e.Name
	case Ignored:
		return fmt.Sprintf("ignored %s in %s: %s", e.Event, e.State, e.Why)
	}
	name := strings.TrimPrefix(fmt.Sprintf("%T", e), "replica.")
	return strings.TrimSuffix(fmt.Sprintf("%s %+v", name, e), " {}")
}
