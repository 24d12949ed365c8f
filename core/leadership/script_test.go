package leadership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts plays testdata/*.txt on node a. The events are:
//
//	up NODES                  the members that are up
//	store M, delete M         the deployment is stored, deleted
//	lease M HOLDER TERM       the lease is held; HOLDER - : its holder is lost
//	unlease M                 the lease is released
//	wait 1s                   time passes
//	sync, answered M, notstarted M, ended M, removed M TERM
//
// The effects are followed by the states.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		n, now := New("a"), time.Unix(1000, 0)
		view := View{Deployments: map[string]Seen{}}
		seen := func(name string, change func(*Seen)) {
			s := view.Deployments[name]
			change(&s)
			if view.Deployments[name] = s; s == (Seen{}) {
				delete(view.Deployments, name)
			}
		}
		return func(e []string) []string {
			var effects []Effect
			m := word(e, 1)
			switch e[0] {
			case "up":
				view.Up = e[1:]
			case "store":
				seen(m, func(s *Seen) { s.Stored = true })
			case "delete":
				seen(m, func(s *Seen) { s.Stored = false })
			case "lease":
				l := Lease{Holder: strings.Trim(e[2], "-"), Term: number(e[3])}
				seen(m, func(s *Seen) { s.Leased, s.Lease = true, l })
			case "unlease":
				seen(m, func(s *Seen) { s.Leased, s.Lease = false, Lease{} })
			case "wait":
				d, err := time.ParseDuration(m)
				if err != nil {
					t.Fatal(err)
				}
				now = now.Add(d)
			case "sync":
				effects = n.Sync(view, now)
			case "answered":
				effects = n.Answered(m)
			case "notstarted":
				effects = n.NotStarted(m)
			case "ended":
				effects = n.Ended(m, view.Deployments[m].Lease, now)
			case "removed":
				effects = n.Removed(m, number(word(e, 2)), view.Deployments[m].Stored)
			default:
				t.Fatalf("unknown event %q", e)
			}
			return append(format(effects), states(n, e[0])...)
		}
	})
}

// states returns the states of all deployments as one line, after an event of the machine.
func states(n *Node, event string) []string {
	switch event {
	case "up", "store", "delete", "lease", "unlease", "wait":
		return nil
	}
	var all []string
	for _, name := range n.Names() {
		all = append(all, name+" "+n.State(name).String())
	}
	return []string{"= " + strings.Join(all, ", ")}
}

// format returns each effect with its type and fields.
func format(effects []Effect) (lines []string) {
	for _, e := range effects {
		lines = append(lines, strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "leadership."))
	}
	return lines
}

func word(e []string, n int) string {
	if n < len(e) {
		return e[n]
	}
	return ""
}

func number(s string) (n uint64) {
	_, _ = fmt.Sscan(s, &n)
	return n
}
