package session

import (
	"testing"
	"time"
)

// BenchmarkEmitted measures what a token costs: the lookup of its row, which comes after four
// guards that fail, and the effect.
func BenchmarkEmitted(b *testing.B) {
	now := time.Unix(1000, 0)
	m := New(Config{})
	m.Start(0, "", now)
	m.Routed(Replica{Name: "m-0", Actor: Actor{"n1", "m-0"}}, now)
	t := Tokens{From: Actor{"n1", "m-0"}, Count: 1}
	b.ReportAllocs()
	for b.Loop() {
		m.Emitted(t, now)
		t.First++
	}
	if m.State() != Serving {
		b.Fatal(m.State())
	}
}
