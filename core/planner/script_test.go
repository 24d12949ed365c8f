package planner

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/core/schedule"
	"troupe/testkit/script"
)

// TestScripts runs testdata/*.txt. The events are:
//
//	tick                        a second later
//	view NAME:REPLICAS/MIN-MAX:RUNNING[:not-ready][:waiting=N][:tokens=N] ...
//	                            deployments; each replica runs 10 sequences at most, and all of them
//	                            computed so many tokens since the last view
//	write-end
//	leads, follows              this node takes or loses the lease
//	pass 5s NAME:...            a tick and a view each second, until a change is decided
//
// The effects are followed by the state.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		p := &player{t: t, m: New(), now: time.Unix(1e9, 0), tokens: make(map[string]int)}
		return func(words []string) []string {
			var lines []string
			for _, e := range p.event(words[0], words[1:]) {
				lines = append(lines, strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "planner."))
			}
			return append(lines, "= "+p.m.State().String())
		}
	})
}

type player struct {
	t     *testing.T
	m     *Machine
	now   time.Time
	leads bool
	// tokens maps a deployment to the tokens that it has computed.
	tokens map[string]int
}

func (p *player) event(name string, args []string) []Effect {
	switch name {
	case "tick":
		p.now = p.now.Add(time.Second)
		return p.m.Tick(p.leads, p.now)
	case "view":
		return p.m.View(p.deployments(args), p.leads, p.now)
	case "write-end":
		return p.m.WriteEnd(p.now)
	case "leads", "follows":
		p.leads = name == "leads"
		return nil
	case "pass":
		d, err := time.ParseDuration(args[0])
		if err != nil {
			p.t.Fatal(err)
		}
		for end := p.now.Add(d); p.now.Before(end); {
			p.event("tick", nil)
			if effects := p.event("view", args[1:]); len(effects) > 0 {
				return append([]Effect{passed(d - end.Sub(p.now))}, effects...)
			}
		}
		return nil
	}
	p.t.Fatalf("unknown event %s", name)
	return nil
}

// passed is the time that passes before the effects of the event pass.
type passed time.Duration

func (passed) isEffect() {}

func (p passed) String() string { return time.Duration(p).String() }

func (p *player) deployments(words []string) (all []Deployment) {
	for _, w := range words {
		f := strings.Split(w, ":")
		replicas, bounds, _ := strings.Cut(f[1], "/")
		least, most, _ := strings.Cut(bounds, "-")
		d := Deployment{
			Name: f[0], Revision: 7, Replicas: p.number(replicas), MinReplicas: p.number(least),
			MaxReplicas: p.number(most), Ready: true,
		}
		d.Load = schedule.Load{Serving: d.Replicas, Running: p.number(f[2]), Places: 10 * d.Replicas}
		for _, word := range f[3:] {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "not-ready":
				d.Ready = false
			case "waiting":
				d.Load.Waiting = p.number(value)
			case "tokens":
				p.tokens[d.Name] += p.number(value)
			}
		}
		d.Tokens = uint64(p.tokens[d.Name])
		all = append(all, d)
	}
	return all
}

func (p *player) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		p.t.Fatal(err)
	}
	return n
}
