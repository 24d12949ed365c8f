package llama_test

import (
	"testing"

	"troupe/engine"
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
