package members

import (
	"slices"
	"testing"
	"time"

	"troupe/testkit"
)

// report reports the median and the 99th percentile of durations in milliseconds. Of few rounds,
// the 99th percentile is the longest.
func report(b *testing.B, what string, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, what+"-p50-ms")
	b.ReportMetric(float64(took[(len(took)*99)/100].Microseconds())/1000, what+"-p99-ms")
}

// BenchmarkCrashDetection kills one of three members, which holds a lease. It measures the time
// from its last renewal until both others know that it is dead, and until one of them holds the
// lease.
func BenchmarkCrashDetection(b *testing.B) {
	s := startInRealTime(b)
	n := s.joinVigilant("a", "b")
	var noticed, taken []time.Duration
	for range b.N {
		victim := s.join("victim")
		if _, ok, err := victim.Acquire(b.Context(), "planner"); !ok || err != nil {
			b.Fatal(ok, err)
		}
		for _, one := range n {
			one.until(
				"a planner is known",
				func() bool { m, _, _ := one.Holder("planner"); return m.GetName() == "victim" },
			)
		}
		gone := make(chan struct{})
		cancel := n[0].Subscribe(func(c Change) {
			if left("victim")(c) {
				close(gone)
			}
		})
		victim.crash()
		last := victim.health.lastRenewed
		acquired := make(chan time.Time)
		go func() {
			<-gone
			if _, ok, err := n[0].Acquire(b.Context(), "planner"); !ok || err != nil {
				b.Error(ok, err)
			}
			acquired <- time.Now()
		}()
		for _, one := range n {
			one.until("the victim is dead", func() bool { return one.knows("a", "b") })
		}
		noticed = append(noticed, time.Since(last))
		taken = append(taken, (<-acquired).Sub(last))
		cancel()
		if term, _, err := n[0].Acquire(b.Context(), "planner"); err != nil {
			b.Fatal(err)
		} else if err := n[0].Release(b.Context(), "planner", term); err != nil {
			b.Fatal(err)
		}
	}
	report(b, "noticed-by-all", noticed)
	report(b, "lease-taken-over", taken)
}

// BenchmarkLeave measures the time from the call of Leave until another member knows.
func BenchmarkLeave(b *testing.B) {
	s := startInRealTime(b)
	a := s.joinAll("a")[0]
	var took []time.Duration
	for range b.N {
		other := s.join("other")
		a.until("both are known", func() bool { return a.knows("a", "other") })
		gone := make(chan time.Time, 1)
		cancel := a.Subscribe(func(c Change) {
			if left("other")(c) {
				gone <- time.Now()
			}
		})
		began := time.Now()
		if err := other.Leave(b.Context()); err != nil {
			b.Fatal(err)
		}
		took = append(took, (<-gone).Sub(began))
		cancel()
		other.crash()
	}
	report(b, "noticed", took)
}

// BenchmarkLease measures an acquisition and a release of a free lease, with one server.
func BenchmarkLease(b *testing.B) {
	s := startInRealTime(b)
	a := s.join("a")
	for range b.N {
		term, ok, err := a.Acquire(b.Context(), "planner")
		if !ok || err != nil {
			b.Fatal(ok, err)
		}
		if err := a.Release(b.Context(), "planner", term); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHolder measures a query of the local view.
func BenchmarkHolder(b *testing.B) {
	s := startInRealTime(b)
	a := s.join("a")
	if _, ok, err := a.Acquire(b.Context(), "planner"); !ok || err != nil {
		b.Fatal(ok, err)
	}
	for b.Loop() {
		if _, _, ok := a.Holder("planner"); !ok {
			b.Fatal("the lease has no holder")
		}
	}
}

// BenchmarkKilledServer kills one of three nodes together with its NATS server, which is the leader
// or a follower. It measures the time until both others know.
func BenchmarkKilledServer(b *testing.B) {
	for name, leader := range map[string]string{"leader": "c", "follower": "a"} {
		b.Run(name, func(b *testing.B) {
			x := startTrio(b)
			var took []time.Duration
			for range b.N {
				x.lead(b, leader)
				killed := time.Now()
				x.third.kill()
				testkit.Until(b, "c is dead", func() bool {
					return len(x.nodes[0].Live()) == 2 && len(x.nodes[1].Live()) == 2
				})
				took = append(took, time.Since(killed))
				x.restartThird(b)
			}
			report(b, "noticed-by-all", took)
		})
	}
}
