package migrate

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/batch"
	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. The names of those for the source begin with source,
// and those for the target with target. The word t=1.5s sets the clock.
func TestScripts(t *testing.T) {
	for _, side := range []string{"source", "target"} {
		script.Run(t, "testdata/"+side+"-*.txt", func(t *testing.T) script.Handler {
			p := &player{t: t, target: NewTarget("b")}
			p.config()
			if side == "source" {
				return p.onSource
			}
			return p.onTarget
		})
	}
}

// player runs the events of a script.
type player struct {
	t      *testing.T
	source *Source
	target *Target
	now    time.Time
	words  map[string]string
}

// read parses the words of an event and sets the clock.
func (p *player) read(line []string) {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if at, ok := p.words["t"]; ok {
		d, err := time.ParseDuration(at)
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = epoch.Add(d)
	}
	if line[0] == "config" {
		p.config()
	}
}

// config replaces both machines with new ones that serve.
func (p *player) config() {
	p.now = epoch
	p.source = NewSource(SourceConfig{Name: "a", Self: atA, BlockTokens: testBlockTokens, StepTokens: 8,
		FirstAttempt: 100})
	p.target = NewTarget("b")
	if p.words["plane"] != "closed" {
		blocks := testBlockBytes
		if p.words["plane"] == "none" {
			blocks = 0
		}
		p.source.Open(blocks)
		shape := testShape
		shape.BlockBytes = blocks
		p.target.Open(shape)
	}
}

// onSource runs an event of the source.
func (p *player) onSource(line []string) []string {
	if p.read(line); line[0] == "config" {
		return nil
	}
	effects := p.sourceEvent(line[0])
	if next := p.source.Waiting(); len(effects) > 0 && effects[len(effects)-1] == (StartNext{}) {
		var all []Sequence
		for _, id := range next {
			all = append(all, p.sequence(id))
		}
		effects = append(effects, p.source.Start(all, p.now)...)
	}
	state := "ended"
	if o := p.source.outgoing[p.words["id"]]; o != nil {
		state = o.state.String()
	}
	return append([]string{state}, texts(effects)...)
}

