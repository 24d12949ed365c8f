package preempt

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"troupe/testkit/script"
)

// TestScripts plays testdata/*.txt. The events are:
//
//	start [deadline=30s], fenced TARGET..., migrated ROUND TARGET..., drained, saved BLOCKS [why],
//	lost, tick TARGET..., freed, gone, count MIGRATED FINISHED REQUEUED SAVED, wait 1s
//
// Each is followed by its effects. "progress" shows the times of the phases.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) script.Handler {
		now, m := time.Unix(1000, 0), New(time.Unix(1030, 0))
		return func(words []string) []string {
			switch words[0] {
			case "wait":
				now = now.Add(duration(t, words[1]))
				return nil
			case "deadline":
				m = New(now.Add(duration(t, words[1])))
				return nil
			case "count":
				m.Count(Counts{number(words[1]), number(words[2]), number(words[3]), number(words[4])})
				return nil
			case "progress":
				return []string{progress(m.Progress())}
			}
			var lines []string
			for _, e := range play(t, m, words, now) {
				lines = append(lines, strings.TrimPrefix(fmt.Sprintf("%T%+v", e, e), "preempt."))
			}
			return lines
		}
	})
}

func play(t *testing.T, m *Machine, words []string, now time.Time) []Effect {
	switch words[0] {
	case "start":
		return m.Start(now)
	case "fenced":
		return m.Fenced(words[1:], now)
	case "migrated":
		return m.Migrated(uint64(number(words[1])), words[2:], now)
	case "drained":
		return m.Drained(now)
	case "saved":
		return m.Saved(number(words[1]), strings.Join(words[2:], " "), now)
	case "lost":
		return m.Lost("replica m-0 restarted", now)
	case "tick":
		return m.Tick(words[1:], now)
	case "freed":
		return m.Freed(now)
	case "gone":
		return m.Gone("node a was lost", now)
	}
	t.Fatalf("unknown event %q", words[0])
	return nil
}

func progress(p Progress) string {
	text := fmt.Sprintf("%v %+v, %d blocks", p.Phase, p.Counts, p.Blocks)
	for phase, took := range p.Times {
		if took > 0 {
			text += fmt.Sprintf(", %v %v", Phase(phase), took)
		}
	}
	if p.Detail != "" {
		text += ": " + p.Detail
	}
	return text
}

func duration(t *testing.T, word string) time.Duration {
	d, err := time.ParseDuration(word)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func number(word string) (n int) {
	_, _ = fmt.Sscan(word, &n)
	return n
}
