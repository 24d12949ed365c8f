package turns

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts plays the scripts in testdata. They start at second 0. The word t=1.5s sets the clock.
// An event "end" and "timer" is of the replica's last turn.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(Config{}), now: epoch, turns: make(map[string]uint64),
			weights: make(map[string]float64)}
		return p.event
	})
}

type player struct {
	t       *testing.T
	m       *Machine
	now     time.Time
	turns   map[string]uint64 // last turn by replica
	words   map[string]string
	weights map[string]float64 // by replica
}

func (p *player) event(line []string) (out []string) {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if p.words["t"] != "" {
		p.now = epoch.Add(p.duration("t"))
	}
	name := line[1]
	for _, e := range p.step(line[0], name) {
		if g, ok := e.(Grant); ok {
			p.turns[g.Replica] = g.Turn
		}
		out = append(out, text(e))
	}
	return out
}

func (p *player) step(event, name string) []Effect {
	m, turn := p.m, p.turns[name]
	switch event {
	case "join":
		p.weights[name], _ = strconv.ParseFloat(p.words["weight"], 64)
		return m.Join(name, p.now)
	case "expect":
		return m.Expect(name, p.now)
	case "ask":
		return m.Ask(name, p.request(name), p.now)
	case "end":
		if _, more := p.words["more"]; more {
			return m.EndAndAsk(name, turn, p.duration("used"), p.request(name), p.now)
		}
		return m.End(name, turn, p.duration("used"), p.now)
	case "timer":
		return m.Timer(name, turn, p.now)
	case "leave":
		return m.Leave(name, p.now)
	}
	p.t.Fatalf("unknown event %s", event)
	return nil
}

func (p *player) duration(word string) time.Duration {
	if p.words[word] == "" {
		return 0
	}
	d, err := time.ParseDuration(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *player) request(name string) Request {
	class, _ := strconv.Atoi(p.words["class"])
	r := Request{Class: Class(class), Estimate: p.duration("step"), Weight: p.weights[name]}
	_, r.Prompt = p.words["prompt"]
	if p.words["deadline"] != "" {
		r.Deadline = epoch.Add(p.duration("deadline"))
	}
	return r
}

func text(e Effect) string {
	switch e := e.(type) {
	case Grant:
		kind := "one step"
		if e.Open {
			kind = "open"
		}
		return fmt.Sprintf("grant %s turn %d, %s, waited %v: %s", e.Replica, e.Turn, kind, e.Waited, e.Why)
	case Recall:
		return fmt.Sprintf("recall %s turn %d", e.Replica, e.Turn)
	case SetTimer:
		return fmt.Sprintf("timer %s turn %d after %v", e.Replica, e.Turn, e.After)
	case ReportOverdue:
		return fmt.Sprintf("overdue %s turn %d: %v, expected %v", e.Replica, e.Turn, e.Lasted, e.Expectation)
	case Ignored:
		return fmt.Sprintf("ignored %s of %s in %s: %s", e.Event, e.Replica, e.State, e.Why)
	}
	return fmt.Sprintf("%T", e)
}
