package quarantine

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/core/health"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt. The events are:
//
//	start [unobserved]                the actor starts or restarts
//	observed [in-use] [lost=WHY] [xid=N] [errors=N]
//	not-observed
//	device-lost WHY
//	suspect WHY
//	quarantine REQUEST [WHY]
//	release REQUEST [untested] [in-use]
//	passed, failed WHY                the self-test ended
//	wait 30s
//
// The effects are followed by the states.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(), now: time.Unix(1e9, 0)}
		return p.play
	})
}

type player struct {
	t   *testing.T
	m   *Machine
	now time.Time
}

func (p *player) play(words []string) []string {
	if words[0] == "wait" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			p.t.Fatal(err)
		}
		p.now = p.now.Add(d)
		return nil
	}
	var lines []string
	for _, e := range p.event(words[0], words[1:]) {
		lines = append(lines, format(e))
	}
	summary := "= " + p.m.State().String()
	if q, ok := p.m.Current(); ok {
		summary += ": " + q.Detail
		if q.SelfTest != "" {
			summary += "; self-test " + q.SelfTest
		}
	}
	if p.m.test == Running {
		summary += "; self-test running"
	}
	return append(lines, summary)
}

// format formats an effect: its type and fields. Requests are shown by their IDs.
func format(e Effect) string {
	text := strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "quarantine.")
	return strings.NewReplacer("{ID:", "", " From:{Address: ID:}}", "").Replace(text)
}

func (p *player) event(name string, args []string) []Effect {
	m := p.m
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	has := func(word string) bool {
		for _, a := range args {
			if a == word {
				return true
			}
		}
		return false
	}
	switch name {
	case "start":
		return m.Start(!has("unobserved"))
	case "observed":
		return m.Observed(observation(args), !has("in-use"), p.now)
	case "not-observed":
		return m.NotObserved()
	case "device-lost":
		return m.DeviceLost(arg(0), p.now)
	case "suspect":
		return m.Suspect(strings.Join(args, " "), p.now)
	case "quarantine":
		return m.Quarantine(Request{ID: arg(0)}, arg(1), p.now)
	case "release":
		return m.Release(Request{ID: arg(0)}, has("untested"), !has("in-use"), p.now)
	case "passed":
		return m.Tested("", p.now)
	case "failed":
		return m.Tested(arg(0), p.now)
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

func observation(words []string) health.Observation {
	o := health.Observation{Uncorrectable: health.Known(0)}
	for _, w := range words {
		switch name, value, _ := strings.Cut(w, "="); name {
		case "lost":
			o.Lost = value
		case "xid":
			o.XIDs = append(o.XIDs, number(value))
		case "errors":
			o.Uncorrectable = health.Known(number(value))
		}
	}
	return o
}

func number(text string) (n uint64) {
	_, _ = fmt.Sscan(text, &n)
	return n
}
