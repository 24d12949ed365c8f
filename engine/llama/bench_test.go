package llama_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"troupe/cuda/host"
	"troupe/engine"
	"troupe/engine/llama"
	"troupe/testkit"
)

func BenchmarkStep(b *testing.B) {
	for name, rows := range map[string][2]int{"decode 1": {1, 1}, "decode 16": {16, 1}, "prefill 256": {1, 256}} {
		b.Run(name, func(b *testing.B) {
			e := open(b, testkit.Model(), 16*20)
			var batch []engine.Sequence
			for i := range rows[0] {
				s := engine.Sequence{Tokens: make([]uint32, rows[1]), Position: 50, Sample: true}
				for j := range 20 {
					s.Blocks = append(s.Blocks, int32(i*20+j))
				}
				batch = append(batch, s)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := e.Step(b.Context(), batch); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(rows[0]*rows[1])*float64(b.N)/b.Elapsed().Seconds(), "tokens/s")
		})
	}
}

// BenchmarkGraphs compares decode steps by graphs with the same steps kernel by kernel, in turn, and
// reports the ratio of their median times. A batch of 9 is padded to 16 rows.
func BenchmarkGraphs(b *testing.B) {
	const context = 20
	for _, size := range []int{1, 8, 9, 16} {
		b.Run(fmt.Sprintf("batch=%d", size), func(b *testing.B) {
			var batch []engine.Sequence
			for i := range size {
				s := engine.Sequence{Tokens: []uint32{5}, Position: 50, Sample: true}
				for j := range context {
					s.Blocks = append(s.Blocks, int32(i*context+j))
				}
				batch = append(batch, s)
			}
			engines := [2]engine.Engine{}
			for i, mode := range []llama.GraphMode{llama.NoGraphs, llama.AllGraphs} {
				r := newGraphReplica(b, mode, host.Config{}, 16*context)
				r.capture(b)
				engines[i] = r.engine
			}
			var took [2][]time.Duration
			b.ReportAllocs()
			for b.Loop() {
				for i, e := range engines {
					began := time.Now()
					if _, err := e.Step(b.Context(), batch); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			median := len(took[0]) / 2
			b.ReportMetric(float64(took[0][median].Microseconds()), "plain-µs")
			b.ReportMetric(took[1][median].Seconds()/took[0][median].Seconds(), "graph/plain")
		})
	}
}

// BenchmarkCapture measures the capture of all graphs of an engine.
func BenchmarkCapture(b *testing.B) {
	r := newGraphReplica(b, llama.AllGraphs, host.Config{}, kvBlocks)
	for b.Loop() {
		r.capture(b)
	}
}
