package session

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts plays the scripts in testdata. They start at second 0. The word t=1.5s sets the
// clock. The word before=3 makes the replica interrupt the sequence three times before the event.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(Config{})}
		return p.event
	})
}

// player plays the events of a script.
type player struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	attempt uint64 // of the last timer
	words   map[string]string
}

var epoch = time.Unix(1e9, 0)

func (p *player) event(line []string) []string {
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
		p.now = epoch
		p.m = New(Config{Adapter: p.has("adapter"), Deadline: p.deadline(), Placed: p.placed(), Begun: p.has("begun")})
		return nil
	}
	for range p.number("before") { // crashes of a replica that the router returns again and again
		p.step("routed")
		p.step("interrupted")
	}
	effects := p.step(line[0])
	out := []string{p.m.State().String()}
	for _, e := range effects {
		if timer, ok := e.(SetTimer); ok {
			p.attempt = timer.Attempt
		}
		out = append(out, text(e))
	}
	return out
}

func (p *player) step(name string) []Effect {
	m, now := p.m, p.now
	switch name {
	case "start":
		return m.Start(p.number("output"), p.words["revision"], now)
	case "routed":
		return m.Routed(p.replica(), now)
	case "route-refused":
		return m.RouteRefused(p.refusal(), now)
	case "queued":
		return m.Queued(now)
	case "accepted":
		return m.Accepted(p.from(), uint64(p.number("life")), p.words["revision"], now)
	case "submit-refused":
		return m.SubmitRefused(p.from(), p.refusal(), now)
	case "emitted":
		return m.Emitted(Tokens{
			p.from(), p.number("first"), p.number("count"), p.has("last"), Fingerprint(p.words["revision"]),
		}, now)
	case "interrupted":
		return m.Interrupted(p.from(), uint64(p.number("life")), p.refusal(), now)
	case "status":
		return m.Status(p.from(), !p.has("unknown"), p.number("output"), now)
	case "moved":
		return m.Moved(p.from(), p.replica(), now)
	case "lost":
		return m.Lost(p.from(), now)
	case "timer":
		return m.Timer(p.attempt-uint64(p.number("late")), now)
	case "close":
		return m.Close(now)
	case "stop":
		return m.Stop(now)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
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

func (p *player) deadline() time.Time {
	if !p.has("deadline") {
		return time.Time{}
	}
	d, err := time.ParseDuration(p.words["deadline"])
	if err != nil {
		p.t.Fatal(err)
	}
	return epoch.Add(d)
}

// placed returns when an earlier actor of the session kept its place.
func (p *player) placed() time.Time {
	if !p.has("placed") {
		return time.Time{}
	}
	return epoch
}

func (p *player) from() Actor {
	if !p.has("from") {
		return Actor{}
	}
	return Actor{"n", p.words["from"]}
}

func (p *player) replica() Replica {
	return Replica{p.words["to"], Actor{"n", p.words["to"]}, uint64(p.number("life"))}
}

func (p *player) refusal() Refusal {
	retry, _ := time.ParseDuration(p.words["after"])
	r := Refusal{Detail: p.words["detail"], RetryAfter: retry}
	for r.Reason.String() != p.words["why"] {
		r.Reason++
	}
	return r
}

// text describes an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case AskRoute:
		line := fmt.Sprintf("ask router avoid=%v cause=%q revision=%q", e.Avoid, e.Cause, e.Revision)
		if e.Begun {
			line += " begun"
		}
		return line
	case Withdraw:
		return "withdraw from the router"
	case Submit:
		line := fmt.Sprintf("submit to %s revision=%q", e.To.ID, e.Revision)
		if e.Waited > 0 {
			line += fmt.Sprintf(" waited=%s", e.Waited)
		}
		return line
	case Query:
		return "query " + e.To.ID
	case Cancel:
		return fmt.Sprintf("cancel at %s: %s", e.At.ID, e.Why)
	case Abandon:
		return fmt.Sprintf("abandon %s instead=%s", e.Replica.Name, e.Instead)
	case Watch:
		return "watch " + e.Replica.ID
	case Unwatch:
		return "unwatch " + e.Replica.ID
	case SetTimer:
		return fmt.Sprintf("timer %s attempt=%d", e.After, e.Attempt)
	case StopTimer:
		return "stop timer"
	case Deliver:
		return fmt.Sprintf("deliver skip=%d", e.Skip)
	case Relay:
		return "relay the refusal"
	case Fail:
		return fmt.Sprintf("fail %s: %s", e.Reason, e.Detail)
	case KeepRevision:
		return fmt.Sprintf("keep revision %q", e.Digest)
	case KeepPlace:
		return fmt.Sprintf("keep place %s", e.At.Sub(epoch))
	case KeepBegun:
		return "keep that it has begun"
	case ReportMove:
		return "tell the router of the move"
	case End:
		return "end"
	case Ignored:
		return fmt.Sprintf("ignored in %s: %s", e.State, e.Why)
	}
	return fmt.Sprintf("%#v", e)
}