func (p *player) sourceEvent(name string) []Effect {
	m, now, s := p.source, p.now, p.sequence(p.words["id"])
	switch name {
	case "command":
		c := Command{RequestID: p.words["request"], From: operator, Target: "b", To: atB,
			Term: uint64(p.number("term"))}
		if p.has("to") {
			c.To = Actor{"n", p.words["to"]}
		}
		if p.has("ids") {
			c.IDs = strings.Split(p.words["ids"], ",")
		}
		return m.Command(c, strings.Split(p.words["all"], ","))
	case "offered":
		var missing []uint32
		for i := p.number("has"); i < p.number("full"); i++ {
			missing = append(missing, uint32(i))
		}
		return m.Offered(p.key(), atB, missing, p.number("capacity"), s, now)
	case "offer-refused":
		return m.OfferRefused(p.key(), p.words["why"], now)
	case "sent":
		return m.Sent(p.key(), s, now)
	case "send-failed":
		return m.SendFailed(p.key(), p.words["why"], now)
	case "step-ended":
		return append(m.StepEnded([]Sequence{s}, now), m.Start([]Sequence{s}, now)...)
	case "resumed":
		return m.Resumed(p.key(), 7, "node-b", now)
	case "resume-failed":
		return m.ResumeFailed(p.key(), p.words["why"], now)
	case "timer":
		return m.Timer(p.key(), now)
	case "lost":
		return m.Lost(Actor{"n", p.words["who"]}, now)
	case "cancelled":
		return m.Cancel(p.words["id"], p.words["why"], now)
	case "plane-lost":
		return m.PlaneLost(now)
	case "stopped":
		return m.Stop(now)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

// sequence returns a sequence with the tokens of the event, or a queued one.
func (p *player) sequence(id string) Sequence {
	s := Sequence{ID: id, Here: !p.has("gone"), InFlight: p.has("in-flight"), Queued: p.has("queued"),
		Progress: batch.Progress{Tokens: p.number("tokens"), Left: p.number("left"), Restoring: p.has("restoring")}}
	for i := range (s.Tokens + testBlockTokens - 1) / testBlockTokens {
		s.Blocks = append(s.Blocks, int32(10+i))
	}
	s.Hashes = make([]kv.Hash, s.Tokens/testBlockTokens)
	return s
}

// onTarget runs an event of the target.
func (p *player) onTarget(line []string) []string {
	if p.read(line); line[0] == "config" {
		return nil
	}
	effects := p.targetEvent(line[0])
	state := Gone
	if in := p.target.incoming[p.words["id"]]; in != nil {
		state = in.state
	} else if in := p.target.findPostponed(p.words["id"], p.from()); in != nil {
		state = in.state
	}
	return append([]string{state.String()}, texts(effects)...)
}

func (p *player) targetEvent(name string) []Effect {
	m, now := p.target, p.now
	own := Own{Serving, testContext}
	switch {
	case p.has("draining"):
		own.Mode = Draining
	case p.has("loading"):
		own.Mode = NotServing
	}
	switch name {
	case "offer":
		tokens := p.number("tokens")
		shape := testShape
		shape.Layout += p.words["layout"]
		return m.Offer(OfferedSequence{p.key(), p.from(), shape, tokens, tokens / testBlockTokens, p.number("longest")},
			own, p.has("here"), !p.has("step"), now)
	case "step-ended":
		var here []string
		if p.has("here") {
			here = []string{p.words["id"]}
		}
		return m.StepEnded(own, here, now)
	case "reserved":
		return m.Reserved(p.key(), p.number("resident"), now)
	case "not-reserved":
		return m.NotReserved(p.key(), Refusal{NoMemory, p.words["why"], 0}, p.has("adapter"), now)
	case "opened":
		return m.Opened(p.key(), now)
	case "open-failed":
		return m.OpenFailed(p.key(), p.words["why"], now)
	case "resume":
		return m.Resume(p.key(), p.from(), p.number("tokens"), own, now)
	case "closed":
		return m.Closed(p.key(), p.has("complete"), own, now)
	case "adopted":
		return m.Adopted(p.key(), now)
	case "not-adopted":
		return m.NotAdopted(p.key(), Refusal{NoMemory, p.words["why"], 0}, now)
	case "abandoned":
		return m.Abandoned(p.key(), p.has("here"), now)
	case "claim":
		m.Claim(p.words["id"], now)
		return nil
	case "timer":
		return m.Expire(p.key(), now)
	case "heard":
		return m.Heard(p.key(), epoch.Add(time.Duration(p.number("at"))*time.Second), now)
	case "lost":
		return m.Lost(p.from(), now)
	case "plane-lost":
		return m.PlaneLost(now)
	case "stopped":
		return m.Stop(now)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) key() Key { return Key{p.words["id"], uint64(p.number("n"))} }

// from returns the source of an offer.
func (p *player) from() Actor {
	if p.has("from") {
		return Actor{"n", p.words["from"]}
	}
	return atA
}

func (p *player) has(word string) bool { _, ok := p.words[word]; return ok }

func (p *player) number(word string) int {
	if !p.has(word) {
		return 0
	}
	n, err := strconv.Atoi(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

// texts formats effects: their names and the fields that are set.
func texts(effects []Effect) (all []string) {
	for _, e := range effects {
		v := reflect.ValueOf(e)
		all = append(all, strings.Join(append([]string{v.Type().Name()}, fields(v)...), " "))
	}
	return all
}

func fields(v reflect.Value) (all []string) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.IsZero() {
			continue
		}
		text := fmt.Sprint(f.Interface())
		switch value := f.Interface().(type) {
		case Key:
			all = append(all, fmt.Sprintf("%s-%d", value.ID, value.Attempt))
			continue
		case Actor:
			text = value.ID
		case []kv.Hash:
			text = fmt.Sprint(len(value))
		case string:
			text = strconv.Quote(value)
		case *Refusal:
			text = fmt.Sprintf("%s: %s", value.Reason, value.Detail)
		case Refusal:
			text = fmt.Sprintf("%s: %s", value.Reason, value.Detail)
		case Report:
			text = "(" + strings.Join(fields(f), " ") + ")"
		case []Report:
			text = ""
			for i := range value {
				text += "(" + strings.Join(fields(f.Index(i)), " ") + ")"
			}
		}
		all = append(all, strings.ToLower(name)+"="+text)
	}
	return all
}
