package replica_test

import (
	"testing"
	"time"

	"troupe/testkit"
)

// BenchmarkMove migrates a running sequence back and forth between two replicas through memory. It
// measures the protocol, the copies and the steps. Compare the pause with the time of a step.
func BenchmarkMove(b *testing.B) {
	c := buildCluster(&cluster{t: b, model: testkit.Model(), bulk: &bulk{},
		settle: func() { time.Sleep(100 * time.Microsecond) }}, roomy,
		roomy)
	c.waitFor("both replicas to serve", func() bool {
		return c.status(c.a).GetState() == serving && c.status(c.b).GetState() == serving
	})
	var pause, total float64
	var bytes uint64
	moves := 0
	from, to := c.a, c.b
	next := func() *testClient {
		got := c.open(greedy(uint32(c.requests), 60, 160))
		c.waitFor("tokens", func() bool { return len(got.Output()) > 0 })
		return got
	}
	got := next()
	for b.Loop() {
		if len(got.Output()) > 100 {
			c.waitFor("the sequence's end", got.done)
			got, from, to = next(), c.a, c.b
		}
		m := c.move(from, to, got.id).GetSequences()[0]
		if !m.GetMoved() {
			continue
		}
		from, to = to, from
		pause, total, bytes, moves = pause+m.GetPauseSeconds(), total+m.GetSeconds(), bytes+m.GetBytes(), moves+1
	}
	begun, steps := time.Now(), c.status(c.a).GetSteps()
	rest := c.open(greedy(uint32(c.requests), 60, 150))
	c.waitFor("the sequence's end", rest.done)
	step := time.Since(begun).Seconds() / float64(c.status(c.a).GetSteps()-steps)
	b.ReportMetric(1e6*pause/float64(moves), "us-pause/move")
	b.ReportMetric(1e6*total/float64(moves), "us/move")
	b.ReportMetric(1e6*step, "us/step")
	b.ReportMetric(float64(bytes)/float64(moves), "B/move")
	b.ReportMetric(float64(moves)/float64(b.N), "moved/op")
}
