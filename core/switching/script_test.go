package switching

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts plays the scripts in testdata. The first word of a line is the time in milliseconds.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New()}
		return p.event
	})
}

type player struct {
	t      *testing.T
	m      *Machine
	before bool // the line ends with "before"
}

func (p *player) event(line []string) (out []string) {
	ms, err := strconv.Atoi(line[0])
	if err != nil {
		p.t.Fatal(err)
	}
	p.before = line[len(line)-1] == "before"
	for _, e := range p.step(time.UnixMilli(int64(ms)), line[1:]) {
		out = append(out, text(e))
	}
	if s := p.m.Status(); s.Phase != Serving {
		out = append(out, fmt.Sprintf("%s: waits for %s", s.Phase, strings.Join(s.Waits, ", ")))
	}
	return out
}

func (p *player) step(now time.Time, line []string) []Effect {
	m, name := p.m, line[1]
	switch line[0] {
	case "begin": // ID TO LEAVE...
		return m.Begin(now, Request{ID: name, To: line[2], Leave: line[3:], Timeout: time.Minute})
	case "drained":
		return m.Drained(now, name)
	case "freed":
		return m.Freed(now, name)
	case "suspended":
		return m.Suspended(now, name)
	case "activated":
		return m.Activated(now, name)
	case "overruled": // ID REPLICA
		return m.Overruled(now, name, line[2])
	case "loaded":
		return m.Loaded(now, name, Load{At: p.at(now), Source: "disk", Bytes: 100, Floor: 5 * time.Millisecond})
	case "serves":
		return m.Serves(now, name, Start{At: p.at(now), Graphs: 4, Graph: time.Millisecond})
	case "failed":
		return m.Failed(now, name, "out of memory")
	case "deadline":
		n, _ := strconv.ParseUint(name, 10, 64)
		return m.Deadline(now, n)
	}
	p.t.Fatalf("unknown event %s", line[0])
	return nil
}

// at returns when a load or a capture ended: now, or long ago if the line says so.
func (p *player) at(now time.Time) time.Time {
	if p.before {
		return now.Add(-time.Hour)
	}
	return now
}

func text(e Effect) string {
	switch e := e.(type) {
	case Entered:
		return fmt.Sprintf("%s: %s", e.ID, e.Phase)
	case SetDeadline:
		return fmt.Sprintf("set deadline %d after %s", e.Number, e.After)
	case BringBack:
		return fmt.Sprintf("bring back %s", strings.Join(e.Leases, ", "))
	case Ended:
		m, how := e.Metrics, "serves"
		if e.Failure != "" {
			how = fmt.Sprintf("failed in %s: %s", e.Phase, e.Failure)
		}
		return fmt.Sprintf("%s ended, %s %s: drain %s, free %s, load %s, capture %s; %d bytes from %q, "+
			"floor %s; %d graphs in %s", e.ID, e.To, how, m.Drain, m.Free, m.Load, m.Capture, m.Weights.Bytes,
			m.Weights.Source, m.Weights.Floor, m.Engine.Graphs, m.Engine.Graph)
	case Refuse:
		return fmt.Sprintf("refuse %s: %s is %s", e.ID, e.InProgress.ID, e.InProgress.Phase)
	case Ignored:
		return fmt.Sprintf("ignored %s in %s: %s", e.Event, e.Phase, e.Why)
	}
	return fmt.Sprintf("%T", e)
}
