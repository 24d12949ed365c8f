package remote

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/kv"
	"troupe/testkit/script"
)

// TestScripts runs the scripts in testdata. They start at second 0, with a capacity of 200 bytes in
// flight; each block has 100 bytes. The word t=1.5s sets the clock.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(200), now: epoch}
		return p.event
	})
}

// player runs the events of a script.
type player struct {
	t     *testing.T
	m     *Machine
	now   time.Time
	words map[string]string
}

var epoch = time.Unix(1e9, 0)

func (p *player) event(line []string) []string {
	p.words = make(map[string]string)
	for _, word := range line[1:] {
		key, value, _ := strings.Cut(word, "=")
		p.words[key] = value
	}
	if at := p.words["t"]; at != "" {
		p.now = epoch.Add(p.duration("t"))
	}
	if line[0] == "tier" {
		p.m, p.now = New(200), epoch
		return nil
	}
	var out []string
	for _, e := range p.step(line[0], p.words["id"]) {
		out = append(out, text(e))
	}
	s := p.m.Stats()
	return append(out, fmt.Sprintf("known %d arriving %d active %d waiting %d bytes %d", s.Resident, s.Arriving,
		s.Active, s.Waiting, s.InFlightBytes))
}

func (p *player) step(name, id string) []Effect {
	switch name {
	case "start":
		return p.m.Start()
	case "find":
		return p.m.Find(id, Actor{ID: p.words["from"]}, p.blocks(), p.now)
	case "finds": // many lookups
		for i := range p.number("n") {
			p.m.Find(fmt.Sprint(id, i), Actor{ID: p.words["from"]}, nil, p.now)
		}
		return nil
	case "found":
		return p.m.Found(id, p.runs(), p.now)
	case "fetch":
		return p.m.Fetch(p.request(id), p.now)
	case "fetches": // many fetches
		for i := range p.number("n") {
			p.m.Fetch(p.request(fmt.Sprint(id, i)), p.now)
		}
		return nil
	case "sent":
		return p.m.Sent(id, p.number("blocks"), p.now)
	case "refused":
		return p.m.Refused(id, p.now)
	case "failed":
		return p.m.Failed(id, "no such actor", p.now)
	case "release":
		return p.m.Release(id, p.now)
	case "fetched":
		p.m.Fetched(p.words["holder"], "n", p.number("wanted"), kv.FetchSample{
			Blocks: p.number("blocks"), BlockBytes: 100, Bytes: int64(100 * p.number("blocks")), FirstBytes: 100,
			First: p.duration("first"), All: p.duration("all"),
		}, p.now)
		return nil
	case "sweep":
		return p.m.Sweep(p.now)
	case "stop":
		return p.m.Stop()
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func (p *player) number(word string) int {
	if p.words[word] == "" {
		return 0
	}
	n, err := strconv.Atoi(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}

func (p *player) duration(word string) time.Duration {
	d, err := time.ParseDuration(p.words[word])
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func (p *player) blocks() (all []uint64) {
	for name := range strings.SplitSeq(p.words["blocks"], ",") {
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			all = append(all, n)
		}
	}
	return all
}

func (p *player) request(id string) Request {
	blocks := p.blocks()
	return Request{ID: id, From: Actor{ID: p.words["from"]}, Holder: Actor{ID: p.words["holder"]},
		Name: p.words["holder"], Blocks: blocks, Bytes: int64(100 * len(blocks)), Within: p.duration("within"),
		Malformed: p.words["malformed"]}
}

// runs parses runs of the form holder:first:blocks.
func (p *player) runs() (all []Run) {
	for run := range strings.SplitSeq(p.words["runs"], ",") {
		if words := strings.Split(run, ":"); len(words) == 3 {
			first, _ := strconv.Atoi(words[1])
			blocks, _ := strconv.Atoi(words[2])
			all = append(all, Run{first, blocks, words[0]})
		}
	}
	return all
}

// text formats an effect.
func text(e Effect) string {
	switch e := e.(type) {
	case AskRouter:
		return "ask the router"
	case AnswerFind:
		out := fmt.Sprintf("answer %s:", e.To.ID)
		for _, p := range e.Paths {
			out += fmt.Sprintf(" %s latency %s rate %.0f/s queued %d try %d;", p.Name, p.Latency, p.Rate.PerSecond(),
				p.Queued, p.ProbeBlocks)
		}
		return out
	case Keep:
		return "keep " + e.ID
	case Forget:
		return "forget " + e.ID
	case Lease:
		return fmt.Sprintf("lease %s at %s within %s", e.ID, e.Holder.ID, e.Within)
	case Release:
		return fmt.Sprintf("release %s at %s", e.ID, e.Holder.ID)
	case AnswerFetch:
		return fmt.Sprintf("answer %s: %d blocks of %s", e.To.ID, e.Blocks, e.ID)
	case Relay:
		return fmt.Sprintf("relay the refusal of %s to %s", e.ID, e.To.ID)
	case Refuse:
		return fmt.Sprintf("refuse %s to %s: %s: %s (retry after %s)", e.ID, e.To.ID, e.Reason, e.Detail, e.RetryAfter)
	case SweepAfter:
		return "sweep after " + e.After.String()
	case Ignored:
		return fmt.Sprintf("ignored: %s of %s in %s", e.Trigger, e.Object, e.State)
	}
	return fmt.Sprintf("%#v", e)
}
